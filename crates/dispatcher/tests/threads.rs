//! TURNSTILE-1, TURNSTILE-2: within a process events come from any thread, also while another is handled and from within it.

mod support;

use std::sync::mpsc::{Sender, channel};

use gt_dispatcher::{Dispatcher, DispatcherConfig};
use gt_ir::Bytes;
use gt_net::protocol::{FromWorker, ToWorker, decode, encode};
use gt_net::{Connection, NetError, Receiver, pair};
use support::*;

/// Answers from within the call that brings the message: straight back into the dispatcher.
struct Answering(Sender<(u64, u64)>);

impl Receiver for Answering {
    fn message(&mut self, from: &Connection, head: &[u8], _: Option<Bytes>) {
        if let Ok(ToWorker::Stream { session, seq, .. }) = decode(head) {
            from.send(&encode(&FromWorker::Executed { session, executed: seq + 1 })).unwrap();
            let _ = self.0.send((session, seq));
        }
    }
    fn closed(&mut self, _: &Connection, _: &NetError) {}
}

#[test]
fn many_threads_send_at_once_and_each_session_keeps_its_order() {
    const MESSAGES: u64 = 2000;
    let dispatcher = Dispatcher::new(DispatcherConfig::default()).unwrap();
    let _timer = dispatcher.start_timer().unwrap();
    let (put, heard) = channel();
    let workers: Vec<Connection> = (0..3)
        .map(|_| {
            let (worker, _) = pair(Box::new(Answering(put.clone())), dispatcher.receiver());
            say(&worker, &FromWorker::Join { proof: b"", info: info(""), secret: Box::default(), sessions: vec![] });
            worker
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut client = FakeClient::enter(connect(&dispatcher));
                (0..MESSAGES).for_each(|_| client.stream(b"x"));
                // Whoever's turn it was has handled it, or will: the last ack comes.
                while !matches!(client.next(), gt_net::protocol::FromServer::Ack { executed: MESSAGES, .. }) {}
                std::mem::forget(client.connection); // the session stays
            });
        }
    });
    drop(workers);
    let mut next = std::collections::BTreeMap::new();
    for (session, seq) in heard.try_iter() {
        let expected = next.entry(session).or_insert(0);
        assert_eq!(seq, *expected, "session {session}");
        *expected += 1;
    }
    assert_eq!(next.into_values().collect::<Vec<_>>(), [MESSAGES; 6]);
    assert_eq!(dispatcher.status().server.held_bytes, 0);
}
