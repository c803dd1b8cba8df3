//! Clients and workers that only speak the protocol, and a clock that goes when it is told.
#![allow(dead_code)] // each test binary uses its part

use std::sync::mpsc::{Receiver as Queue, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gt_dispatcher::{Clock, Dispatcher, DispatcherConfig, Leases};
use gt_ir::{Bytes, Failure};
use gt_net::protocol::{FromServer, FromWorker, Refusal, Resume, ToServer, ToWorker, Wire, WorkerInfo, decode, encode};
use gt_net::{Address, Connection, Io, Limits, NetError, Receiver, Role, Secret, pair};

/// No test waits longer for one thing.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What a peer was told: a message, or that the connection is over.
pub type Heard = Result<Vec<u8>, NetError>;

pub struct Keeper(Sender<Heard>);

impl Receiver for Keeper {
    fn message(&mut self, _: &Connection, head: &[u8], _: Option<Bytes>) {
        let _ = self.0.send(Ok(head.to_vec()));
    }
    fn closed(&mut self, _: &Connection, why: &NetError) {
        let _ = self.0.send(Err(why.clone()));
    }
}

pub fn keeper() -> (Box<dyn Receiver>, Queue<Heard>) {
    let (put, take) = channel();
    (Box::new(Keeper(put)), take)
}

#[derive(Clone)]
pub struct HandClock(Arc<Mutex<Instant>>);

impl HandClock {
    pub fn new() -> HandClock {
        HandClock(Arc::new(Mutex::new(Instant::now())))
    }
    pub fn pass(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

impl Clock for HandClock {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap()
    }
}

/// One with leases also within the process, so that pairs can break and come back.
pub fn leased() -> DispatcherConfig {
    let lease = Duration::from_secs(5);
    let leases = Leases { same_host: lease, ..Leases::default() };
    DispatcherConfig { leases, ack_interval: Duration::ZERO, ..DispatcherConfig::default() }
}

/// A connection to a dispatcher, within this process.
pub fn connect(dispatcher: &Dispatcher) -> (Connection, Queue<Heard>) {
    let (receiver, heard) = keeper();
    (pair(receiver, dispatcher.receiver()).0, heard)
}

/// A connection to a dispatcher by a socket.
pub fn dial(io: &Io, address: &Address) -> (Connection, Queue<Heard>) {
    let (receiver, heard) = keeper();
    let connection = io.connect(address, None, Limits::default(), receiver, PATIENCE, &|| false).unwrap();
    (connection, heard)
}

pub fn say<'a>(connection: &Connection, message: &impl Wire<'a>) {
    connection.send(&encode(message)).unwrap();
}

/// The next message. Panics when nothing comes, or the connection is over.
pub fn next(heard: &Queue<Heard>) -> Vec<u8> {
    heard.recv_timeout(PATIENCE).expect("nothing came in time").expect("the connection is over")
}

pub fn is_silent(heard: &Queue<Heard>) -> bool {
    heard.try_recv().is_err()
}

pub struct FakeClient {
    pub connection: Connection,
    pub heard: Queue<Heard>,
    pub session: u64,
    pub secret: Box<[u8]>,
    pub home: Option<u32>,
    pub workers: Vec<WorkerInfo>,
    pub received: u64,
    pub sent: u64,
}

/// What shows that a token is known; nothing, for an empty one.
pub fn proof(connection: &Connection, token: &[u8], role: Role) -> Vec<u8> {
    match token {
        b"" => Vec::new(),
        token => connection.prove(&Secret::from_bytes(token), role),
    }
}

pub fn hello(proof: &[u8], resume: Option<Resume>) -> ToServer<'_> {
    let variables = vec![("GT_SEED".to_string(), "7".to_string())];
    ToServer::Hello { proof, name: "a test".to_string(), variables, workers: 0, resume, pin: None }
}

impl FakeClient {
    pub fn enter((connection, heard): (Connection, Queue<Heard>)) -> FakeClient {
        FakeClient::try_enter((connection, heard), b"", None).unwrap()
    }

    pub fn try_enter(
        (connection, heard): (Connection, Queue<Heard>),
        token: &[u8],
        resume: Option<Resume>,
    ) -> Result<FakeClient, Refusal> {
        say(&connection, &hello(&proof(&connection, token, Role::Client), resume));
        match decode(&next(&heard)).unwrap() {
            FromServer::Welcome { session, secret, workers, home, received, .. } => {
                Ok(FakeClient { connection, heard, session, secret, home, workers, received, sent: received })
            }
            FromServer::Refused { why } => Err(why),
            other => panic!("{other:?} instead of Welcome"),
        }
    }

    pub fn resume_with(&self, losses: u64) -> Resume {
        Resume { session: self.session, secret: self.secret.clone(), losses }
    }

    /// The next message of the stream, whose bytes nobody but the test reads.
    pub fn stream(&mut self, message: &[u8]) {
        self.stream_costing(1, 0, message);
    }

    pub fn stream_costing(&mut self, instrs: u32, bytes: u64, message: &[u8]) {
        let _ = self.connection.send(&encode(&ToServer::Stream { seq: self.sent, instrs, bytes, message }));
        self.sent += 1;
    }

    /// The next message, word of workers that join left out.
    pub fn next(&self) -> FromServer {
        loop {
            match decode(&next(&self.heard)).unwrap() {
                FromServer::Workers { .. } => {}
                other => return other,
            }
        }
    }

    /// Everything that has come, word of workers that join left out; for pairs, which deliver at once.
    pub fn all(&self) -> Vec<FromServer> {
        self.everything().into_iter().filter(|said| !matches!(said, FromServer::Workers { .. })).collect()
    }

    pub fn everything(&self) -> Vec<FromServer> {
        self.heard.try_iter().filter_map(|heard| heard.ok()).map(|head| decode(&head).unwrap()).collect()
    }

    pub fn refusal(&self) -> Refusal {
        loop {
            if let FromServer::Refused { why } = self.next() {
                return why;
            }
        }
    }
}

/// What a worker hears, free of its bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Open { session: u64, from: u64, lost: Option<Failure> },
    Stream { session: u64, seq: u64, message: Vec<u8> },
    Close { session: u64 },
    Refused(Refusal),
}

pub struct FakeWorker {
    pub connection: Connection,
    pub heard: Queue<Heard>,
    pub id: String,
    pub index: u32,
    pub secret: Box<[u8]>,
}

pub fn info(name: &str) -> WorkerInfo {
    WorkerInfo {
        index: 0,
        id: name.to_string(),
        unix: None,
        tcp: None,
        fingerprint: None,
        host: "here".to_string(),
        engine: "none".to_string(),
        threads: 1,
        memory_limit: 1 << 30,
        seal: Box::default(),
    }
}

impl FakeWorker {
    pub fn join(connection: (Connection, Queue<Heard>)) -> FakeWorker {
        FakeWorker::try_join(connection, b"", "", &[], &[]).unwrap()
    }

    pub fn try_join(
        (connection, heard): (Connection, Queue<Heard>),
        token: &[u8],
        name: &str,
        secret: &[u8],
        sessions: &[(u64, u64)],
    ) -> Result<FakeWorker, Refusal> {
        let proof = proof(&connection, token, Role::Worker);
        say(
            &connection,
            &FromWorker::Join { proof: &proof, info: info(name), secret: secret.into(), sessions: sessions.to_vec() },
        );
        match decode(&next(&heard)).unwrap() {
            ToWorker::Joined { id, index, secret, .. } => Ok(FakeWorker { connection, heard, id, index, secret }),
            ToWorker::Refused { why } => Err(why),
            other => panic!("{other:?} instead of Joined"),
        }
    }

    pub fn next(&self) -> Told {
        told(&next(&self.heard))
    }

    /// Everything that has come; for pairs, which deliver at once.
    pub fn all(&self) -> Vec<Told> {
        self.heard.try_iter().filter_map(|heard| heard.ok()).map(|head| told(&head)).collect()
    }

    /// The sequence numbers that have come for a session.
    pub fn seqs(&self, of: u64) -> Vec<u64> {
        let mine = |told| match told {
            Told::Stream { session, seq, .. } if session == of => Some(seq),
            _ => None,
        };
        self.all().into_iter().filter_map(mine).collect()
    }

    pub fn executed(&self, session: u64, executed: u64) {
        say(&self.connection, &FromWorker::Executed { session, executed });
    }
}

pub fn told(head: &[u8]) -> Told {
    match decode(head).unwrap() {
        ToWorker::Open { session, from, lost, .. } => Told::Open { session, from, lost },
        ToWorker::Stream { session, seq, message } => Told::Stream { session, seq, message: message.to_vec() },
        ToWorker::Close { session } => Told::Close { session },
        ToWorker::Refused { why } => Told::Refused(why),
        other => panic!("a worker was told {other:?}"),
    }
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}
