//! The way to one session of another worker: the values that are on it, and the thread that sees them there.
//!
//! ROUTE-1: values are numbered without holes and leave in that order. A small one leaves at once, by whoever has it, if nothing is before
//! it and there is a connection: waking a thread takes longer.
//! ROUTE-2: over a network a value is kept until the other worker has acked it; a connection that takes the place of a lost one begins with
//! the first that was not. On one host a connection breaks with its process: what was sent has come.
//! ROUTE-3: what is kept is bounded; a value beyond goes as a failure, so that nobody waits for it for ever.
//! ROUTE-4: a worker that cannot be reached is looked for no longer than `GIVE_UP`, so that those who need its values hear of it within five
//! seconds. One of this host is looked for as long as a lease lasts: a stopped process is not a dead one, and the server notices at once
//! when it is dead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_ir::{Failure, FailureKind};
use gt_net::protocol::Peer;
use gt_net::{Connection, NetError, Outbox, RELAY_SILENCE, Reach};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::arrivals::Origin;
use super::handshake;
use super::parcel::Parcel;
use super::taken::MOST_AHEAD;

/// The pause between attempts.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a worker elsewhere is looked for, from when it was last heard.
const GIVE_UP: Duration = Duration::from_secs(4);
/// A connection that has lasted for so long was no vain attempt.
const LASTED: Duration = Duration::from_secs(5);

/// Whose values, and to whom they go.
#[derive(Clone)]
pub(super) struct Way {
    /// The session that they are of.
    pub(super) session: u64,
    /// Its worker.
    pub(super) own: Origin,
    /// The session that they are for.
    pub(super) to: Arc<Peer>,
}

impl Way {
    /// The worker they go to.
    pub(super) fn origin_of_peer(&self) -> Origin {
        Origin { number: self.to.number, epoch: self.to.epoch }
    }
}

struct Line {
    connection: Option<Connection>,
    opened_at: Instant,
    /// What has not been acked, with its numbers; some of it may not have been sent.
    outbox: Outbox<Arc<Parcel>>,
    /// Everything below was given to the connection.
    sent: u64,
    /// Since when the worker cannot be reached.
    unreached: Option<Instant>,
    /// Since when connections break and nothing gets there.
    stuck: Option<Instant>,
    /// Nothing more is sent.
    over: bool,
}

impl Line {
    /// Whether the next value may leave.
    fn may_send(&self) -> bool {
        self.sent < self.outbox.next() && self.sent - self.outbox.first() < MOST_AHEAD
    }

    /// A value was given to this connection.
    fn gave(&mut self, connection: &Connection, number: u64) {
        self.sent = self.sent.max(number + 1);
        if connection.is_same_host() {
            self.acked(number + 1);
        }
    }

    /// Everything below has come, be it by a connection that was lost before it could be said. Says whether that is possible.
    fn acked(&mut self, below: u64) -> bool {
        let is_possible = self.outbox.ack(below).is_ok();
        if is_possible {
            self.sent = self.sent.max(below);
            self.stuck = None;
        }
        is_possible
    }

    /// A connection is gone: what it may have lost goes again (ROUTE-2).
    fn lost(&mut self, connection: &Connection, why: &NetError) {
        if self.connection.take_if(|now| now.is_same(connection)).is_none() {
            return;
        }
        self.sent = self.outbox.first();
        let now = Instant::now();
        match why {
            NetError::Silent { silent } => self.unreached = now.checked_sub(*silent),
            // A relay does not say whether the worker was silent before (RELAY-5).
            _ if connection.is_relayed() => self.unreached = now.checked_sub(RELAY_SILENCE),
            _ => {}
        }
        match self.opened_at.elapsed() > LASTED {
            true => self.stuck = Some(now),
            false => _ = self.stuck.get_or_insert(now),
        }
    }
}

enum Task {
    Connect,
    Send(Connection, u64, Arc<Parcel>),
    End(Option<Connection>),
}

/// The way to one session of another worker.
pub(super) struct Route {
    way: Way,
    most_bytes: usize,
    line: Mutex<Line>,
    changed: Condvar,
}

impl Route {
    pub(super) fn new(way: Way, most_bytes: usize) -> Route {
        let line = Line {
            connection: None,
            opened_at: Instant::now(),
            outbox: Outbox::new(usize::MAX),
            sent: 0,
            unreached: None,
            stuck: None,
            over: false,
        };
        Route { way, most_bytes, line: Mutex::new(line), changed: Condvar::new() }
    }

    pub(super) fn way(&self) -> &Way {
        &self.way
    }

    /// Sends a value. Never waits.
    pub(super) fn send(&self, mut parcel: Parcel) {
        let mut line = self.line.lock();
        if line.over {
            return;
        }
        let kept_bytes = line.outbox.kept_bytes();
        if kept_bytes > 0 && kept_bytes.saturating_add(parcel.len_bytes()) > self.most_bytes {
            let message =
                format!("{} was not sent to {}: too many transfers are waiting", parcel.name, self.way.to.worker.id);
            parcel.value = Err(Failure::new(FailureKind::Memory, message));
        }
        let (len_bytes, parcel) = (parcel.len_bytes(), Arc::new(parcel));
        // It has no limit of its own.
        let _ = line.outbox.push(parcel.clone(), len_bytes);
        let is_next = line.sent + 1 == line.outbox.next() && line.may_send();
        if let Some(connection) = line.connection.clone().filter(|_| is_next && parcel.is_small())
            && parcel.send(line.sent, &connection, &|| false).is_ok()
        {
            let number = line.sent;
            return line.gave(&connection, number);
        }
        drop(line);
        self.changed.notify_one();
    }

    /// The other worker says what has come.
    pub(super) fn acked(&self, from: &Connection, below: u64) {
        let mut line = self.line.lock();
        if line.connection.as_ref().is_some_and(|now| now.is_same(from)) {
            if !line.acked(below) {
                from.close();
            }
            drop(line);
            self.changed.notify_one();
        }
    }

    /// A connection is gone.
    pub(super) fn lost(&self, connection: &Connection, why: &NetError) {
        self.line.lock().lost(connection, why);
        self.changed.notify_one();
    }

    /// Nothing more is sent; the thread ends.
    pub(super) fn stop(&self) {
        self.line.lock().over = true;
        self.changed.notify_one();
    }

    fn is_over(&self) -> bool {
        self.line.lock().over
    }

    /// The thread: until it is stopped, or finds that the worker is out of reach, and says why.
    pub(super) fn run(self: &Arc<Self>, reach: &Reach, patience: Duration) -> Option<String> {
        // Before the first value: the connection may be there when that comes.
        let mut task = Task::Connect;
        loop {
            match task {
                Task::End(connection) => {
                    connection.iter().for_each(Connection::close);
                    return None;
                }
                Task::Connect => {
                    if let Err(error) = self.connect(reach)
                        && let Some(reason) = self.give_up(reach, patience, &error)
                    {
                        return Some(reason);
                    }
                }
                Task::Send(connection, number, parcel) => self.give(&connection, number, &parcel),
            }
            task = self.next();
        }
    }

    /// Waits until there is something to do.
    fn next(&self) -> Task {
        let mut line = self.line.lock();
        loop {
            if line.over {
                return Task::End(line.connection.take());
            }
            match &line.connection {
                None if !line.outbox.is_empty() => return Task::Connect,
                Some(connection) if line.may_send() => {
                    if let Some(parcel) = line.outbox.get(line.sent) {
                        return Task::Send(connection.clone(), line.sent, parcel.clone());
                    }
                }
                _ => {}
            }
            self.changed.wait(&mut line);
        }
    }

    fn give(&self, connection: &Connection, number: u64, parcel: &Parcel) {
        let given = parcel.send(number, connection, &|| self.is_over());
        let mut line = self.line.lock();
        match given {
            Ok(()) if line.connection.as_ref().is_some_and(|now| now.is_same(connection)) => {
                line.gave(connection, number)
            }
            Ok(()) => {}
            // Too much waits to leave.
            Err(NetError::Full { .. }) => self.pause(&mut line),
            Err(why) => {
                line.lost(connection, &why);
                drop(line);
                connection.close();
            }
        }
    }

    fn pause(&self, line: &mut MutexGuard<'_, Line>) {
        let until = Instant::now() + AGAIN;
        while !line.over && !self.changed.wait_until(line, until).timed_out() {}
    }

    fn connect(self: &Arc<Self>, reach: &Reach) -> Result<(), NetError> {
        let since = {
            let mut line = self.line.lock();
            if line.stuck.is_some() && line.opened_at.elapsed() < AGAIN {
                // The last one broke at once.
                self.pause(&mut line);
            }
            line.unreached.unwrap_or_else(Instant::now)
        };
        let is_near = self.is_near(reach);
        let too_late = || !is_near && since.elapsed() > GIVE_UP;
        let is_over = || self.is_over();
        let connection = match handshake::connect(reach, self, &|| is_over() || too_late()) {
            Err(error) => {
                self.line.lock().unreached.get_or_insert(since);
                return Err(error);
            }
            Ok(connected) => {
                // It is there: from now on only its session is waited for.
                self.line.lock().unreached = None;
                connected.wait_let_in(&is_over)?
            }
        };
        let mut line = self.line.lock();
        line.sent = line.outbox.first();
        line.opened_at = Instant::now();
        // It may be gone already, and have said so before anybody knew it here.
        if !connection.is_open() {
            return Err(NetError::Unreachable {
                address: self.way.to.worker.id.clone(),
                reason: "the connection was closed immediately".to_string(),
            });
        }
        line.connection = Some(connection);
        Ok(())
    }

    /// After an attempt in vain: why there will be no other one, if so.
    fn give_up(&self, reach: &Reach, patience: Duration, error: &NetError) -> Option<String> {
        let mut line = self.line.lock();
        if line.outbox.is_empty() {
            // Nobody needs it yet, and it was no loss.
            (line.unreached, line.stuck) = (None, None);
            return None;
        }
        let stuck = *line.stuck.get_or_insert_with(Instant::now);
        let unreached = line.unreached.is_some_and(|since| since.elapsed() > GIVE_UP) && !self.is_near(reach);
        let never = matches!(error, NetError::NoWay { .. });
        if line.over || !(never || unreached || stuck.elapsed() > patience) {
            self.pause(&mut line);
            return None;
        }
        line.over = true;
        let id = &self.way.to.worker.id;
        Some(match error {
            NetError::Interrupted => format!("cannot send a value to {id}: no reply"),
            error => format!("cannot send a value to {id}: {error}"),
        })
    }

    /// Whether the worker is a process of this host, and can be seen.
    fn is_near(&self, reach: &Reach) -> bool {
        let worker = &self.way.to.worker;
        worker.host == reach.host && worker.unix.as_ref().is_some_and(|path| std::path::Path::new(path).exists())
    }
}
