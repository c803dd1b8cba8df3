//! Sessions: placed, forwarded in order, kept apart, held to their credits.

mod support;

use std::time::Duration;

use gt_dispatcher::{Dispatcher, DispatcherConfig};
use gt_net::protocol::{FromServer, FromWorker, Refusal, ToServer};
use support::*;

#[test]
fn messages_reach_the_home_worker_in_order_and_unread() {
    let dispatcher = Dispatcher::new(DispatcherConfig::default()).unwrap();
    let worker = FakeWorker::join(connect(&dispatcher));
    let mut client = FakeClient::enter(connect(&dispatcher));
    assert_eq!((client.home, client.workers.len(), worker.id.as_str()), (Some(0), 1, "worker_0"));
    assert_eq!(worker.next(), Told::Open { session: client.session, from: 0, lost: None });
    for n in 0..100u8 {
        client.stream(&[n; 40]);
        assert_eq!(worker.next(), Told::Stream { session: client.session, seq: n as u64, message: vec![n; 40] });
    }
    assert!(is_silent(&worker.heard));
}

fn load(busy_ns: u64, live_bytes: u64) -> FromWorker<'static> {
    FromWorker::Load { busy_ns, live_bytes, instructions: 2, threads: 1, memory_limit: 1 << 30 }
}

#[test]
fn sessions_go_to_the_worker_with_the_fewest_then_to_the_least_busy() {
    let clock = HandClock::new();
    let dispatcher = Dispatcher::with_clock(DispatcherConfig::default(), std::sync::Arc::new(clock.clone())).unwrap();
    let workers: Vec<_> = (0..3).map(|_| FakeWorker::join(connect(&dispatcher))).collect();
    for (worker, busy_ns) in workers.iter().zip([900_000_000, 100_000_000, 500_000_000]) {
        say(&worker.connection, &load(0, 0));
        clock.pass(Duration::from_secs(1));
        say(&worker.connection, &load(busy_ns, 1));
    }
    let homes: Vec<_> = (0..6).map(|_| FakeClient::enter(connect(&dispatcher)).home.unwrap()).collect();
    assert_eq!(homes, [1, 2, 0, 1, 2, 0]);
    assert_eq!(dispatcher.status().workers[0].busy, 0.9);
}

#[test]
fn a_session_is_heard_by_its_own_worker_alone_and_ends_alone() {
    let dispatcher = Dispatcher::new(DispatcherConfig::default()).unwrap();
    let workers = [FakeWorker::join(connect(&dispatcher)), FakeWorker::join(connect(&dispatcher))];
    let mut a = FakeClient::enter(connect(&dispatcher));
    let mut b = FakeClient::enter(connect(&dispatcher));
    workers.iter().for_each(|w| drop(w.all()));
    a.stream(b"a");
    b.stream(b"b");
    assert_eq!(workers[0].all(), [Told::Stream { session: a.session, seq: 0, message: b"a".to_vec() }]);
    // A worker that speaks of a session that lives elsewhere is not heard.
    workers[0].executed(b.session, 1);
    say(&workers[0].connection, &FromWorker::Broken { session: b.session, reason: "not yours".to_string() });
    assert!(b.all().is_empty());
    // What a client breaks is its own.
    a.connection.send(b"\xff\xff\xff").unwrap();
    assert!(matches!(a.refusal(), Refusal::Malformed { .. }));
    assert_eq!(workers[0].all(), [Told::Close { session: a.session }]);
    b.stream(b"more");
    assert_eq!(workers[1].seqs(b.session), [0, 1]);
    assert_eq!(dispatcher.status().sessions.len(), 1);
}

#[test]
fn without_a_worker_messages_wait_and_then_go_out_in_order() {
    let dispatcher = Dispatcher::new(DispatcherConfig::default()).unwrap();
    let mut client = FakeClient::enter(connect(&dispatcher));
    assert_eq!((client.home, client.workers.len()), (None, 0));
    (0..50).for_each(|_| client.stream(b"early"));
    let worker = FakeWorker::join(connect(&dispatcher));
    let first = client.all();
    assert!(matches!(&first[..], [FromServer::Home { worker, from: 0 }] if worker.id == "worker_0"), "{first:?}");
    assert_eq!(worker.next(), Told::Open { session: client.session, from: 0, lost: None });
    assert_eq!(worker.seqs(client.session), (0..50).collect::<Vec<_>>());
}

#[test]
fn duplicates_are_dropped_and_a_gap_ends_the_session() {
    let dispatcher = Dispatcher::new(DispatcherConfig::default()).unwrap();
    let worker = FakeWorker::join(connect(&dispatcher));
    let mut client = FakeClient::enter(connect(&dispatcher));
    (0..3).for_each(|_| client.stream(b"x"));
    client.sent = 1;
    (0..3).for_each(|_| client.stream(b"x"));
    assert_eq!(worker.seqs(client.session), [0, 1, 2, 3]);
    client.sent = 9;
    client.stream(b"x");
    let why = client.refusal();
    assert!(matches!(&why, Refusal::Malformed { reason } if reason.contains("9") && reason.contains("4")), "{why:?}");
    assert_eq!(worker.all(), [Told::Close { session: client.session }]);
    assert!(dispatcher.status().sessions.is_empty());
}

#[test]
fn a_client_that_runs_far_over_its_credits_is_refused() {
    let config = DispatcherConfig { credits_instrs: 100, credits_bytes: 1000, ..DispatcherConfig::default() };
    let dispatcher = Dispatcher::new(config).unwrap();
    let worker = FakeWorker::join(connect(&dispatcher));
    let refused = |fill: &dyn Fn(&mut FakeClient), over: &dyn Fn(&mut FakeClient)| {
        let mut client = FakeClient::enter(connect(&dispatcher));
        fill(&mut client);
        let before = client.all();
        assert!(!before.iter().any(|m| matches!(m, FromServer::Refused { .. })), "{before:?}");
        over(&mut client);
        match client.refusal() {
            Refusal::Malformed { reason } => assert!(reason.contains("credits"), "{reason}"),
            other => panic!("{other:?}"),
        }
    };
    refused(&|c| (0..200).for_each(|_| c.stream(b"")), &|c| c.stream(b""));
    refused(&|c| (0..4).for_each(|_| c.stream_costing(1, 500, b"")), &|c| c.stream_costing(1, 1, b""));
    // Bytes that nobody declared count too: they are held here.
    refused(&|c| (0..3).for_each(|_| c.stream(&[0; 500])), &|c| c.stream(&[0; 500]));
    // A single upload may be larger than all credits, and a read behind it takes none of them.
    let mut client = FakeClient::enter(connect(&dispatcher));
    client.stream_costing(1, 10_000, b"upload");
    client.stream_costing(0, 0, b"read");
    assert!(client.all().is_empty());
    // What was executed can be spent again.
    worker.executed(client.session, 2);
    for n in 0..50 {
        client.stream_costing(90, 900, b"step");
        worker.executed(client.session, n + 3);
    }
    assert!(client.all().iter().all(|m| matches!(m, FromServer::Ack { .. })));
}

#[test]
fn acks_are_cumulative_and_rare() {
    let clock = HandClock::new();
    let config = DispatcherConfig { credits_instrs: 1000, ..DispatcherConfig::default() };
    let dispatcher = Dispatcher::with_clock(config, std::sync::Arc::new(clock.clone())).unwrap();
    let worker = FakeWorker::join(connect(&dispatcher));
    let mut client = FakeClient::enter(connect(&dispatcher));
    let ack = |received, executed| FromServer::Ack { received, executed };
    (0..30).for_each(|_| client.stream_costing(10, 0, b"w"));
    worker.executed(client.session, 1);
    assert_eq!(client.all(), [ack(30, 1)], "the first progress");
    (2..=25).for_each(|n| worker.executed(client.session, n));
    assert_eq!(client.all(), [], "an ack before a quarter of the credits came back");
    worker.executed(client.session, 26);
    assert_eq!(client.all(), [ack(30, 26)], "a quarter came back");
    worker.executed(client.session, 30);
    assert_eq!(client.all(), [], "idle, but the last ack was just now");
    clock.pass(Duration::from_millis(5));
    dispatcher.tick();
    assert_eq!(client.all(), [ack(30, 30)], "idle");
    dispatcher.tick();
    assert_eq!(client.all(), [], "nothing new");
    (0..256).for_each(|_| client.stream(b"r"));
    assert_eq!(client.all(), [ack(286, 30)], "many can be forgotten");
    // An idle session is told at once when the last ack is a while ago.
    clock.pass(Duration::from_millis(5));
    worker.executed(client.session, 286);
    assert_eq!(client.all(), [ack(286, 286)]);
}

#[test]
fn goodbye_frees_the_session_at_once_and_a_lease_keeps_it_for_a_while() {
    let clock = HandClock::new();
    let dispatcher = Dispatcher::with_clock(leased(), std::sync::Arc::new(clock.clone())).unwrap();
    let worker = FakeWorker::join(connect(&dispatcher));
    let (a, b) = (FakeClient::enter(connect(&dispatcher)), FakeClient::enter(connect(&dispatcher)));
    worker.all();
    say(&a.connection, &ToServer::Goodbye {});
    assert_eq!(worker.all(), [Told::Close { session: a.session }]);
    b.connection.close();
    clock.pass(Duration::from_millis(4999));
    dispatcher.tick();
    assert_eq!(worker.all(), []);
    assert_eq!(dispatcher.status().sessions[0].state, "away");
    clock.pass(Duration::from_millis(1));
    dispatcher.tick();
    assert_eq!(worker.all(), [Told::Close { session: b.session }]);
    let again = FakeClient::try_enter(connect(&dispatcher), b"", Some(b.resume_with(0)));
    assert_eq!(again.err(), Some(Refusal::UnknownSession {}));
}

#[test]
fn a_session_is_resumed_by_who_knows_its_secret_only() {
    let dispatcher = Dispatcher::new(leased()).unwrap();
    let worker = FakeWorker::join(connect(&dispatcher));
    let mut client = FakeClient::enter(connect(&dispatcher));
    (0..7).for_each(|_| client.stream(b"x"));
    let mut wrong = client.resume_with(0);
    wrong.secret[0] ^= 1;
    let refused = FakeClient::try_enter(connect(&dispatcher), b"", Some(wrong));
    assert_eq!(refused.err(), Some(Refusal::UnknownSession {}));
    // The old connection still looks open; whoever knows the secret takes over.
    let mut again = FakeClient::try_enter(connect(&dispatcher), b"", Some(client.resume_with(0))).unwrap();
    assert_eq!((again.session, again.received, again.home), (client.session, 7, Some(0)));
    assert!(!client.connection.is_open());
    again.stream(b"x");
    assert_eq!(worker.seqs(client.session), (0..8).collect::<Vec<_>>());
    assert_eq!(dispatcher.status().sessions[0].state, "connected");
}

#[test]
fn templates_are_asked_for_also_after_a_reconnect() {
    let dispatcher = Dispatcher::new(leased()).unwrap();
    let worker = FakeWorker::join(connect(&dispatcher));
    let mut client = FakeClient::enter(connect(&dispatcher));
    client.stream(b"replay");
    client.connection.close();
    say(&worker.connection, &FromWorker::NeedTemplate { session: client.session, number: 77 });
    let again = FakeClient::try_enter(connect(&dispatcher), b"", Some(client.resume_with(0))).unwrap();
    assert!(again.all().contains(&FromServer::NeedTemplate { number: 77 }));
    say(&worker.connection, &FromWorker::NeedTemplate { session: client.session, number: 78 });
    assert_eq!(again.all(), [FromServer::NeedTemplate { number: 78 }]);
}

#[test]
fn a_session_that_its_worker_cannot_read_ends_with_the_reason() {
    let dispatcher = Dispatcher::new(DispatcherConfig::default()).unwrap();
    let worker = FakeWorker::join(connect(&dispatcher));
    let client = FakeClient::enter(connect(&dispatcher));
    worker.all();
    say(&worker.connection, &FromWorker::Broken { session: client.session, reason: "no op has code 250".to_string() });
    assert_eq!(client.refusal(), Refusal::Malformed { reason: "no op has code 250".to_string() });
    assert_eq!(worker.all(), [], "it has closed the session itself");
    assert!(dispatcher.status().sessions.is_empty());
}

#[test]
fn an_ending_server_tells_everyone_and_lets_nobody_in() {
    let dispatcher = Dispatcher::new(DispatcherConfig::default()).unwrap();
    let worker = FakeWorker::join(connect(&dispatcher));
    let client = FakeClient::enter(connect(&dispatcher));
    worker.all();
    dispatcher.end();
    assert_eq!(client.refusal(), Refusal::Ending {});
    assert_eq!(worker.next(), Told::Refused(Refusal::Ending {}));
    assert!(!client.connection.is_open() && !worker.connection.is_open());
    assert_eq!(FakeClient::try_enter(connect(&dispatcher), b"", None).err(), Some(Refusal::Ending {}));
}
