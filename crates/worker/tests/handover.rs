//! Windows that only hand payloads over: what is in the engine's memory becomes a value without a plan.

mod support;

use gt_engine_check::Late;
use gt_engine_cpu::{Config, CpuEngine};
use gt_ir::{FailureKind, HostAllocator, Payload, TensorId};
use gt_stream::Occurrence;
use gt_worker::{SessionConfig, SessionHandle};
use support::*;

fn engine() -> CpuEngine {
    CpuEngine::new(Config { threads: 1, memory_limit_bytes: 1 << 20 })
}

/// A session whose engine is there: it has run two instructions.
fn started(session: SessionHandle) -> SessionHandle {
    session.send(two(1000), &never).unwrap();
    session.synchronize(&never).unwrap();
    session
}

/// A window of uploads of four numbers each, in the engine's memory.
fn uploads(session: &SessionHandle, first: u64, values: &[f32], frees: &[u64]) -> Occurrence {
    let lines: Vec<String> =
        (0..values.len() as u64).map(|i| format!("%{} = upload() dtype=f32 shape=[4]", first + i)).collect();
    let mut window = spelled(&lines.iter().map(String::as_str).collect::<Vec<_>>(), frees, &[]);
    for (instr, value) in values.iter().enumerate() {
        let mut memory = session.memory().allocate(16).unwrap();
        memory.bytes_mut().as_chunks_mut::<4>().0.iter_mut().for_each(|b| *b = value.to_le_bytes());
        window.uploads.push(Payload { instr: instr as u32, bytes: memory.freeze() });
    }
    of(window)
}

#[test]
fn payloads_become_values_without_a_plan_and_their_memory_comes_back_at_once() {
    within_time(|| {
        let session = started(session(engine, SessionConfig::default()));
        let (before, sent) = (session.stats(), session.sent());
        for turn in 0..20u64 {
            let frees: &[u64] = if turn == 0 { &[] } else { &[2 * turn - 2, 2 * turn - 1] };
            session.send(uploads(&session, 2 * turn, &[turn as f32, 0.5], frees), &never).unwrap();
            // Nobody has waited for the worker.
            let values = session.values();
            assert!(values.contains(&TensorId(2 * turn)) && !values.iter().any(|id| frees.contains(&id.0)));
            assert_eq!(read(&session, 2 * turn), [turn as f32; 4]);
        }
        let after = session.stats();
        assert_eq!(session.sent(), sent, "no message was sent");
        assert_eq!(after.plan_misses, before.plan_misses);
        assert_eq!(after.windows - before.windows, 20);
        assert_eq!(after.total_instructions - before.total_instructions, 40);
        assert_eq!(after.bytes_in - before.bytes_in, 40 * 16);
        assert_eq!(after.live_bytes - before.live_bytes, 2 * 64, "two values of one block each");
        session.send(window(&["%100 = binary(%38, %39) kind=add scalar=none"], &[38, 39], &[]), &never).unwrap();
        assert_eq!(read(&session, 100), [19.5; 4]);
    });
}

#[test]
fn what_is_freed_while_the_worker_has_to_do_is_freed_in_its_turn() {
    within_time(|| {
        let session = started(session(|| Late::new(engine(), 7), SessionConfig::default()));
        for turn in 0..100u64 {
            let first = 10 * turn;
            session.send(uploads(&session, first, &[1.0, 2.0], &[]), &never).unwrap();
            let sum = format!("%{} = binary(%{first}, %{}) kind=add scalar=none", first + 2, first + 1);
            session.send(window(&[&sum], &[], &[]), &never).unwrap();
            // The sum may not have been computed when its inputs are freed.
            session.send(uploads(&session, first + 3, &[turn as f32], &[first, first + 1]), &never).unwrap();
            let other = format!("%{} = binary(%{}, %{}) kind=add scalar=none", first + 4, first + 2, first + 3);
            session.send(window(&[&other], &[first + 2, first + 3], &[]), &never).unwrap();
            assert_eq!(read(&session, first + 4), [3.0 + turn as f32; 4]);
        }
        session.synchronize(&never).unwrap();
        assert_eq!(session.values().len(), 100 + 2, "the last sums, and what the session began with");
    });
}

#[test]
fn what_cannot_be_adopted_is_uploaded() {
    within_time(|| {
        let config = SessionConfig { memory_limit_bytes: Some(300), ..SessionConfig::default() };
        let session = started(session(engine, config));
        let plans = session.stats().plan_misses;
        // Other memory than the engine's is copied into it.
        session.send(window(&["%1 = upload() dtype=f32 shape=[2]"], &[], &[&[1.0, 2.0]]), &never).unwrap();
        assert_eq!(read(&session, 1), [1.0, 2.0]);
        assert_eq!(session.stats().plan_misses, plans + 1);
        // More than the session may have fails as any upload does, and the rest of the window does not.
        session.send(uploads(&session, 10, &[1.0; 6], &[]), &never).unwrap();
        assert_eq!(read(&session, 10), [1.0; 4]);
        assert_eq!(failure(session.read(TensorId(15), &never)).kind, FailureKind::Memory);
        // An upload whose payload nobody waits for cannot be planned.
        let without = window(&["%20 = upload() dtype=f32 shape=[5]"], &[10, 11, 12, 13, 14, 15], &[]);
        session.send(without, &never).unwrap();
        assert_eq!(failure(session.read(TensorId(20), &never)).kind, FailureKind::Internal);
    });
}

#[test]
fn a_session_that_looks_at_instructions_one_by_one_runs_them() {
    within_time(|| {
        let config = SessionConfig { batch_limit: Some(1), ..SessionConfig::default() };
        let session = started(session(engine, config));
        let plans = session.stats().plan_misses;
        session.send(uploads(&session, 0, &[1.0, 2.0], &[]), &never).unwrap();
        assert_eq!((read(&session, 0), read(&session, 1)), (vec![1.0; 4], vec![2.0; 4]));
        assert!(session.stats().plan_misses > plans);
    });
}
