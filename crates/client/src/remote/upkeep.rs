//! The link's own thread: opens connections again, sends what was asked for, cuts lanes that rest.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gt_ir::{Failure, FailureKind};
use gt_net::protocol::{DataRequest, Resume, StreamMessage, ToServer, encode};

use super::receive::{FromControl, FromData};
use super::state::State;
use super::{GIVE_UP, Shared};
use crate::link::WaitError;

/// The pause after a connection that could not be opened.
const AGAIN: Duration = Duration::from_millis(100);
/// How long lanes must rest before what they recorded is sent.
const REST: Duration = Duration::from_millis(2);

/// Connects to the server and introduces the session, or shows that it is an old one.
pub(super) fn say_hello(shared: &Arc<Shared>, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
    let resume = {
        let state = shared.state.lock();
        state.session.clone().map(|(session, secret)| Resume { session, secret, losses: state.losses })
    };
    let receiver = Box::new(FromControl(Arc::downgrade(shared)));
    let timeout = if resume.is_some() { GIVE_UP } else { shared.options.timeout };
    let unreachable = |e: gt_net::NetError| match e {
        gt_net::NetError::Interrupted => WaitError::Interrupted,
        e => WaitError::Failed(Failure::new(FailureKind::WorkerLost, format!("no GT server: {e}"))),
    };
    let connection = shared.dialer.control(receiver, timeout, cancel).map_err(unreachable)?;
    let hello = ToServer::Hello {
        token: &shared.options.token,
        name: shared.options.name.clone(),
        variables: shared.options.variables.clone(),
        workers: shared.options.workers,
        resume,
    };
    connection.send(&encode(&hello)).map_err(unreachable)
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
            Task::Reconnect => reconnect(shared, &mut lost_at),
            Task::Resend => {
                lost_at = None;
                resend(shared);
            }
            Task::Attach => attach(shared),
            Task::Uploads => send_uploads(shared),
            Task::Template(digest) => send_template(shared, digest),
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
    let since = *lost_at.get_or_insert_with(Instant::now);
    let ended = || shared.state.lock().has_ended();
    if say_hello(shared, &ended).is_ok() {
        // The answer comes with the I/O thread.
        let mut state = shared.state.lock();
        let until = Instant::now() + AGAIN;
        while state.control.is_none() && !state.has_ended() && Instant::now() < until {
            shared.upkeep.wait_until(&mut state, until);
        }
        if state.control.is_some() {
            return;
        }
    } else {
        std::thread::sleep(AGAIN);
    }
    if since.elapsed() > GIVE_UP {
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
        if control.send(&head).is_err() {
            // Full: what is on its way goes first. Closed: the thread hears of it.
            let mut state = shared.state.lock();
            state.resend = true;
            shared.upkeep.wait_for(&mut state, AGAIN);
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
    let receiver = Box::new(FromData(Arc::downgrade(shared)));
    let moved_on = || {
        let state = shared.state.lock();
        state.has_ended() || state.home.as_ref().is_none_or(|home| home.id != worker.id)
    };
    if shared.state.lock().refused_since.is_some() {
        std::thread::sleep(AGAIN);
    }
    let connected = shared.dialer.data(&worker, receiver, GIVE_UP, &moved_on);
    let asked = connected.and_then(|c| c.send(&encode(&DataRequest::Attach { session, secret: &secret })));
    if asked.is_err() {
        let mut state = shared.state.lock();
        state.attach = state.home.as_ref().is_some_and(|home| home.id == worker.id);
        shared.upkeep.wait_for(&mut state, AGAIN);
    }
}

/// Sends payloads that a new data connection has not seen.
fn send_uploads(shared: &Shared) {
    let (data, uploads) = {
        let state = shared.state.lock();
        (state.data.clone(), state.uploads.clone())
    };
    let Some(data) = data else { return };
    for (id, bytes) in uploads {
        let _ = data.send_with_body(&encode(&DataRequest::Upload { id }), bytes);
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
