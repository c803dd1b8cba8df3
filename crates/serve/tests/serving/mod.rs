//! A server and clients that speak the protocol by hand, for a worker that serves.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod pair;
pub mod proxy;
pub mod whole;

use std::path::Path;
use std::sync::mpsc::{Receiver as Queue, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gt_engine_check::Reference;
use gt_ir::{Bytes, Failure, HostTensor, TensorId, TensorType, Window};
use gt_net::protocol::{
    DataReply, DataRequest, FromWorker, ReadAnswer, StreamMessage, ToWorker, WorkerInfo, decode, encode,
};
use gt_net::{
    Address, Connection, Io, Limits, Listener, NetError, RELAY_SILENCE, Receiver, Relay, Secret, SessionKeys,
};
use gt_serve::{ServeConfig, ServedDevice, Service, SessionSettings};
use gt_stream::Occurrence;
use gt_worker::{SessionConfig, WorkerConfig, WorkerHandle, WorkerStats};
use tempfile::TempDir;

/// No test waits longer for one thing.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What the server says of a session to its worker.
pub const WORKER_KEY: &[u8] = b"the worker's key of the session";

/// With which the fake server seals descriptions of workers.
const SEAL_KEY: &[u8] = b"the key of the server's seal";

/// A description of a worker as the server gives it to clients.
pub fn sealed(worker: WorkerInfo) -> WorkerInfo {
    worker.sealed(&Secret::from_bytes(SEAL_KEY))
}

fn keys() -> SessionKeys {
    SessionKeys::of_worker_key(&Secret::from_bytes(WORKER_KEY))
}

/// What the session's client shows.
pub fn client_key() -> Vec<u8> {
    keys().client.as_bytes().to_vec()
}

/// What other workers show.
pub fn peer_key() -> Vec<u8> {
    keys().peer.as_bytes().to_vec()
}

type Message = (Vec<u8>, Option<Bytes>);

/// Puts what comes into a queue; its end is the connection's.
struct Keeper {
    messages: Sender<Message>,
    opened: Option<Box<dyn FnOnce(&Connection) + Send>>,
}

impl Receiver for Keeper {
    fn opened(&mut self, connection: &Connection) {
        if let Some(opened) = self.opened.take() {
            opened(connection);
        }
    }
    fn message(&mut self, _: &Connection, head: &[u8], body: Option<Bytes>) {
        let _ = self.messages.send((head.to_vec(), body));
    }
    fn closed(&mut self, _: &Connection, _: &NetError) {}
}

/// One connection of the fake server or client.
pub struct Line {
    pub connection: Connection,
    messages: Queue<Message>,
}

impl Line {
    fn next(&self) -> Message {
        self.messages.recv_timeout(PATIENCE).expect("nothing came in time")
    }

    /// Nothing comes for a while.
    pub fn is_silent(&self) -> bool {
        matches!(self.messages.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout))
    }

    /// The other side ends the connection.
    pub fn wait_closed(&self) {
        loop {
            match self.messages.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => panic!("the connection stays open"),
            }
        }
    }
}

/// What a worker said when it joined.
pub struct Join {
    pub info: WorkerInfo,
    pub proof: Vec<u8>,
    pub secret: Vec<u8>,
    pub sessions: Vec<(u64, u64)>,
}

/// A server of one worker.
pub struct FakeServer {
    pub io: Io,
    pub address: Address,
    listener: Option<Listener>,
    lines: Queue<Line>,
    accepted: Sender<Line>,
    relay: Arc<OnceLock<Relay>>,
}

fn start_io() -> Io {
    Io::start("fake").unwrap()
}

impl FakeServer {
    pub fn start(directory: &Path) -> FakeServer {
        FakeServer::at(Address::Unix(directory.join("server.sock")))
    }

    pub fn at(address: Address) -> FakeServer {
        let (accepted, lines) = channel();
        let io = start_io();
        let mut server = FakeServer { io, address, listener: None, lines, accepted, relay: Arc::default() };
        server.listen();
        server
    }

    pub fn listen(&mut self) {
        let (accepted, relay) = (self.accepted.clone(), self.relay.clone());
        let accept = move |_: &gt_net::Peer| {
            let accepted = accepted.clone();
            let (messages, queue) = channel();
            let opened = move |connection: &Connection| {
                let _ = accepted.send(Line { connection: connection.clone(), messages: queue });
            };
            let keeper = Box::new(Keeper { messages, opened: Some(Box::new(opened)) }) as Box<dyn Receiver>;
            Some(match relay.get() {
                Some(relay) => relay.receiver(keeper),
                None => keeper,
            })
        };
        let listener = self.io.listen(&self.address, None, Limits::default(), accept).unwrap();
        self.address = listener.address().clone();
        self.listener = Some(listener);
    }

    /// From now on whoever cannot reach a worker is passed on to this one.
    pub fn pass_on_to(&self, worker: WorkerInfo) {
        let relay = Relay::new(&self.io, RELAY_SILENCE, move |_, _| Ok(worker.clone()));
        assert!(self.relay.set(relay).is_ok(), "it passes on already");
    }

    pub fn stop_listening(&mut self) {
        self.listener = None;
    }

    /// A worker that wants to join.
    pub fn next_join(&self) -> (Line, Join) {
        let line = self.lines.recv_timeout(PATIENCE).expect("no worker came");
        let (head, _) = line.next();
        let Ok(FromWorker::Join { proof, info, secret, sessions }) = decode::<FromWorker<'_>>(&head) else {
            panic!("the first message is not a join")
        };
        let join = Join { info, proof: proof.to_vec(), secret: secret.to_vec(), sessions };
        (line, join)
    }

    /// Takes a worker in, as one it knows by this secret.
    pub fn take_in(&self, secret: &[u8]) -> (Line, Join) {
        let (line, join) = self.next_join();
        line.tell(&ToWorker::Joined {
            id: "worker_0".into(),
            index: 0,
            secret: secret.into(),
            proof: Box::default(),
            seal_key: SEAL_KEY.into(),
        });
        (line, join)
    }
}

/// What a worker says of a session.
#[derive(Debug, PartialEq)]
pub enum Said {
    Executed(u64, u64),
    NeedTemplate(u64, u64),
    Broken(u64, String),
    Goodbye,
}

impl Line {
    pub fn tell(&self, message: &ToWorker<'_>) {
        self.connection.send(&encode(message)).unwrap();
    }

    pub fn open(&self, session: u64) {
        self.open_from(session, 0, &[], None);
    }

    pub fn open_from(&self, session: u64, from: u64, variables: &[(&str, &str)], lost: Option<Failure>) {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let (key, max_memory, same_user) = (WORKER_KEY.into(), 0, false);
        self.tell(&ToWorker::Open { session, key, variables, max_memory, from, lost, same_user });
    }

    pub fn stream(&self, session: u64, seq: u64, message: &StreamMessage<'_>) {
        self.tell(&ToWorker::Stream { session, seq, message: &encode(message) });
    }

    pub fn send(&self, session: u64, seq: u64, window: &Window) {
        let mut bytes = Vec::new();
        Occurrence::of(window.clone()).unwrap().encode(usize::MAX, &mut bytes);
        self.stream(session, seq, &StreamMessage::Send { window: &bytes });
    }

    pub fn read(&self, session: u64, seq: u64, request: u64, id: u64) {
        self.stream(session, seq, &StreamMessage::Read { request, id: TensorId(id) });
    }

    /// What the worker says next, loads left out.
    pub fn said(&self) -> Said {
        loop {
            let (head, _) = self.next();
            return match decode::<FromWorker<'_>>(&head).unwrap() {
                FromWorker::Load { .. } => continue,
                FromWorker::Executed { session, executed } => Said::Executed(session, executed),
                FromWorker::NeedTemplate { session, number } => Said::NeedTemplate(session, number),
                FromWorker::Broken { session, reason } => Said::Broken(session, reason),
                FromWorker::Goodbye {} => Said::Goodbye,
                FromWorker::Join { .. } => panic!("a second join"),
            };
        }
    }

    /// What the worker says next besides how far it has run.
    pub fn said_otherwise(&self) -> Said {
        loop {
            match self.said() {
                Said::Executed(..) => {}
                other => return other,
            }
        }
    }

    /// The server hears that a session has run so far, and never less than before.
    pub fn wait_executed(&self, session: u64, executed: u64) {
        let mut last = 0;
        while last < executed {
            match self.said() {
                Said::Executed(of, now) if of == session => {
                    assert!(now >= last, "{now} after {last}");
                    last = now;
                }
                Said::Broken(of, reason) if of == session => panic!("session {of} has ended: {reason}"),
                _ => {}
            }
        }
        assert_eq!(last, executed);
    }

    /// How it is doing: nanoseconds, bytes, instructions.
    pub fn load(&self) -> (u64, u64, u64) {
        loop {
            let (head, _) = self.next();
            if let Ok(FromWorker::Load { busy_ns, live_bytes, instructions, .. }) = decode::<FromWorker<'_>>(&head) {
                return (busy_ns, live_bytes, instructions);
            }
        }
    }
}

/// An answer that a client got.
#[derive(Debug, PartialEq)]
pub enum Answer {
    Value(HostTensor),
    Failed(Failure),
    Done,
    Stats(Box<WorkerStats>),
    Batch(Vec<TensorType>, Vec<u8>),
}

/// A session's client.
pub struct FakeClient {
    io: Io,
    pub line: Line,
}

impl FakeClient {
    /// Connects, and says nothing.
    pub fn connect(info: &WorkerInfo) -> FakeClient {
        FakeClient::connect_to(&Address::Unix(info.unix.clone().unwrap().into()), None)
    }

    pub fn connect_to(address: &Address, tls: Option<&gt_net::ClientTls>) -> FakeClient {
        let io = start_io();
        let (messages, queue) = channel();
        let receiver = Box::new(Keeper { messages, opened: None });
        let connection = io.connect(address, tls, Limits::default(), receiver, PATIENCE, &|| false).unwrap();
        FakeClient { io, line: Line { connection, messages: queue } }
    }

    pub fn ask(&self, request: &DataRequest<'_>) {
        self.line.connection.send(&encode(request)).unwrap();
    }

    /// Connects and attaches.
    pub fn attach(info: &WorkerInfo, session: u64) -> FakeClient {
        let client = FakeClient::connect(info);
        client.ask(&DataRequest::Attach { session, key: &client_key(), resume: None });
        client.wait_attached();
        client
    }

    pub fn wait_attached(&self) {
        assert_eq!(self.attached(), []);
    }

    /// The worker lets it in, and says how much it has of the uploads that were named.
    pub fn attached(&self) -> Vec<(TensorId, u64)> {
        let (head, _) = self.line.next();
        match decode::<DataReply<'_>>(&head) {
            Ok(DataReply::Attached { uploads }) => uploads,
            other => panic!("expected to be let in, got {other:?}"),
        }
    }

    /// The rest of an answer, of which so many bytes came before: its request, and what follows.
    pub fn rest(&self) -> (u64, u64, Bytes) {
        let (head, body) = self.line.next();
        let (before, message) = match decode::<DataReply<'_>>(&head) {
            Ok(DataReply::Rest { from, message }) => (from, message),
            other => panic!("expected the rest of an answer, got {other:?}"),
        };
        match decode::<DataReply<'_>>(message) {
            Ok(DataReply::Answer { request, answer: ReadAnswer::Value { bytes: None, .. } }) => {
                (request, before, body.unwrap())
            }
            other => panic!("expected a value, got {other:?}"),
        }
    }

    pub fn refusal(&self) -> String {
        let (head, _) = self.line.next();
        match decode::<DataReply<'_>>(&head) {
            Ok(DataReply::Refused { reason }) => reason,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    pub fn upload(&self, id: u64, bytes: Bytes) {
        let head = encode(&DataRequest::Upload { id: TensorId(id) });
        self.line.connection.send_with_body(&head, bytes).unwrap();
    }

    /// The worker says that another one is out of its reach: its number and epoch, and why.
    pub fn out_of_reach(&self) -> (u32, u64, String) {
        let (head, _) = self.line.next();
        match decode::<DataReply<'_>>(&head) {
            Ok(DataReply::OutOfReach { number, epoch, reason }) => (number, epoch, reason),
            other => panic!("expected a worker to be out of reach, got {other:?}"),
        }
    }

    /// The next answer, with its request.
    pub fn answer(&self) -> (u64, Answer) {
        let (head, body) = self.line.next();
        let (request, answer) = match decode::<DataReply<'_>>(&head) {
            Ok(DataReply::Answer { request, answer }) => (request, answer),
            other => panic!("expected an answer, got {other:?}"),
        };
        let answer = match answer {
            ReadAnswer::Value { ty, bytes: Some(bytes) } => Answer::Value(HostTensor { ty, bytes: bytes.to_vec() }),
            ReadAnswer::Value { ty, bytes: None } => Answer::Value(HostTensor { ty, bytes: body.unwrap().to_vec() }),
            ReadAnswer::Failed { failure } => Answer::Failed(failure),
            ReadAnswer::Done {} => Answer::Done,
            ReadAnswer::Stats { json } => Answer::Stats(Box::new(WorkerStats::from_json(&json).unwrap())),
            ReadAnswer::Batch { types, note } => {
                Answer::Batch(types, note.map_or(body.unwrap_or_default().to_vec(), Vec::from))
            }
        };
        (request, answer)
    }

    /// The floats of the next answer, which is to this request.
    pub fn floats(&self, request: u64) -> Vec<f32> {
        match self.answer() {
            (of, Answer::Value(tensor)) if of == request => super::support::floats(&tensor),
            other => panic!("expected the value of request {request}, got {other:?}"),
        }
    }

    pub fn failure(&self, request: u64) -> Failure {
        match self.answer() {
            (of, Answer::Failed(failure)) if of == request => failure,
            other => panic!("expected a failure of request {request}, got {other:?}"),
        }
    }

    pub fn echo(&self, request: u64, bytes: Bytes) -> Bytes {
        self.line.connection.send_with_body(&encode(&DataRequest::Echo { request }), bytes).unwrap();
        let (head, body) = self.line.next();
        assert_eq!(decode::<DataReply<'_>>(&head), Ok(DataReply::Echo { request }));
        body.unwrap()
    }
}

/// The settings of sessions: `CREDITS` and `FAIL` stand for the variables of a real one.
pub fn settings() -> SessionSettings {
    Arc::new(|variables| {
        let mut config = SessionConfig::default();
        for (name, value) in variables {
            match name.as_str() {
                "CREDITS" => config.credits_instrs = value.parse().map_err(|_| "CREDITS is no number".to_string())?,
                "CREDITS_BYTES" => config.credits_bytes = value.parse().map_err(|_| "no number".to_string())?,
                other => return Err(format!("{other} is not a variable")),
            }
        }
        Ok(config)
    })
}

pub fn config(server: &Address, directory: &Path) -> ServeConfig {
    let mut config = ServeConfig::new(server.clone(), settings());
    config.socket_directory = Some(directory.to_path_buf());
    config
}

pub fn device() -> ServedDevice {
    ServedDevice { engine: "reference".to_string(), threads: 1, memory_limit: 1 << 30 }
}

pub fn reference_worker() -> WorkerHandle {
    WorkerHandle::spawn(Reference::new, WorkerConfig::default())
}

/// A server with a worker that has joined.
pub struct Stage {
    pub directory: TempDir,
    pub server: FakeServer,
    pub control: Line,
    pub service: Service,
    pub worker: WorkerHandle,
}

impl Stage {
    pub fn new() -> Stage {
        Stage::with(reference_worker(), |_| {})
    }

    pub fn with(worker: WorkerHandle, change: impl FnOnce(&mut ServeConfig)) -> Stage {
        let directory = tempfile::tempdir().unwrap();
        let server = FakeServer::start(directory.path());
        let mut config = config(&server.address, directory.path());
        change(&mut config);
        let service = Service::start(worker.clone(), device(), config).unwrap();
        let (control, join) = server.take_in(b"worker secret");
        assert!(join.secret.is_empty() && join.sessions.is_empty());
        Stage { directory, server, control, service, worker }
    }

    pub fn attach(&self, session: u64) -> FakeClient {
        FakeClient::attach(self.service.info(), session)
    }

    /// The server's connection breaks, and the worker comes back as the one it was.
    pub fn reconnect(&mut self) -> Join {
        self.control.connection.close();
        let (control, join) = self.server.take_in(b"worker secret");
        self.control = control;
        join
    }
}

/// A window as a template with a number, and what this occurrence binds.
pub fn outline(window: &Window) -> (u64, Vec<u8>, Vec<u8>) {
    let occurrence = Occurrence::of(window.clone()).unwrap();
    let (mut template, mut bindings) = (Vec::new(), Vec::new());
    occurrence.template().encode(&mut template);
    occurrence.bindings().encode(64 << 10, &mut bindings);
    (occurrence.recipe().digest() as u64, template, bindings)
}

pub fn bytes_of(values: &[f32]) -> Bytes {
    values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>().into()
}
