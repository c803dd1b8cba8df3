//! The thread that keeps the worker with its server, `gt-join`: connects, waits, connects again; and looks after what takes
//! time in between.
//!
//! JOIN-1: it never gives up by itself: workers may start before their server, and outlive it. Only a refusal that will not
//! change ends it.
//! JOIN-2: sessions outlive a lost connection for the lease, and no longer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_net::protocol::{FromWorker, Refusal, WorkerInfo, encode};
use gt_net::{Address, Connection, Io, Limits, NetError, Role};
use parking_lot::{Condvar, Mutex};

use super::config::ServeConfig;
use super::control::FromServer;
use super::error::ServeError;
use super::host::Host;

/// The pause after the first attempt that failed; it doubles, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How often what takes time is looked at.
const TICK: Duration = Duration::from_millis(200);
/// How often the server hears how the worker is doing.
const LOAD: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    stopping: bool,
    joined: bool,
    /// It has been joined since the thread last asked.
    was_joined: bool,
    closed: Option<NetError>,
    refused: Option<Refusal>,
    ended: Option<ServeError>,
}

/// What the thread is told, and what it tells.
#[derive(Default)]
pub(super) struct News {
    state: Mutex<State>,
    changed: Condvar,
}

impl News {
    fn change(&self, f: impl FnOnce(&mut State)) {
        f(&mut self.state.lock());
        self.changed.notify_all();
    }

    /// The server has taken the worker.
    pub(super) fn joined(&self) {
        self.change(|state| (state.joined, state.was_joined) = (true, true));
    }

    /// The server has not.
    pub(super) fn refused(&self, why: Refusal) {
        self.change(|state| state.refused = Some(why));
    }

    /// The connection is gone.
    pub(super) fn closed(&self, why: &NetError) {
        self.change(|state| {
            state.joined = false;
            state.closed = Some(why.clone());
        });
    }

    /// Asks the thread to end.
    pub(super) fn stop(&self) {
        self.change(|state| state.stopping = true);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }

    pub(super) fn is_joined(&self) -> bool {
        self.state.lock().joined
    }

    /// Waits until the service has ended by itself, but no longer than `timeout`.
    pub(super) fn wait_ended(&self, timeout: Duration) -> Option<ServeError> {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        while state.ended.is_none() && !self.changed.wait_until(&mut state, deadline).timed_out() {}
        state.ended.clone()
    }
}

/// What ended a stay with the server.
enum Left {
    Stopping,
    Lost(NetError),
    Refused(Refusal),
}

/// The body of the thread.
pub(super) struct Joiner {
    pub(super) io: Io,
    pub(super) host: Arc<Host>,
    pub(super) config: ServeConfig,
    pub(super) info: WorkerInfo,
    pub(super) news: Arc<News>,
}

impl Joiner {
    pub(super) fn run(self) {
        let mut pause = FIRST_PAUSE;
        // Said once for each time the server is gone.
        let mut said = false;
        let mut gone_since = Instant::now();
        while !self.news.is_stopping() {
            let left = match self.connect() {
                Ok(connection) => self.stay(&connection, gone_since),
                Err(error) => Left::Lost(error),
            };
            let was_joined = std::mem::take(&mut self.news.state.lock().was_joined);
            if was_joined {
                (pause, said, gone_since) = (FIRST_PAUSE, false, Instant::now());
            }
            match left {
                Left::Stopping => return,
                Left::Refused(why @ (Refusal::WorkerToken { .. } | Refusal::Token {} | Refusal::Variable { .. })) => {
                    return self.end(why);
                }
                // The two do not agree on what was: both start anew.
                Left::Refused(why @ (Refusal::UnknownSession {} | Refusal::Malformed { .. })) => {
                    gt_observe::say(format_args!(
                        "gt worker: the server at {} refused this worker: {why}",
                        self.config.server
                    ));
                    self.forget();
                }
                Left::Refused(
                    Refusal::Ending {} | Refusal::Sessions { .. } | Refusal::OtherUser {} | Refusal::Unused { .. },
                ) => {}
                Left::Lost(NetError::Interrupted) => {}
                Left::Lost(error) if !said => {
                    gt_observe::say(format_args!(
                        "gt worker: cannot connect to a server at {} ({error}); retrying",
                        self.config.server
                    ));
                    said = true;
                }
                Left::Lost(_) => {}
            }
            self.expire(gone_since);
            self.rest(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn end(&self, why: Refusal) {
        let error = ServeError::Refused { server: self.config.server.to_string(), why };
        self.host.close_all();
        self.news.change(|state| state.ended = Some(error));
    }

    /// Starts anew: nobody knows what is here.
    fn forget(&self) {
        self.host.close_all();
        self.host.around().group.forget_standing();
    }

    /// Closes the sessions of a server that did not come back (JOIN-2).
    fn expire(&self, gone_since: Instant) {
        if gone_since.elapsed() > self.config.lease && !self.host.sessions().is_empty() {
            self.forget();
        }
    }

    /// Waits, unless the service is to end.
    fn rest(&self, pause: Duration) {
        let deadline = Instant::now() + pause;
        let mut state = self.news.state.lock();
        while !state.stopping && !self.news.changed.wait_until(&mut state, deadline).timed_out() {}
    }

    fn connect(&self) -> Result<Connection, NetError> {
        self.news.change(|state| (state.closed, state.refused, state.joined) = (None, None, false));
        let near = self.config.unix.iter().filter(|a| matches!(a, Address::Unix(path) if path.exists()));
        let mut last = None;
        for address in near.chain([&self.config.server]) {
            let receiver = Box::new(FromServer {
                host: Arc::downgrade(&self.host),
                news: self.news.clone(),
                shown: self.host.around().group.secret(),
                token: self.config.token.clone(),
                is_joined: false,
            });
            let far = matches!(address, Address::Tcp { .. });
            let limits = Limits { idle_timeout: far.then_some(self.config.idle_timeout), ..Limits::default() };
            let tls = self.config.server_tls.as_ref().filter(|_| far);
            let cancel = || self.news.is_stopping();
            match self.io.connect(address, tls, limits, receiver, ATTEMPT, &cancel) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(NetError::Interrupted))
    }

    /// Joins, and waits until that is over.
    fn stay(&self, connection: &Connection, gone_since: Instant) -> Left {
        let token = self.config.token.as_ref();
        let proof = token.map(|token| connection.prove(token, Role::Worker)).unwrap_or_default();
        let sessions = self.host.sessions().iter().map(|hosted| (hosted.number(), hosted.received())).collect();
        let secret = self.host.around().group.secret();
        let join = FromWorker::Join { proof: &proof, info: self.info.clone(), secret, sessions };
        if let Err(error) = connection.send(&encode(&join)) {
            connection.close();
            return Left::Lost(error);
        }
        let mut last_load = Instant::now();
        loop {
            let mut state = self.news.state.lock();
            if !state.stopping && state.refused.is_none() && state.closed.is_none() {
                self.news.changed.wait_for(&mut state, TICK);
            }
            if state.stopping {
                return Left::Stopping;
            }
            if let Some(why) = state.refused.take() {
                drop(state);
                connection.close();
                return Left::Refused(why);
            }
            if let Some(why) = state.closed.take() {
                return Left::Lost(why);
            }
            let joined = state.joined;
            drop(state);
            self.host.look_after();
            if !joined {
                self.expire(gone_since);
            } else if last_load.elapsed() >= LOAD {
                last_load = Instant::now();
                let load = self.host.worker().load();
                let (busy_ns, live_bytes, instructions) = (load.busy_ns, load.live_bytes, load.instructions);
                let begun_with = (self.info.threads, self.info.memory_limit);
                let (threads, memory_limit) = self.config.resources.as_ref().map_or(begun_with, |look| look());
                let load = FromWorker::Load { busy_ns, live_bytes, instructions, threads, memory_limit };
                self.host.around().group.say(&load);
            }
        }
    }
}
