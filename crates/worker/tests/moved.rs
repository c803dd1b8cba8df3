//! Values that go from one session to another of the same process, as they lie.

mod support;

use std::sync::mpsc::channel;

use gt_engine_check::{Late, Reference};
use gt_engine_cpu::{Config, CpuEngine};
use gt_ir::{DType, SiteId, TensorId, TensorType};
use gt_worker::{SessionConfig, SessionHandle, WorkerConfig, WorkerHandle};
use support::*;

const LEN: usize = 1000;
const BYTES: u64 = 4000;

fn cpu_worker() -> WorkerHandle {
    let make = || CpuEngine::new(Config { threads: 1, memory_limit_bytes: 1 << 30 });
    WorkerHandle::spawn(make, WorkerConfig::default())
}

fn cpu() -> SessionHandle {
    cpu_worker().open(SessionConfig::default())
}

fn live_bytes(session: &SessionHandle) -> u64 {
    session.synchronize(&never).unwrap();
    session.stats().live_bytes
}

fn fill(session: &SessionHandle, id: u64, value: f32) {
    let line = format!("%{id} = fill() dtype=f32 shape=[{LEN}] $ {value:?}");
    session.send(window(&[&line], &[], &[]), &never).unwrap();
}

fn negate(session: &SessionHandle, from: u64, to: u64, frees: &[u64]) {
    session.send(window(&[&format!("%{to} = unary(%{from}) kind=neg")], frees, &[]), &never).unwrap();
}

fn free(session: &SessionHandle, id: u64) {
    session.send(window(&[], &[id], &[]), &never).unwrap();
}

fn hand_over(from: &SessionHandle, id: u64, to: &SessionHandle, name: u64, len: usize) {
    to.expect(TensorId(name), TensorType::new(DType::F32, &[len]), SiteId(0));
    let (answer, answered) = channel();
    from.move_then(TensorId(id), from.sent(), Box::new(move |value| answer.send(value).unwrap()));
    to.hand(TensorId(name), answered.recv().unwrap().unwrap()).unwrap();
}

#[test]
fn a_value_is_where_it_was_and_charged_to_who_made_it() {
    within_time(|| {
        let (from, to) = (cpu(), cpu());
        fill(&from, 1, 2.5);
        hand_over(&from, 1, &to, 10, LEN);
        assert_eq!(read(&to, 10), [2.5; LEN]);
        assert_eq!((live_bytes(&to), to.stats().live_tensors), (0, 1));
        assert_eq!((to.stats().moved_bytes_in, from.stats().moved_bytes_out), (BYTES, BYTES));
        assert_eq!((from.stats().transfers, to.stats().transfers), (1, 0));
        // Freed where it was made, it lives on; freed by all, it is gone.
        free(&from, 1);
        assert!(live_bytes(&from) >= BYTES);
        assert_eq!(read(&to, 10), [2.5; LEN]);
        free(&to, 10);
        to.synchronize(&never).unwrap();
        // Memory is as of the last window that finished.
        free(&from, 2);
        assert_eq!(live_bytes(&from), 0);
    });
}

#[test]
fn what_another_worker_holds_is_not_written_by_an_operation_in_place() {
    within_time(|| {
        let (from, to) = (cpu(), cpu());
        for round in 0..50 {
            let at = round * 10;
            fill(&from, at, 3.0);
            hand_over(&from, at, &to, at, LEN);
            // It dies here while the other still has it, and the other way round.
            negate(&to, at, at + 1, &[at]);
            assert_eq!(read(&to, at + 1), [-3.0; LEN]);
            assert_eq!(read(&from, at), [3.0; LEN]);
            hand_over(&from, at, &to, at + 2, LEN);
            negate(&from, at, at + 3, &[at]);
            assert_eq!(read(&from, at + 3), [-3.0; LEN]);
            assert_eq!(read(&to, at + 2), [3.0; LEN]);
            free(&from, at + 3);
            [1, 2].iter().for_each(|k| free(&to, at + k));
        }
    });
}

#[test]
fn the_last_holder_may_write_where_the_value_lies() {
    within_time(|| {
        let (from, to) = (cpu(), cpu());
        fill(&from, 1, 3.0);
        hand_over(&from, 1, &to, 10, LEN);
        free(&from, 1);
        from.synchronize(&never).unwrap();
        negate(&to, 10, 11, &[10]);
        assert_eq!(read(&to, 11), [-3.0; LEN]);
        assert_eq!(live_bytes(&to), 0, "no memory of its own was needed");
    });
}

#[test]
fn a_value_outlives_its_session_and_its_worker() {
    within_time(|| {
        let (from, to) = (cpu(), cpu());
        fill(&from, 1, 3.0);
        hand_over(&from, 1, &to, 10, LEN);
        from.close();
        drop(from);
        negate(&to, 10, 11, &[10]);
        assert_eq!(read(&to, 11), [-3.0; LEN]);
    });
}

#[test]
fn a_narrow_view_is_copied_so_that_the_rest_can_go() {
    within_time(|| {
        let (from, to) = (cpu(), cpu());
        fill(&from, 1, 2.5);
        let line = format!("%2 = slice(%1) sizes=[{}] steps=[1] drop=[] $ 100", LEN / 4);
        from.send(window(&[&line], &[1], &[]), &never).unwrap();
        hand_over(&from, 2, &to, 10, LEN / 4);
        free(&from, 2);
        assert_eq!(read(&to, 10), [2.5; LEN / 4]);
        assert!(live_bytes(&to) >= BYTES / 4);
        free(&from, 3);
        assert_eq!(live_bytes(&from), 0);
        assert_eq!(to.stats().moved_bytes_in, BYTES / 4);
    });
}

#[test]
fn engines_of_different_kinds_copy() {
    within_time(|| {
        let late = WorkerHandle::spawn(|| Late::new(Reference::new(), 7), WorkerConfig::default());
        let sessions = [cpu(), reference(SessionConfig::default()), late.open(SessionConfig::default())];
        for (k, from) in sessions.iter().enumerate() {
            fill(from, 1, 2.5);
            for (j, to) in sessions.iter().enumerate().filter(|(j, _)| *j != k) {
                let name = 100 * (k as u64 + 1) + j as u64;
                hand_over(from, 1, to, name, LEN);
                negate(to, name, name + 50, &[name]);
                assert_eq!(read(to, name + 50), [-2.5; LEN]);
                assert_eq!(read(from, 1), [2.5; LEN]);
            }
        }
    });
}

#[test]
fn a_value_of_another_type_than_was_expected_is_no_value() {
    within_time(|| {
        let (from, to) = (cpu(), cpu());
        fill(&from, 1, 2.5);
        hand_over(&from, 1, &to, 10, LEN + 1);
        failure(to.read(TensorId(10), &never));
        assert_eq!(read(&from, 1), [2.5; LEN]);
    });
}
