//! How fast the dispatcher forwards: `cargo run --release -p gt-dispatcher --example rate [-- --json]`.
//!
//! Everything is in this process and on this thread, so that what is measured is the dispatcher: decoding the envelope,
//! numbers, credits, the backlog, encoding for the worker, reports and acks. There is no engine, and sockets cost extra.

use std::time::Instant;

use gt_dispatcher::{Dispatcher, DispatcherConfig};
use gt_ir::Bytes;
use gt_net::protocol::{FromWorker, ToServer, ToWorker, Wire, WorkerInfo, decode, encode};
use gt_net::{Connection, NetError, Receiver, pair};

/// How many messages a worker executes before it says so.
const REPORT_EVERY: u64 = 16;
const CROWD_WORKERS: u32 = 1000;
const CROWD_CLIENTS: usize = 100;
/// Messages of each client before memory is looked at first, and between then and the second time.
const CROWD_SETTLES: u64 = 2_000;
const CROWD_MESSAGES: u64 = 10_000;

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

fn join(dispatcher: &Dispatcher, index: u32) -> Result<Connection, NetError> {
    let (worker, _) = pair(Box::new(NullWorker), dispatcher.receiver());
    let info = WorkerInfo {
        index,
        id: String::new(),
        unix: None,
        tcp: None,
        fingerprint: None,
        host: String::new(),
        engine: "null".to_string(),
        threads: 1,
        memory_limit: 0,
        seal: Box::default(),
    };
    worker.send(&encode(&FromWorker::Join { proof: b"", info, secret: Box::default(), sessions: Vec::new() }))?;
    Ok(worker)
}

fn enter(dispatcher: &Dispatcher) -> Result<Connection, NetError> {
    let (client, _) = pair(Box::new(Deaf), dispatcher.receiver());
    let name = "rate".to_string();
    client.send(&encode(&ToServer::Hello {
        proof: b"",
        name,
        variables: Vec::new(),
        workers: 0,
        resume: None,
        pin: None,
    }))?;
    Ok(client)
}

/// What was forwarded, all sessions together.
fn received(dispatcher: &Dispatcher) -> u64 {
    dispatcher.status().sessions.iter().map(|session| session.instructions_received).sum()
}

/// Seconds per message.
fn measure(messages: u64, instrs: u32, len_bytes: usize) -> Result<f64, NetError> {
    let dispatcher = Dispatcher::new(DispatcherConfig::default())?;
    let _worker = join(&dispatcher, 0)?;
    let client = enter(&dispatcher)?;
    let message = vec![5u8; len_bytes];
    let mut head = Vec::new();
    let started = Instant::now();
    for seq in 0..messages {
        head.clear();
        ToServer::Stream { seq, instrs, bytes: 0, message: &message }.put(&mut head);
        client.send(&head)?;
    }
    let taken = started.elapsed().as_secs_f64();
    assert_eq!(received(&dispatcher), messages * instrs as u64, "not everything was taken");
    Ok(taken / messages as f64)
}

/// What this process holds in memory.
fn resident_pages() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(f64::NAN)
}

/// By which part of itself memory grows while many clients stream to many workers.
fn crowd_growth() -> Result<f64, NetError> {
    let dispatcher = Dispatcher::new(DispatcherConfig::default())?;
    let _workers = (0..CROWD_WORKERS).map(|i| join(&dispatcher, i)).collect::<Result<Vec<_>, _>>()?;
    let clients = (0..CROWD_CLIENTS).map(|_| enter(&dispatcher)).collect::<Result<Vec<_>, _>>()?;
    let message = [5u8; 900];
    let stream = |from: u64, to: u64| {
        (from..to).try_for_each(|seq| {
            let head = encode(&ToServer::Stream { seq, instrs: 100, bytes: 0, message: &message });
            clients.iter().try_for_each(|client| client.send(&head))
        })
    };
    stream(0, CROWD_SETTLES)?;
    let before = resident_pages();
    stream(CROWD_SETTLES, CROWD_SETTLES + CROWD_MESSAGES)?;
    let growth = resident_pages() / before - 1.0;
    let all = (CROWD_SETTLES + CROWD_MESSAGES) * CROWD_CLIENTS as u64 * 100;
    assert_eq!(received(&dispatcher), all, "not everything was taken");
    Ok(growth.max(0.0))
}

fn main() -> Result<(), NetError> {
    measure(20_000, 100, 1000)?; // to warm up
    // First, before the other measurements leave memory behind that could be used again.
    let growth = crowd_growth()?;
    let windows = [
        ("a window of 100 instructions, whole", 100, measure(200_000, 100, 4800)?),
        ("a window of 100 instructions, by template", 100, measure(200_000, 100, 900)?),
        ("a window of 1 instruction", 1, measure(200_000, 1, 48)?),
        // A step of 3,000 instructions goes out as a dozen windows of 256.
        ("a replayed step of 3,000 instructions", 3000, 12.0 * measure(100_000, 250, 2500)?),
    ];
    if std::env::args().any(|argument| argument == "--json") {
        let [whole, _, single, step] = windows.map(|(_, _, seconds)| seconds);
        let (instruction_s, single_s) = (whole / 100.0, single);
        println!(
            "{{\"instruction_s\": {instruction_s:e}, \"single_instruction_s\": {single_s:e}, \
             \"replayed_step_s\": {step:e}, \"growth\": {growth:e}}}"
        );
        return Ok(());
    }
    println!("{:<44} {:>12} {:>16}", "messages", "µs each", "instructions/s");
    for (what, instrs, seconds) in windows {
        println!("{what:<44} {:>12.3} {:>16.0}", seconds * 1e6, instrs as f64 / seconds);
    }
    println!("{CROWD_CLIENTS} clients stream to {CROWD_WORKERS} workers: memory grows by {:.1} %", growth * 100.0);
    Ok(())
}
