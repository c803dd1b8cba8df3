//! Sessions that belong to another one and live on a worker of their choice.

mod support;

use gt_dispatcher::{Dispatcher, DispatcherConfig};
use gt_net::protocol::{FromServer, Pin, Refusal, ToServer, decode};
use support::*;

fn pin(home: &FakeClient, worker: u32) -> Pin {
    Pin { worker, home: home.session, secret: home.secret.clone() }
}

/// Enters with a session that belongs to another.
fn enter(dispatcher: &Dispatcher, pin: Pin) -> Result<FakeClient, Refusal> {
    let (connection, heard) = connect(dispatcher);
    let (name, variables) = ("a test".to_string(), Vec::new());
    say(&connection, &ToServer::Hello { proof: b"", name, variables, workers: 1, resume: None, pin: Some(pin) });
    match decode(&next(&heard)).unwrap() {
        FromServer::Welcome { session, secret, workers, home, received, .. } => {
            Ok(FakeClient { connection, heard, session, secret, home, workers, received, sent: received })
        }
        FromServer::Refused { why } => Err(why),
        other => panic!("{other:?} instead of Welcome"),
    }
}

#[test]
fn a_pinned_session_lives_on_its_worker_and_nowhere_else() {
    let dispatcher = Dispatcher::new(leased()).unwrap();
    let workers = [FakeWorker::join(connect(&dispatcher)), FakeWorker::join(connect(&dispatcher))];
    let home = FakeClient::enter(connect(&dispatcher));
    assert_eq!(home.home, Some(0));
    let mut pinned = enter(&dispatcher, pin(&home, 1)).unwrap();
    assert_eq!(pinned.home, Some(1));
    assert_eq!(pinned.workers.iter().map(|w| w.index).collect::<Vec<_>>(), [1]);
    pinned.stream(b"one");
    assert_eq!(workers[1].seqs(pinned.session), [0]);
    // Its worker goes: it is told, and waits for one of that index.
    say(&workers[1].connection, &gt_net::protocol::FromWorker::Goodbye {});
    assert!(pinned.all().iter().any(|m| matches!(m, FromServer::WorkerLost { worker, .. } if worker == "worker_1")));
    pinned.stream(b"two");
    assert!(workers[0].seqs(pinned.session).is_empty());
    let next = FakeWorker::join(connect(&dispatcher));
    assert_eq!(next.index, 1);
    assert!(pinned.all().iter().any(|m| matches!(m, FromServer::Home { worker, .. } if worker.index == 1)));
    assert_eq!(next.seqs(pinned.session), [1]);
}

#[test]
fn pinned_sessions_count_with_the_one_they_belong_to_and_end_with_it() {
    let config = DispatcherConfig { max_sessions: 1, ..leased() };
    let dispatcher = Dispatcher::new(config).unwrap();
    let workers = [FakeWorker::join(connect(&dispatcher)), FakeWorker::join(connect(&dispatcher))];
    let mut home = FakeClient::enter(connect(&dispatcher));
    let mut pinned = enter(&dispatcher, pin(&home, 1)).unwrap();
    assert!(matches!(FakeClient::try_enter(connect(&dispatcher), b"", None), Err(Refusal::Sessions { most: 1 })));
    home.stream_costing(3, 0, b"x");
    pinned.stream_costing(4, 0, b"x");
    let status = dispatcher.status();
    assert_eq!(status.sessions.len(), 1);
    assert_eq!(status.sessions[0].workers, ["worker_0", "worker_1"]);
    assert_eq!(status.sessions[0].instructions_received, 7);
    assert_eq!(status.workers.iter().map(|w| w.sessions).collect::<Vec<_>>(), [1, 1]);
    // Another one at the same place takes that of the first.
    let again = enter(&dispatcher, pin(&home, 1)).unwrap();
    let told = workers[1].all();
    assert!(told.contains(&Told::Close { session: pinned.session }), "{told:?}");
    say(&home.connection, &ToServer::Goodbye {});
    assert!(workers[1].all().contains(&Told::Close { session: again.session }));
    assert!(dispatcher.status().sessions.is_empty());
}

#[test]
fn nobody_pins_a_session_to_one_that_is_not_theirs() {
    let dispatcher = Dispatcher::new(leased()).unwrap();
    let _workers = [FakeWorker::join(connect(&dispatcher)), FakeWorker::join(connect(&dispatcher))];
    let home = FakeClient::enter(connect(&dispatcher));
    let wrong = |pin: Pin| matches!(enter(&dispatcher, pin), Err(Refusal::UnknownSession {}));
    assert!(wrong(Pin { secret: Box::from(&b"guess"[..]), ..pin(&home, 1) }));
    assert!(wrong(Pin { home: 77, ..pin(&home, 1) }));
    let pinned = enter(&dispatcher, pin(&home, 1)).unwrap();
    assert!(wrong(pin(&pinned, 0)), "one that is pinned has none of its own");
    // Of workers that are not there, a few.
    let many: Vec<_> = (2..=10).map(|index| enter(&dispatcher, pin(&home, index)).unwrap()).collect();
    assert!(matches!(enter(&dispatcher, pin(&home, 999)), Err(Refusal::Sessions { .. })));
    assert!(many.iter().all(|session| session.home.is_none()));
}

#[test]
fn sessions_were_pinned_to_any_number_of_workers_that_do_not_exist() {
    let dispatcher = Dispatcher::new(leased()).unwrap();
    let _worker = FakeWorker::join(connect(&dispatcher));
    let home = FakeClient::enter(connect(&dispatcher));
    let pinned: Vec<_> = (1000..1100).map_while(|worker| enter(&dispatcher, pin(&home, worker)).ok()).collect();
    assert!((1..20).contains(&pinned.len()), "{} sessions", pinned.len());
}

#[test]
fn the_server_kept_more_for_a_session_than_it_may_hold() {
    let config = DispatcherConfig { max_session_memory: 1 << 20, ..leased() };
    let dispatcher = Dispatcher::new(config).unwrap();
    let mut client = FakeClient::enter(connect(&dispatcher));
    let message = vec![0; 1 << 20];
    (0..64).for_each(|_| client.stream(&message));
    assert!(client.all().iter().any(|m| matches!(m, FromServer::Refused { .. })), "64 MiB were kept");
}
