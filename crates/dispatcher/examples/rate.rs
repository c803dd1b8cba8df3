//! How fast the dispatcher forwards: `cargo run --release -p gt-dispatcher --example rate`.
//!
//! Everything is in this process and on this thread, so that what is measured is the dispatcher: decoding the envelope,
//! numbers, credits, the backlog, encoding for the worker, reports and acks. Sockets cost extra.

use std::time::Instant;

use gt_dispatcher::{Dispatcher, DispatcherConfig};
use gt_ir::Bytes;
use gt_net::protocol::{FromWorker, ToServer, ToWorker, Wire, WorkerInfo, decode, encode};
use gt_net::{Connection, NetError, Receiver, pair};

/// How many messages a worker executes before it says so.
const REPORT_EVERY: u64 = 16;

struct NullWorker;

impl Receiver for NullWorker {
    fn message(&mut self, from: &Connection, head: &[u8], _: Option<Bytes>) {
        if let Ok(ToWorker::Stream { session, seq, .. }) = decode(head)
            && (seq + 1) % REPORT_EVERY == 0
        {
            let _ = from.send(&encode(&FromWorker::Executed { session, executed: seq + 1 }));
        }
    }
    fn closed(&mut self, _: &Connection, _: &NetError) {}
}

struct Deaf;

impl Receiver for Deaf {
    fn message(&mut self, _: &Connection, _: &[u8], _: Option<Bytes>) {}
    fn closed(&mut self, _: &Connection, _: &NetError) {}
}

/// Seconds per message.
fn measure(messages: u64, instrs: u32, len_bytes: usize) -> Result<f64, NetError> {
    let dispatcher = Dispatcher::new(DispatcherConfig::default())?;
    let (worker, _) = pair(Box::new(NullWorker), dispatcher.receiver());
    let info = WorkerInfo {
        index: 0,
        id: String::new(),
        unix: None,
        tcp: None,
        fingerprint: None,
        host: String::new(),
        engine: "null".to_string(),
        threads: 1,
        memory_limit: 0,
    };
    worker.send(&encode(&FromWorker::Join { token: b"", info, secret: Box::default(), sessions: Vec::new() }))?;
    let (client, _) = pair(Box::new(Deaf), dispatcher.receiver());
    let name = "rate".to_string();
    client.send(&encode(&ToServer::Hello { token: b"", name, variables: Vec::new(), workers: 0, resume: None }))?;
    let message = vec![5u8; len_bytes];
    let mut head = Vec::new();
    let started = Instant::now();
    for seq in 0..messages {
        head.clear();
        ToServer::Stream { seq, instrs, bytes: 0, message: &message }.put(&mut head);
        client.send(&head)?;
    }
    let taken = started.elapsed().as_secs_f64();
    let forwarded = dispatcher.status().sessions.first().map_or(0, |session| session.instructions_received);
    assert_eq!(forwarded, messages * instrs as u64, "not everything was taken");
    Ok(taken / messages as f64)
}

fn main() -> Result<(), NetError> {
    measure(20_000, 100, 1000)?; // to warm up
    println!("{:<44} {:>12} {:>16}", "messages", "µs each", "instructions/s");
    for (what, instrs, len_bytes) in [
        ("a window of 100 instructions, whole", 100, 4800),
        ("a window of 100 instructions, by template", 100, 900),
        ("a window of 1 instruction", 1, 48),
    ] {
        let seconds = measure(200_000, instrs, len_bytes)?;
        println!("{what:<44} {:>12.3} {:>16.0}", seconds * 1e6, instrs as f64 / seconds);
    }
    // A step of 3,000 instructions goes out as a dozen windows of 256.
    let step = 12.0 * measure(100_000, 250, 2500)?;
    println!("{:<44} {:>12.3} {:>16.0}", "a replayed step of 3,000 instructions", step * 1e6, 3000.0 / step);
    Ok(())
}
