//! What a worker computes, keeps and loses.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use gt_engine_check::{Late, Reference};
use gt_ir::{Failure, FailureKind, SiteId, TensorId};
use gt_stream::Occurrence;
use gt_worker::{CompilePolicy, ReadError, SessionConfig, WorkerConfig, WorkerHandle};
use support::*;

/// One step of `w = w * 0.5 + 1`, whose window starts at `first`.
fn step(first: u64, w: u64, scalar: f64) -> Occurrence {
    let lines = [
        format!("%{first} = binary(%{w}) kind=mul scalar=right $ {scalar:?}"),
        format!("%{} = binary(%{first}) kind=add scalar=right $ 1.0", first + 1),
        format!("%{} = unary(%{}) kind=exp", first + 2, first + 1),
        format!("%{} = write(%{w}, %{})", first + 3, first + 1),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    window(&lines, &[first, first + 1, first + 2, w], &[])
}

#[test]
fn a_steady_loop_hits_the_cache_and_is_compiled() {
    within_time(|| {
        let worker = reference(SessionConfig { compile: CompilePolicy::AfterRepeats(5), ..SessionConfig::default() });
        worker.send(window(&["%1 = upload() dtype=f32 shape=[2]"], &[], &[&[4.0, 8.0]]), &never).unwrap();
        let (mut next, mut w) = (2, 1);
        let mut expected = [4.0f32, 8.0];
        for i in 0..20 {
            let scalar = if i % 2 == 0 { 0.5 } else { 0.25 };
            worker.send(step(next, w, scalar), &never).unwrap();
            expected = expected.map(|x| x * scalar as f32 + 1.0);
            (w, next) = (next + 3, next + 4);
        }
        assert_eq!(read(&worker, w), expected);
        worker.synchronize(&never).unwrap();
        let stats = worker.stats();
        assert_eq!((stats.windows, stats.total_instructions), (21, 81));
        assert_eq!((stats.plan_hits, stats.plan_misses), (19, 2));
        assert_eq!((stats.unique_sequences, stats.hot_sequences), (2, 1));
        assert_eq!((stats.compiled_windows, stats.compiled_instructions), (15, 60));
        assert_eq!((stats.hot_instructions, stats.live_tensors), (60, 1));
        assert_eq!((stats.round_trips, stats.syncs, stats.bytes_in, stats.bytes_out), (1, 1, 8, 8));
        assert_eq!(stats.top_sequences[0].count, 20);
        assert_eq!(stats.engine, "reference");
        assert!(stats.flops > 0);
    });
}

#[test]
fn a_read_returns_before_its_window_ends() {
    within_time(|| {
        let (engine, gate) = Gated::new();
        let worker = session(move || engine, SessionConfig::default());
        let lines = ["%1 = fill() dtype=f32 shape=[2] $ 3.0", "%2 = reshape(%1) shape=[2, 1]"];
        worker.send(window(&lines, &[], &[]), &never).unwrap();
        assert_eq!(read(&worker, 1), [3.0, 3.0]);
        assert!(!worker.is_idle());
        let tries = std::cell::Cell::new(0);
        let cancel = || tries.replace(tries.get() + 1) > 0;
        assert_eq!(worker.read(TensorId(2), &cancel), Err(ReadError::Interrupted));
        assert_eq!(worker.synchronize(&|| true), Err(ReadError::Interrupted));
        gate.open();
        assert_eq!(read(&worker, 2), [3.0, 3.0]);
        worker.synchronize(&never).unwrap();
    });
}

#[test]
fn a_failure_poisons_what_depends_on_it_and_names_its_line() {
    within_time(|| {
        let worker =
            WorkerHandle::spawn(Reference::new, WorkerConfig { name: "worker_7".into(), ..WorkerConfig::default() });
        let worker = worker.open(SessionConfig::default());
        let lines = [
            "%1 = upload() dtype=f32 shape=[2]",
            "%2 = iota() dtype=i64 shape=[1] $ 9 1",
            "%3 = take(%1, %2) axis=0 wrap=false #41",
            "%4 = unary(%3) kind=exp #42",
            "%5 = unary(%1) kind=neg",
        ];
        worker.send(window(&lines, &[3], &[&[1.0, 2.0]]), &never).unwrap();
        worker.send(window(&["%6 = unary(%4) kind=neg"], &[4], &[]), &never).unwrap();
        let failure = failure(worker.read(TensorId(6), &never));
        assert_eq!((failure.kind, failure.site, failure.op.as_str()), (FailureKind::Index, SiteId(41), "take"));
        assert_eq!(failure.worker, "worker_7");
        assert_eq!(read(&worker, 5), [-1.0, -2.0]);
        assert_eq!(worker.stats().failures, 1);
    });
}

#[test]
fn a_skipped_write_keeps_the_value_and_is_raised_once() {
    within_time(|| {
        let worker = reference(SessionConfig::default());
        worker.send(window(&["%1 = upload() dtype=f32 shape=[2]"], &[], &[&[1.0, 2.0]]), &never).unwrap();
        let mut cell = 1;
        for first in [2, 6] {
            let lines = [
                format!("%{first} = iota() dtype=i64 shape=[2] $ 9 1"),
                format!("%{} = take(%{cell}, %{first}) axis=0 wrap=false #5", first + 1),
                format!("%{} = binary(%{cell}, %{}) kind=sub scalar=none", first + 2, first + 1),
                format!("%{} = write(%{cell}, %{})", first + 3, first + 2),
            ];
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            worker.send(window(&lines, &[first, first + 1, first + 2, cell], &[]), &never).unwrap();
            cell = first + 3;
        }
        let failure = match worker.synchronize(&never) {
            Err(ReadError::Failed(failure)) => failure,
            other => panic!("expected a failure, got {other:?}"),
        };
        assert_eq!((failure.kind, failure.site), (FailureKind::Index, SiteId(5)));
        // Both steps failed alike: that is one error.
        assert_eq!(read(&worker, cell), [1.0, 2.0]);
        worker.synchronize(&never).unwrap();
    });
}

#[test]
fn a_read_raises_a_skipped_write_first() {
    within_time(|| {
        let worker = reference(SessionConfig::default());
        let lines = [
            "%1 = upload() dtype=f32 shape=[1]",
            "%2 = iota() dtype=i64 shape=[1] $ 9 1",
            "%3 = take(%1, %2) axis=0 wrap=false",
            "%4 = write(%1, %3)",
        ];
        worker.send(window(&lines, &[1, 2, 3], &[&[7.0]]), &never).unwrap();
        assert_eq!(failure(worker.read(TensorId(4), &never)).kind, FailureKind::Index);
        assert_eq!(read(&worker, 4), [7.0]);
    });
}

#[test]
fn frees_give_memory_back() {
    within_time(|| {
        let worker = reference(SessionConfig::default());
        worker.send(window(&["%1 = fill() dtype=f32 shape=[1000] $ 1.0"], &[], &[]), &never).unwrap();
        worker.synchronize(&never).unwrap();
        let before = worker.worker().memory().live_bytes;
        assert!(before >= 4000);
        worker.send(window(&[], &[1], &[]), &never).unwrap();
        worker.synchronize(&never).unwrap();
        assert_eq!(worker.worker().memory().live_bytes, 0);
        assert!(worker.worker().memory().peak_bytes >= before);
        // Freed beside instructions that do not use it, and used by ones that do.
        worker.send(window(&["%2 = fill() dtype=f32 shape=[1000] $ 1.0"], &[], &[]), &never).unwrap();
        worker.send(window(&["%3 = fill() dtype=f32 shape=[10] $ 1.0"], &[2], &[]), &never).unwrap();
        worker.send(window(&["%4 = unary(%3) kind=exp"], &[3, 4], &[]), &never).unwrap();
        worker.trim();
        worker.synchronize(&never).unwrap();
        assert_eq!((worker.worker().memory().live_bytes, worker.stats().live_tensors), (0, 0));
    });
}

#[test]
fn out_of_memory_names_the_largest_values() {
    within_time(|| {
        let worker = session(|| Reference::with_limit(10_000), SessionConfig::default());
        let lines = ["%1 = fill() dtype=f32 shape=[1000] $ 1.0 #3", "%2 = fill() dtype=f32 shape=[500] $ 1.0 #4"];
        worker.send(window(&lines, &[], &[]), &never).unwrap();
        worker.send(window(&["%3 = fill() dtype=f32 shape=[5000] $ 1.0 #5"], &[], &[]), &never).unwrap();
        let failure = failure(worker.read(TensorId(3), &never));
        assert_eq!(failure.kind, FailureKind::Memory);
        assert_eq!(failure.holders, [(4000, SiteId(3)), (2000, SiteId(4))]);
    });
}

#[test]
fn a_panicking_engine_poisons_one_window_only() {
    within_time(|| {
        let gate = Arc::new(Gate::default());
        gate.open();
        let engine = Gated { inner: Reference::new(), gate, panic_at: Some(0), runs: 0 };
        let worker = session(move || engine, SessionConfig::default());
        let lines = ["%1 = fill() dtype=f32 shape=[2] $ 3.0", "%2 = reshape(%1) shape=[2, 1]"];
        worker.send(window(&lines, &[], &[]), &never).unwrap();
        let failure = failure(worker.read(TensorId(2), &never));
        assert_eq!(failure.kind, FailureKind::Internal);
        assert!(failure.message.contains("the chosen run"), "{failure}");
        worker.send(window(&["%3 = unary(%1) kind=neg"], &[], &[]), &never).unwrap();
        assert_eq!(read(&worker, 3), [-3.0, -3.0]);
    });
}

#[test]
fn a_refused_window_poisons_its_values_and_keeps_cells() {
    within_time(|| {
        let worker = reference(SessionConfig::default());
        worker.send(window(&["%1 = upload() dtype=f32 shape=[1]"], &[], &[&[7.0]]), &never).unwrap();
        let lines = ["%10 = unary(%9) kind=exp #8", "%11 = write(%1, %10)"];
        worker.send(window(&lines, &[1], &[]), &never).unwrap();
        worker.send(window(&["%12 = unary(%10) kind=exp"], &[], &[]), &never).unwrap();
        let first = match worker.synchronize(&never) {
            Err(ReadError::Failed(failure)) => failure,
            other => panic!("expected a failure, got {other:?}"),
        };
        assert_eq!((first.kind, first.site), (FailureKind::Internal, SiteId(8)));
        assert!(first.message.contains("%9, which does not exist"), "{first}");
        let kept = first.skipped.as_ref().map(|write| write.kept.len());
        assert_eq!(kept, Some(1), "the failure names the cell that kept its value");
        assert_eq!(failure(worker.read(TensorId(12), &never)), Failure { skipped: None, ..(*first).clone() }.into());
        assert_eq!(read(&worker, 11), [7.0]);
    });
}

#[test]
fn a_value_that_never_was_is_an_error_and_no_wait() {
    within_time(|| {
        let worker = reference(SessionConfig::default());
        assert_eq!(failure(worker.read(TensorId(99), &never)).kind, FailureKind::Internal);
    });
}

#[test]
fn an_engine_that_finishes_late_changes_nothing() {
    within_time(|| {
        let worker = session(|| Late::new(Reference::new(), 3), SessionConfig::default());
        worker.send(window(&["%1 = upload() dtype=f32 shape=[2]"], &[], &[&[4.0, 8.0]]), &never).unwrap();
        let (mut next, mut w) = (2, 1);
        let mut expected = [4.0f32, 8.0];
        for i in 0..30 {
            worker.send(step(next, w, 0.5), &never).unwrap();
            expected = expected.map(|x| x * 0.5 + 1.0);
            (w, next) = (next + 3, next + 4);
            if i % 7 == 0 {
                assert_eq!(read(&worker, w), expected);
            }
        }
        // A value that is freed before it is published is gone all the same.
        worker.send(window(&[&format!("%{next} = fill() dtype=f32 shape=[4] $ 1.0")], &[], &[]), &never).unwrap();
        worker.send(window(&[], &[next], &[]), &never).unwrap();
        assert_eq!(read(&worker, w), expected);
        worker.synchronize(&never).unwrap();
        assert_eq!(worker.stats().live_tensors, 1);
    });
}

#[test]
fn long_windows_are_split_when_asked() {
    within_time(|| {
        let worker = reference(SessionConfig { batch_limit: Some(2), ..SessionConfig::default() });
        let lines = [
            "%1 = upload() dtype=f32 shape=[1]",
            "%2 = unary(%1) kind=neg",
            "%3 = unary(%2) kind=neg",
            "%4 = upload() dtype=f32 shape=[1]",
            "%5 = binary(%3, %4) kind=add scalar=none",
        ];
        worker.send(window(&lines, &[1, 2, 3, 4], &[&[3.0], &[4.0]]), &never).unwrap();
        assert_eq!(read(&worker, 5), [7.0]);
        worker.synchronize(&never).unwrap();
        let stats = worker.stats();
        assert_eq!((stats.windows, stats.plan_misses, stats.live_tensors), (1, 3, 1));
    });
}

#[test]
fn shutdown_sends_readers_home() {
    within_time(|| {
        let (engine, gate) = Gated::new();
        let worker = session(move || engine, SessionConfig::default());
        let lines = ["%1 = fill() dtype=f32 shape=[2] $ 3.0", "%2 = reshape(%1) shape=[2, 1]"];
        worker.send(window(&lines, &[], &[]), &never).unwrap();
        worker.send(window(&["%3 = unary(%1) kind=neg"], &[], &[]), &never).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let reader = std::thread::spawn({
            let (worker, ended) = (worker.clone(), ended.clone());
            move || {
                let result = worker.read(TensorId(3), &never);
                ended.store(true, SeqCst);
                result
            }
        });
        std::thread::sleep(Duration::from_millis(20));
        worker.worker().shutdown();
        assert!(!worker.worker().shutdown_and_wait(Duration::from_millis(10)));
        gate.open();
        assert!(worker.worker().shutdown_and_wait(Duration::from_secs(5)));
        assert_eq!(reader.join().unwrap(), Err(ReadError::Stopped));
        assert!(ended.load(SeqCst));
        assert_eq!(worker.read(TensorId(1), &never), Err(ReadError::Stopped));
        worker.send(window(&["%4 = fill() dtype=f32 shape=[2] $ 3.0"], &[], &[]), &never).unwrap();
    });
}

#[test]
fn a_value_counted_as_held_when_its_reader_had_closed_the_session() {
    within_time(|| {
        let session = reference(SessionConfig::default());
        session.send(window(&["%1 = fill() dtype=f32 shape=[5000] $ 2.0"], &[], &[]), &never).unwrap();
        session.synchronize(&never).unwrap();
        assert_eq!(session.worker().memory().live_bytes, 20_000);
        let (done, answered) = std::sync::mpsc::channel();
        let closer = session.clone();
        // Large values are copied by a thread of their own, which calls this.
        let then = move |value: Result<gt_worker::Copied, ReadError>| {
            assert_eq!(value.unwrap().tensor.bytes.len(), 20_000);
            closer.close();
            wait_until(|| closer.worker().stats().sessions == 0);
            done.send(closer.worker().memory().live_bytes).unwrap();
        };
        session.read_then(TensorId(1), session.sent(), Box::new(then));
        assert_eq!(answered.recv().unwrap(), 0);
    });
}

#[test]
fn each_value_was_shown_to_all_who_waited_for_others() {
    within(Duration::from_secs(60), || {
        let worker = session(Reference::new, SessionConfig::default());
        let count = 40_000u64;
        let answered = Arc::new(AtomicUsize::new(0));
        for id in 0..count {
            let answered = answered.clone();
            let then = move |found: Result<_, _>| _ = answered.fetch_add(usize::from(found.is_err()), SeqCst);
            worker.read_then(TensorId(10_000_000 + id), count, Box::new(then));
        }
        let begun = Instant::now();
        for first in (0..count).step_by(1000) {
            let lines: Vec<String> =
                (0..1000).map(|k| format!("%{} = fill() dtype=f32 shape=[0] $ 1.0", 1 + first + k)).collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            worker.send(window(&lines, &[], &[]), &never).unwrap();
        }
        worker.synchronize(&never).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert_eq!(answered.load(SeqCst), 0);
    });
}
