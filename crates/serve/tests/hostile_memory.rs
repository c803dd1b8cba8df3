//! Clients that fill a worker's memory with what no value of theirs is: payloads nobody waits for, windows whose payloads do not come,
//! answers that are not taken. All of it counts on their session's account; the worker and its other sessions go on.
//!
//! The memory is this process's, worker and clients together, as its allocator counts it.

mod serving;
#[path = "../../worker/tests/support/mod.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gt_ir::codec::put_varint;
use gt_ir::{Bytes, Failure, FailureKind, Scalar, TensorId, Window};
use gt_net::protocol::{DataRequest, StreamMessage, ToWorker, encode};
use serving::*;
use support::*;

const MIB: usize = 1 << 20;
/// What each session may have.
const LIMIT: usize = 16 * MIB;
/// What the process may take for one session beyond its limit: buffers of sockets, what is copied just now, the test itself.
const SLACK: usize = 24 * MIB;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(len_bytes: usize) {
    PEAK.fetch_max(LIVE.fetch_add(len_bytes, Relaxed) + len_bytes, Relaxed);
}

// SAFETY: everything is the system's allocator's; only sizes are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// One test at a time: they share the counter.
static ALONE: Mutex<()> = Mutex::new(());

/// What the worker says when it ends session 1.
fn reason_of_end(stage: &Stage) -> String {
    match stage.control.said_otherwise() {
        Said::Broken(1, reason) => reason,
        other => panic!("the session is ended, but: {other:?}"),
    }
}

/// Sends as much as the worker takes, until it ends the connection.
fn flood<'a>(client: &FakeClient, requests: impl Iterator<Item = DataRequest<'a>>) {
    for request in requests {
        // What waits in this process is not the worker's.
        while client.line.connection.queued_bytes() > 64 << 10 && client.line.connection.is_open() {
            std::thread::sleep(Duration::from_millis(1));
        }
        if client.line.connection.send(&encode(&request)).is_err() {
            return;
        }
    }
}

/// Runs an attack of session 1 while session 2 works, and says how much the process grew.
fn growth(attack: impl FnOnce(&Stage) + Send + 'static) {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    within(Duration::from_secs(60), move || {
        let stage = Stage::new();
        for session in [1, 2] {
            stage.control.tell(&ToWorker::Open {
                session,
                key: WORKER_KEY.into(),
                variables: Vec::new(),
                max_memory: LIMIT as u64,
                from: 0,
                lost: None,
                same_user: false,
            });
        }
        let other = stage.attach(2);
        let before = LIVE.load(Relaxed);
        PEAK.store(before, Relaxed);
        attack(&stage);
        let grown = PEAK.load(Relaxed) - before;
        assert!(grown < LIMIT + SLACK, "the process grew by {} MiB for a session of {} MiB", grown / MIB, LIMIT / MIB);
        // The other session has not noticed.
        stage.control.send(2, 0, &spelled(&["%1 = fill() dtype=f32 shape=[2] $ 3.0"], &[], &[]));
        stage.control.read(2, 1, 7, 1);
        assert_eq!(other.floats(7), [3.0, 3.0]);
    });
}

fn watch(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn payloads_that_nobody_waits_for_are_held_back() {
    growth(|stage| {
        let client = stage.attach(1);
        client.upload(1, Bytes::from(vec![7u8; 8]));
        let mut first: Window = spelled(&["%1 = upload() dtype=u8 shape=[8]"], &[], &[]);
        first.uploads.clear();
        stage.control.send(1, 0, &first);
        stage.control.wait_executed(1, 1);
        // One copy here; the worker would have one of each.
        let payload = Bytes::from(vec![7u8; 4 * MIB]);
        // The worker stops reading; what it has not read waits in this client.
        (100..160).for_each(|id| client.upload(id, payload.clone()));
        watch(Duration::from_secs(2));
        // Its stream goes on.
        stage.control.send(1, 1, &spelled(&["%2 = unary(%1) kind=neg"], &[], &[]));
        stage.control.wait_executed(1, 2);
    });
}

#[test]
fn a_payload_larger_than_the_session_fails_and_the_session_goes_on() {
    growth(|stage| {
        let client = stage.attach(1);
        client.upload(1, Bytes::from(vec![7u8; 5 * LIMIT / 4]));
        let mut window: Window = spelled(&["%1 = upload() dtype=u8 shape=[20971520]"], &[], &[]);
        window.uploads.clear();
        stage.control.send(1, 0, &window);
        stage.control.read(1, 1, 5, 1);
        let failure = client.failure(5);
        assert_eq!(failure.kind, FailureKind::Memory, "{failure}");
        assert!(failure.message.contains("out of memory"), "{failure}");
    });
}

#[test]
fn windows_that_wait_for_a_payload_end_their_session() {
    growth(|stage| {
        for seq in 0..400u64 {
            let first = 1 + 1000 * seq;
            let mut lines = vec![format!("%{first} = upload() dtype=f32 shape=[2]")];
            lines.extend((1..1000).map(|k| format!("%{} = fill() dtype=f32 shape=[2] $ 1.0", first + k)));
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let mut window = spelled(&lines, &[], &[]);
            window.uploads.clear();
            stage.control.send(1, seq, &window);
        }
        let Said::Broken(1, reason) = stage.control.said_otherwise() else { panic!("the session is ended") };
        assert!(reason.contains("out of memory") && reason.contains("queued work"), "{reason}");
    });
}

/// A window of one instruction with far more numbers than it takes: small in a message, sixteen times as large in memory.
fn with_many_scalars(id: u64) -> Window {
    let mut wide = spelled(&[&format!("%{id} = fill() dtype=f32 shape=[2] $ 1.0")], &[], &[]);
    wide.instrs[0].scalars = std::iter::repeat_n(Scalar::Bool(true), 100_000).collect();
    wide
}

#[test]
fn waiting_windows_counted_for_their_instructions_only() {
    growth(|stage| {
        let mut first = spelled(&["%1 = upload() dtype=f32 shape=[2]"], &[], &[]);
        first.uploads.clear();
        stage.control.send(1, 0, &first);
        (1..60).for_each(|seq| stage.control.send(1, seq, &with_many_scalars(1 + seq)));
        let reason = reason_of_end(stage);
        assert!(reason.contains("out of memory") && reason.contains("queued work"), "{reason}");
    });
}

#[test]
fn templates_counted_for_their_instructions_only() {
    growth(|stage| {
        let mut template = Vec::new();
        of(with_many_scalars(1)).template().encode(&mut template);
        for seq in 0..60u64 {
            stage.control.stream(1, seq, &StreamMessage::Template { number: 1 + seq, template: &template });
        }
        stage.control.wait_executed(1, 60);
    });
}

#[test]
fn one_message_needs_no_more_memory_than_its_session_has() {
    growth(|stage| {
        // A window that frees four million values, of which each takes one byte here and eight there.
        let mut wide = vec![0; 6];
        put_varint(&mut wide, 4_000_000);
        wide.extend(std::iter::repeat_n(1u8, 4_000_000));
        wide.extend([0, 0]);
        stage.control.stream(1, 0, &StreamMessage::Send { window: &wide });
        let reason = reason_of_end(stage);
        assert!(reason.contains("needs more than"), "{reason}");
    });
}

#[test]
fn answers_that_nobody_takes_are_failures_beyond_the_limit() {
    growth(|stage| {
        stage.control.send(1, 0, &spelled(&["%1 = fill() dtype=f32 shape=[1048576] $ 1.0"], &[], &[]));
        (0..100u64).for_each(|n| stage.control.read(1, 1 + n, n, 1));
        watch(Duration::from_secs(2));
        // Whoever comes for them all the same gets those that there was room for.
        let client = stage.attach(1);
        let mut counts = (0, 0);
        for _ in 0..100 {
            match client.answer() {
                (_, Answer::Value(value)) if value.bytes.len() == 4 * MIB => counts.0 += 1,
                (_, Answer::Failed(failure)) if failure.kind == FailureKind::Memory => counts.1 += 1,
                other => panic!("unexpected: {other:?}"),
            }
        }
        assert!(counts.0 >= 1 && counts.1 >= 90, "{counts:?}");
    });
}

/// Each took an entry of some hundred bytes, and none of the memory that counted.
#[test]
fn values_without_elements_end_their_session_when_there_are_too_many() {
    growth(|stage| {
        for seq in 0..50u64 {
            let fills: Vec<String> =
                (0..1000).map(|k| format!("%{} = fill() dtype=f32 shape=[0] $ 1.0", 1 + 1000 * seq + k)).collect();
            let lines: Vec<&str> = fills.iter().map(String::as_str).collect();
            stage.control.send(1, seq, &spelled(&lines, &[], &[]));
        }
        let reason = reason_of_end(stage);
        assert!(reason.contains("out of memory") && reason.contains("values"), "{reason}");
    });
}

#[test]
fn reads_of_a_value_that_never_comes_end_their_session_when_there_are_too_many() {
    growth(|stage| {
        let mut waits = spelled(&["%1 = upload() dtype=f32 shape=[2]"], &[], &[]);
        waits.uploads.clear();
        stage.control.send(1, 0, &waits);
        (0..100_000u64).for_each(|n| stage.control.read(1, 1 + n, n, 1));
        let reason = reason_of_end(stage);
        assert!(reason.contains("out of memory"), "{reason}");
    });
}

/// An upload that states an impossible size made room for any number of others, and empty ones counted for nothing.
#[test]
fn empty_payloads_behind_one_that_is_said_to_be_huge_end_their_session() {
    growth(|stage| {
        let client = stage.attach(1);
        let mut huge = spelled(&["%1 = upload() dtype=u8 shape=[288230376151711744]"], &[], &[]);
        huge.uploads.clear();
        stage.control.send(1, 0, &huge);
        flood(&client, (2..200_000).map(|id| DataRequest::Upload { id: TensorId(id) }));
        let reason = reason_of_end(stage);
        assert!(reason.contains("out of memory"), "{reason}");
    });
}

/// A client knows what its workers show each other. Failures counted for nothing, whatever they said.
#[test]
fn failures_sent_as_values_of_another_worker_end_their_session_when_there_are_too_many() {
    growth(|stage| {
        let peer = FakeClient::connect(stage.service.info());
        peer.ask(&DataRequest::AttachPeer { session: 1, key: &peer_key(), from: 1, epoch: 1 });
        peer.wait_attached();
        let failure = |number| Failure::new(FailureKind::Index, "x".repeat(if number < 2_000 { 100_000 } else { 1 }));
        let transfer =
            |number| DataRequest::Transfer { number, id: TensorId(number), value: Err(failure(number)), bytes: None };
        flood(&peer, (0..100_000).map(transfer));
        let reason = reason_of_end(stage);
        assert!(reason.contains("out of memory"), "{reason}");
    });
}
