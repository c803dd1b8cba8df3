//! Attacks of one session on a worker that serves others too, byte for byte as they went over the wire.

mod serving;
#[path = "../../worker/tests/support/mod.rs"]
mod support;

use gt_engine_cpu::{Config, CpuEngine};
use gt_net::protocol::StreamMessage;
use gt_worker::{WorkerConfig, WorkerHandle};
use serving::*;
use support::*;

/// A worker with the engine that users have.
fn stage() -> Stage {
    let config = Config { threads: 1, memory_limit_bytes: 1 << 30 };
    Stage::with(WorkerHandle::spawn(move || CpuEngine::new(config), WorkerConfig::default()), |_| {})
}

/// Queries of `[b, h, t, 0]` have logarithms of `[b, h, t]`. With `b * h = 1 (mod 2^64)` those were one element that was addressed as
/// many: whoever read and wrote it reached all of the worker's memory.
#[test]
fn attention_whose_rows_wrap_reached_the_memory_of_other_sessions() {
    within_time(|| {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/window/attention-whose-rows-wrap");
        let with_reshape = std::fs::read(file).unwrap();
        // Without the last of its five instructions, which has ten bytes before the four that end the window.
        let alone = [&[4], &with_reshape[1..with_reshape.len() - 14], &[0; 4]].concat();
        let stage = stage();
        let control = &stage.control;
        control.open(3);
        let other = stage.attach(3);
        control.send(3, 0, &spelled(&["%1 = fill() dtype=f32 shape=[2] $ 3.0"], &[], &[]));
        for (session, attack) in [(1, alone), (2, with_reshape)] {
            control.open(session);
            control.stream(session, 0, &StreamMessage::Send { window: &attack });
            match control.said_otherwise() {
                Said::Broken(of, reason) if of == session => assert!(reason.contains("too large"), "{reason}"),
                said => panic!("the window was taken: {said:?}"),
            }
        }
        control.send(3, 1, &spelled(&["%2 = binary(%1) kind=add scalar=right $ 2.0"], &[], &[]));
        control.read(3, 2, 7, 2);
        assert_eq!(other.floats(7), [5.0, 5.0]);
    });
}
