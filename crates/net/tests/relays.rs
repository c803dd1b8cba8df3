//! Connections that a server passes on.

mod support;

use std::sync::mpsc::{Receiver as Queue, channel};
use std::time::{Duration, Instant};

use gt_ir::Bytes;
use gt_net::protocol::{FromServer, Refusal, ToRelay, WorkerInfo, encode};
use gt_net::{Address, Connection, Io, Limits, Listener, NetError, Reach, Receiver, Relay, Secret, SessionPass};
use support::{Event, Kept, PATIENCE, keeper};
use tempfile::TempDir;

/// Where nobody listens.
fn closed_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A worker whose own address is of no use to anybody, a server with a relay, and somebody who wants to reach the worker.
struct Stage {
    relay: Relay,
    reach: Reach,
    pass: SessionPass,
    info: WorkerInfo,
    /// Connections that the worker has taken.
    taken: Queue<Kept>,
    _listeners: Vec<Listener>,
    _server: Io,
    _worker: Io,
    _directory: TempDir,
}

impl Stage {
    /// `near`: whoever asks comes by a Unix socket.
    fn set(near: bool, key: &'static [u8]) -> Stage {
        let directory = tempfile::tempdir().unwrap();
        let (server, worker) = (Io::start("server").unwrap(), Io::start("worker").unwrap());
        let (put, taken) = channel();
        let accept = move |_: &gt_net::Peer| {
            let (receiver, kept) = keeper();
            put.send(kept).unwrap();
            Some(receiver)
        };
        let socket = directory.path().join("worker");
        let its = worker.listen(&Address::Unix(socket.clone()), None, Limits::default(), accept).unwrap();
        let info = WorkerInfo {
            index: 7,
            id: "worker_7".to_string(),
            unix: None,
            tcp: Some(closed_port()),
            fingerprint: None,
            host: gt_net::host_id(),
            engine: String::new(),
            threads: 1,
            memory_limit: 0,
            seal: Box::default(),
        };
        let known = WorkerInfo { unix: Some(socket.display().to_string()), ..info.clone() };
        let relay = Relay::new(&server, PATIENCE, move |shown, index| match index {
            _ if (shown.session, shown.key.as_bytes()) != (5, key) => Err("the key is wrong".to_string()),
            7 => Ok(known.clone()),
            8 => Ok(WorkerInfo { unix: None, tcp: None, ..known.clone() }),
            _ => Err("no such worker".to_string()),
        });
        let at = match near {
            true => Address::Unix(directory.path().join("server")),
            false => "127.0.0.1:0".parse().unwrap(),
        };
        let door = relay.clone();
        let accept = move |_: &gt_net::Peer| Some(door.receiver(Box::new(Refuses)));
        let listener = server.listen(&at, None, Limits::before_authentication(), accept).unwrap();
        let reach = Reach {
            io: Io::start("client").unwrap(),
            host: gt_net::host_id(),
            encrypted: false,
            server: vec![(listener.address().clone(), None)],
            silence: None,
        };
        let _listeners = vec![its, listener];
        let pass = SessionPass { session: 5, key: Secret::from_bytes(key) };
        Stage { relay, reach, pass, info, taken, _listeners, _server: server, _worker: worker, _directory: directory }
    }

    fn connect(&self) -> (Connection, Kept, Kept) {
        let (receiver, here) = keeper();
        let connection = self.connect_with(receiver);
        let there = self.taken.recv_timeout(PATIENCE).unwrap();
        (connection, here, there)
    }

    /// The first receiver is for the worker's own address, where nobody is.
    fn connect_with(&self, receiver: Box<dyn Receiver>) -> Connection {
        let receivers = std::cell::RefCell::new(vec![receiver, keeper().0]);
        let next = || receivers.borrow_mut().pop().unwrap();
        self.reach.worker(&self.info, &self.pass, &next, PATIENCE, &|| false).unwrap()
    }

    fn fails(&self, info: &WorkerInfo) -> NetError {
        self.reach.worker(info, &self.pass, &|| keeper().0, PATIENCE, &|| false).map(|_| ()).unwrap_err()
    }
}

/// A server that takes nobody.
struct Refuses;

impl Receiver for Refuses {
    fn message(&mut self, from: &Connection, _: &[u8], _: Option<Bytes>) {
        let why = Refusal::Malformed { reason: "no".to_string() };
        from.send(&encode(&FromServer::Refused { why })).unwrap();
        from.close();
    }
    fn closed(&mut self, _: &Connection, _: &NetError) {}
}

fn body(len: usize) -> Bytes {
    (0..len).map(|i| (i * 31 / 7) as u8).collect::<Vec<_>>().into()
}

#[test]
fn messages_go_both_ways_whatever_their_size() {
    for near in [true, false] {
        let stage = Stage::set(near, b"open sesame");
        let (here, from_worker, from_client) = stage.connect();
        assert!(here.is_relayed() && !here.is_same_host());
        let there = from_client.opened();
        assert!(there.is_relayed() && !there.is_same_host(), "what lies between may be a network");
        for (len, large) in [(0, 0), (10, 100), (70_000, 3_000_000), (5, 9_000_000)] {
            let head = vec![len as u8; len];
            for (from, to) in [(&here, &from_client), (&there, &from_worker)] {
                from.send(&head).unwrap();
                assert!(matches!(to.message(), (h, None) if h == head));
                from.send_with_body(b"queued", body(large)).unwrap();
                assert!(matches!(to.message(), (h, Some(b)) if h == b"queued" && *b == *body(large)));
                from.write_body(b"lent", &body(large), &|| false).unwrap();
                assert!(matches!(to.message(), (h, Some(b)) if h == b"lent" && *b == *body(large)));
            }
        }
        assert_eq!(stage.relay.connections(), 1);
        here.close();
        assert_eq!(from_client.closed(), NetError::Closed);
        until("its place is free", || stage.relay.connections() == 0);
    }
}

#[test]
fn both_connections_end_with_one_and_last_words_arrive() {
    let stage = Stage::set(false, b"");
    let (here, from_worker, from_client) = stage.connect();
    let there = from_client.opened();
    there.send_with_body(b"last", body(1 << 20)).unwrap();
    there.send(b"words").unwrap();
    there.close();
    let mut heads = vec![from_worker.message().0, from_worker.message().0];
    heads.sort();
    assert_eq!(heads, [b"last".to_vec(), b"words".to_vec()]);
    assert_eq!(from_worker.closed(), NetError::Closed);
    until("it is closed", || !here.is_open());
    // A process that is gone says nothing.
    let (_here, from_worker, from_client) = stage.connect();
    drop(from_client);
    drop(stage._worker);
    assert!(matches!(from_worker.closed(), NetError::Closed | NetError::Lost { .. }));
}

/// Takes nothing until it is told to.
struct Stops(std::sync::mpsc::Receiver<()>, Box<dyn Receiver>);

impl Receiver for Stops {
    fn message(&mut self, from: &Connection, head: &[u8], body: Option<Bytes>) {
        if head == b"stop" {
            self.0.recv_timeout(PATIENCE).unwrap();
        }
        self.1.message(from, head, body);
    }
    fn closed(&mut self, from: &Connection, why: &NetError) {
        self.1.closed(from, why);
    }
}

#[test]
fn a_relay_holds_little_for_a_reader_that_stops() {
    let stage = Stage::set(false, b"");
    let (go, gate) = channel();
    let (receiver, from_worker) = keeper();
    let _here = stage.connect_with(Box::new(Stops(gate, receiver)));
    let there = stage.taken.recv_timeout(PATIENCE).unwrap().opened();
    let large = body(48 << 20);
    there.send(b"stop").unwrap();
    there.send_with_body(b"large", large.clone()).unwrap();
    // Until nothing moves any more.
    let mut left = u64::MAX;
    until("everything that is taken has been", || {
        let before = std::mem::replace(&mut left, there.queued_bytes());
        std::thread::sleep(Duration::from_millis(100));
        before == left
    });
    // What the relay and the system's buffers took; the rest waits where it comes from.
    assert!(left > 32 << 20, "{left} bytes of {} wait at their sender", large.len());
    go.send(()).unwrap();
    assert_eq!(from_worker.message().0, b"stop");
    assert!(matches!(from_worker.message(), (h, Some(b)) if h == b"large" && *b == *large));
}

#[test]
fn those_who_cannot_be_passed_on_hear_why() {
    let stage = Stage::set(false, b"token");
    let other = |index| WorkerInfo { index, ..stage.info.clone() };
    let unreachable = |error: NetError, reason: &str| match error {
        NetError::Unreachable { reason: why, .. } => assert!(why.contains(reason), "{why}"),
        other => panic!("{other}"),
    };
    unreachable(stage.fails(&other(3)), "no such worker");
    // It might be reached by itself once more, so this may change.
    unreachable(stage.fails(&other(8)), "start it with --listen");
    let nowhere = WorkerInfo { tcp: None, ..other(8) };
    assert!(matches!(stage.fails(&nowhere), NetError::NoWay { .. }));
    let mut wrong = Stage::set(false, b"token");
    for (session, key) in [(5, &b"guess"[..]), (6, b"token")] {
        wrong.pass = SessionPass { session, key: Secret::from_bytes(key) };
        unreachable(wrong.fails(&wrong.info), "the key is wrong");
    }
    until("places are free", || stage.relay.connections() + wrong.relay.connections() == 0);
}

#[test]
fn a_server_without_a_relay_is_no_way() {
    let server = Io::start("server").unwrap();
    let accept = |_: &gt_net::Peer| Some(Box::new(Refuses) as Box<dyn Receiver>);
    let listener = server.listen(&"127.0.0.1:0".parse().unwrap(), None, Limits::default(), accept).unwrap();
    let stage = Stage::set(false, b"");
    let reach = Reach { server: vec![(listener.address().clone(), None)], ..stage.reach.clone() };
    let nowhere = WorkerInfo { tcp: None, ..stage.info.clone() };
    let error = reach.worker(&nowhere, &stage.pass, &|| keeper().0, PATIENCE, &|| false).map(|_| ()).unwrap_err();
    assert!(matches!(error, NetError::NoWay { .. }), "{error}");
}

#[test]
fn whoever_does_not_wait_for_the_answer_is_shown_out() {
    let stage = Stage::set(false, b"");
    let (receiver, kept) = keeper();
    let (address, _) = &stage.reach.server[0];
    let rude = stage.reach.io.connect(address, None, Limits::default(), receiver, PATIENCE, &|| false).unwrap();
    rude.send(&encode(&ToRelay::Relay { session: 1, key: b"", worker: 9 })).unwrap();
    rude.send(b"and what follows").unwrap();
    loop {
        if let Event::Closed(_) = kept.next() {
            break;
        }
    }
    until("its place is free", || stage.relay.connections() == 0);
}
