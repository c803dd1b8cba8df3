//! One client, one dispatcher, several workers: windows under signals, and what is lost with a worker.

mod serving;
#[path = "../../worker/tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use gt_client::link::{Link, WaitError};
use gt_client::{signal, site};
use gt_ir::{DType, ExternalValue, Failure, FailureKind, Payload, ScopeId, TensorId, TensorType, Window};
use gt_remote::ShardedSession;
use gt_worker::WorkerStats;
use serving::bytes_of;
use serving::whole::Server;
use support::{floats, never, wait_until, within_time};

/// The scope of what is cut along its first axis, over all workers.
fn split() -> ScopeId {
    signal::auto_shard(true).unwrap();
    let scope = signal::current();
    signal::auto_shard(false).unwrap();
    scope
}

/// The scope of one worker.
fn only(worker: usize) -> ScopeId {
    signal::worker(worker).unwrap()
}

fn met(id: u64, shape: &[usize]) -> ExternalValue {
    ExternalValue { id: TensorId(id), ty: TensorType::new(DType::F32, shape), is_state: false }
}

/// A window of lines, each under a scope.
fn window(lines: &[(&str, ScopeId)], met: &[ExternalValue]) -> Window {
    let mut window = Window { met: met.to_vec(), ..Window::default() };
    for (line, scope) in lines {
        let mut instr: gt_ir::Instr = line.parse().unwrap();
        instr.scope = *scope;
        window.instrs.push(instr);
    }
    window
}

fn send(group: &ShardedSession, lines: &[(&str, ScopeId)], met: &[ExternalValue]) {
    group.send(support::of(window(lines, met)), &never).unwrap();
}

fn floats_of(group: &ShardedSession, id: u64) -> Vec<f32> {
    floats(&group.read(TensorId(id), &never).unwrap())
}

fn failure_of<T: std::fmt::Debug>(result: Result<T, WaitError>) -> Failure {
    match result {
        Err(WaitError::Failed(failure)) => failure,
        other => panic!("expected a failure, got {other:?}"),
    }
}

fn stats(group: &ShardedSession) -> Vec<WorkerStats> {
    let stats = group.stats(&never).unwrap();
    stats.iter().map(|(_, text)| WorkerStats::from_json(text).unwrap()).collect()
}

const NONE: ScopeId = ScopeId(0);

#[test]
fn a_value_is_scattered_gathered_and_summed_over_three_workers() {
    within_time(|| {
        for tcp in [false, true] {
            let server = Server::start(tcp);
            let workers = [server.worker(), server.worker(), server.worker()];
            let group = server.group();
            assert_eq!(group.workers().len(), 3);
            let values: Vec<f32> = (0..14).map(|n| n as f32).collect();
            let mut upload = window(&[("%1 = upload() dtype=f32 shape=[7,2]", NONE)], &[]);
            upload.uploads.push(Payload { instr: 0, bytes: bytes_of(&values) });
            group.send(support::of(upload), &never).unwrap();
            let sessions = || workers.iter().map(|w| w.sessions().len()).sum::<usize>();
            wait_until(|| sessions() > 0);
            assert_eq!((sessions(), floats_of(&group, 1)), (1, values.clone()), "nothing is placed yet");
            let lines =
                [("%2 = unary(%1) kind=neg", split()), ("%3 = reduce(%2) kind=sum axes=[0] keepdim=false", split())];
            send(&group, &lines, &[met(1, &[7, 2])]);
            assert_eq!(floats_of(&group, 2), values.iter().map(|v| -v).collect::<Vec<_>>());
            assert_eq!(floats_of(&group, 3), [-42.0, -49.0]);
            assert_eq!(floats_of(&group, 1), values, "what was there before is there still");
            group.synchronize(&never).unwrap();
            let stats = stats(&group);
            assert_eq!(stats.len(), 3);
            assert!(stats.iter().all(|s| s.moved_bytes_in + s.moved_bytes_out > 0), "{stats:?}");
            // To the server all of them are one session.
            let status = server.dispatcher.status();
            assert_eq!((status.sessions.len(), status.sessions[0].workers.len()), (1, 3));
            drop(group);
            wait_until(|| workers.iter().all(|worker| worker.sessions().is_empty()));
        }
    });
}

#[test]
fn large_payloads_go_to_the_worker_that_takes_them_and_on_to_others() {
    within_time(|| {
        let server = Server::start(false);
        let _workers = [server.worker(), server.worker()];
        let group = server.group();
        let values: Vec<f32> = (0..200_000).map(|n| n as f32).collect();
        let mut upload =
            window(&[("%1 = upload() dtype=f32 shape=[200000]", only(1)), ("%2 = unary(%1) kind=neg", split())], &[]);
        upload.uploads.push(Payload { instr: 0, bytes: bytes_of(&values) });
        group.send(support::of(upload), &never).unwrap();
        assert_eq!(floats_of(&group, 2), values.iter().map(|v| -v).collect::<Vec<_>>());
        // And one that is lent.
        wait_until(|| group.lends());
        send(&group, &[("%3 = upload() dtype=f32 shape=[200000]", only(1)), ("%4 = unary(%3) kind=neg", only(0))], &[]);
        group.lend(TensorId(3), &bytes_of(&values), &never).unwrap();
        assert_eq!(floats_of(&group, 4), values.iter().map(|v| -v).collect::<Vec<_>>());
    });
}

#[test]
fn a_worker_that_is_lost_in_a_collective_fails_it_everywhere_and_the_session_goes_on() {
    within_time(|| {
        let server = Server::start(false);
        let mut workers = vec![server.worker(), server.worker(), server.worker()];
        let group = server.group();
        let mut lines = window(
            &[
                ("%1 = fill() dtype=f32 shape=[6] $ 1.0", NONE),
                ("%2 = fill() dtype=f32 shape=[6] $ 5.0", only(1)),
                // Its payload never comes: whoever needs it waits.
                ("%3 = upload() dtype=f32 shape=[6]", only(2)),
                ("%4 = unary(%3) kind=neg", split()),
                ("%5 = reduce(%4) kind=sum axes=[0] keepdim=false", split()),
            ],
            &[],
        );
        lines.instrs[2].site = site::intern("train.py:12");
        group.send(support::of(lines), &never).unwrap();
        assert_eq!(floats_of(&group, 2), [5.0; 6]);
        std::thread::scope(|scope| {
            let readers = [4, 5].map(|id| {
                scope.spawn({
                    let group = &group;
                    move || (failure_of(group.read(TensorId(id), &never)), Instant::now())
                })
            });
            std::thread::sleep(Duration::from_millis(50));
            let lost_at = Instant::now();
            // Nothing more is asked of the group: its threads see to it.
            drop(workers.remove(2));
            for reader in readers {
                let (failure, at) = reader.join().unwrap();
                assert_eq!(failure.kind, FailureKind::WorkerLost, "{failure}");
                assert!(failure.message.contains("train.py:12"), "{failure}");
                assert!(at - lost_at < Duration::from_secs(5));
            }
        });
        assert_eq!(failure_of(group.read(TensorId(3), &never)).kind, FailureKind::WorkerLost);
        // What the others had is there, and what is made of what is lost is lost.
        assert_eq!(floats_of(&group, 1), [1.0; 6]);
        assert_eq!(floats_of(&group, 2), [5.0; 6]);
        let lines = [
            ("%6 = unary(%4) kind=neg", split()),
            ("%7 = fill() dtype=f32 shape=[6] $ 7.0", split()),
            ("%8 = reduce(%7) kind=sum axes=[0] keepdim=false", split()),
        ];
        send(&group, &lines, &[met(4, &[6])]);
        assert_eq!(failure_of(group.read(TensorId(6), &never)).kind, FailureKind::WorkerLost);
        assert_eq!(floats_of(&group, 8), [42.0]);
        // Whoever joins in its place is asked again.
        workers.push(server.worker());
        let mut id = 100;
        wait_until(|| {
            id += 10;
            let lines = [
                (&*format!("%{id} = fill() dtype=f32 shape=[6] $ 2.0"), split()),
                (&*format!("%{} = reduce(%{id}) kind=sum axes=[0] keepdim=false", id + 1), split()),
            ];
            send(&group, &lines, &[]);
            assert_eq!(floats_of(&group, id + 1), [12.0]);
            stats(&group).len() == 3
        });
    });
}

#[test]
fn a_home_that_is_lost_is_found_elsewhere_and_signals_go_on() {
    within_time(|| {
        let server = Server::start(false);
        let mut workers = vec![server.worker(), server.worker(), server.worker()];
        let group = server.group();
        let lines = [
            ("%1 = upload() dtype=f32 shape=[6]", NONE),
            ("%2 = fill() dtype=f32 shape=[6] $ 3.0", only(1)),
            ("%3 = unary(%1) kind=neg", split()),
        ];
        let mut first = window(&lines, &[]);
        first.uploads.push(Payload { instr: 0, bytes: bytes_of(&[1.0; 6]) });
        group.send(support::of(first), &never).unwrap();
        assert_eq!(floats_of(&group, 3), [-1.0; 6]);
        drop(workers.remove(0));
        wait_until(
            || matches!(group.read(TensorId(1), &never), Err(WaitError::Failed(f)) if f.kind == FailureKind::WorkerLost),
        );
        assert_eq!(floats_of(&group, 2), [3.0; 6], "worker 1 has it");
        let lines = [
            ("%10 = fill() dtype=f32 shape=[6] $ 4.0", NONE),
            ("%11 = binary(%10, %2) kind=add scalar=none", split()),
            ("%12 = reduce(%11) kind=sum axes=[0] keepdim=false", split()),
        ];
        send(&group, &lines, &[met(2, &[6])]);
        assert_eq!(floats_of(&group, 12), [42.0]);
        group.synchronize(&never).unwrap();
    });
}

#[test]
fn a_failure_is_raised_once_however_many_workers_met_it() {
    within_time(|| {
        let server = Server::start(false);
        let _workers = [server.worker(), server.worker()];
        let group = server.group();
        let lines = [
            ("%1 = fill() dtype=f32 shape=[6] $ 1.0", split()),
            ("%2 = fill() dtype=i64 shape=[6] $ 9", split()),
            ("%3 = gather(%1, %2) axis=0", split()),
        ];
        send(&group, &lines, &[]);
        assert_eq!(failure_of(group.read(TensorId(3), &never)).kind, FailureKind::Domain);
        group.synchronize(&never).unwrap();
    });
}

#[test]
fn workers_that_join_later_are_used_too() {
    within_time(|| {
        let server = Server::start(false);
        let group = server.group();
        assert!(group.workers().is_empty());
        let mut workers = vec![server.worker()];
        let mut turn = 0;
        for count in 1..4 {
            wait_until(|| group.workers().len() == count);
            turn += 10;
            let lines = [
                (&*format!("%{turn} = fill() dtype=f32 shape=[6] $ 2.0"), split()),
                (&*format!("%{} = unary(%{turn}) kind=neg", turn + 1), split()),
                (&*format!("%{} = reduce(%{}) kind=sum axes=[0] keepdim=false", turn + 2, turn + 1), split()),
            ];
            send(&group, &lines, &[]);
            assert_eq!(floats_of(&group, turn + 2), [-12.0]);
            assert_eq!(stats(&group).len(), count);
            workers.push(server.worker());
        }
    });
}
