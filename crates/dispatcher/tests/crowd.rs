//! Many clients, many workers, flat memory.

mod support;

use gt_dispatcher::{Dispatcher, DispatcherConfig};
use gt_ir::Bytes;
use gt_net::protocol::{FromWorker, ToServer, ToWorker, decode, encode};
use gt_net::{Connection, NetError, Receiver, pair};
use support::*;

/// Bytes of memory that this process has.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A worker that has executed what it receives at once, and says so every tenth time.
struct Instant;

impl Receiver for Instant {
    fn message(&mut self, from: &Connection, head: &[u8], _: Option<Bytes>) {
        if let Ok(ToWorker::Stream { session, seq, .. }) = decode(head)
            && seq % 10 == 9
        {
            from.send(&encode(&FromWorker::Executed { session, executed: seq + 1 })).unwrap();
        }
    }
    fn closed(&mut self, _: &Connection, _: &NetError) {}
}

/// Hears nothing.
struct Deaf;

impl Receiver for Deaf {
    fn message(&mut self, _: &Connection, _: &[u8], _: Option<Bytes>) {}
    fn closed(&mut self, _: &Connection, _: &NetError) {}
}

#[test]
fn a_hundred_clients_on_a_thousand_workers_leave_nothing_behind() {
    let dispatcher = Dispatcher::new(DispatcherConfig::default()).unwrap();
    let workers: Vec<Connection> = (0..1000)
        .map(|_| {
            let (worker, _) = pair(Box::new(Instant), dispatcher.receiver());
            say(&worker, &FromWorker::Join { proof: b"", info: info(""), secret: Box::default(), sessions: vec![] });
            worker
        })
        .collect();
    let enter = || {
        let (client, _) = pair(Box::new(Deaf), dispatcher.receiver());
        say(&client, &hello(b"", None));
        client
    };
    let stay: Vec<Connection> = (0..100).map(|_| enter()).collect();
    let message = [3u8; 500];
    let mut seq = 0;
    let mut round = || {
        for _ in 0..50 {
            for client in &stay {
                say(client, &ToServer::Stream { seq, instrs: 100, bytes: 0, message: &message });
            }
            seq += 1;
        }
        // Others come and go meanwhile.
        for _ in 0..20 {
            let client = enter();
            say(&client, &ToServer::Stream { seq: 0, instrs: 1, bytes: 0, message: &message });
            say(&client, &ToServer::Goodbye {});
        }
        dispatcher.tick();
        resident_bytes()
    };
    round();
    let after_one = round();
    let after_many = (0..20).map(|_| round()).last().unwrap();
    // A round sends 2.5 MB: twenty of them, kept, would be 50.
    assert!(after_many < after_one + (4 << 20), "{after_one} bytes, then {after_many}");
    let status = dispatcher.status();
    assert_eq!((status.workers.len(), status.sessions.len(), status.server.held_bytes), (1000, 100, 0));
    assert!(status.sessions.iter().all(|s| s.instructions_executed == seq * 100));
    drop(workers);
}
