//! Who is let in, over real sockets, and what becomes of those who send nonsense.

mod support;

use std::io::{Read, Write};
use std::time::Duration;

use gt_dispatcher::{Dispatcher, DispatcherConfig, Status};
use gt_net::protocol::{FromServer, FromWorker, Refusal, ToServer, ToWorker, decode, encode};
use gt_net::{Address, Connection, Io, Limits, Listener, Role, Secret, SessionKeys, SessionPass};
use proptest::prelude::*;
use support::*;

struct Server {
    dispatcher: Dispatcher,
    unix: Listener,
    tcp: Listener,
    io: Io,
    dir: tempfile::TempDir,
}

fn serve(config: DispatcherConfig) -> Server {
    let dispatcher = Dispatcher::new(config).unwrap();
    let io = Io::start("test-server").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let unix = dispatcher.listen(&io, &Address::Unix(dir.path().join("s")), None).unwrap();
    let tcp = dispatcher.listen(&io, &"127.0.0.1:0".parse().unwrap(), None).unwrap();
    Server { dispatcher, unix, tcp, io, dir }
}

const TOKEN: &[u8] = b"open sesame";
const WORKER_TOKEN: &[u8] = b"of workers";

fn with_tokens(token: &[u8], worker_token: &[u8]) -> DispatcherConfig {
    let secret = |text: &[u8]| (!text.is_empty()).then(|| Secret::from_bytes(text));
    DispatcherConfig { token: secret(token), worker_token: secret(worker_token), ..DispatcherConfig::default() }
}

/// What a server answers to a first message.
fn answer<'a, T: gt_net::protocol::Wire<'a>>(io: &Io, at: &Address, message: impl Fn(&Connection) -> T) -> FromServer {
    let (connection, heard) = dial(io, at);
    say(&connection, &message(&connection));
    decode(&next(&heard)).unwrap()
}

#[test]
fn a_token_was_not_asked_for_on_loopback_and_the_unix_socket() {
    let server = serve(with_tokens(TOKEN, b""));
    let io = Io::start("test-peers").unwrap();
    for at in [server.tcp.address(), server.unix.address()] {
        for wrong in [&b""[..], b"open", b"open sesame2", WORKER_TOKEN] {
            assert_eq!(FakeClient::try_enter(dial(&io, at), wrong, None).err(), Some(Refusal::Token {}), "{at}");
            let observe = |connection: &Connection| proof(connection, wrong, Role::Observer);
            let (connection, heard) = dial(&io, at);
            say(&connection, &ToServer::Observe { proof: &observe(&connection) });
            assert_eq!(decode::<FromServer>(&next(&heard)).unwrap(), FromServer::Refused { why: Refusal::Token {} });
        }
        // The token itself is no proof that it is known: it may have been overheard where an older client said it.
        let said = answer(&io, at, |_| hello(TOKEN, None));
        assert_eq!(said, FromServer::Refused { why: Refusal::Token {} });
        FakeClient::try_enter(dial(&io, at), TOKEN, None).unwrap();
    }
}

#[test]
fn a_client_joined_as_a_worker() {
    let io = Io::start("test-peers").unwrap();
    let server = serve(with_tokens(TOKEN, WORKER_TOKEN));
    for at in [server.tcp.address(), server.unix.address()] {
        for wrong in [&b""[..], TOKEN, b"of workers2"] {
            let refused = FakeWorker::try_join(dial(&io, at), wrong, "", &[], &[]).err();
            assert_eq!(refused, Some(Refusal::WorkerToken { asked: true }), "{at}");
        }
        FakeWorker::try_join(dial(&io, at), WORKER_TOKEN, "", &[], &[]).unwrap();
        // Nor does a worker's token make a client.
        assert_eq!(FakeClient::try_enter(dial(&io, at), WORKER_TOKEN, None).err(), Some(Refusal::Token {}));
    }
    // Without a worker token: by the Unix socket only, whatever else is known.
    for token in [&b""[..], TOKEN] {
        let server = serve(with_tokens(token, b""));
        for shown in [&b""[..], TOKEN] {
            let refused = FakeWorker::try_join(dial(&io, server.tcp.address()), shown, "", &[], &[]).err();
            assert_eq!(refused, Some(Refusal::WorkerToken { asked: false }));
        }
        FakeWorker::join(dial(&io, server.unix.address()));
    }
    // The server's own workers show a secret of theirs, with and without a worker token.
    let own = Some(Secret::from_bytes(b"started here"));
    let server = serve(DispatcherConfig { own_workers: own, ..with_tokens(TOKEN, WORKER_TOKEN) });
    FakeWorker::try_join(dial(&io, server.tcp.address()), b"started here", "", &[], &[]).unwrap();
}

/// ADMIT-1: with the same secret, a proof for one role is none for another.
#[test]
fn a_proof_for_one_role_was_taken_for_another() {
    let server = serve(with_tokens(TOKEN, TOKEN));
    let io = Io::start("test-peers").unwrap();
    let roles = [Role::Client, Role::Observer, Role::Worker, Role::Server];
    for shown in roles {
        let (connection, heard) = dial(&io, server.tcp.address());
        let its = proof(&connection, TOKEN, shown);
        say(&connection, &FromWorker::Join { proof: &its, info: info(""), secret: Box::default(), sessions: vec![] });
        let joined = matches!(decode(&next(&heard)).unwrap(), ToWorker::Joined { .. });
        assert_eq!(joined, shown == Role::Worker, "{shown:?}");
        let (connection, heard) = dial(&io, server.tcp.address());
        say(&connection, &hello(&proof(&connection, TOKEN, shown), None));
        let entered = matches!(decode(&next(&heard)).unwrap(), FromServer::Welcome { .. });
        assert_eq!(entered, shown == Role::Client, "{shown:?}");
    }
}

#[test]
fn a_proof_that_was_overheard_is_worth_nothing_and_the_server_shows_its_own() {
    let server = serve(with_tokens(TOKEN, WORKER_TOKEN));
    let io = Io::start("test-peers").unwrap();
    let (connection, heard) = dial(&io, server.tcp.address());
    let overheard = proof(&connection, TOKEN, Role::Client);
    say(&connection, &hello(&overheard, None));
    let FromServer::Welcome { proof: its, lease_ms, .. } = decode(&next(&heard)).unwrap() else { panic!("refused") };
    let (token, worker_token) = (Secret::from_bytes(TOKEN), Secret::from_bytes(WORKER_TOKEN));
    assert!(connection.is_proven(&token, Role::Server, &its), "the server knows the token too");
    assert!(!connection.is_proven(&worker_token, Role::Server, &its) && its[..] != overheard[..]);
    assert_eq!(lease_ms, 30_000);
    let said = answer(&io, server.tcp.address(), |_| hello(&overheard, None));
    assert_eq!(said, FromServer::Refused { why: Refusal::Token {} });
}

#[test]
fn without_a_token_the_other_users_of_the_machine_were_let_in() {
    // Everybody is another user than this one.
    let server = serve(DispatcherConfig { user_id: u32::MAX, ..DispatcherConfig::default() });
    let io = Io::start("test-peers").unwrap();
    for at in [server.tcp.address(), server.unix.address()] {
        assert_eq!(FakeClient::try_enter(dial(&io, at), b"", None).err(), Some(Refusal::OtherUser {}));
        let said = answer(&io, at, |_| ToServer::Observe { proof: b"" });
        assert_eq!(said, FromServer::Refused { why: Refusal::OtherUser {} });
        let refused = FakeWorker::try_join(dial(&io, at), b"", "", &[], &[]).err();
        assert_eq!(refused, Some(Refusal::WorkerToken { asked: false }));
    }
    // With one, whoever knows it.
    let server = serve(DispatcherConfig { user_id: u32::MAX, ..with_tokens(TOKEN, b"") });
    FakeClient::try_enter(dial(&io, server.tcp.address()), TOKEN, None).unwrap();
}

#[test]
fn connections_were_passed_on_to_workers_for_who_has_no_session_there() {
    let server = serve(DispatcherConfig::default());
    let io = Io::start("test-peers").unwrap();
    let _workers = [0, 1].map(|_| FakeWorker::join(dial(&io, server.unix.address())));
    let [one, two] = [0, 1].map(|_| FakeClient::enter(dial(&io, server.tcp.address())));
    let key = |client: &FakeClient| SessionKeys::of_session(&Secret::from_bytes(&client.secret)).peer;
    let find = |session: u64, key: Secret, worker: u32| {
        server.dispatcher.find_worker(&SessionPass { session, key }, worker).map(|found| found.index)
    };
    let (here, there) = (one.home.unwrap(), two.home.unwrap());
    assert_ne!(here, there);
    assert_eq!(find(one.session, key(&one), here), Ok(here));
    let wrong = [
        (one.session, key(&one), there),
        (one.session, key(&two), here),
        (one.session, Secret::from_bytes(&one.secret), here),
        (one.session, Secret::from_bytes(b""), here),
        (99, key(&one), here),
    ];
    for (session, key, worker) in wrong {
        assert!(find(session, key, worker).is_err(), "{session} on {worker}");
    }
}

#[test]
fn a_process_that_opened_and_left_sessions_took_every_place() {
    let server = serve(DispatcherConfig { max_sessions: 64, ..DispatcherConfig::default() });
    let (io, flood) = (Io::start("test-peers").unwrap(), Io::start("test-flood").unwrap());
    let tcp = || dial(&flood, server.tcp.address());
    // One that was used, and whose network is gone.
    let mut used = FakeClient::enter(tcp());
    used.stream(b"work");
    eventually("it is received", || server.dispatcher.status().sessions[0].instructions_received == 1);
    used.connection.close();
    for _ in 0..200 {
        let left = FakeClient::enter(tcp());
        left.connection.close();
        eventually("it has left", || server.dispatcher.status().sessions.iter().all(|s| s.state != "connected"));
    }
    assert!(server.dispatcher.status().sessions.len() <= 64);
    let back = FakeClient::try_enter(tcp(), b"", Some(used.resume_with(0))).unwrap();
    assert_eq!(back.session, used.session);
    // One that holds on to those it opens does not get them all.
    let mut held = Vec::new();
    let refusal = loop {
        match FakeClient::try_enter(tcp(), b"", None) {
            Ok(client) => held.push(client),
            Err(why) => break why,
        }
        assert!(held.len() < 64);
    };
    assert_eq!(refusal, Refusal::Unused { most: held.len() as u64 });
    let honest: Vec<FakeClient> = (0..10).map(|_| FakeClient::enter(dial(&io, server.unix.address()))).collect();
    assert_eq!(honest.len(), 10);
}

#[test]
fn the_clients_of_a_job_array_all_get_in_from_one_address() {
    let server = serve(DispatcherConfig { max_sessions: 100, ..DispatcherConfig::default() });
    let io = Io::start("test-peers").unwrap();
    let mut clients = Vec::new();
    for _ in 0..100 {
        let mut client = FakeClient::enter(dial(&io, server.tcp.address()));
        client.stream(b"work");
        clients.push(client);
        // A few are always on their way to their first message.
        eventually("it is used", || {
            let sessions = server.dispatcher.status().sessions;
            sessions.iter().filter(|session| session.instructions_received == 0).count() < 10
        });
    }
    let one_more = FakeClient::try_enter(dial(&io, server.tcp.address()), b"", None).err();
    assert_eq!(one_more, Some(Refusal::Sessions { most: 100 }));
}

#[test]
fn those_who_say_nothing_left_no_room_for_others() {
    let server = serve(DispatcherConfig { max_guests: 40, ..DispatcherConfig::default() });
    let io = Io::start("test-peers").unwrap();
    let silent = || io.connect(server.tcp.address(), None, Limits::default(), keeper().0, PATIENCE, &|| false);
    let silent: Vec<_> = (0..60).map(|_| silent()).collect();
    assert!(silent.iter().filter(|connection| connection.as_ref().is_ok_and(Connection::is_open)).count() < 40);
    let honest = FakeClient::enter(dial(&io, server.unix.address()));
    assert_eq!(honest.session, 1);
}

#[test]
fn an_observer_sees_server_workers_and_sessions() {
    let server = serve(DispatcherConfig::default());
    let io = Io::start("test-peers").unwrap();
    let worker = FakeWorker::try_join(dial(&io, server.unix.address()), b"", "gpu \"0\"\n", &[], &[]).unwrap();
    let mut client = FakeClient::enter(dial(&io, server.unix.address()));
    client.stream_costing(12, 0, b"w");
    worker.next();
    worker.next();
    let load = FromWorker::Load { busy_ns: 5, live_bytes: 6, instructions: 7, threads: 8, memory_limit: 9 };
    say(&worker.connection, &load);
    worker.executed(client.session, 1);
    assert_eq!(client.next(), FromServer::Ack { received: 1, executed: 1 });
    let (observer, heard) = dial(&io, server.tcp.address());
    say(&observer, &ToServer::Observe { proof: b"" });
    let FromServer::Status { json } = decode(&next(&heard)).unwrap() else { panic!("no status") };
    let status = Status::from_json(&json).unwrap();
    assert_eq!(status.server.addresses.len(), 2);
    let seen = &status.workers[0];
    assert_eq!((seen.id.as_str(), seen.live_bytes, seen.instructions, seen.sessions), ("gpu__0__", 6, 7, 1));
    assert_eq!((seen.threads, seen.memory_limit), (8, 9));
    let seen = &status.sessions[0];
    assert_eq!((seen.instructions_received, seen.instructions_executed), (12, 12));
    assert_eq!(
        (seen.name.as_str(), seen.home.as_deref(), seen.state.as_str()),
        ("a test", Some("gpu__0__"), "connected")
    );
    eventually("the observer's connection ends", || !observer.is_open());
}

#[test]
fn there_are_no_more_sessions_than_allowed() {
    let server = serve(DispatcherConfig { max_sessions: 2, ..DispatcherConfig::default() });
    let io = Io::start("test-peers").unwrap();
    let enter = || FakeClient::try_enter(dial(&io, server.tcp.address()), b"", None);
    let (first, _second) = (enter().unwrap(), enter().unwrap());
    assert_eq!(enter().err(), Some(Refusal::Sessions { most: 2 }));
    say(&first.connection, &ToServer::Goodbye {});
    eventually("there is room again", || enter().is_ok());
}

/// A Unix socket breaks with its process; over a network somebody may come back.
#[test]
fn a_vanished_client_is_cleaned_up_at_once_on_this_host_and_leased_elsewhere() {
    let server = serve(DispatcherConfig::default());
    let (io, other) = (Io::start("test-peers").unwrap(), Io::start("test-vanishing").unwrap());
    let worker = FakeWorker::join(dial(&io, server.unix.address()));
    let near = FakeClient::enter(dial(&other, server.unix.address()));
    let far = FakeClient::enter(dial(&other, server.tcp.address()));
    drop(worker.next());
    drop(worker.next());
    drop(other); // with all its connections, without a goodbye of the sessions
    assert_eq!(worker.next(), Told::Close { session: near.session });
    eventually("the other is away", || {
        let sessions = server.dispatcher.status().sessions;
        sessions.len() == 1 && sessions[0].state == "away"
    });
    let again = FakeClient::try_enter(dial(&io, server.tcp.address()), b"", Some(far.resume_with(0))).unwrap();
    assert_eq!(again.session, far.session);
}

#[test]
fn leases_end_by_themselves_where_a_timer_runs() {
    let lease = Duration::from_millis(30);
    let leases = gt_dispatcher::Leases { client: lease, worker: lease, same_host: lease };
    let config = DispatcherConfig { leases, first_message_timeout: lease, ..with_tokens(b"", WORKER_TOKEN) };
    let server = serve(config);
    let _timer = server.dispatcher.start_timer().unwrap();
    let io = Io::start("test-peers").unwrap();
    let worker = FakeWorker::try_join(dial(&io, server.tcp.address()), WORKER_TOKEN, "", &[], &[]).unwrap();
    let client = FakeClient::enter(dial(&io, server.tcp.address()));
    let (mute, heard) = dial(&io, server.tcp.address());
    worker.connection.close();
    assert!(matches!(client.next(), FromServer::WorkerLost { .. }));
    client.connection.close();
    eventually("the session ends", || server.dispatcher.status().sessions.is_empty());
    let FromServer::Refused { .. } = decode(&next(&heard)).unwrap() else { panic!("who says nothing is refused") };
    eventually("who says nothing is shown out", || !mute.is_open());
}

#[test]
fn nonsense_on_the_wire_ends_that_connection_and_nothing_else() {
    let server = serve(DispatcherConfig::default());
    let io = Io::start("test-peers").unwrap();
    let worker = FakeWorker::join(dial(&io, server.unix.address()));
    let mut client = FakeClient::enter(dial(&io, server.tcp.address()));
    let path = server.dir.path().join("s");
    for junk in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 300], b"\0"] {
        let mut raw = std::os::unix::net::UnixStream::connect(&path).unwrap();
        raw.set_read_timeout(Some(PATIENCE)).unwrap();
        raw.write_all(junk).unwrap();
        raw.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let _ = raw.read_to_end(&mut rest);
    }
    // A first message that is too long for somebody who has not shown a token.
    let (stranger, heard) = dial(&io, server.tcp.address());
    let name = "x".repeat(100 << 10);
    let hello = ToServer::Hello { proof: b"", name, variables: vec![], workers: 0, resume: None, pin: None };
    assert!(stranger.send(&encode(&hello)).is_err());
    assert!(heard.try_recv().is_err());
    client.stream(b"still");
    assert!(matches!(worker.next(), Told::Open { .. }));
    assert_eq!(worker.next(), Told::Stream { session: client.session, seq: 0, message: b"still".to_vec() });
    drop(server.io);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// DISPATCH-4.
    #[test]
    fn random_messages_harm_nobody_else(
        messages in prop::collection::vec((0..3u8, 0..45u8, prop::collection::vec(any::<u8>(), 0..40)), 1..20)
    ) {
        let dispatcher = Dispatcher::new(leased()).unwrap();
        let worker = FakeWorker::join(connect(&dispatcher));
        let mut client = FakeClient::enter(connect(&dispatcher));
        let fresh = |kind| match kind {
            0 => connect(&dispatcher),
            1 => {
                let client = FakeClient::enter(connect(&dispatcher));
                (client.connection, client.heard)
            }
            _ => {
                let worker = FakeWorker::join(connect(&dispatcher));
                (worker.connection, worker.heard)
            }
        };
        let mut hostile = [fresh(0), fresh(1), fresh(2)];
        for (kind, code, rest) in messages {
            let kind = kind as usize;
            let mut head = vec![code];
            head.extend(rest);
            if hostile[kind].0.send(&head).is_err() {
                hostile[kind] = fresh(kind as u8);
            }
        }
        client.stream(b"untouched");
        prop_assert_eq!(worker.seqs(client.session), vec![0]);
        prop_assert!(client.all().is_empty());
    }
}
