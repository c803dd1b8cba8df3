//! The link's own thread: opens connections again, sends what was asked for, cuts lanes that rest.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gt_ir::{Failure, FailureKind};
use gt_net::protocol::{DataRequest, Resume, StreamMessage, ToServer, encode};
use gt_net::{Connection, NetError, Receiver};

use super::receive::{FromControl, FromData};
use super::state::State;
use super::{GIVE_UP, OUT_OF_REACH, Shared};
use crate::link::WaitError;

/// The pause after a connection that could not be opened.
const AGAIN: Duration = Duration::from_millis(100);
/// How long lanes must rest before what they recorded is sent.
const REST: Duration = Duration::from_millis(2);

/// Connects to the server and introduces the session, or shows that it is an old one.
pub(super) fn say_hello(
    shared: &Arc<Shared>,
    timeout: Duration,
    cancel: &dyn Fn() -> bool,
) -> Result<Connection, WaitError> {
    let resume = {
        let state = shared.state.lock();
        state.session.clone().map(|(session, secret)| Resume { session, secret, losses: state.losses })
    };
    let receiver = || Box::new(FromControl(Arc::downgrade(shared))) as Box<dyn Receiver>;
    let unreachable = |e: gt_net::NetError| match e {
        gt_net::NetError::Interrupted => WaitError::Interrupted,
        e => WaitError::Failed(Failure::new(FailureKind::WorkerLost, format!("no GT server: {e}"))),
    };
    let connection = shared.dialer.control(&receiver, timeout, cancel).map_err(unreachable)?;
    let hello = ToServer::Hello {
        token: &shared.options.token,
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
    connection.send(&encode(&hello)).map_err(unreachable)?;
    Ok(connection)
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
    Template(u128),
    LookAtLanes,
    End,
}

fn run(shared: &Arc<Shared>) {
    let mut lost_at: Option<Instant> = None;
    loop {
        let task = next(shared);
        match task {
            Task::End => return,
            Task::News => {
                if let Some(news) = shared.news.get() {
                    news();
                }
            }
            Task::Reconnect => reconnect(shared, &mut lost_at),
            Task::Resend => {
                lost_at = None;
                resend(shared);
            }
            Task::Attach => attach(shared),
            Task::Uploads => send_uploads(shared),
            Task::Template(digest) => send_template(shared, digest),
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
        if let Some(digest) = state.wanted_templates.pop() {
            return Task::Template(digest);
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

fn reconnect(shared: &Arc<Shared>, lost_at: &mut Option<Instant>) {
    let silent_for = std::mem::take(&mut shared.state.lock().silent_for);
    let now = Instant::now();
    let give_up = *lost_at.get_or_insert(now - silent_for.min(GIVE_UP * 2 / 3)) + GIVE_UP;
    let ended = || shared.state.lock().has_ended();
    if say_hello(shared, give_up.saturating_duration_since(now).max(AGAIN), &ended).is_ok() {
        // The answer comes with the I/O thread.
        let mut state = shared.state.lock();
        while state.knocking.is_some() && !state.has_ended() && Instant::now() < give_up {
            shared.upkeep.wait_until(&mut state, give_up);
        }
        if let Some(unanswered) = state.knocking.take() {
            unanswered.close();
        }
        if state.control.is_some() {
            return;
        }
    }
    std::thread::sleep(AGAIN.min(give_up.saturating_duration_since(Instant::now())));
    if Instant::now() >= give_up {
        let message =
            format!("the server at {} is gone: its connection was lost and nothing answers", shared.dialer.server());
        let mut state = shared.state.lock();
        state.end(Failure::new(FailureKind::WorkerLost, message));
        drop(state);
        shared.changed.notify_all();
    }
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
    let introduction = || {
        let resume = Some(shared.state.lock().resumption());
        encode(&DataRequest::Attach { session, secret: &secret, resume })
    };
    let receiver =
        || Box::new(FromData { shared: Arc::downgrade(shared), worker: worker.id.clone() }) as Box<dyn Receiver>;
    let moved_on = || {
        let state = shared.state.lock();
        state.has_ended() || state.control.is_none() || state.home.as_ref().is_none_or(|home| home.id != worker.id)
    };
    if shared.state.lock().refused_since.is_some() {
        std::thread::sleep(AGAIN);
    }
    let connected = shared.dialer.data(&worker, &receiver, GIVE_UP, &moved_on);
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
        let message = format!("{} is not within reach, and this session lives there: {error}", worker.id);
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

fn send_template(shared: &Shared, digest: u128) {
    let template = shared.sending.lock().template(digest);
    let sent = match template {
        Some(template) => shared.post(&StreamMessage::Template { digest, template: &template }),
        None => Err(WaitError::Interrupted),
    };
    if sent.is_err() {
        let mut state = shared.state.lock();
        state.end(Failure::new(FailureKind::Internal, "a worker asks for a template that was forgotten"));
        drop(state);
        shared.changed.notify_all();
    }
}
