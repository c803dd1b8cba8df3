//! Sessions that share a worker: what they must not notice of each other, whichever engine runs them.

mod support;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use gt_engine::Engine;
use gt_engine_check::{Late, Reference};
use gt_ir::{FailureKind, SiteId, TensorId};
use gt_stream::Occurrence;
use gt_worker::{CompilePolicy, ReadError, SessionConfig, SessionHandle, WorkerConfig, WorkerHandle};
use parking_lot::Mutex;
use support::*;

/// Runs the body on an engine that is done at once and on one that finishes late.
fn on_both_engines(body: fn(WorkerHandle)) {
    within_time(move || {
        body(WorkerHandle::spawn(Reference::new, WorkerConfig::default()));
        body(WorkerHandle::spawn(|| Late::new(Reference::new(), 11), WorkerConfig::default()));
    });
}

fn open(worker: &WorkerHandle) -> SessionHandle {
    worker.open(SessionConfig::default())
}

fn fill(id: u64, shape: &str, value: f64, site: u32) -> Occurrence {
    window(&[&format!("%{id} = fill() dtype=f32 shape={shape} $ {value:?} #{site}")], &[], &[])
}

/// Everything of closed sessions is gone.
fn assert_nothing_left(worker: &WorkerHandle) {
    wait_until(|| worker.stats().sessions == 0);
    let stats = worker.stats();
    assert_eq!((stats.live_tensors, stats.live_bytes), (0, 0));
}

#[test]
fn sessions_with_the_same_ids_do_not_see_each_other() {
    on_both_engines(|worker| {
        let sessions: Vec<SessionHandle> = (0..4).map(|_| open(&worker)).collect();
        for (n, session) in sessions.iter().enumerate() {
            session.send(fill(1, "[2]", n as f64, 0), &never).unwrap();
        }
        for round in 0..20u64 {
            for session in &sessions {
                let line = format!("%{} = binary(%{}) kind=add scalar=right $ 1.0", round + 2, round + 1);
                session.send(window(&[&line], &[round + 1], &[]), &never).unwrap();
            }
        }
        for (n, session) in sessions.iter().enumerate() {
            assert_eq!(read(session, 21), [n as f32 + 20.0; 2]);
            session.synchronize(&never).unwrap();
            assert_eq!((session.stats().live_tensors, session.stats().windows), (1, 21));
        }
        sessions[0].send(window(&[], &[21], &[]), &never).unwrap();
        sessions[0].synchronize(&never).unwrap();
        assert_eq!(failure(sessions[0].read(TensorId(21), &never)).kind, FailureKind::Internal);
        assert_eq!(read(&sessions[1], 21), [21.0; 2]);
        assert_eq!((worker.stats().windows, worker.stats().live_tensors), (4 * 21 + 1, 3));
    });
}

#[test]
fn a_failure_is_raised_in_its_own_session_only() {
    on_both_engines(|worker| {
        let (bad, good) = (open(&worker), open(&worker));
        let lines = [
            "%1 = upload() dtype=f32 shape=[1]",
            "%2 = iota() dtype=i64 shape=[1] $ 9 1",
            "%3 = take(%1, %2) axis=0 wrap=false",
            "%4 = write(%1, %3)",
        ];
        bad.send(window(&lines, &[1, 2, 3], &[&[7.0]]), &never).unwrap();
        good.send(fill(4, "[1]", 5.0, 0), &never).unwrap();
        bad.send(window(&["%9 = unary(%8) kind=exp"], &[], &[]), &never).unwrap();
        good.synchronize(&never).unwrap();
        assert_eq!(read(&good, 4), [5.0]);
        assert!(matches!(bad.synchronize(&never), Err(ReadError::Failed(f)) if f.kind == FailureKind::Index));
        assert_eq!(read(&bad, 4), [7.0]);
        assert_eq!((bad.stats().failures, good.stats().failures, worker.stats().failures), (2, 0, 2));
    });
}

/// A session has a thousand windows waiting when another sends ten: in which order do they end?
fn turns_of<E: Engine>(make: impl FnOnce() -> E + Send + 'static, gate: &Gate) -> Vec<char> {
    let worker = WorkerHandle::spawn(make, WorkerConfig::default());
    let order = Arc::new(Mutex::new(Vec::new()));
    let [heavy, light] = ['h', 'l'].map(|name| {
        let (session, order) = (open(&worker), order.clone());
        session.on_executed(Box::new(move |_| order.lock().push(name)));
        session
    });
    for first in 1..=1000 {
        let lines = [
            format!("%{} = fill() dtype=f32 shape=[400, 400] $ 3.0", 2 * first),
            format!("%{} = unary(%{}) kind=exp", 2 * first + 1, 2 * first),
        ];
        let before: Vec<u64> = (2 * first - 2..2 * first).collect();
        heavy.send(window(&[&lines[0], &lines[1]], &before, &[]), &never).unwrap();
    }
    for first in 0..10 {
        light.send(two(2 * first), &never).unwrap();
    }
    gate.open();
    light.synchronize(&never).unwrap();
    order.lock().clone()
}

#[test]
fn a_thousand_heavy_windows_delay_a_small_one_by_a_turn_or_two() {
    within_time(|| {
        let (engine, gate) = Gated::new();
        let order = turns_of(move || engine, &gate);
        // One was running, another may have been begun.
        assert!(order.iter().take(3).any(|&name| name == 'l'), "{order:?}");
        assert!(order.len() <= 30, "{order:?}");
        let (engine, gate) = Gated::new();
        let order = turns_of(move || Late::new(engine, 5), &gate);
        // Three had been handed to the engine.
        assert!(order.iter().take(5).any(|&name| name == 'l'), "{order:?}");
        assert!(order.len() <= 30, "{order:?}");
    });
}

#[test]
fn closing_in_the_middle_of_a_plan_leaves_others_alone() {
    within_time(|| {
        let (engine, gate) = Gated::new();
        let worker = WorkerHandle::spawn(move || engine, WorkerConfig::default());
        let (closing, other) = (open(&worker), open(&worker));
        closing.send(two(1), &never).unwrap();
        closing.send(two(3), &never).unwrap();
        assert_eq!(read(&closing, 1), [3.0, 3.0]);
        other.send(two(1), &never).unwrap();
        let reader = std::thread::spawn({
            let closing = closing.clone();
            move || closing.read(TensorId(4), &never)
        });
        let (said, heard) = channel();
        let sent = closing.sent();
        closing.read_then(
            TensorId(2),
            sent,
            Box::new(move |result| said.send(result.map(|copied| copied.tensor)).unwrap()),
        );
        closing.close();
        // The plan is still running.
        assert_eq!(reader.join().unwrap(), Err(ReadError::Stopped));
        assert_eq!(heard.recv().unwrap(), Err(ReadError::Stopped));
        assert_eq!(closing.read(TensorId(1), &never), Err(ReadError::Stopped));
        assert_eq!(closing.synchronize(&never), Err(ReadError::Stopped));
        closing.send(two(5), &never).unwrap();
        gate.open();
        assert_eq!(read(&other, 2), [3.0, 3.0]);
        other.synchronize(&never).unwrap();
        assert_eq!(other.stats().live_tensors, 2);
        wait_until(|| worker.stats().sessions == 1);
        assert_eq!(worker.memory().live_bytes, 16);
        drop(other);
        assert_nothing_left(&worker);
        // The window that was waiting never ran.
        assert_eq!(worker.stats().windows, 2);
    });
}

#[test]
fn closing_ends_a_sender_that_waits_for_room() {
    within_time(|| {
        let (engine, gate) = Gated::new();
        let session = session(move || engine, SessionConfig { credits_instrs: 2, ..SessionConfig::default() });
        session.send(two(1), &never).unwrap();
        assert!(session.is_full());
        let refused = session.try_send(two(3), vec![(0, TensorId(3))]).unwrap_err();
        assert_eq!((refused.0.window(), refused.1), (two(3).window(), vec![(0, TensorId(3))]));
        let sender = std::thread::spawn({
            let session = session.clone();
            move || session.send(two(3), &never)
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!sender.is_finished());
        session.close();
        sender.join().unwrap().unwrap();
        gate.open();
    });
}

#[test]
fn many_sessions_leave_nothing() {
    on_both_engines(|worker| {
        let mut total = 0;
        for round in 0..60u64 {
            let session = open(&worker);
            for id in 0..round % 7 {
                session.send(fill(id, "[100]", 1.0, 0), &never).unwrap();
                total += 1;
            }
            session.expect(TensorId(99), gt_ir::TensorType::new(gt_ir::DType::F32, &[1]), SiteId(0));
            match round % 3 {
                // Everything ran, some of it ran, nothing is known.
                0 if round % 7 > 0 => drop(session.read(TensorId(round % 7 - 1), &never).unwrap()),
                1 => session.close(),
                _ => {}
            }
        }
        assert_nothing_left(&worker);
        assert!(worker.stats().windows <= total);
        let after = open(&worker);
        after.send(fill(0, "[3]", 2.0, 0), &never).unwrap();
        assert_eq!(read(&after, 0), [2.0; 3]);
    });
}

#[test]
fn a_session_over_its_memory_fails_alone_and_says_what_holds_it() {
    on_both_engines(|worker| {
        let limited = worker.open(SessionConfig { memory_limit_bytes: Some(10_000), ..SessionConfig::default() });
        let other = open(&worker);
        let lines = ["%1 = fill() dtype=f32 shape=[1000] $ 1.0 #3", "%2 = fill() dtype=f32 shape=[500] $ 1.0 #4"];
        limited.send(window(&lines, &[], &[]), &never).unwrap();
        other.send(fill(1, "[50000]", 1.0, 9), &never).unwrap();
        limited.send(fill(3, "[2000]", 1.0, 5), &never).unwrap();
        let refused = failure(limited.read(TensorId(3), &never));
        assert_eq!((refused.kind, refused.site), (FailureKind::Memory, SiteId(5)));
        assert_eq!(refused.holders, [(4000, SiteId(3)), (2000, SiteId(4))]);
        assert!(refused.message.contains("10000"), "{refused}");
        other.send(fill(2, "[50000]", 1.0, 9), &never).unwrap();
        assert_eq!(other.read(TensorId(2), &never).unwrap().bytes.len(), 200_000);
        let stats = limited.stats();
        assert_eq!((stats.live_bytes, stats.limit_bytes), (6000, 10_000));
        // What is freed can be had again.
        limited.send(window(&[], &[1, 3], &[]), &never).unwrap();
        limited.send(fill(4, "[2000]", 1.0, 5), &never).unwrap();
        assert_eq!(limited.read(TensorId(4), &never).unwrap().bytes.len(), 8000);
        drop((limited, other));
        assert_nothing_left(&worker);
    });
}

#[test]
fn plans_are_shared_by_sessions_that_plan_alike() {
    on_both_engines(|worker| {
        let settings = [
            SessionConfig::default(),
            SessionConfig::default(),
            SessionConfig { compile: CompilePolicy::Never, ..SessionConfig::default() },
            SessionConfig { fusion: false, ..SessionConfig::default() },
            SessionConfig { compile: CompilePolicy::Always, ..SessionConfig::default() },
        ];
        let counts: Vec<_> = settings
            .into_iter()
            .map(|config| {
                let session = worker.open(config);
                for first in 0..10 {
                    session.send(two(2 * first), &never).unwrap();
                }
                session.synchronize(&never).unwrap();
                let stats = session.stats();
                (stats.plan_misses, stats.plan_hits, stats.compiled_windows)
            })
            .collect();
        // The first compiles at its fifth repeat, and the second finds that plan.
        assert_eq!(counts, [(1, 9, 5), (0, 10, 10), (1, 9, 0), (1, 9, 5), (1, 9, 10)]);
        assert_eq!(worker.stats().cached_plans, 4);
        assert_eq!(worker.stats().unique_sequences, 1);
    });
}
