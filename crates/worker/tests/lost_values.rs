//! A session whose values elsewhere are gone: only what depends on them fails.

mod support;

use std::sync::Arc;
use std::sync::mpsc::channel;

use gt_engine_check::{Late, Reference};
use gt_ir::{Failure, FailureKind, HostTensor, TensorId};
use gt_worker::{ReadError, SessionConfig, SessionHandle, WorkerConfig, WorkerHandle};
use support::*;

fn bereft(worker: &WorkerHandle) -> SessionHandle {
    let lost = Failure::new(FailureKind::WorkerLost, "it was on worker_7, which is gone");
    worker.open(SessionConfig { lost: Some(Arc::new(lost)), ..SessionConfig::default() })
}

fn on_both_engines(body: fn(WorkerHandle)) {
    within_time(move || {
        body(WorkerHandle::spawn(Reference::new, WorkerConfig::default()));
        body(WorkerHandle::spawn(|| Late::new(Reference::new(), 7), WorkerConfig::default()));
    });
}

fn assert_lost(session: &SessionHandle, id: u64) {
    let failure = failure(session.read(TensorId(id), &never));
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::WorkerLost, "it was on worker_7, which is gone")
    );
}

#[test]
fn only_dependents_of_lost_values_fail() {
    on_both_engines(|worker| {
        let session = bereft(&worker);
        let lines = [
            "%10 = fill() dtype=f32 shape=[2] $ 3.0",
            "%11 = binary(%10, %1) kind=add scalar=none",
            "%12 = unary(%10) kind=neg",
            "%13 = unary(%11) kind=neg",
            "%14 = unary(%12) kind=neg",
        ];
        session.send(window(&lines, &[13, 10, 1], &[]), &never).unwrap();
        session.send(window(&["%15 = unary(%11) kind=neg", "%16 = unary(%14) kind=neg"], &[12], &[]), &never).unwrap();
        assert_eq!(read(&session, 14), [3.0, 3.0]);
        assert_eq!(read(&session, 16), [-3.0, -3.0]);
        assert_lost(&session, 11);
        assert_lost(&session, 15);
        // What was never sent here is lost too.
        assert_lost(&session, 2);
        session.synchronize(&never).unwrap();
    });
}

#[test]
fn a_write_of_new_values_recovers_a_lost_cell() {
    on_both_engines(|worker| {
        let session = bereft(&worker);
        let lines = [
            "%10 = fill() dtype=f32 shape=[2] $ 3.0",
            "%11 = write(%1, %10)",
            "%12 = unary(%11) kind=neg",
            "%13 = unary(%2) kind=neg",
            "%14 = write(%11, %13)",
        ];
        session.send(window(&lines, &[1, 11], &[]), &never).unwrap();
        // The second write is skipped, the cell keeps its value, and that is said once.
        assert_eq!(failure(session.read(TensorId(14), &never)).kind, FailureKind::WorkerLost);
        assert_eq!(read(&session, 14), [3.0, 3.0]);
        assert_eq!(read(&session, 12), [-3.0, -3.0]);
    });
}

#[test]
fn a_copy_for_somebody_else_raises_nothing() {
    on_both_engines(|worker| {
        let session = bereft(&worker);
        let lines = ["%10 = fill() dtype=f32 shape=[2] $ 3.0", "%11 = unary(%2) kind=neg", "%12 = write(%10, %11)"];
        session.send(window(&lines, &[], &[]), &never).unwrap();
        let (answer, answered) = channel();
        session.move_then(TensorId(12), session.sent(), Box::new(move |value| answer.send(value).unwrap()));
        let departing = answered.recv().unwrap().unwrap();
        let bytes = departing.bytes().unwrap().to_vec();
        assert_eq!(floats(&HostTensor { ty: departing.ty(), bytes }), [3.0, 3.0]);
        let skipped = session.synchronize(&never);
        assert!(matches!(skipped, Err(ReadError::Failed(failure)) if failure.kind == FailureKind::WorkerLost));
        assert_eq!(session.stats().round_trips, 0);
    });
}

#[test]
fn only_dependents_of_values_that_were_given_up_fail_and_plans_are_found_again() {
    on_both_engines(|worker| {
        let session = worker.open(SessionConfig::default());
        let lost = Failure::new(FailureKind::WorkerLost, "it was on worker_7, which is gone");
        session.give_up(&[TensorId(1), TensorId(2)], &lost);
        for turn in 0..5u64 {
            let at = 10 * (turn + 1);
            let lines = [
                format!("%{at} = fill() dtype=f32 shape=[2] $ 3.0"),
                format!("%{} = binary(%{at}, %1) kind=add scalar=none", at + 1),
                format!("%{} = unary(%{at}) kind=neg", at + 2),
                format!("%{} = unary(%{}) kind=neg", at + 3, at + 1),
            ];
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            session.send(window(&lines, &[at], &[]), &never).unwrap();
            assert_eq!(read(&session, at + 2), [-3.0, -3.0]);
            assert_lost(&session, at + 1);
            assert_lost(&session, at + 3);
        }
        assert_lost(&session, 2);
        let stats = session.stats();
        assert!(stats.plan_misses <= 2, "{} plans were made", stats.plan_misses);
        // Nobody is told of what was known.
        session.synchronize(&never).unwrap();
        session
            .send(window(&["%90 = fill() dtype=f32 shape=[2] $ 4.0", "%91 = write(%1, %90)"], &[1], &[]), &never)
            .unwrap();
        assert_eq!(read(&session, 91), [4.0, 4.0]);
    });
}
