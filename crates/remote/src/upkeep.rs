//! The link's own thread: opens connections again, sends what was asked for, cuts lanes that rest.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gt_ir::{Failure, FailureKind};
use gt_net::protocol::{DataRequest, Resume, StreamMessage, ToServer, encode};
use gt_net::{Connection, NetError, Receiver, Role, Secret, SessionKeys, SessionPass};

use super::receive::{FromControl, FromData};
use super::state::State;
use super::{GIVE_UP, OUT_OF_REACH, Shared};
use gt_client::link::WaitError;

/// The pause after a connection that could not be opened.
const AGAIN: Duration = Duration::from_millis(100);
/// How long one attempt to reach the server may take: one that a network has swallowed is not waited for.
const ATTEMPT: Duration = Duration::from_secs(2);
/// How long lanes must rest before what they recorded is sent.
const REST: Duration = Duration::from_millis(2);

/// Connects to the server and introduces the session, or shows that it is an old one.
pub(super) fn say_hello(
    shared: &Arc<Shared>,
    timeout: Duration,
    cancel: &dyn Fn() -> bool,
) -> Result<Connection, NetError> {
    let resume = {
        let state = shared.state.lock();
        state.session.clone().map(|(session, secret)| Resume { session, secret, losses: state.losses })
    };
    let receiver = || Box::new(FromControl(Arc::downgrade(shared))) as Box<dyn Receiver>;
    let connection = shared.dialer.control(&receiver, timeout, cancel)?;
    let token = shared.options.token.as_ref();
    if token.is_none() {
        check_user(&connection).inspect_err(|_| connection.close())?;
    }
    let proof = token.map(|token| connection.prove(token, Role::Client)).unwrap_or_default();
    let hello = ToServer::Hello {
        proof: &proof,
        name: shared.options.name.clone(),
        variables: shared.options.variables.clone(),
        workers: shared.options.workers,
        resume,
        pin: shared.options.pin.clone(),
    };
    {
        // Before the answer can come.
        let mut state = shared.state.lock();
        state.knocking = state.session.is_some().then(|| connection.clone());
    }
    connection.send(&encode(&hello))?;
    Ok(connection)
}

/// Without a token nothing but its user shows that a process of this host is the server that is meant: any user may listen at a port.
fn check_user(connection: &Connection) -> Result<(), NetError> {
    let own = gt_net::own_user();
    match connection.peer_user() {
        Some(user) if user != own => {
            let reason = format!(
                "the process listening there belongs to another user (uid {user}) and cannot prove that it is the right server; start \
                 the server with --token-file and set GT_TOKEN to the contents of that file"
            );
            Err(NetError::Credentials { what: connection.peer().address.clone(), reason })
        }
        _ => Ok(()),
    }
}

/// Starts the thread.
pub(super) fn start(shared: &Arc<Shared>) {
    let shared = shared.clone();
    std::thread::Builder::new()
        .name("gt-link".to_string())
        .spawn(move || run(&shared))
        .expect("the system starts a thread");
}

/// What is to be done next.
enum Task {
    News,
    Reconnect,
    Resend,
    Attach,
    Uploads,
    Template(u64),
    LookAtLanes,
    End,
}

fn run(shared: &Arc<Shared>) {
    let mut lost: Option<Lost> = None;
    loop {
        let task = next(shared);
        match task {
            Task::End => return,
            Task::News => {
                if let Some(news) = shared.news.get() {
                    news();
                }
            }
            Task::Reconnect => reconnect(shared, &mut lost),
            Task::Resend => {
                lost = None;
                resend(shared);
            }
            Task::Attach => attach(shared),
            Task::Uploads => send_uploads(shared),
            Task::Template(number) => send_template(shared, number),
            Task::LookAtLanes if shared.others_busy.get().is_some_and(|busy| busy()) => {}
            Task::LookAtLanes => {
                // Reset before the look, so that what is recorded during it is looked at again.
                shared.recording.store(false, Ordering::SeqCst);
                if (shared.options.idle)() {
                    shared.recording.store(true, Ordering::SeqCst);
                }
            }
        }
    }
}

fn next(shared: &Shared) -> Task {
    let mut state = shared.state.lock();
    let mut rested = false;
    loop {
        if std::mem::take(&mut state.news) {
            return Task::News;
        }
        if state.has_ended() {
            return Task::End;
        }
        if state.control.is_none() {
            return Task::Reconnect;
        }
        if state.resend {
            return Task::Resend;
        }
        if std::mem::take(&mut state.attach) {
            return Task::Attach;
        }
        if state.data.is_some() && std::mem::take(&mut state.resend_uploads) {
            return Task::Uploads;
        }
        if let Some(number) = state.wanted_templates.pop() {
            return Task::Template(number);
        }
        if !shared.recording.load(Ordering::SeqCst) || !state.is_dry() {
            // The first record after a rest wakes it, and the ack with which the worker has run dry.
            shared.upkeep.wait(&mut state);
            rested = false;
        } else if rested {
            return Task::LookAtLanes;
        } else {
            rested = shared.upkeep.wait_for(&mut state, REST).timed_out();
        }
    }
}

/// A server that is looked for.
struct Lost {
    /// When it was last heard.
    at: Instant,
    /// Since when its host says that nobody listens there.
    nobody_since: Option<Instant>,
}

/// Looks for the server once more. A network that is gone may come back, so a server that is silent is looked for as long as it keeps the
/// session. Where its host says that nobody listens, the server's process is gone, and the session with it.
fn reconnect(shared: &Arc<Shared>, lost: &mut Option<Lost>) {
    let now = Instant::now();
    let (silent_for, lease) = {
        let mut state = shared.state.lock();
        (std::mem::take(&mut state.silent_for), state.lease.max(GIVE_UP))
    };
    let lost = lost.get_or_insert_with(|| Lost { at: now.checked_sub(silent_for).unwrap_or(now), nobody_since: None });
    let give_up = lost.at + lease;
    let attempt_ends = give_up.min(now + ATTEMPT).max(now + AGAIN);
    let ended = || shared.state.lock().has_ended();
    match say_hello(shared, attempt_ends - now, &ended) {
        Ok(_) => {
            lost.nobody_since = None;
            // The answer comes with the I/O thread.
            let mut state = shared.state.lock();
            while state.knocking.is_some() && !state.has_ended() && Instant::now() < attempt_ends {
                shared.upkeep.wait_until(&mut state, attempt_ends);
            }
            if let Some(unanswered) = state.knocking.take() {
                unanswered.close();
            }
            if state.control.is_some() {
                return;
            }
        }
        Err(NetError::NobodyListens { .. }) => _ = lost.nobody_since.get_or_insert(now),
        Err(_) => lost.nobody_since = None,
    }
    let why = if lost.nobody_since.is_some_and(|since| since.elapsed() >= GIVE_UP) {
        "no process listens there anymore".to_string()
    } else if Instant::now() >= give_up {
        format!("it was unreachable for {:.0} s, and the session is kept no longer", lease.as_secs_f64())
    } else {
        return std::thread::sleep(AGAIN);
    };
    let message = format!("lost the server at {}: {why}", shared.dialer.server());
    shared.state.lock().end(Failure::new(FailureKind::WorkerLost, message));
    shared.changed.notify_all();
}

/// Sends everything again that the server has not received.
fn resend(shared: &Shared) {
    let _in_order = shared.sending.lock();
    let mut state = shared.state.lock();
    let State { control: Some(control), .. } = &*state else { return };
    let control = control.clone();
    // Not before `sending` is held: a message sent in between would overtake those that are sent again.
    state.resend = false;
    let heads = state.unreceived();
    drop(state);
    for head in heads {
        if let Err(error) = control.send(&head) {
            // Full: what is on its way goes first. Closed: the thread hears of it.
            let mut state = shared.state.lock();
            shared.not_sent(&mut state, &error);
            if !state.has_ended() {
                shared.upkeep.wait_for(&mut state, AGAIN);
            }
            return;
        }
    }
}

fn attach(shared: &Arc<Shared>) {
    let (worker, session, secret) = {
        let state = shared.state.lock();
        let (Some(home), Some((session, secret))) = (&state.home, &state.session) else { return };
        (home.clone(), *session, secret.clone())
    };
    let keys = SessionKeys::of_session(&Secret::from_bytes(&secret));
    let introduction = || {
        let resume = Some(shared.state.lock().resumption());
        encode(&DataRequest::Attach { session, key: keys.client.as_bytes(), resume })
    };
    let pass = SessionPass { session, key: keys.peer.clone() };
    let receiver =
        || Box::new(FromData { shared: Arc::downgrade(shared), worker: worker.id.clone() }) as Box<dyn Receiver>;
    let moved_on = || {
        let state = shared.state.lock();
        state.has_ended() || state.control.is_none() || state.home.as_ref().is_none_or(|home| home.id != worker.id)
    };
    if shared.state.lock().refused_since.is_some() {
        std::thread::sleep(AGAIN);
    }
    let connected = shared.dialer.data(&worker, &pass, &receiver, GIVE_UP, &moved_on);
    let asked = connected.and_then(|c| c.send(&introduction()));
    let Err(error) = asked else { return };
    let mut state = shared.state.lock();
    if state.home.as_ref().is_none_or(|home| home.id != worker.id) {
        return; // it has moved meanwhile, and `attach` says so already
    }
    state.attach = true;
    if state.has_ended() || state.control.is_none() {
        return;
    }
    let since = *state.unreached_since.get_or_insert_with(Instant::now);
    if matches!(error, NetError::NoWay { .. }) || since.elapsed() > OUT_OF_REACH {
        let message = format!("cannot reach {}, the worker of this session: {error}", worker.id);
        state.end(Failure::new(FailureKind::WorkerLost, message));
        drop(state);
        shared.changed.notify_all();
        return;
    }
    shared.upkeep.wait_for(&mut state, AGAIN);
}

/// Sends payloads that a new data connection has not seen.
fn send_uploads(shared: &Shared) {
    let (data, uploads, there) = {
        let mut state = shared.state.lock();
        (state.data.clone(), state.uploads(), std::mem::take(&mut state.uploads_there))
    };
    let Some(data) = data else { return };
    for (id, bytes) in uploads {
        let message = encode(&DataRequest::Upload { id });
        let from = there.get(&id).copied().unwrap_or(0);
        let _ = match usize::try_from(from) {
            Ok(0) => data.send_with_body(&message, bytes),
            Ok(before) if before <= bytes.len() => {
                data.send_with_rest(&encode(&DataRequest::Rest { from, message: &message }), bytes, before)
            }
            // It has all of it.
            _ => Ok(()),
        };
    }
}

fn send_template(shared: &Shared, number: u64) {
    let template = shared.sending.lock().template(number);
    let sent = match template {
        Some(template) => shared.post(&StreamMessage::Template { number, template: &template }),
        None => Err(WaitError::Interrupted),
    };
    if sent.is_err() {
        let mut state = shared.state.lock();
        state.end(Failure::new(FailureKind::Internal, "a worker asked for instructions that the script no longer has"));
        drop(state);
        shared.changed.notify_all();
    }
}
