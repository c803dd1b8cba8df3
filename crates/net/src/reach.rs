//! How workers are reached: at their own addresses, or through their server (`relay.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_ir::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::channel::CANCEL_INTERVAL;
use crate::connection::End;
use crate::protocol::{FromRelay, ToRelay, WorkerInfo, decode, encode};
use crate::{Address, ClientTls, Connection, Fingerprint, Io, Limits, NetError, Receiver, Result, SessionPass};

/// How long a worker may take to answer at its own address while there is another way.
const DIRECT: Duration = Duration::from_millis(1500);
/// How long the way through the server is tried at least, however long the other took.
const THROUGH: Duration = Duration::from_secs(2);

/// A place, and what its certificate must be if it speaks TLS there.
pub type Way = (Address, Option<ClientTls>);

impl WorkerInfo {
    /// How a process of `host` ([`crate::host_id`]) reaches it, the best way first. One that wants everything encrypted has no use for
    /// the socket of its host, if there is a choice.
    ///
    /// # Errors
    /// When what the worker says of itself makes no sense.
    pub fn ways(&self, host: &str, encrypted: bool) -> Result<Vec<Way>> {
        let near = self.host == host && !(encrypted && self.fingerprint.is_some());
        let mut ways: Vec<Way> = Vec::new();
        ways.extend(self.unix.as_ref().filter(|_| near).map(|path| (Address::Unix(path.into()), None)));
        if let Some(address) = &self.tcp {
            let tls = match &self.fingerprint {
                Some(text) => Some(ClientTls::pinned(String::from_utf8_lossy(text).parse::<Fingerprint>()?)?),
                None => None,
            };
            ways.push((address.parse()?, tls));
        }
        Ok(ways)
    }
}

/// What it takes to reach the workers of a server.
#[derive(Clone)]
pub struct Reach {
    /// The process's I/O thread.
    pub io: Io,
    /// Of this host, as [`crate::host_id`] gives it.
    pub host: String,
    /// Whether everything that can be encrypted is to be.
    pub encrypted: bool,
    /// Where the server is; with nothing here, workers are reached by themselves or not at all.
    pub server: Vec<Way>,
    /// How long a peer over a network may be silent. On one host a connection breaks with its process, and a stopped process is not a
    /// dead one: whoever waits for it may go on when it does.
    pub silence: Option<Duration>,
}

impl Reach {
    /// A connection to the first place that answers. Files of sockets stay when their process was killed, and hosts share files or do
    /// not: what looks near may be nobody.
    ///
    /// # Errors
    /// When none does, or one answers that is not what it should be.
    pub fn first_of(
        &self,
        ways: &[Way],
        receiver: &dyn Fn() -> Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection> {
        let mut last = NetError::Unreachable { address: String::new(), reason: "no address is known".into() };
        for (address, tls) in ways {
            let idle_timeout = self.silence.filter(|_| matches!(address, Address::Tcp { .. }));
            // One payload after the other: a worker that has no room for the next one holds none up that it has begun to take.
            let limits = Limits { idle_timeout, open_bodies: 1, ..Limits::default() };
            match self.io.connect(address, tls.as_ref(), limits, receiver(), timeout, cancel) {
                Err(error @ (NetError::Unreachable { .. } | NetError::NobodyListens { .. })) => last = error,
                done => return done,
            }
        }
        Err(last)
    }

    /// A connection to a worker, for a session that lives there: by itself, or else through its server.
    ///
    /// # Errors
    /// When it cannot be reached; [`NetError::NoWay`] when it never will be.
    pub fn worker(
        &self,
        worker: &WorkerInfo,
        pass: &SessionPass,
        receiver: &dyn Fn() -> Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection> {
        let began = Instant::now();
        let ways = worker.ways(&self.host, self.encrypted)?;
        let patience = if self.server.is_empty() { timeout } else { timeout.min(DIRECT) };
        let direct = match self.first_of(&ways, receiver, patience, cancel) {
            Err(error) if !self.server.is_empty() && error != NetError::Interrupted => error,
            done => return done,
        };
        let left = timeout.saturating_sub(began.elapsed()).max(THROUGH);
        let address = worker.id.clone();
        self.through(worker.index, pass, receiver, left, cancel).map_err(|error| match error {
            NetError::Interrupted => NetError::Interrupted,
            NetError::NoWay { reason, .. } if ways.is_empty() => NetError::NoWay { address, reason },
            other => {
                let reason = format!("{direct}; through the server: {other}");
                NetError::Unreachable { address, reason }
            }
        })
    }

    fn through(
        &self,
        worker: u32,
        pass: &SessionPass,
        receiver: &dyn Fn() -> Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection> {
        let deadline = Instant::now() + timeout;
        let answer = Arc::new(Answer::default());
        let waiting = || {
            let (answer, receiver) = (answer.clone(), receiver());
            Box::new(Waiting { receiver, answer, relayed: false }) as Box<dyn Receiver>
        };
        let connection = self.first_of(&self.server, &waiting, timeout, cancel)?;
        if let End::Socket(channel) = &connection.0 {
            channel.set_relayed();
        }
        connection.send(&encode(&ToRelay::Relay { session: pass.session, key: pass.key.as_bytes(), worker }))?;
        let answered = answer.wait(deadline, timeout, cancel);
        if answered.is_err() {
            connection.close();
        }
        answered.map(|()| connection)
    }
}

/// What the server said.
#[derive(Default)]
struct Answer {
    said: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

impl Answer {
    /// The first word counts.
    fn set(&self, answer: Result<()>) {
        self.said.lock().get_or_insert(answer);
        self.changed.notify_all();
    }

    fn wait(&self, deadline: Instant, timeout: Duration, cancel: &dyn Fn() -> bool) -> Result<()> {
        let mut said = self.said.lock();
        loop {
            if let Some(answer) = said.clone() {
                return answer;
            }
            if Instant::now() >= deadline {
                return Err(NetError::TimedOut { what: "the server's reply".to_string(), after: timeout });
            }
            self.changed.wait_for(&mut said, CANCEL_INTERVAL);
            if parking_lot::MutexGuard::unlocked(&mut said, cancel) {
                return Err(NetError::Interrupted);
            }
        }
    }
}

/// Takes the server's answer; what follows is the worker's.
struct Waiting {
    receiver: Box<dyn Receiver>,
    answer: Arc<Answer>,
    relayed: bool,
}

impl Receiver for Waiting {
    fn message(&mut self, from: &Connection, head: &[u8], body: Option<Bytes>) {
        if self.relayed {
            return self.receiver.message(from, head, body);
        }
        let no_way = |reason: String| NetError::NoWay { address: from.peer().address.clone(), reason };
        match decode::<FromRelay>(head) {
            Ok(FromRelay::Relayed {}) => {
                self.relayed = true;
                self.receiver.opened(from);
                self.answer.set(Ok(()));
            }
            Ok(FromRelay::Unreached { reason, never: true }) => self.answer.set(Err(no_way(reason))),
            Ok(FromRelay::Unreached { reason, never: false }) => {
                let address = from.peer().address.clone();
                self.answer.set(Err(NetError::Unreachable { address, reason }));
            }
            Err(_) => self.answer.set(Err(no_way("it does not relay connections".to_string()))),
        }
    }

    fn ponged(&mut self, from: &Connection, rtt: Duration) {
        self.receiver.ponged(from, rtt);
    }

    fn cut_short(&mut self, from: &Connection, head: &[u8], arrived: &[u8]) {
        if self.relayed {
            self.receiver.cut_short(from, head, arrived);
        }
    }

    fn closed(&mut self, from: &Connection, why: &NetError) {
        if self.relayed {
            self.receiver.closed(from, why);
        } else {
            self.answer.set(Err(why.clone()));
        }
    }
}
