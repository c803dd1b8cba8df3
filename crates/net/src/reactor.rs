//! The loop of the I/O thread.
//!
//! Sockets are watched edge-triggered from beginning to end; those of a network for both directions, as they tell of room only
//! after a send that blocked, others for room only while they block (OUT-5). The price is that a turn which stops before the
//! socket is empty has to remember it (`again`).
//!
//! REACTOR-1: a connection leaves the table only after its receiver was told, and its descriptors are closed with it.
//! REACTOR-2: a side that ends a connection shuts its direction and reads on for a while: closing a socket with unread
//!            bytes would destroy, on the other side, the very words that say why.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll};

use crate::NetError;
use crate::entry::{Entry, Phase};
use crate::flush::Flow;
use crate::io::{Command, IoShared, WAKE};
use crate::listener::Accepting;
use crate::outgoing::State;
use crate::spares::Spares;

/// How often deadlines are looked at: when one is near, and when there are none.
const TICK: Duration = Duration::from_millis(20);
const SLOW_TICK: Duration = Duration::from_secs(3600);
/// How long a listener rests when the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the ends of all connections may take together when the process ends.
const LAST_LINGER: Duration = Duration::from_millis(500);
/// How long the other side has to take notice of an error.
const ERROR_LINGER: Duration = Duration::from_secs(1);

pub(crate) struct Reactor {
    poll: Poll,
    shared: Arc<IoShared>,
    /// Looked up by token; visited in any order only where order means nothing.
    entries: HashMap<usize, Box<Entry>>,
    listeners: HashMap<usize, Box<Accepting>>,
    again: Vec<usize>,
    spares: Spares,
    next_tick: Instant,
    stopping: bool,
}

impl Reactor {
    pub(crate) fn new(poll: Poll, shared: Arc<IoShared>) -> Reactor {
        Reactor {
            poll,
            shared,
            entries: HashMap::new(),
            listeners: HashMap::new(),
            again: Vec::new(),
            spares: Spares::default(),
            next_tick: Instant::now(),
            stopping: false,
        }
    }

    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        while !(self.stopping && self.entries.is_empty()) {
            let timeout = match self.again.is_empty() {
                false => Some(Duration::ZERO),
                true => Some(self.next_tick.saturating_duration_since(Instant::now())),
            };
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != std::io::ErrorKind::Interrupted
            {
                // Nothing can be served without the poll; everyone is told.
                self.end_all(NetError::resource("poll", error));
                break;
            }
            let again = std::mem::take(&mut self.again);
            for event in events.iter().filter(|e| e.is_read_closed()) {
                if let Some(entry) = self.entries.get_mut(&event.token().0) {
                    entry.incoming.read_to_end = true;
                }
            }
            let mut ready: Vec<usize> = events.iter().map(|e| e.token().0).filter(|&t| t != WAKE.0).collect();
            for command in self.shared.take_commands() {
                self.obey(command, &mut ready);
            }
            if self.shared.stopping.load(Ordering::Acquire) && !self.stopping {
                self.stop();
            }
            // Those that had a full turn come last: a large body on one connection must not delay a head on another.
            ready.extend_from_slice(&again);
            ready.sort_unstable_by_key(|token| (again.contains(token), *token));
            ready.dedup();
            for token in ready {
                match self.listeners.contains_key(&token) {
                    true => self.accept(token),
                    false => self.serve(token),
                }
            }
            if Instant::now() >= self.next_tick {
                self.tick();
            }
            self.end_turn();
        }
        self.shared.stop_taking();
    }

    fn obey(&mut self, command: Command, ready: &mut Vec<usize>) {
        match command {
            Command::Add(entry) => self.add(entry),
            Command::Listen(accepting) => {
                ready.push(accepting.token); // somebody may have knocked already
                self.listeners.insert(accepting.token, accepting);
            }
            Command::StopListening(token) => drop(self.listeners.remove(&token)),
            Command::Look(token) => ready.push(token),
            Command::Close(token) => {
                if let Some(entry) = self.entries.get_mut(&token)
                    && entry.phase == Phase::Live
                {
                    let linger = entry.channel.lock().limits.linger;
                    entry.phase = Phase::Leaving { until: Instant::now() + linger };
                    entry.incoming.muted = true;
                    ready.push(token);
                    self.next_tick = self.next_tick.min(Instant::now() + TICK);
                }
            }
            Command::Fail(token, why) => self.fail(token, why),
            Command::Deadlines => self.next_tick = Instant::now(),
        }
    }

    fn add(&mut self, entry: Box<Entry>) {
        let token = entry.channel.token;
        let watched = self.shared.watch(entry.socket.as_raw_fd(), token, Interest::READABLE | Interest::WRITABLE);
        self.entries.insert(token, entry);
        self.next_tick = self.next_tick.min(Instant::now() + TICK);
        match watched {
            _ if self.stopping => self.fail(token, NetError::ClosedHere),
            Ok(()) => self.serve(token),
            Err(error) => self.fail(token, error),
        }
    }

    fn accept(&mut self, token: usize) {
        let Some(mut listener) = self.listeners.remove(&token) else { return };
        let shared = self.shared.clone();
        if listener.accept_all(&shared, &mut |entry| self.add(entry)) {
            self.again.push(token);
        }
        if listener.paused {
            self.next_tick = self.next_tick.min(Instant::now() + PAUSE);
        }
        self.listeners.insert(token, listener);
    }

    /// A turn of one connection: everything it can do now, within its budgets.
    fn serve(&mut self, token: usize) {
        let Some(entry) = self.entries.get_mut(&token) else { return };
        let turn = entry.turn(&mut self.spares);
        if entry.incoming.is_waiting() {
            self.next_tick = self.next_tick.min(Instant::now() + TICK);
        }
        match turn {
            Ok(true) => self.again.push(token),
            Ok(false) => {}
            Err(why) => self.fail(token, why),
        }
    }

    /// CHANNEL-3. Who is told of an end may send again.
    fn end_turn(&mut self) {
        loop {
            let tokens = self.shared.take_unflushed();
            if tokens.is_empty() {
                return;
            }
            for token in tokens {
                let Some(entry) = self.entries.get_mut(&token) else { continue };
                match entry.channel.pump(0) {
                    Ok(Flow::More) => self.again.push(token),
                    Ok(Flow::Done | Flow::Blocked) => {}
                    Err(why) => self.fail(token, why),
                }
            }
        }
    }

    /// Ends a connection: its receiver is told, then the other side (REACTOR-2).
    fn fail(&mut self, token: usize, why: NetError) {
        let Some(entry) = self.entries.get_mut(&token) else { return };
        let gone = matches!(why, NetError::Lost { .. } | NetError::Closed | NetError::Refused { .. });
        let why = match entry.phase {
            // It asked for the end itself; how the other side took it does not matter.
            Phase::Leaving { .. } => NetError::ClosedHere,
            _ => why,
        };
        let first = !matches!(entry.phase, Phase::Ending { .. });
        let foreign = matches!(why, NetError::NotGt { .. } | NetError::Version { .. } | NetError::Tls { .. });
        let reason = if why == NetError::ClosedHere { String::new() } else { for_the_other_side(&why) };
        entry.channel.lock().fail(why.clone(), (!gone && !foreign).then_some(&reason));
        entry.channel.notify();
        if first {
            let is_told = entry.accepted || entry.incoming.opened;
            entry.incoming.tell_closed(is_told, &entry.connection, &why);
        }
        if gone || !first {
            self.remove(token);
            return;
        }
        let until = Instant::now() + if self.stopping { LAST_LINGER } else { ERROR_LINGER };
        entry.phase = Phase::Ending { until };
        self.next_tick = self.next_tick.min(Instant::now() + TICK);
        self.serve(token);
    }

    fn remove(&mut self, token: usize) {
        if let Some(entry) = self.entries.remove(&token) {
            let _ = self.poll.registry().deregister(&mut SourceFd(&entry.socket.as_raw_fd()));
            entry.channel.lock().release();
            entry.channel.notify();
        }
    }

    /// Looks at deadlines.
    fn tick(&mut self) {
        let now = Instant::now();
        let mut failed = Vec::new();
        let mut soon = SLOW_TICK;
        for (&token, entry) in &mut self.entries {
            if entry.incoming.is_waiting() {
                // There may be room by now (IN-4).
                soon = TICK;
                self.again.push(token);
            }
            let (limits, opening) = {
                let out = entry.channel.lock();
                (out.limits, out.state == State::Opening)
            };
            match entry.phase {
                Phase::Leaving { until } | Phase::Ending { until } => {
                    soon = TICK;
                    if now >= until {
                        failed.push((token, NetError::lost("the peer did not confirm the close")));
                    }
                }
                Phase::Live if opening => {
                    soon = soon.min(TICK * 5);
                    if now >= entry.open_by {
                        let what = "the peer's handshake".to_string();
                        failed.push((token, NetError::TimedOut { what, after: limits.handshake_timeout }));
                    }
                }
                Phase::Live => {
                    let Some(idle) = limits.idle_timeout else { continue };
                    soon = soon.min((idle / 8).max(TICK));
                    if entry.channel.is_held() {
                        entry.channel.heard(); // it may speak; nobody listens
                    }
                    let silent = entry.channel.silent_for();
                    if silent >= idle {
                        failed.push((token, NetError::Silent { silent }));
                    } else if silent >= idle / 3 && now.duration_since(entry.pinged) >= idle / 4 {
                        entry.pinged = now;
                        let _ = entry.channel.ping();
                    }
                }
            }
        }
        failed.sort_unstable_by_key(|(token, _)| *token);
        failed.into_iter().for_each(|(token, why)| self.fail(token, why));
        if self.listeners.values().any(|l| l.paused) {
            soon = soon.min(PAUSE);
        }
        let mut paused: Vec<usize> = self.listeners.values().filter(|l| l.paused).map(|l| l.token).collect();
        paused.sort_unstable();
        paused.into_iter().for_each(|token| self.accept(token));
        self.again.sort_unstable();
        self.next_tick = now + soon;
    }

    /// IO-2.
    fn stop(&mut self) {
        self.stopping = true;
        self.listeners.clear();
        let until = Instant::now() + LAST_LINGER;
        let mut tokens: Vec<usize> = self.entries.keys().copied().collect();
        tokens.sort_unstable();
        for token in tokens {
            let Some(entry) = self.entries.get_mut(&token) else { continue };
            let mut out = entry.channel.lock();
            if matches!(out.state, State::Open | State::Opening) {
                out.state = State::Closing;
            }
            drop(out);
            entry.incoming.muted = true;
            entry.phase = match entry.phase {
                Phase::Live | Phase::Leaving { .. } => Phase::Leaving { until },
                Phase::Ending { until: earlier } => Phase::Ending { until: earlier.min(until) },
            };
            self.serve(token);
        }
        self.next_tick = Instant::now();
    }

    fn end_all(&mut self, why: NetError) {
        let mut tokens: Vec<usize> = self.entries.keys().copied().collect();
        tokens.sort_unstable();
        for token in tokens {
            self.fail(token, why.clone());
            self.remove(token);
        }
    }
}

/// What the other side is told. It learns what it did wrong, not what went wrong in here.
fn for_the_other_side(why: &NetError) -> String {
    match why {
        NetError::Malformed { reason } => format!("protocol error: {reason}"),
        NetError::Internal { .. } => "internal error".to_string(),
        other => other.to_string(),
    }
}
