//! FORWARD-2: sessions take turns where a worker's connection has no room, and what waits is bounded.

mod support;

use std::sync::mpsc::{Receiver as Queue, Sender, channel};

use gt_dispatcher::{Dispatcher, DispatcherConfig};
use gt_ir::Bytes;
use gt_net::protocol::{FromWorker, decode};
use gt_net::{Address, Connection, Io, Limits, NetError, Receiver};
use support::*;

/// A worker that reads nothing until its gate is opened.
struct Gated {
    heard: Sender<Vec<u8>>,
    gate: Queue<()>,
    is_open: bool,
}

impl Receiver for Gated {
    fn message(&mut self, _: &Connection, head: &[u8], _: Option<Bytes>) {
        let _ = self.heard.send(head.to_vec());
        if !self.is_open {
            self.is_open = self.gate.recv_timeout(PATIENCE).is_ok();
        }
    }
    fn closed(&mut self, _: &Connection, _: &NetError) {}
}

#[test]
fn a_session_that_sends_much_does_not_delay_one_that_sends_little() {
    const MANY: u64 = 4000;
    let config = DispatcherConfig { worker_queue_bytes: 16 << 10, ..DispatcherConfig::default() };
    let dispatcher = Dispatcher::new(config).unwrap();
    let _timer = dispatcher.start_timer().unwrap();
    let io = Io::start("test-server").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let listener = dispatcher.listen(&io, &Address::Unix(dir.path().join("s")), None).unwrap();

    let of_worker = Io::start("test-worker").unwrap();
    let (put, heard) = channel();
    let (open, gate) = channel();
    let receiver = Box::new(Gated { heard: put, gate, is_open: false });
    let worker = of_worker.connect(listener.address(), None, Limits::default(), receiver, PATIENCE, &|| false).unwrap();
    say(&worker, &FromWorker::Join { proof: b"", info: info(""), secret: Box::default(), sessions: vec![] });
    heard.recv_timeout(PATIENCE).unwrap(); // Joined; it reads nothing from here on

    let of_clients = Io::start("test-clients").unwrap();
    let mut greedy = FakeClient::enter(dial(&of_clients, listener.address()));
    let mut modest = FakeClient::enter(dial(&of_clients, listener.address()));
    (0..MANY).for_each(|_| greedy.stream(&[7; 1000]));
    eventually("everything of the greedy one is there", || {
        dispatcher.status().sessions[0].instructions_received == MANY
    });
    (0..5).for_each(|_| modest.stream(b"little"));
    eventually("and of the modest one", || dispatcher.status().sessions[1].instructions_received == 5);
    assert!(dispatcher.status().server.held_bytes > 1000 * MANY, "nothing was held: the test tests nothing");

    open.send(()).unwrap();
    let mut order = Vec::new();
    while order.len() < MANY as usize + 5 {
        let head = heard.recv_timeout(PATIENCE).expect("not everything arrived");
        if let gt_net::protocol::ToWorker::Stream { session, seq, .. } = decode(&head).unwrap() {
            order.push((session, seq));
        }
    }
    let of = |session: u64| order.iter().filter(move |(s, _)| *s == session).map(|(_, seq)| *seq).collect::<Vec<_>>();
    assert_eq!(of(greedy.session), (0..MANY).collect::<Vec<_>>());
    assert_eq!(of(modest.session), [0, 1, 2, 3, 4]);
    let last = order.iter().rposition(|(session, _)| *session == modest.session).unwrap();
    // What was in the socket before it came is ahead of it, and little more.
    assert!(last < MANY as usize / 2, "the modest session's last message came at place {last}");
    // Once executed, nothing is kept.
    say(&worker, &FromWorker::Executed { session: greedy.session, executed: MANY });
    say(&worker, &FromWorker::Executed { session: modest.session, executed: 5 });
    eventually("nothing is kept", || dispatcher.status().server.held_bytes == 0);
}
