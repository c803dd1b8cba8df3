//! Sessions of one client on several workers: values that move between them.

mod serving;
#[path = "../../worker/tests/support/mod.rs"]
mod support;

use std::time::Duration;

use gt_ir::{Failure, FailureKind, Instr, TensorId, TensorType};
use gt_net::protocol::{DataRequest, Peer, StreamMessage, WorkerInfo, encode};
use gt_shard::PlacedStep;
use serving::pair::*;
use serving::*;
use support::{floats, within_time};

/// Runs the body with workers that know each other as neighbors, and as others.
fn either_way(body: fn(Known)) {
    within_time(move || [Known::AsNeighbors, Known::AsOthers].into_iter().for_each(body));
}

fn lost() -> Failure {
    Failure::new(FailureKind::WorkerLost, "worker_0 is gone")
}

#[test]
fn a_value_goes_to_another_worker_and_may_be_freed_at_once() {
    either_way(|known| {
        let mut pair = Pair::new(known);
        let large = floats_type(100_000);
        let mut steps =
            run(&["%1 = fill() dtype=f32 shape=[100000] $ 2.5", "%2 = fill() dtype=f32 shape=[2] $ 4.0"], 0);
        steps.push(carry(1, 3, large, 0, 1));
        steps.push(carry(2, 4, floats_type(2), 0, 1));
        steps.extend(run(&["%5 = unary(%4) kind=neg"], 1));
        let window = placed(steps, &[(1, 0), (2, 0)]);
        // The one that waits hears of it first.
        pair.placed(1, &window);
        pair.read(1, 1, 5);
        pair.read(1, 2, 3);
        assert!(pair.clients[1].line.is_silent());
        pair.placed(0, &window);
        let mut answers = [pair.clients[1].answer(), pair.clients[1].answer()];
        answers.sort_by_key(|(request, _)| *request);
        assert!(matches!(&answers[0], (1, Answer::Value(v)) if floats(v) == [-4.0, -4.0]), "{answers:?}");
        assert!(matches!(&answers[1], (2, Answer::Value(v)) if floats(v) == vec![2.5; 100_000]));
        // And the other way round: sent first.
        let mut steps = run(&["%6 = unary(%5) kind=neg"], 1);
        steps.push(carry(6, 7, floats_type(2), 1, 0));
        let window = placed(steps, &[(6, 1), (5, 1)]);
        pair.placed(1, &window);
        pair.stages[1].control.wait_executed(session(1), pair.sent[1]);
        pair.placed(0, &window);
        pair.read(0, 3, 7);
        assert_eq!(pair.clients[0].floats(3), [4.0, 4.0]);
        pair.say(0, &StreamMessage::Stats { request: 4 });
        pair.say(1, &StreamMessage::Stats { request: 4 });
        let [from, to] = [0, 1].map(|n: usize| match pair.clients[n].answer() {
            (4, Answer::Stats(stats)) => stats,
            other => panic!("{other:?}"),
        });
        assert_eq!((from.transfers, from.moved_bytes_out, from.moved_bytes_in), (2, 400_008, 8));
        assert_eq!((to.transfers, to.moved_bytes_out, to.moved_bytes_in), (1, 8, 400_008));
        assert_eq!((from.bytes_out, from.bytes_in), (8, 0), "moved values are neither uploaded nor read");
    });
}

#[test]
fn a_failed_value_fails_what_is_made_of_it_elsewhere_and_nothing_else() {
    either_way(|known| {
        let mut pair = Pair::new(known);
        let index = TensorType::new(gt_ir::DType::I64, &[2]);
        let mut steps = run(&["%1 = fill() dtype=f32 shape=[2] $ 4.0", "%2 = fill() dtype=i64 shape=[2] $ 7"], 0);
        let take: Instr = "%3 = gather(%1, %2) axis=0".parse().unwrap();
        let ins = [(floats_type(2), 0), (index, 0)].into_iter().collect();
        steps.push(PlacedStep::Run { instr: take, ins, outs: [0].into_iter().collect() });
        steps.push(carry(3, 4, floats_type(2), 0, 1));
        steps.extend(run(&["%5 = unary(%4) kind=neg", "%6 = fill() dtype=f32 shape=[2] $ 9.0"], 1));
        let window = placed(steps, &[]);
        pair.placed(0, &window);
        pair.placed(1, &window);
        pair.read(1, 1, 6);
        assert_eq!(pair.clients[1].floats(1), [9.0, 9.0]);
        pair.read(1, 2, 5);
        let failure = pair.clients[1].failure(2);
        assert_eq!((failure.kind, failure.op.as_str()), (FailureKind::Domain, "gather"), "{failure}");
    });
}

#[test]
fn what_a_lost_worker_was_to_send_fails_at_once_and_late_values_are_dropped() {
    either_way(|known| {
        let mut pair = Pair::new(known);
        let mut steps = vec![carry(1, 2, floats_type(2), 0, 1), carry(1, 3, floats_type(2), 0, 1)];
        steps.extend(run(&["%4 = unary(%2) kind=neg", "%5 = fill() dtype=f32 shape=[2] $ 1.0"], 1));
        pair.placed(1, &placed(steps, &[]));
        pair.read(1, 1, 4);
        assert!(pair.clients[1].line.is_silent());
        pair.say(1, &StreamMessage::Abandon { from: 0, failure: lost() });
        assert_eq!(pair.clients[1].failure(1).message, "worker_0 is gone");
        pair.read(1, 2, 5);
        assert_eq!(pair.clients[1].floats(2), [1.0, 1.0]);
        // A value of the one that is lost is not taken for one of the next worker with its number.
        let late = FakeClient::connect(pair.stages[1].service.info());
        late.ask(&DataRequest::AttachPeer { session: session(1), key: &peer_key(), from: 0, epoch: 1 });
        late.wait_attached();
        let head =
            DataRequest::Transfer { number: 0, id: TensorId(1), value: Ok(floats_type(2)), bytes: Some(&[0; 8]) };
        late.line.connection.send(&encode(&head)).unwrap();
        pair.introduce([2, 1]);
        let mut steps = run(&["%10 = fill() dtype=f32 shape=[2] $ 6.0"], 0);
        steps.push(carry(10, 11, floats_type(2), 0, 1));
        let window = placed(steps, &[]);
        pair.placed(1, &window);
        pair.placed(0, &window);
        pair.read(1, 3, 11);
        assert_eq!(pair.clients[1].floats(3), [6.0, 6.0]);
    });
}

#[test]
fn nobody_brings_values_without_the_key_of_their_session() {
    within_time(|| {
        let stage = Stage::new();
        stage.control.open(1);
        stage.control.open_from(2, 0, &[], None);
        let stranger = FakeClient::connect(stage.service.info());
        stranger.ask(&DataRequest::AttachPeer { session: 1, key: b"another", from: 0, epoch: 0 });
        assert!(stranger.refusal().contains("key"));
        let client = stage.attach(1);
        client.ask(&DataRequest::Transfer { number: 0, id: TensorId(1), value: Err(lost()), bytes: None });
        assert!(client.refusal().contains("clients may not send transfers"));
        let peer = FakeClient::connect(stage.service.info());
        peer.ask(&DataRequest::AttachPeer { session: 1, key: &peer_key(), from: 0, epoch: 0 });
        peer.wait_attached();
        peer.ask(&DataRequest::Upload { id: TensorId(1) });
        assert!(peer.refusal().contains("workers may send only transfers"));
        assert_eq!(stage.service.sessions(), [1, 2]);
    });
}

#[test]
fn between_sessions_of_one_process_no_connection_is_needed() {
    within_time(|| {
        let mut pair = Pair::new(Known::AsNeighbors);
        let mut steps = run(&["%1 = fill() dtype=f32 shape=[100000] $ 2.5"], 0);
        steps.push(carry(1, 2, floats_type(100_000), 0, 1));
        steps.extend(run(&["%3 = fill() dtype=f32 shape=[100000] $ 4.5"], 1));
        steps.push(carry(3, 4, floats_type(100_000), 1, 0));
        for stage in &pair.stages {
            std::fs::remove_file(stage.service.info().unix.as_ref().unwrap()).unwrap();
        }
        let window = placed(steps, &[(1, 0), (3, 1)]);
        (0..2).for_each(|to| pair.placed(to, &window));
        pair.read(1, 1, 2);
        assert_eq!(pair.clients[1].floats(1), vec![2.5; 100_000]);
        pair.read(0, 1, 4);
        assert_eq!(pair.clients[0].floats(1), vec![4.5; 100_000]);
    });
}

#[test]
fn a_neighbor_without_the_key_of_a_session_brings_it_nothing() {
    within_time(|| {
        let mut pair = Pair::new(Known::AsNeighbors);
        let worker = pair.stages[1].service.info().clone();
        let peer = Peer {
            number: 1,
            epoch: 2,
            worker: sealed(worker),
            session: session(1),
            key: b"another".as_slice().into(),
        };
        pair.say(0, &StreamMessage::Peers { own: 0, epoch: 1, peers: vec![peer] });
        let mut steps = run(&["%1 = fill() dtype=f32 shape=[2] $ 4.0"], 0);
        steps.push(carry(1, 2, floats_type(2), 0, 1));
        let window = placed(steps, &[]);
        (0..2).for_each(|to| pair.placed(to, &window));
        pair.read(1, 1, 2);
        assert!(pair.clients[1].line.is_silent());
    });
}

/// A client that named any address had the worker connect there, and got the beginning of what was said.
#[test]
fn a_client_had_its_worker_connect_to_an_address_that_the_server_does_not_know() {
    within_time(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut pair = Pair::new(Known::AsNeighbors);
        let known = sealed(pair.stages[1].service.info().clone());
        let worker = WorkerInfo { unix: None, tcp: Some(address), host: "elsewhere".to_string(), ..known };
        let peer = Peer { number: 1, epoch: 2, worker, session: session(1), key: peer_key().into() };
        pair.say(0, &StreamMessage::Peers { own: 0, epoch: 1, peers: vec![peer] });
        let mut steps = run(&["%1 = fill() dtype=f32 shape=[2] $ 4.0"], 0);
        steps.push(carry(1, 2, floats_type(2), 0, 1));
        pair.placed(0, &placed(steps, &[]));
        let Said::Broken(_, reason) = pair.stages[0].control.said_otherwise() else { panic!("the session is ended") };
        assert!(reason.contains("the server does not know worker"), "{reason}");
        std::thread::sleep(Duration::from_millis(300));
        let came = listener.accept().expect_err("nobody connects there");
        assert_eq!(came.kind(), std::io::ErrorKind::WouldBlock);
    });
}

#[test]
fn two_sessions_may_send_to_each_other_at_once() {
    within_time(|| {
        let mut pair = Pair::new(Known::AsNeighbors);
        let first = ["%1 = fill() dtype=f32 shape=[2] $ 1.0", "%2 = fill() dtype=f32 shape=[2] $ 2.0"];
        let mut steps: Vec<PlacedStep> = (0..2).flat_map(|on| run(&first[on as usize..=on as usize], on)).collect();
        // Sent once they are there: by the thread that reads the stream, with the steps of its own session locked.
        let mut id = 2;
        for _ in 0..200 {
            steps.push(carry(1, id + 1, floats_type(2), 0, 1));
            steps.push(carry(2, id + 2, floats_type(2), 1, 0));
            id += 2;
        }
        let window = placed(steps, &[]);
        (0..2).for_each(|to| pair.placed(to, &window));
        pair.read(1, 1, id - 1);
        assert_eq!(pair.clients[1].floats(1), [1.0, 1.0]);
        pair.read(0, 1, id);
        assert_eq!(pair.clients[0].floats(1), [2.0, 2.0]);
    });
}
