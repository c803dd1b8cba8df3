//! Workers that join, leave, vanish, come back, and say what cannot be.

mod support;

use std::sync::Arc;
use std::time::Duration;

use gt_dispatcher::Dispatcher;
use gt_ir::FailureKind;
use gt_net::protocol::{FromServer, FromWorker, Refusal};
use support::*;

fn with_clock() -> (Dispatcher, HandClock) {
    let clock = HandClock::new();
    (Dispatcher::with_clock(leased(), Arc::new(clock.clone())).unwrap(), clock)
}

fn lost_worker(message: &FromServer) -> Option<&str> {
    match message {
        FromServer::WorkerLost { worker, .. } => Some(worker),
        _ => None,
    }
}

#[test]
fn sessions_of_a_lost_worker_are_told_and_go_on_elsewhere() {
    let (dispatcher, clock) = with_clock();
    let first = FakeWorker::join(connect(&dispatcher));
    let mut client = FakeClient::enter(connect(&dispatcher));
    let second = FakeWorker::join(connect(&dispatcher));
    (0..5).for_each(|_| client.stream(b"x"));
    first.executed(client.session, 2);
    first.connection.close();
    // Within its lease it may come back: what comes meanwhile waits.
    client.stream(b"x");
    assert!(!client.all().iter().any(|m| lost_worker(m).is_some()));
    assert!(second.all().is_empty());
    clock.pass(Duration::from_secs(5));
    dispatcher.tick();
    let told = client.all();
    assert_eq!(lost_worker(&told[0]), Some("worker_0"));
    assert!(matches!(&told[1], FromServer::Home { worker, from: 6 } if worker.id == "worker_1"), "{told:?}");
    assert_eq!(told[2], FromServer::Ack { received: 6, executed: 6 }, "credits of what was lost come back");
    client.stream(b"after");
    let heard = second.all();
    match &heard[0] {
        Told::Open { session, from: 6, lost: Some(failure) } => {
            assert_eq!((*session, failure.kind), (client.session, FailureKind::WorkerLost));
            assert!(failure.message.starts_with("it was on worker_0, which is lost ("), "{}", failure.message);
        }
        other => panic!("{other:?}"),
    }
    // What the dead worker had not executed is not run again.
    assert_eq!(heard[1..], [Told::Stream { session: client.session, seq: 6, message: b"after".to_vec() }]);
}

#[test]
fn without_another_worker_a_session_waits_for_the_next() {
    let (dispatcher, _clock) = with_clock();
    let first = FakeWorker::join(connect(&dispatcher));
    let mut client = FakeClient::enter(connect(&dispatcher));
    client.stream(b"x");
    say(&first.connection, &FromWorker::Goodbye {});
    assert_eq!(lost_worker(&client.next()), Some("worker_0"), "a goodbye needs no lease");
    client.stream(b"y");
    client.stream(b"z");
    let next = FakeWorker::join(connect(&dispatcher));
    assert!(matches!(next.next(), Told::Open { from: 1, lost: Some(_), .. }));
    assert_eq!(next.seqs(client.session), [1, 2]);
    assert!(client.all().iter().any(|m| matches!(m, FromServer::Home { from: 1, .. })));
}

#[test]
fn a_worker_that_comes_back_gets_what_it_missed_and_nothing_twice() {
    let (dispatcher, clock) = with_clock();
    let worker = FakeWorker::join(connect(&dispatcher));
    let mut a = FakeClient::enter(connect(&dispatcher));
    let mut b = FakeClient::enter(connect(&dispatcher));
    (0..6).for_each(|_| a.stream(b"a"));
    worker.executed(a.session, 2);
    worker.connection.close();
    a.stream(b"a");
    // A session that opened while its worker was away has no home; b's Open was lost on the way.
    let mut c = FakeClient::enter(connect(&dispatcher));
    assert_eq!(c.home, None);
    b.stream(b"b");
    c.stream(b"c");
    clock.pass(Duration::from_secs(4));
    dispatcher.tick();
    // Of a it has received 4; it also holds a session that is long closed.
    let held = [(a.session, 4), (999, 3)];
    let back = FakeWorker::try_join(connect(&dispatcher), b"", "", &worker.secret, &held).unwrap();
    assert_eq!((back.id.as_str(), back.index), ("worker_0", 0));
    let heard = back.all();
    let count = |wanted: &Told| heard.iter().filter(|told| *told == wanted).count();
    assert_eq!(count(&Told::Close { session: 999 }), 1);
    assert_eq!(count(&Told::Open { session: b.session, from: 0, lost: None }), 1);
    assert_eq!(count(&Told::Open { session: c.session, from: 0, lost: None }), 1);
    let seqs = |of: u64| -> Vec<u64> {
        heard
            .iter()
            .filter_map(
                |t| if let Told::Stream { session, seq, .. } = t { (*session == of).then_some(*seq) } else { None },
            )
            .collect()
    };
    assert_eq!((seqs(a.session), seqs(b.session), seqs(c.session)), (vec![4, 5, 6], vec![0], vec![0]));
    assert!(!a.all().iter().chain(&b.all()).any(|m| lost_worker(m).is_some()));
    clock.pass(Duration::from_secs(60));
    dispatcher.tick();
    assert_eq!(dispatcher.status().workers[0].state, "connected");
}

#[test]
fn a_worker_that_has_forgotten_a_session_has_lost_its_values() {
    let (dispatcher, _clock) = with_clock();
    let worker = FakeWorker::join(connect(&dispatcher));
    let mut client = FakeClient::enter(connect(&dispatcher));
    (0..3).for_each(|_| client.stream(b"x"));
    worker.executed(client.session, 3);
    worker.connection.close();
    client.all();
    let back = FakeWorker::try_join(connect(&dispatcher), b"", "", &worker.secret, &[]).unwrap();
    assert!(matches!(back.next(), Told::Open { from: 3, lost: Some(_), .. }));
    assert_eq!(lost_worker(&client.next()), Some("worker_0"));
}

#[test]
fn losses_that_a_client_missed_are_told_when_it_resumes_and_none_twice() {
    let (dispatcher, _clock) = with_clock();
    let first = FakeWorker::join(connect(&dispatcher));
    let mut client = FakeClient::enter(connect(&dispatcher));
    client.stream(b"x");
    client.connection.close();
    say(&first.connection, &FromWorker::Goodbye {});
    let second = FakeWorker::try_join(connect(&dispatcher), b"", "other", &[], &[]).unwrap();
    let again = FakeClient::try_enter(connect(&dispatcher), b"", Some(client.resume_with(0))).unwrap();
    let told = again.all();
    assert_eq!(lost_worker(&told[0]), Some("worker_0"));
    assert!(matches!(&told[1], FromServer::Home { worker, from: 1 } if worker.id == second.id), "{told:?}");
    assert_eq!(told[2], FromServer::Ack { received: 1, executed: 1 });
    again.connection.close();
    let again = FakeClient::try_enter(connect(&dispatcher), b"", Some(client.resume_with(1))).unwrap();
    assert_eq!(again.all(), [FromServer::Ack { received: 1, executed: 1 }]);
}

#[test]
fn a_worker_that_says_what_cannot_be_is_expelled_and_its_sessions_go_on() {
    let (dispatcher, _clock) = with_clock();
    for lie in [
        FromWorker::Executed { session: 1, executed: 99 },
        FromWorker::Join { proof: b"", info: info("again"), secret: Box::default(), sessions: vec![] },
    ] {
        let worker = FakeWorker::join(connect(&dispatcher));
        let client = FakeClient::enter(connect(&dispatcher));
        worker.all();
        let lie = match lie {
            FromWorker::Executed { executed, .. } => FromWorker::Executed { session: client.session, executed },
            other => other,
        };
        say(&worker.connection, &lie);
        assert!(matches!(worker.next(), Told::Refused(Refusal::Malformed { .. })));
        assert_eq!(lost_worker(&client.next()), Some("worker_0"));
        assert!(dispatcher.status().workers.is_empty());
        client.connection.close();
    }
}

#[test]
fn a_worker_that_claims_to_have_received_what_cannot_be_is_expelled() {
    for (claim, is_possible) in [(1, false), (2, true), (4, true), (5, false)] {
        let (dispatcher, _clock) = with_clock();
        let worker = FakeWorker::join(connect(&dispatcher));
        let mut client = FakeClient::enter(connect(&dispatcher));
        (0..4).for_each(|_| client.stream(b"x"));
        worker.executed(client.session, 2);
        worker.connection.close();
        let held = [(client.session, claim)];
        let back = FakeWorker::try_join(connect(&dispatcher), b"", "", &worker.secret, &held).unwrap();
        let refused = back.all().iter().any(|told| matches!(told, Told::Refused(Refusal::Malformed { .. })));
        assert_eq!(refused, !is_possible, "{claim}");
        assert_eq!(dispatcher.status().workers.len(), usize::from(is_possible), "{claim}");
    }
}

#[test]
fn names_are_wishes_and_a_restarted_worker_takes_its_name_back() {
    let (dispatcher, _clock) = with_clock();
    let join = |name| FakeWorker::try_join(connect(&dispatcher), b"", name, &[], &[]).unwrap();
    let (a, b, c) = (join("gpu"), join("gpu"), join(""));
    assert_eq!([&a.id, &b.id, &c.id], ["gpu", "gpu-2", "worker_2"]);
    let generation = dispatcher.status().server.generation;
    a.connection.close();
    // A new process: it shows no secret, so it holds nothing.
    let again = join("gpu");
    assert_eq!((again.id.as_str(), again.index), ("gpu", 0));
    let status = dispatcher.status();
    assert_eq!(status.workers.len(), 3);
    assert_eq!(status.server.generation, generation + 2, "one left, one came");
}

#[test]
fn sessions_hear_of_workers_that_join() {
    let dispatcher = Dispatcher::new(leased()).unwrap();
    let client = FakeClient::enter(connect(&dispatcher));
    let names = |client: &FakeClient| {
        let said = client.everything();
        let last = said.into_iter().rev().find_map(|said| match said {
            FromServer::Workers { workers } => Some(workers),
            _ => None,
        });
        last.map(|workers| workers.into_iter().map(|worker| worker.id).collect::<Vec<_>>())
    };
    let first = FakeWorker::join(connect(&dispatcher));
    assert_eq!(names(&client).unwrap(), ["worker_0"]);
    let _second = FakeWorker::join(connect(&dispatcher));
    assert_eq!(names(&client).unwrap(), ["worker_0", "worker_1"]);
    // One that comes back is not new.
    let (secret, connection) = (first.secret.clone(), first.connection.clone());
    connection.close();
    FakeWorker::try_join(connect(&dispatcher), b"", "", &secret, &[(client.session, 0)]).unwrap();
    assert_eq!(names(&client), None);
}
