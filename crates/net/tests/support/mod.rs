//! What the tests of transports share: a receiver that keeps what comes, and pairs of ends over every transport.
#![allow(dead_code)] // each test binary uses its part

use std::sync::mpsc::{Receiver as Queue, Sender, channel};
use std::time::{Duration, Instant};

use gt_ir::Bytes;
use gt_net::{Address, ClientTls, Connection, Identity, Io, Limits, Listener, NetError, Receiver, ServerTls, pair};

/// No test waits longer for one thing.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a receiver was told.
pub enum Event {
    Opened(Connection),
    Message(Vec<u8>, Option<Bytes>),
    Closed(NetError),
}

/// Keeps what comes.
pub struct Keeper(pub Sender<Event>);

impl Receiver for Keeper {
    fn opened(&mut self, connection: &Connection) {
        let _ = self.0.send(Event::Opened(connection.clone()));
    }
    fn message(&mut self, _from: &Connection, head: &[u8], body: Option<Bytes>) {
        let _ = self.0.send(Event::Message(head.to_vec(), body));
    }
    fn closed(&mut self, _from: &Connection, why: &NetError) {
        let _ = self.0.send(Event::Closed(why.clone()));
    }
}

/// Sends everything back.
pub struct Echo;

impl Receiver for Echo {
    fn message(&mut self, from: &Connection, head: &[u8], body: Option<Bytes>) {
        let _ = match body {
            Some(body) => from.send_with_body(head, body),
            None => from.send(head),
        };
    }
    fn closed(&mut self, _: &Connection, _: &NetError) {}
}

/// Takes every connection, to echo what comes.
pub fn echo(_: &gt_net::Peer) -> Option<Box<dyn Receiver>> {
    Some(Box::new(Echo))
}

/// The other side of a [`Keeper`].
pub struct Kept(pub Queue<Event>);

pub fn keeper() -> (Box<dyn Receiver>, Kept) {
    let (put, take) = channel();
    (Box::new(Keeper(put)), Kept(take))
}

impl Kept {
    pub fn next(&self) -> Event {
        self.0.recv_timeout(PATIENCE).expect("nothing came in time")
    }
    pub fn message(&self) -> (Vec<u8>, Option<Bytes>) {
        loop {
            match self.next() {
                Event::Message(head, body) => return (head, body),
                Event::Opened(_) => {}
                Event::Closed(why) => panic!("closed instead of a message: {why}"),
            }
        }
    }
    pub fn opened(&self) -> Connection {
        match self.next() {
            Event::Opened(connection) => connection,
            Event::Closed(why) => panic!("closed instead of opened: {why}"),
            Event::Message(..) => panic!("a message before the connection opened"),
        }
    }
    pub fn closed(&self) -> NetError {
        loop {
            if let Event::Closed(why) = self.next() {
                return why;
            }
        }
    }
    pub fn is_silent(&self) -> bool {
        self.0.try_recv().is_err()
    }
}

/// A receiver that takes nothing more once it was told to stop, until its gate is opened.
pub struct Gated {
    inner: Box<dyn Receiver>,
    stopped: Sender<()>,
    gate: Queue<()>,
}

impl Receiver for Gated {
    fn opened(&mut self, connection: &Connection) {
        self.inner.opened(connection);
    }
    fn message(&mut self, from: &Connection, head: &[u8], body: Option<Bytes>) {
        if head == b"stop" {
            let _ = self.stopped.send(());
            let _ = self.gate.recv_timeout(PATIENCE);
        }
        self.inner.message(from, head, body);
    }
    fn closed(&mut self, from: &Connection, why: &NetError) {
        self.inner.closed(from, why);
    }
}

/// Connects, and has the side of `b` read nothing until something is sent to what is returned beside the ends.
pub fn connect_to_slow_reader(transport: Transport, limits: Limits) -> (Ends, Sender<()>) {
    let (stopped, wait) = channel();
    let (open, gate) = channel();
    let ends = connect_with(transport, limits, |inner| Box::new(Gated { inner, stopped, gate }));
    ends.a.send(b"stop").unwrap();
    wait.recv_timeout(PATIENCE).expect("the reader did not stop");
    (ends, open)
}

/// Two connected ends, what each received, and what keeps them alive.
pub struct Ends {
    pub a: Connection,
    pub b: Connection,
    pub at_a: Kept,
    pub at_b: Kept,
    pub listener: Option<Listener>,
    pub io: Option<(Io, Io)>,
    pub dir: Option<tempfile::TempDir>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transport {
    Pair,
    Unix,
    Tcp,
    Tls,
}

pub fn no() -> bool {
    false
}

pub fn identity() -> Identity {
    Identity::generate(&["localhost".to_string(), "127.0.0.1".to_string()]).unwrap()
}

/// Connects two ends, each with an I/O thread of its own, as two processes would have.
pub fn connect(transport: Transport, limits: Limits) -> Ends {
    connect_with(transport, limits, |receiver| receiver)
}

/// The same, with the receiver of `b` wrapped.
pub fn connect_with(
    transport: Transport,
    limits: Limits,
    wrap: impl FnOnce(Box<dyn Receiver>) -> Box<dyn Receiver>,
) -> Ends {
    let (to_a, at_a) = keeper();
    let (to_b, at_b) = keeper();
    let to_b = wrap(to_b);
    if transport == Transport::Pair {
        let (a, b) = pair(to_a, to_b);
        a.set_limits(limits);
        b.set_limits(limits);
        at_a.opened();
        at_b.opened();
        return Ends { a, b, at_a, at_b, listener: None, io: None, dir: None };
    }
    let dir = tempfile::tempdir().unwrap();
    let address = match transport {
        Transport::Unix => Address::Unix(dir.path().join("s")),
        _ => "127.0.0.1:0".parse().unwrap(),
    };
    let identity = (transport == Transport::Tls).then(identity);
    let server_tls = identity.as_ref().map(|i| ServerTls::new(i).unwrap());
    let client_tls = identity.as_ref().map(|i| ClientTls::pinned(i.fingerprint().unwrap()).unwrap());
    let io = (Io::start("test-b").unwrap(), Io::start("test-a").unwrap());
    let to_b = std::sync::Mutex::new(Some(to_b));
    let listener = io.0.listen(&address, server_tls, limits, move |_| to_b.lock().unwrap().take()).unwrap();
    let a = io.1.connect(listener.address(), client_tls.as_ref(), limits, to_a, PATIENCE, &no).unwrap();
    at_a.opened();
    let b = at_b.opened();
    Ends { a, b, at_a, at_b, listener: Some(listener), io: Some(io), dir: Some(dir) }
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Bytes that no offset or length mistake can leave unnoticed.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.extend_from_slice(&x.to_le_bytes());
    }
    out.truncate(len);
    out
}
