//! Who is let in, over real sockets, and what becomes of those who send nonsense.

mod support;

use std::io::{Read, Write};
use std::time::Duration;

use gt_dispatcher::{Dispatcher, DispatcherConfig, Status};
use gt_net::protocol::{FromServer, FromWorker, Refusal, ToServer, decode, encode};
use gt_net::{Address, Io, Listener, Secret};
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

fn token() -> Secret {
    Secret::from_text("a test", "open sesame").unwrap()
}

#[test]
fn a_stranger_needs_the_token() {
    // Nobody's user: peers by the Unix socket are strangers then.
    let strangers = DispatcherConfig { user_id: u32::MAX, token: Some(token()), ..DispatcherConfig::default() };
    let server = serve(strangers.clone());
    let io = Io::start("test-peers").unwrap();
    let knock = || dial(&io, server.unix.address());
    for wrong in [&b""[..], b"open", b"open sesame2"] {
        assert_eq!(FakeClient::try_enter(knock(), wrong, None).err(), Some(Refusal::Token {}));
        assert_eq!(FakeWorker::try_join(knock(), wrong, "", &[], &[]).err(), Some(Refusal::Token {}));
        let (observer, heard) = knock();
        say(&observer, &ToServer::Observe { token: wrong });
        assert_eq!(decode::<FromServer>(&next(&heard)).unwrap(), FromServer::Refused { why: Refusal::Token {} });
    }
    FakeWorker::try_join(knock(), b"open sesame", "", &[], &[]).unwrap();
    assert_eq!(FakeClient::try_enter(knock(), b"open sesame", None).unwrap().home, Some(0));
    // Without a token there is none that could be right.
    let closed = serve(DispatcherConfig { token: None, ..strangers });
    let refused = FakeClient::try_enter(dial(&io, closed.unix.address()), b"", None);
    assert_eq!(refused.err(), Some(Refusal::Token {}));
    // Loopback is not a stranger.
    FakeClient::try_enter(dial(&io, closed.tcp.address()), b"", None).unwrap();
}

#[test]
fn an_observer_sees_server_workers_and_sessions() {
    let server = serve(DispatcherConfig::default());
    let io = Io::start("test-peers").unwrap();
    let worker = FakeWorker::try_join(dial(&io, server.tcp.address()), b"", "gpu \"0\"\n", &[], &[]).unwrap();
    let mut client = FakeClient::enter(dial(&io, server.unix.address()));
    client.stream_costing(12, 0, b"w");
    worker.next();
    worker.next();
    say(&worker.connection, &FromWorker::Load { busy_ns: 5, live_bytes: 6, instructions: 7 });
    worker.executed(client.session, 1);
    assert_eq!(client.next(), FromServer::Ack { received: 1, executed: 1 });
    let (observer, heard) = dial(&io, server.tcp.address());
    say(&observer, &ToServer::Observe { token: b"" });
    let FromServer::Status { json } = decode(&next(&heard)).unwrap() else { panic!("no status") };
    let status = Status::from_json(&json).unwrap();
    assert_eq!(status.server.addresses.len(), 2);
    let seen = &status.workers[0];
    assert_eq!((seen.id.as_str(), seen.live_bytes, seen.instructions, seen.sessions), ("gpu \"0\"", 6, 7, 1));
    let seen = &status.sessions[0];
    assert_eq!((seen.instructions_received, seen.instructions_executed), (12, 12));
    assert_eq!(
        (seen.name.as_str(), seen.home.as_deref(), seen.state.as_str()),
        ("a test", Some("gpu \"0\""), "connected")
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
    let config = DispatcherConfig { leases, first_message_timeout: lease, ..DispatcherConfig::default() };
    let server = serve(config);
    let _timer = server.dispatcher.start_timer().unwrap();
    let io = Io::start("test-peers").unwrap();
    let worker = FakeWorker::join(dial(&io, server.tcp.address()));
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
    let hello = ToServer::Hello { token: b"", name, variables: vec![], workers: 0, resume: None, pin: None };
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
