//! The link to a server: windows out by the control connection, uploads out and answers in by the data connection.
//!
//! Three threads meet here. The threads that record send, one after the other. The I/O thread delivers what arrives. One
//! thread of the link's own, `gt-link`, opens connections again, sends templates that were asked for, and cuts lanes that
//! rest. Two locks: `sending` keeps the order of what is sent, `state` everything else; whoever needs both takes them in
//! this order, and the I/O thread takes only `state`, so it never waits for a sender.
//!
//! LINK-1: messages leave in the order of their numbers; all of them are in the outbox until the server acks them.
//! LINK-2: a wait ends: with its answer, when the caller gives up, or when the session has ended.
//! LINK-3: the session ends once, and says why from then on.

mod dial;
mod encoder;
mod group;
mod live;
mod loading;
mod member;
mod members;
mod placing;
mod progress;
mod receive;
mod recorder;
mod spread;
mod state;
mod upkeep;
mod upload;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use gt_ir::{Failure, FailureKind, HostTensor, TensorId};
use gt_net::protocol::{DataRequest, Pin, StreamMessage, encode};
use gt_net::{Connection, NetError, Role, Secret};
use gt_stream::Occurrence;
use parking_lot::{Condvar, Mutex};

pub use dial::{Dialer, Network};
use encoder::{Encoder, longest_inside};
pub use group::ShardedSession;
use recorder::RecorderCore;
use state::State;

use gt_client::link::{Link, Progress, WaitError, WantedLoader, WorkerLoader};

/// How long a lost server is looked for whose host says that nobody listens: waits for it end within five seconds. One that is silent is
/// looked for as long as its lease.
const GIVE_UP: Duration = Duration::from_millis(4500);
/// How long a worker may be out of reach while its server says that it is there. Longer than a server takes to notice that a
/// worker is gone.
const OUT_OF_REACH: Duration = Duration::from_secs(20);
/// How long a session without a worker, or without its server, is waited for in silence.
const SAY_AFTER: Duration = Duration::from_secs(2);
/// How often a waiting thread asks whether it should give up.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// How a session with a server is opened.
#[derive(Clone)]
pub struct Options {
    /// Who it is, for people.
    pub name: String,
    /// What the server asks for. Over a network the server has to know it too.
    pub token: Option<Secret>,
    /// The variables that belong to the session.
    pub variables: Vec<(String, String)>,
    /// How many workers it wants at most; 0 for all.
    pub workers: u32,
    /// Where it has to live, if it belongs to another session of the same client.
    pub pin: Option<Pin>,
    /// How long opening may take.
    pub timeout: Duration,
    /// Called by the link's thread while the worker has nothing to do: cuts lanes that rest, says whether some still record.
    pub idle: Arc<dyn Fn() -> bool + Send + Sync>,
    /// A report is kept of where values lie and what travels, for [`ShardedSession::report`].
    pub reports: bool,
}

/// What all threads of a link share.
struct Shared {
    dialer: Arc<dyn Dialer>,
    options: Options,
    sending: Mutex<Encoder>,
    /// Taken alone.
    binds: Mutex<loading::Binds>,
    state: Mutex<State>,
    /// Something changed that a waiting sender or reader may wait for.
    changed: Condvar,
    /// There is something to do for the link's thread.
    upkeep: Condvar,
    /// Something was recorded since the lanes were last looked at.
    recording: AtomicBool,
    recorder: RecorderCore,
    /// The program has values that were lost before this session began, of which no worker knows.
    is_bereft: AtomicBool,
    /// Called by the link's thread when a worker was lost or found, or the session has ended.
    news: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Whether other sessions of the client have something to run: what lanes recorded can wait then.
    others_busy: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

/// A session with a server.
pub struct Remote {
    shared: Arc<Shared>,
}

impl Remote {
    /// Opens a session and waits until the server has taken it.
    ///
    /// # Errors
    /// When nothing answers in time, or the server refuses.
    pub fn open(dialer: Box<dyn Dialer>, options: Options, cancel: &dyn Fn() -> bool) -> Result<Remote, WaitError> {
        Remote::open_by(dialer.into(), options, cancel)
    }

    /// As [`Remote::open`], by a dialer that others use too.
    fn open_by(dialer: Arc<dyn Dialer>, options: Options, cancel: &dyn Fn() -> bool) -> Result<Remote, WaitError> {
        let shared = Arc::new(Shared {
            dialer,
            sending: Mutex::new(Encoder::default()),
            binds: Mutex::default(),
            state: Mutex::new(State::new()),
            changed: Condvar::new(),
            upkeep: Condvar::new(),
            recording: AtomicBool::new(false),
            recorder: RecorderCore::new(),
            is_bereft: AtomicBool::new(false),
            news: OnceLock::new(),
            others_busy: OnceLock::new(),
            options,
        });
        let timeout = shared.options.timeout;
        let deadline = Instant::now() + timeout;
        let connection = upkeep::say_hello(&shared, timeout, cancel).map_err(|error| match error {
            NetError::Interrupted => WaitError::Interrupted,
            error => WaitError::Failed(Failure::new(
                FailureKind::WorkerLost,
                format!("cannot connect to a GT server: {error}"),
            )),
        })?;
        let opened = shared.wait(&|| cancel() || Instant::now() > deadline, |state| state.is_open().then_some(Ok(())));
        if let Err(error) = opened {
            // Or the server would keep a session that nobody has.
            shared.close();
            connection.close();
            return Err(match error {
                WaitError::Interrupted if !cancel() => WaitError::Failed(Failure::new(
                    FailureKind::WorkerLost,
                    format!("the server at {} did not answer within {timeout:?}", shared.dialer.server()),
                )),
                error => error,
            });
        }
        upkeep::start(&shared);
        Ok(Remote { shared })
    }

    /// How it was opened.
    pub(crate) fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Whether there is a worker that runs what is sent.
    pub fn has_worker(&self) -> bool {
        self.shared.state.lock().home.is_some()
    }

    /// The names of the session's workers, its home first.
    pub fn workers(&self) -> Vec<String> {
        let state = self.shared.state.lock();
        state.workers.iter().map(|w| w.id.clone()).collect()
    }

    /// The names of the values it holds, ascending.
    pub fn values(&self) -> Vec<TensorId> {
        self.shared.state.lock().live.values()
    }

    /// What the worker has done for this session, as it tells it.
    pub fn stats(&self, cancel: &dyn Fn() -> bool) -> Result<String, WaitError> {
        self.ask(|request| StreamMessage::Stats { request }).stats(cancel)
    }

    /// Gives cached memory back to the worker's system.
    pub fn trim(&self) -> Result<(), WaitError> {
        self.shared.post(&StreamMessage::Trim {})
    }

    /// Ends the session: nothing more is sent, waits end, the server forgets it.
    pub fn close(&self) {
        self.shared.close();
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Link for Remote {
    fn workers(&self) -> Vec<String> {
        Remote::workers(self)
    }

    fn send(&self, mut window: Occurrence, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        let shared = &*self.shared;
        // As for a worker in this process: who gives up waiting for room has the window sent all the same.
        let room = shared.wait(cancel, |state| state.has_room().then_some(Ok(())));
        if let Err(WaitError::Failed(_)) = room {
            // Nobody will run it. Recording goes on; the next read says why.
            let mut state = shared.state.lock();
            state.has_dropped |= !window.is_empty();
            state.live.window(&window);
            return Ok(());
        }
        let loaded = shared.loaded_in(&window);
        let apart;
        let data = {
            let mut encoder = shared.sending.lock();
            let is_bereft = shared.is_bereft.load(Ordering::Acquire);
            if is_bereft {
                window = shared.state.lock().live.stand_in(window);
            }
            let longest = longest_inside(&window.bindings().uploads);
            apart = upload::apart(&window, longest);
            let instrs = window.len() as u32;
            let bytes = upload::payload_bytes(&window);
            let (seq, executed) = shared.state.lock().watermarks();
            let message = encoder.window(&window, longest, seq, executed);
            let mut state = shared.state.lock();
            if !is_bereft {
                state.live.window(&window);
            }
            let Some((head, connection)) = state.push(&message, instrs, bytes) else { return Ok(()) };
            state.keep_uploads(&apart);
            let data = state.data.clone();
            drop(state);
            if let Some(connection) = connection {
                shared.dispatch(&connection, &head);
            }
            data
        };
        shared.bind(loaded);
        if let Some(core) = shared.recorder.moved() {
            shared.recorder.tell(core, data.clone());
        }
        if let Some(data) = data {
            for (id, bytes) in apart {
                let _ = data.send_with_body(&encode(&DataRequest::Upload { id }), bytes);
            }
        }
        room
    }

    fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        if let Some(failure) = self.shared.state.lock().live.refuses(id) {
            return Err(WaitError::Failed(failure));
        }
        self.ask(|request| StreamMessage::Read { request, id }).value(cancel).map_err(|error| match error {
            // Which of several losses it was is known here.
            WaitError::Failed(failure) if failure.kind == FailureKind::WorkerLost => {
                WaitError::Failed(self.shared.state.lock().live.lost(id).unwrap_or(failure))
            }
            error => error,
        })
    }

    fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        self.ask(|request| StreamMessage::Synchronize { request }).done(cancel)?;
        match self.shared.state.lock().live.take_owed() {
            Some(failure) => Err(WaitError::Failed(failure)),
            None => Ok(()),
        }
    }

    fn wake(&self) {
        self.shared.wake();
    }

    fn progress(&self) -> Progress {
        let state = self.shared.state.lock();
        let (sent, executed) = state.watermarks();
        // Where nobody runs anything, or nobody can say so, time says nothing.
        let runs = state.home.is_some() && state.control.is_some() && !state.has_ended();
        Progress { sent, executed: if runs { executed } else { sent } }
    }

    fn close(&self) {
        Remote::close(self);
    }

    fn is_full(&self) -> bool {
        let state = self.shared.state.lock();
        !state.has_room() && !state.has_ended()
    }

    fn lends(&self) -> bool {
        // Over a network a copy has to be kept anyway: what was sent may be lost with the connection.
        self.shared.state.lock().data.as_ref().is_some_and(Connection::is_same_host)
    }

    fn lend(&self, id: TensorId, bytes: &[u8], cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        self.shared.lend(id, bytes, cancel)
    }

    fn open_loader(
        &self,
        wanted: &WantedLoader<'_>,
        _: &dyn Fn() -> bool,
    ) -> Result<Option<Box<dyn WorkerLoader>>, WaitError> {
        Ok(Some(Box::new(self.load_here(&(wanted.describe)(0, 1), wanted.ahead)?)))
    }
}

impl Shared {
    /// Whether a server that has welcomed the session is the one that the token is for. A Unix socket of this user is its server's.
    fn is_its_server(&self, from: &Connection, proof: &[u8]) -> bool {
        let token = self.options.token.as_ref().filter(|_| !from.peer().same_host);
        token.is_none_or(|token| from.is_proven(token, Role::Server, proof))
    }

    /// Waits until `ready` gives something (LINK-2).
    fn wait<T>(
        &self,
        cancel: &dyn Fn() -> bool,
        mut ready: impl FnMut(&mut State) -> Option<Result<T, WaitError>>,
    ) -> Result<T, WaitError> {
        let mut state = self.state.lock();
        let mut poll = Instant::now() + CANCEL_POLL;
        let say_at = Instant::now() + SAY_AFTER;
        let (mut said, mut said_lost) = (false, false);
        loop {
            if let Some(result) = ready(&mut state) {
                return result;
            }
            if let Some(failure) = state.ended() {
                return Err(WaitError::Failed(failure));
            }
            self.changed.wait_until(&mut state, poll);
            if Instant::now() >= poll {
                let alone = state.session.is_some() && state.control.is_some() && state.home.is_none();
                let lost = state.session.is_some() && state.control.is_none();
                // The lock is not held while foreign code runs.
                drop(state);
                if cancel() {
                    return Err(WaitError::Interrupted);
                }
                if alone && !said && Instant::now() > say_at {
                    said = true;
                    gt_observe::say(format_args!(
                        "gt: the server at {} has no worker yet; waiting for one to join",
                        self.dialer.server()
                    ));
                }
                if lost && !said_lost && Instant::now() > say_at && std::io::stderr().is_terminal() {
                    said_lost = true;
                    gt_observe::say(format_args!(
                        "gt: lost the connection to the server at {}; reconnecting (Ctrl-C to stop)",
                        self.dialer.server()
                    ));
                }
                state = self.state.lock();
                poll = Instant::now() + CANCEL_POLL;
            }
        }
    }

    /// Puts a message that takes no credits into the stream.
    fn post(&self, message: &StreamMessage<'_>) -> Result<(), WaitError> {
        let _in_order = self.sending.lock();
        let mut state = self.state.lock();
        let Some((head, connection)) = state.push(&encode(message), 0, 0) else {
            return Err(WaitError::Failed(state.ended().unwrap_or_else(state::closed)));
        };
        drop(state);
        if let Some(connection) = connection {
            self.dispatch(&connection, &head);
        }
        Ok(())
    }

    /// Sends a message that the outbox has. If the connection is full or gone, the link's thread sends it again.
    fn dispatch(&self, connection: &Connection, head: &[u8]) {
        if let Err(error) = connection.send(head) {
            self.not_sent(&mut self.state.lock(), &error);
        }
    }

    /// A message of the outbox was not taken by its connection.
    fn not_sent(&self, state: &mut State, error: &NetError) {
        match error {
            // No connection will ever take it, and nothing may go before it.
            NetError::TooLarge { .. } => {
                let message = format!("a message to the server at {}: {error}", self.dialer.server());
                state.end(Failure::new(gt_ir::FailureKind::Value, message));
                self.changed.notify_all();
            }
            _ => state.resend = true,
        }
        self.upkeep.notify_one();
    }

    /// An instruction was recorded after a pause: if nothing follows, somebody has to send it.
    #[inline]
    fn wake(&self) {
        if !self.recording.load(Ordering::Relaxed) && !self.recording.swap(true, Ordering::SeqCst) {
            // Under the lock, or the thread could be between its look and its sleep.
            let _state = self.state.lock();
            self.upkeep.notify_one();
        }
    }

    fn close(&self) {
        let mut state = self.state.lock();
        if state.has_ended() {
            return;
        }
        let (control, data) = (state.control.take(), state.data.take());
        state.end(state::closed());
        drop(state);
        self.changed.notify_all();
        self.upkeep.notify_all();
        if let Some(control) = control {
            let _ = control.send(&encode(&gt_net::protocol::ToServer::Goodbye {}));
            control.close();
        }
        if let Some(data) = data {
            data.close();
        }
    }
}
