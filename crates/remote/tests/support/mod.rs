//! A server and a worker in one, behind pairs: it keeps what was applied, and loses connections when told to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gt_ir::codec::Reader;
use gt_ir::{Bytes, DType, Failure, FailureKind, Instr, Payload, TensorId, TensorType, Window};
use gt_net::protocol::*;
use gt_net::{Arrival, Connection, Inbox, NetError, Receiver, Secret, SessionKeys, SessionPass, pair};
use gt_remote::{Dialer, Options, Remote, ShardedSession};
use gt_stream::{Bindings, Checker, Occurrence, Template};
use parking_lot::Mutex;

/// What the fake has seen and what it is to do.
#[derive(Default)]
pub struct Fake {
    pub windows: Vec<Window>,
    pub uploads: HashMap<TensorId, Bytes>,
    pub forms: Vec<&'static str>,
    pub hellos: usize,
    inbox: Inbox,
    templates: HashMap<u64, Template>,
    control: Option<Connection>,
    data: Option<Connection>,
    /// Answers for a client that has not attached yet.
    owed: Vec<Vec<u8>>,
    /// Closes the control connection after so many more messages.
    pub drop_after: Option<usize>,
    /// Answers nothing and acks nothing.
    pub silent: bool,
    /// Loses the next payload, and its connection with it.
    pub lose_upload: bool,
    /// How often each payload came.
    pub came: HashMap<TensorId, usize>,
    /// Nobody is there any more.
    pub gone: bool,
    /// The first data connection fails, and meanwhile the session moves to another worker.
    pub moves_while_dialed: bool,
    pub refuses: Option<Refusal>,
    /// It names another worker, and never answers a session that is to live there.
    pub ignores_pins: bool,
    pub credits: (u64, u64),
}

#[derive(Clone, Default)]
pub struct Server(pub Arc<Mutex<Fake>>);

impl Server {
    pub fn new() -> Server {
        let server = Server::default();
        server.0.lock().credits = (1 << 16, 1 << 28);
        server
    }

    pub fn open(&self) -> Remote {
        self.try_open().unwrap_or_else(|e| panic!("{e:?}"))
    }

    pub fn try_open(&self) -> Result<Remote, gt_client::link::WaitError> {
        Remote::open(Box::new(self.clone()), options(), &|| false)
    }

    /// A session on all its workers.
    pub fn open_group(&self) -> ShardedSession {
        ShardedSession::open(Box::new(self.clone()), options(), &|| false).unwrap_or_else(|e| panic!("{e:?}"))
    }

    /// Sends to the client by the control connection.
    pub fn say(&self, message: FromServer) {
        let control = self.0.lock().control.clone();
        let _ = control.expect("a client is connected").send(&encode(&message));
    }

    pub fn lose_control(&self) {
        let control = self.0.lock().control.take();
        if let Some(control) = control {
            control.close();
        }
    }

    pub fn forget_templates(&self) {
        self.0.lock().templates.clear();
    }

    pub fn ack(&self) {
        let received = self.0.lock().inbox.received();
        self.say(FromServer::Ack { received, executed: received });
    }
}

fn options() -> Options {
    Options {
        name: "a test".into(),
        token: Some(Secret::from_bytes(b"open")),
        variables: Vec::new(),
        workers: 0,
        pin: None,
        timeout: Duration::from_secs(4),
        idle: std::sync::Arc::new(|| false),
        reports: false,
    }
}

pub fn info() -> WorkerInfo {
    WorkerInfo {
        index: 0,
        id: "worker_0".into(),
        unix: None,
        tcp: None,
        fingerprint: None,
        host: String::new(),
        engine: "fake".into(),
        threads: 1,
        memory_limit: 0,
        seal: Box::default(),
    }
}

impl Dialer for Server {
    fn server(&self) -> String {
        "a fake".into()
    }

    fn control(
        &self,
        receiver: &dyn Fn() -> Box<dyn Receiver>,
        _: Duration,
        _: &dyn Fn() -> bool,
    ) -> Result<Connection, NetError> {
        if self.0.lock().gone {
            return Err(NetError::NobodyListens { address: "a fake".into() });
        }
        let (client, _) = pair(receiver(), Box::new(Control(self.clone())));
        Ok(client)
    }

    fn data(
        &self,
        _: &WorkerInfo,
        _: &SessionPass,
        receiver: &dyn Fn() -> Box<dyn Receiver>,
        _: Duration,
        _: &dyn Fn() -> bool,
    ) -> Result<Connection, NetError> {
        if std::mem::take(&mut self.0.lock().moves_while_dialed) {
            self.say(FromServer::WorkerLost { worker: "worker_0".into(), reason: "it was killed".into() });
            self.say(FromServer::Home { worker: WorkerInfo { id: "worker_1".into(), ..info() }, from: 0 });
            return Err(NetError::Unreachable { address: "worker_0".into(), reason: "it is gone".into() });
        }
        let (client, _) = pair(receiver(), Box::new(Data(self.clone())));
        Ok(client)
    }
}

struct Control(Server);

impl Receiver for Control {
    fn message(&mut self, from: &Connection, head: &[u8], _: Option<Bytes>) {
        let mut fake = self.0.0.lock();
        match decode(head).unwrap() {
            ToServer::Hello { pin: Some(_), .. } if fake.ignores_pins => {}
            ToServer::Hello { resume, .. } => {
                fake.hellos += 1;
                if let Some(why) = fake.refuses.clone() {
                    drop(fake);
                    let _ = from.send(&encode(&FromServer::Refused { why }));
                    return from.close();
                }
                assert_eq!(resume.is_some(), fake.hellos > 1);
                fake.control = Some(from.clone());
                let welcome = FromServer::Welcome {
                    session: 1,
                    secret: Box::from(&b"s"[..]),
                    proof: Box::default(),
                    lease_ms: 30_000,
                    workers: match fake.ignores_pins {
                        true => vec![info(), WorkerInfo { index: 1, id: "worker_1".into(), ..info() }],
                        false => vec![info()],
                    },
                    home: Some(0),
                    received: fake.inbox.received(),
                    credits_instrs: fake.credits.0,
                    credits_bytes: fake.credits.1,
                };
                drop(fake);
                let _ = from.send(&encode(&welcome));
            }
            ToServer::Stream { seq, message, .. } => {
                if let Some(left) = &mut fake.drop_after {
                    *left -= 1;
                    if *left == 0 {
                        fake.drop_after = None;
                        fake.control = None;
                        drop(fake);
                        return from.close();
                    }
                }
                match fake.inbox.accept(seq) {
                    Arrival::New => {
                        let answer = fake.apply(decode(message).unwrap());
                        let (data, received) = (fake.data.clone(), fake.inbox.received());
                        let silent = fake.silent;
                        if let (Some(Ok(reply)), None, false) = (&answer, &data, silent) {
                            fake.owed.push(reply.clone());
                        }
                        drop(fake);
                        match (answer, data) {
                            (Some(Err(number)), _) => {
                                let _ = from.send(&encode(&FromServer::NeedTemplate { number }));
                            }
                            (Some(Ok(reply)), Some(data)) if !silent => {
                                let _ = data.send(&reply);
                            }
                            _ => {}
                        }
                        if !silent && received % 7 == 0 {
                            let _ = from.send(&encode(&FromServer::Ack { received, executed: received }));
                        }
                    }
                    Arrival::Duplicate => {}
                    Arrival::Gap { expected } => panic!("{expected} is missing before {seq}"),
                }
            }
            ToServer::Observe { .. } | ToServer::Goodbye {} => {}
        }
    }

    fn closed(&mut self, _: &Connection, _: &NetError) {}
}

impl Fake {
    /// Applies a message: the answer to send, or the template that is missing.
    fn apply(&mut self, message: StreamMessage<'_>) -> Option<Result<Vec<u8>, u64>> {
        let bind = |template: &Template, bytes: &[u8]| {
            let bindings = Bindings::decode(&mut Reader::new(bytes)).unwrap();
            Checker::default().bind(template.clone(), bindings).unwrap().window()
        };
        let answer = |request, answer| Some(Ok(encode(&DataReply::Answer { request, answer })));
        match message {
            StreamMessage::Send { window } => {
                self.forms.push("send");
                self.windows.push(Checker::default().decode(&mut Reader::new(window)).unwrap().window());
            }
            StreamMessage::Define { number, template, bindings } => {
                self.forms.push("define");
                let template = Template::decode(&mut Reader::new(template)).unwrap();
                self.windows.push(bind(&template, bindings));
                self.templates.insert(number, template);
            }
            StreamMessage::Replay { number, bindings } => {
                self.forms.push("replay");
                match self.templates.get(&number) {
                    Some(template) => self.windows.push(bind(template, bindings)),
                    None => return Some(Err(number)),
                }
            }
            StreamMessage::Template { number, template } => {
                self.forms.push("template");
                self.templates.insert(number, Template::decode(&mut Reader::new(template)).unwrap());
            }
            // Values are the low byte of their number.
            StreamMessage::Read { request, id } => {
                let ty = TensorType::new(DType::U8, &[1]);
                if id.n() == 666 {
                    let failure = Failure::new(FailureKind::Index, "no such row");
                    return answer(request, ReadAnswer::Failed { failure });
                }
                return answer(request, ReadAnswer::Value { ty, bytes: Some(&[id.n() as u8]) });
            }
            StreamMessage::Synchronize { request } => return answer(request, ReadAnswer::Done {}),
            StreamMessage::Stats { request } => {
                return answer(request, ReadAnswer::Stats { json: "windows 3".into() });
            }
            StreamMessage::Trim {} => {}
            StreamMessage::Placed { .. } => self.forms.push("placed"),
            // It is one worker, and nobody told it of others.
            other @ (StreamMessage::Peers { .. }
            | StreamMessage::DefinePlaced { .. }
            | StreamMessage::ReplayPlaced { .. }
            | StreamMessage::Abandon { .. }
            | StreamMessage::OpenLoader { .. }
            | StreamMessage::Announce { .. }
            | StreamMessage::Bind { .. }
            | StreamMessage::CloseLoader { .. }) => {
                panic!("{other:?}")
            }
        }
        None
    }
}

struct Data(Server);

impl Receiver for Data {
    fn message(&mut self, from: &Connection, head: &[u8], body: Option<Bytes>) {
        match decode(head).unwrap() {
            DataRequest::Attach { session, key, .. } => {
                let keys = SessionKeys::of_session(&Secret::from_bytes(b"s"));
                assert_eq!((session, key), (1, keys.client.as_bytes()));
                let owed = {
                    let mut fake = self.0.0.lock();
                    fake.data = Some(from.clone());
                    std::mem::take(&mut fake.owed)
                };
                let _ = from.send(&encode(&DataReply::Attached { uploads: Vec::new() }));
                for reply in owed {
                    let _ = from.send(&reply);
                }
            }
            DataRequest::Upload { id } => {
                let mut fake = self.0.0.lock();
                if std::mem::take(&mut fake.lose_upload) {
                    fake.data = None;
                    drop(fake);
                    return from.close();
                }
                *fake.came.entry(id).or_default() += 1;
                fake.uploads.insert(id, body.expect("an upload has a body"));
            }
            DataRequest::RecorderAt { .. } => {}
            DataRequest::Echo { request } => {
                if !self.0.0.lock().silent {
                    let _ = from.send(&encode(&DataReply::Echo { request }));
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn closed(&mut self, _: &Connection, _: &NetError) {}
}

/// The `turn`-th window of a loop.
pub fn window(turn: u64) -> Window {
    let at = 100 + 3 * turn;
    let lines = [
        format!("%{at} = unary(%1) kind=exp"),
        format!("%{} = binary(%{at}) kind=mul scalar=right $ {:?}", at + 1, turn as f64),
        format!("%{} = reduce(%{}) kind=sum axes=[0] keepdim=false #9", at + 2, at + 1),
    ];
    let instrs: Vec<Instr> = lines.iter().map(|line| line.parse().unwrap()).collect();
    Window { instrs, frees: vec![TensorId(at), TensorId(at + 1)], ..Window::default() }
}

pub fn of(window: Window) -> Occurrence {
    Occurrence::of(window).expect("an occurrence")
}

/// A window that uploads `len` bytes to `id`.
pub fn upload(id: u64, len: usize) -> Window {
    let instr: Instr = format!("%{id} = upload() dtype=u8 shape=[{len}]").parse().unwrap();
    let payload = Payload { instr: 0, bytes: Bytes::from(vec![id as u8; len]) };
    Window { instrs: vec![instr], uploads: vec![payload], ..Window::default() }
}
