//! A client's link, a dispatcher and workers that serve, together over sockets.

mod serving;
#[path = "../../worker/tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use gt_client::link::{Link, WaitError};
use gt_ir::{FailureKind, TensorId};
use gt_remote::Remote;
use gt_worker::WorkerStats;
use serving::bytes_of;
use serving::proxy::Proxy;
use serving::whole::Server;
use support::*;

fn floats_of(client: &Remote, id: u64) -> Vec<f32> {
    floats(&client.read(TensorId(id), &never).unwrap())
}

fn failure_of<T: std::fmt::Debug>(result: Result<T, WaitError>) -> gt_ir::Failure {
    match result {
        Err(WaitError::Failed(failure)) => failure,
        other => panic!("expected a failure, got {other:?}"),
    }
}

/// Counts a cell up with windows that repeat, and reads it now and then.
fn count(client: &Remote, steps: u64) {
    client.send(window(&["%1 = fill() dtype=f32 shape=[2] $ 0.0"], &[], &[]), &never).unwrap();
    for step in 1..=steps {
        let add = format!("%{} = binary(%{step}) kind=add scalar=right $ 1.0", step + 1);
        client.send(window(&[&add], &[step], &[]), &never).unwrap();
        if step % 7 == 0 {
            assert_eq!(floats_of(client, step + 1), [step as f32; 2]);
        }
    }
    assert_eq!(floats_of(client, steps + 1), [steps as f32; 2]);
}

#[test]
fn a_session_runs_on_a_worker_behind_a_server() {
    within_time(|| {
        for tcp in [false, true] {
            let server = Server::start(tcp);
            let worker = server.worker();
            let client = server.connect();
            assert_eq!(client.workers(), [worker.id()]);
            count(&client, 100);
            // Large payloads go by the data connection, both ways.
            let values: Vec<f32> = (0..100_000).map(|n| n as f32).collect();
            let lines = ["%500 = upload() dtype=f32 shape=[100000]", "%501 = unary(%500) kind=neg"];
            client.send(window(&lines, &[], &[&values]), &never).unwrap();
            assert_eq!(bytes_of(&floats_of(&client, 501)), bytes_of(&values.iter().map(|v| -v).collect::<Vec<_>>()));
            client.synchronize(&never).unwrap();
            let stats = WorkerStats::from_json(&client.stats(&never).unwrap()).unwrap();
            assert_eq!((stats.windows, stats.sessions), (102, 1));
            assert_eq!(failure_of(client.read(TensorId(7777), &never)).kind, FailureKind::Internal);
            drop(client);
            wait_until(|| worker.sessions().is_empty());
        }
    });
}

#[test]
fn several_sessions_share_a_worker_and_see_their_own_values() {
    within_time(|| {
        let server = Server::start(false);
        let _worker = server.worker();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| count(&server.connect(), 60));
            }
        });
        wait_until(|| server.dispatcher.status().sessions.is_empty());
    });
}

#[test]
fn a_session_whose_worker_stops_goes_on_at_another() {
    within_time(|| {
        let server = Server::start(false);
        let first = server.worker();
        let client = server.connect();
        count(&client, 20);
        let _second = server.worker();
        first.stop(Duration::ZERO);
        // What was there is lost, and said to be.
        wait_until(
            || matches!(client.read(TensorId(21), &never), Err(WaitError::Failed(f)) if f.kind == FailureKind::WorkerLost),
        );
        let lines = ["%900 = fill() dtype=f32 shape=[2] $ 5.0", "%901 = binary(%900, %21) kind=add scalar=none"];
        client.send(window(&lines, &[], &[]), &never).unwrap();
        assert_eq!(floats_of(&client, 900), [5.0, 5.0]);
        assert_eq!(failure_of(client.read(TensorId(901), &never)).kind, FailureKind::WorkerLost);
    });
}

/// Everything that the client says and hears goes through one proxy: its worker can be reached by way of the server only.
#[test]
fn a_network_that_was_gone_for_seven_seconds_ended_the_session() {
    const GAP: Duration = Duration::from_secs(7);
    within(Duration::from_secs(60), || {
        let server = Server::start(true);
        let worker = server.worker_that(|config| config.listen_host = None);
        let proxy = Proxy::faithful(server.port());
        let client = server.connect_by(&proxy);
        count(&client, 20);
        let before = proxy.connections();
        proxy.pause(true);
        let began = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(GAP);
                proxy.pause(false);
            });
            let add = "%900 = binary(%21) kind=add scalar=right $ 5.0";
            client.send(window(&[add], &[], &[]), &never).unwrap();
            assert_eq!(floats_of(&client, 900), [25.0; 2]);
        });
        assert!(began.elapsed() >= GAP && proxy.connections() > before, "nothing was tried");
        assert_eq!(worker.sessions().len(), 1);
    });
}

#[test]
fn a_server_that_ended_was_looked_for_as_long_as_a_network_that_is_gone() {
    within(Duration::from_secs(30), || {
        let server = Server::start(true);
        let _worker = server.worker_that(|config| config.listen_host = None);
        let proxy = Proxy::faithful(server.port());
        let client = server.connect_by(&proxy);
        count(&client, 7);
        // Its host says that nobody listens there any more.
        drop(proxy);
        let began = Instant::now();
        // Until the proxy has ended, answers may come.
        let failure = std::iter::from_fn(|| Some(client.read(TensorId(8), &never))).find_map(Result::err);
        let Some(WaitError::Failed(failure)) = failure else { panic!("it was interrupted") };
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
        assert_eq!(failure.kind, FailureKind::WorkerLost);
        assert!(failure.message.contains("no process listens there anymore"), "{}", failure.message);
    });
}
