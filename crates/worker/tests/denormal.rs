//! Denormal numbers count as zeros in the sessions that ask for it, and in no other.

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gt_engine_cpu::{Config, CpuEngine};
use gt_ir::TensorId;
use gt_worker::{SessionConfig, SessionHandle, WorkerConfig, WorkerHandle};
use support::*;

/// Enough elements that all threads of the engine have some.
const LINES: [&str; 5] = [
    "%1 = fill() dtype=f32 shape=[1000, 1000] $ 2e-38",
    // The result is denormal: 1e-38.
    "%2 = binary(%1) kind=mul scalar=right $ 0.5",
    "%3 = fill() dtype=f32 shape=[1000, 1000] $ 1.5e-38",
    "%4 = binary(%3) kind=mul scalar=right $ 0.5",
    // So is an operand.
    "%5 = binary(%4) kind=mul scalar=right $ 1000.0",
];

fn results(session: &SessionHandle) -> [f32; 2] {
    session.send(window(&LINES, &[], &[]), &never).unwrap();
    let all = |id: u64| {
        let values = floats(&session.read(TensorId(id), &never).unwrap());
        assert!(values.iter().all(|&x| x == values[0]), "every thread computes in the same mode");
        values[0]
    };
    let found = [all(2), all(5)];
    session.send(window(&[], &[1, 2, 3, 4, 5], &[]), &never).unwrap();
    found
}

#[test]
fn a_session_that_flushes_does_not_change_the_numbers_of_another() {
    within_time(|| {
        let make = || CpuEngine::new(Config { threads: 3, memory_limit_bytes: 1 << 30 });
        let worker = WorkerHandle::spawn(make, WorkerConfig::default());
        let open = |flushes: bool| {
            let flush_denormal = Arc::new(AtomicBool::new(flushes));
            worker.open(SessionConfig { flush_denormal, ..SessionConfig::default() })
        };
        let (flushing, exact) = (open(true), open(false));
        let kept = [2e-38f32 * 0.5, 1.5e-38f32 * 0.5 * 1000.0];
        assert!(kept.iter().all(|&x| x > 0.0));
        let flushed = if gt_engine_cpu::denormal::is_supported() { [0.0; 2] } else { kept };
        for _ in 0..3 {
            assert_eq!(results(&flushing), flushed);
            assert_eq!(results(&exact), kept);
        }
        // It may change while the session lives.
        flushing.set_flush_denormal(false);
        assert_eq!(results(&flushing), kept);
        assert!(!gt_engine_cpu::denormal::is_flushed(), "this thread's mode is its own");
    });
}
