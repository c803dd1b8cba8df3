//! Values and payloads that come from elsewhere, and reads that do not wait.

mod support;

use std::sync::Arc;
use std::sync::mpsc::channel;

use gt_engine_check::{Late, Reference};
use gt_ir::{Bytes, DType, Failure, FailureKind, SiteId, TensorId, TensorType};
use gt_stream::Occurrence;
use gt_worker::{ReadError, SessionConfig, SessionHandle, WorkerConfig, WorkerHandle};
use parking_lot::Mutex;
use support::*;

/// Runs the body on an engine that is done at once and on one that finishes late.
fn on_both_engines(body: fn(WorkerHandle)) {
    within_time(move || {
        body(WorkerHandle::spawn(Reference::new, WorkerConfig::default()));
        body(WorkerHandle::spawn(|| Late::new(Reference::new(), 23), WorkerConfig::default()));
    });
}

fn open(worker: &WorkerHandle) -> SessionHandle {
    worker.open(SessionConfig::default())
}

fn bytes(values: &[f32]) -> Bytes {
    values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>().into()
}

fn floats_type(len: usize) -> TensorType {
    TensorType::new(DType::F32, &[len])
}

fn lost(message: &str) -> Failure {
    Failure::new(FailureKind::WorkerLost, message)
}

/// Two uploads that travel apart, their sum, and a value that needs neither.
fn sum_of_uploads() -> (Occurrence, Vec<(u32, TensorId)>) {
    let lines = [
        "%1 = upload() dtype=f32 shape=[2] #11",
        "%2 = upload() dtype=f32 shape=[2] #12",
        "%3 = binary(%1, %2) kind=add scalar=none",
        "%4 = unary(%1) kind=neg",
        "%5 = fill() dtype=f32 shape=[1] $ 6.0",
    ];
    (window(&lines, &[], &[]), vec![(0, TensorId(1)), (1, TensorId(2))])
}

#[test]
fn a_payload_may_come_before_or_after_its_window_and_nobody_else_waits() {
    on_both_engines(|worker| {
        let (session, other) = (open(&worker), open(&worker));
        session.supply(TensorId(2), bytes(&[10.0, 20.0])).unwrap();
        let (window_of_sum, missing) = sum_of_uploads();
        session.send_waiting(window_of_sum, missing, &never).unwrap();
        session.send(window(&["%6 = unary(%3) kind=neg"], &[], &[]), &never).unwrap();
        for first in 0..5 {
            other.send(two(2 * first), &never).unwrap();
            assert_eq!(read(&other, 2 * first), [3.0, 3.0]);
        }
        assert_eq!(session.stats().windows, 0);
        assert_eq!(session.read(TensorId(6), &|| true), Err(ReadError::Interrupted));
        session.supply(TensorId(1), bytes(&[1.0, 2.0])).unwrap();
        assert_eq!(read(&session, 6), [-11.0, -22.0]);
        session.synchronize(&never).unwrap();
        assert_eq!(session.stats().bytes_in, 16);
    });
}

#[test]
fn a_lost_payload_poisons_what_depends_on_it_alone() {
    on_both_engines(|worker| {
        for config in [SessionConfig::default(), SessionConfig { batch_limit: Some(2), ..SessionConfig::default() }] {
            let session = worker.open(config);
            let (window_of_sum, missing) = sum_of_uploads();
            let window_of_sum = of(gt_ir::Window { frees: vec![TensorId(2)], ..window_of_sum.window() });
            session.send_waiting(window_of_sum, missing, &never).unwrap();
            session.fail(TensorId(2), lost("the client is gone"));
            session.supply(TensorId(1), bytes(&[1.0, 2.0])).unwrap();
            let failure = failure(session.read(TensorId(3), &never));
            assert_eq!((failure.kind, failure.site), (FailureKind::WorkerLost, SiteId(12)));
            assert_eq!((failure.op.as_str(), failure.worker.as_str()), ("upload", "worker_0"));
            assert_eq!(read(&session, 4), [-1.0, -2.0]);
            assert_eq!(read(&session, 5), [6.0]);
            session.synchronize(&never).unwrap();
            assert_eq!((session.stats().live_tensors, session.stats().failures), (4, 1));
        }
    });
}

#[test]
fn a_payload_of_the_wrong_size_is_refused_and_ends_nothing() {
    on_both_engines(|worker| {
        let session = open(&worker);
        let (window_of_sum, missing) = sum_of_uploads();
        session.send_waiting(window_of_sum, missing, &never).unwrap();
        session.supply(TensorId(1), bytes(&[1.0])).unwrap();
        session.supply(TensorId(2), bytes(&[1.0, 2.0])).unwrap();
        let refused = failure(session.read(TensorId(3), &never));
        assert!(refused.message.contains("4 bytes, expected 8"), "{refused}");
        session
            .send_waiting(window(&["%6 = fill() dtype=f32 shape=[1] $ 6.0"], &[], &[]), vec![(7, TensorId(8))], &never)
            .unwrap();
        session.supply(TensorId(8), bytes(&[1.0])).unwrap();
        assert_eq!(read(&session, 6), [6.0]);
    });
}

#[test]
fn more_than_anyone_asked_for_is_refused() {
    on_both_engines(|worker| {
        let session = worker.open(SessionConfig { credits_bytes: 100, ..SessionConfig::default() });
        session.supply(TensorId(1), bytes(&[0.0; 20])).unwrap();
        let refused = session.supply(TensorId(2), bytes(&[0.0; 6])).unwrap_err();
        assert_eq!((refused.len_bytes, refused.held_bytes, refused.limit_bytes), (24, 80, 100));
        // A value that was announced may be larger than all credits.
        session.expect(TensorId(3), floats_type(1000), SiteId(0));
        session.supply(TensorId(3), bytes(&[2.0; 1000])).unwrap();
        assert_eq!(read(&session, 3).len(), 1000);
    });
}

#[test]
fn values_from_elsewhere_come_in_stream_order() {
    on_both_engines(|worker| {
        let session = open(&worker);
        session.expect(TensorId(1), floats_type(2), SiteId(4));
        session.supply(TensorId(1), bytes(&[1.0, 2.0])).unwrap();
        session.send(window(&["%10 = unary(%1) kind=neg"], &[], &[]), &never).unwrap();
        session.expect(TensorId(2), floats_type(2), SiteId(5));
        session.send(window(&["%11 = binary(%10, %2) kind=add scalar=none"], &[], &[]), &never).unwrap();
        session.expect(TensorId(3), floats_type(2), SiteId(6));
        session.send(window(&["%12 = unary(%3) kind=neg"], &[], &[]), &never).unwrap();
        assert_eq!(read(&session, 10), [-1.0, -2.0]);
        session.fail(TensorId(3), lost("worker_1 is gone"));
        session.supply(TensorId(2), bytes(&[5.0, 5.0])).unwrap();
        assert_eq!(read(&session, 11), [4.0, 3.0]);
        let failure = failure(session.read(TensorId(12), &never));
        assert_eq!((failure.kind, failure.site), (FailureKind::WorkerLost, SiteId(6)));
        assert_eq!(session.sent(), 6);
    });
}

#[test]
fn reads_that_do_not_wait_are_answered_once_each() {
    on_both_engines(|worker| {
        let session = open(&worker);
        let answers = Arc::new(Mutex::new(Vec::new()));
        let ask = |id: u64, sent: u64| {
            let answers = answers.clone();
            let then = move |result: Result<gt_worker::Copied, ReadError>| {
                answers.lock().push((id, result.map(|t| floats(&t.tensor)[0]).map_err(|_| "failed")));
            };
            session.read_then(TensorId(id), sent, Box::new(then));
        };
        // Asked before anything was sent: it waits for the window that is to come.
        ask(3, 1);
        ask(9, 1);
        assert!(answers.lock().is_empty());
        session.send(window(&["%3 = fill() dtype=f32 shape=[1] $ 3.0"], &[], &[]), &never).unwrap();
        session.synchronize(&never).unwrap();
        wait_until(|| answers.lock().len() == 2);
        for id in 4..40 {
            session.send(window(&[&format!("%{id} = fill() dtype=f32 shape=[1] $ {id}.0")], &[], &[]), &never).unwrap();
            ask(id, session.sent());
            // The same again: the first who asked is answered first.
            ask(id, session.sent());
        }
        session.synchronize(&never).unwrap();
        wait_until(|| answers.lock().len() == 74);
        let answers = std::mem::take(&mut *answers.lock());
        assert_eq!(answers[..2], [(3, Ok(3.0)), (9, Err("failed"))]);
        let mut sorted = answers[2..].to_vec();
        sorted.sort_by_key(|(id, _)| *id);
        let expected: Vec<(u64, Result<f32, &str>)> = (4..40).flat_map(|id| [(id, Ok(id as f32)); 2]).collect();
        assert_eq!(sorted, expected);
        assert_eq!(session.stats().round_trips, 74);
    });
}

#[test]
fn small_values_are_answered_in_the_order_they_are_made() {
    within_time(|| {
        let session = reference(SessionConfig::default());
        let (said, heard) = channel();
        for id in 1..=100 {
            let said = said.clone();
            session.read_then(
                TensorId(id),
                id,
                Box::new(move |result| said.send((id, floats(&result.unwrap().tensor))).unwrap()),
            );
        }
        for id in 1..=100 {
            session.send(window(&[&format!("%{id} = fill() dtype=f32 shape=[1] $ {id}.0")], &[], &[]), &never).unwrap();
        }
        for id in 1..=100 {
            assert_eq!(heard.recv().unwrap(), (id, vec![id as f32]));
        }
    });
}

#[test]
fn large_values_are_copied_beside_the_device() {
    on_both_engines(|worker| {
        let session = open(&worker);
        let (said, heard) = channel();
        for (id, len) in [(1, 1024), (2, 1025)] {
            let said = said.clone();
            let then = move |result: Result<gt_worker::Copied, ReadError>| {
                let thread = std::thread::current().name().unwrap_or_default().to_string();
                said.send((result.unwrap().tensor.bytes.len(), thread)).unwrap();
            };
            session.read_then(TensorId(id), id, Box::new(then));
            let line = format!("%{id} = fill() dtype=f32 shape=[{len}] $ 1.0");
            session.send(window(&[&line], &[], &[]), &never).unwrap();
            let (len_bytes, thread) = heard.recv().unwrap();
            assert_eq!(len_bytes, 4 * len);
            assert_eq!(thread == "worker_0-copy", len > 1024, "{thread}");
        }
        assert_eq!(session.stats().bytes_out, 4 * (1024 + 1025));
    });
}

#[test]
fn a_callback_that_panics_ends_nothing() {
    on_both_engines(|worker| {
        let session = open(&worker);
        session.on_executed(Box::new(|_| panic!("on purpose")));
        for (id, len) in [(1, 1), (2, 5000)] {
            session.read_then(TensorId(id), id, Box::new(|_| panic!("on purpose")));
            let line = format!("%{id} = fill() dtype=f32 shape=[{len}] $ 4.0");
            session.send(window(&[&line], &[], &[]), &never).unwrap();
        }
        let (said, heard) = channel();
        session.read_then(TensorId(2), 2, Box::new(move |result| said.send(result.is_ok()).unwrap()));
        assert!(heard.recv().unwrap());
        session.synchronize(&never).unwrap();
        assert_eq!(read(&session, 1), [4.0]);
    });
}

#[test]
fn what_has_run_is_told_in_order_and_a_synchronize_need_not_wait() {
    on_both_engines(|worker| {
        let session = open(&worker);
        let (ran, runs) = channel();
        let ran = Mutex::new(ran);
        assert!(session.on_executed(Box::new(move |done| ran.lock().send(done).unwrap())));
        assert!(!session.on_executed(Box::new(|_| {})));
        let (said, heard) = channel();
        session.synchronize_then(5, Box::new(move |result| said.send(result).unwrap()));
        let lines = [
            "%0 = upload() dtype=f32 shape=[1]",
            "%1 = iota() dtype=i64 shape=[1] $ 9 1",
            "%2 = take(%0, %1) axis=0 wrap=false",
            "%3 = write(%0, %2)",
        ];
        session.send(window(&lines, &[0, 1, 2], &[&[7.0]]), &never).unwrap();
        for first in [4, 6, 8, 10] {
            assert!(heard.try_recv().is_err());
            session.send(two(first), &never).unwrap();
        }
        assert!(matches!(heard.recv().unwrap(), Err(ReadError::Failed(f)) if f.kind == FailureKind::Index));
        assert_eq!((1..=5).map(|_| runs.recv().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        let (said, heard) = channel();
        session.synchronize_then(session.sent(), Box::new(move |result| said.send(result).unwrap()));
        assert_eq!(heard.recv().unwrap(), Ok(()));
        assert_eq!(session.stats().syncs, 2);
    });
}

#[test]
fn a_closed_session_answers_what_was_left_and_forgets_what_waited() {
    on_both_engines(|worker| {
        let session = open(&worker);
        let (window_of_sum, missing) = sum_of_uploads();
        session.send_waiting(window_of_sum, missing, &never).unwrap();
        session.supply(TensorId(1), bytes(&[1.0, 2.0])).unwrap();
        let (said, heard) = channel();
        let other = said.clone();
        session.read_then(TensorId(3), session.sent(), Box::new(move |result| said.send(result.map(|_| ())).unwrap()));
        session.synchronize_then(session.sent(), Box::new(move |result| other.send(result).unwrap()));
        drop(session);
        assert_eq!([heard.recv().unwrap(), heard.recv().unwrap()], [Err(ReadError::Stopped), Err(ReadError::Stopped)]);
        assert!(heard.recv().is_err(), "each is answered once");
        wait_until(|| worker.stats().sessions == 0);
        assert_eq!((worker.stats().windows, worker.stats().live_tensors), (0, 0));
        assert!(worker.shutdown_and_wait(std::time::Duration::from_secs(5)));
        let late = open(&worker);
        assert_eq!(late.read(TensorId(1), &never), Err(ReadError::Stopped));
        late.send(two(1), &never).unwrap();
    });
}
