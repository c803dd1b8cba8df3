//! A worker that serves, when connections break, peers are hostile, values move, and it ends.

mod serving;
#[path = "../../worker/tests/support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::time::Duration;

use gt_ir::{TensorId, Window};
use gt_net::protocol::{DataRequest, Refusal, StreamMessage, ToWorker, encode};
use gt_net::{Address, ClientTls, Frame, Role, Secret};
use gt_serve::{ServeError, Service};
use serving::*;
use support::*;

fn fill(id: u64, value: u64) -> Window {
    spelled(&[&format!("%{id} = fill() dtype=f32 shape=[2] $ {value}.0")], &[], &[])
}

/// `%id = %old + 1`, which frees the old one: applied twice, it would show.
fn count_up(id: u64) -> Window {
    let add = format!("%{id} = binary(%{}) kind=add scalar=right $ 1.0", id - 1);
    spelled(&[&add], &[id - 1], &[])
}

#[test]
fn messages_take_effect_once_whatever_connections_break() {
    within_time(|| {
        let mut stage = Stage::new();
        stage.control.open(5);
        let client = stage.attach(5);
        stage.control.send(5, 0, &fill(1, 0));
        for seq in 1..40u64 {
            stage.control.send(5, seq, &count_up(seq + 1));
            if seq % 5 == 0 {
                let join = stage.reconnect();
                assert_eq!(join.secret, b"worker secret");
                let [(5, received)] = join.sessions[..] else { panic!("{:?}", join.sessions) };
                assert!(received <= seq + 1);
                // A server that is not sure sends some again that have come.
                for again in received.saturating_sub(3)..=seq {
                    let window = if again == 0 { fill(1, 0) } else { count_up(again + 1) };
                    stage.control.send(5, again, &window);
                }
            }
        }
        stage.control.read(5, 40, 1, 40);
        assert_eq!(client.floats(1), [39.0, 39.0]);
        stage.control.wait_executed(5, 41);
        // What was said last is said again to a server that comes back.
        stage.reconnect();
        assert_eq!(stage.control.said(), Said::Executed(5, 41));
    });
}

#[test]
fn a_gap_ends_the_connection_and_not_the_session() {
    within_time(|| {
        let mut stage = Stage::new();
        stage.control.open(5);
        stage.control.send(5, 0, &fill(1, 4));
        stage.control.send(5, 2, &fill(3, 4));
        let (control, join) = stage.server.take_in(b"worker secret");
        assert_eq!(join.sessions, [(5, 1)]);
        stage.control = control;
        let client = stage.attach(5);
        stage.control.read(5, 1, 9, 1);
        assert_eq!(client.floats(9), [4.0, 4.0]);
    });
}

#[test]
fn a_template_that_was_asked_for_in_vain_is_asked_for_again() {
    within_time(|| {
        let mut stage = Stage::new();
        stage.control.open(1);
        let client = stage.attach(1);
        let (number, template, bindings) = outline(&fill(1, 3));
        stage.control.stream(1, 0, &StreamMessage::Replay { number, bindings: &bindings });
        assert_eq!(stage.control.said_otherwise(), Said::NeedTemplate(1, number));
        let join = stage.reconnect();
        assert_eq!(join.sessions, [(1, 1)]);
        assert_eq!(stage.control.said_otherwise(), Said::NeedTemplate(1, number));
        stage.control.stream(1, 1, &StreamMessage::Template { number, template: &template });
        stage.control.read(1, 2, 9, 1);
        assert_eq!(client.floats(9), [3.0, 3.0]);
    });
}

#[test]
fn a_server_that_does_not_know_the_worker_does_not_know_its_sessions() {
    within_time(|| {
        let stage = Stage::new();
        stage.control.open(5);
        let client = stage.attach(5);
        stage.control.connection.close();
        let (_control, join) = stage.server.take_in(b"another secret");
        assert_eq!((join.secret.as_slice(), join.sessions.as_slice()), (&b"worker secret"[..], &[(5, 0)][..]));
        // Not refused: it may have another home by now.
        client.line.wait_closed();
        wait_until(|| stage.service.sessions().is_empty() && stage.worker.stats().sessions == 0);
    });
}

#[test]
fn sessions_end_when_the_server_stays_away() {
    within_time(|| {
        let mut stage = Stage::with(reference_worker(), |config| config.lease = Duration::from_millis(300));
        stage.control.open(5);
        let client = stage.attach(5);
        stage.server.stop_listening();
        stage.control.connection.close();
        client.line.wait_closed();
        wait_until(|| stage.service.sessions().is_empty());
        // It still comes back, as a new one.
        stage.server.listen();
        let (_control, join) = stage.server.take_in(b"new secret");
        assert!(join.secret.is_empty() && join.sessions.is_empty());
    });
}

#[test]
fn a_worker_may_start_before_its_server_and_is_told_when_it_is_refused() {
    within_time(|| {
        let directory = tempfile::tempdir().unwrap();
        let address = Address::Unix(directory.path().join("server.sock"));
        let mut config = config(&address, directory.path());
        let token = Secret::from_text("token", "open sesame").unwrap();
        config.token = Some(token.clone());
        config.id = "left".to_string();
        let service = Service::start(reference_worker(), device(), config).unwrap();
        assert_eq!(service.wait_ended(Duration::from_millis(100)), None);
        let server = FakeServer::at(address.clone());
        let (line, join) = server.next_join();
        assert_eq!(
            (line.connection.is_proven(&token, Role::Worker, &join.proof), join.info.id.as_str()),
            (true, "left")
        );
        assert_eq!((join.info.engine.as_str(), join.info.host), ("reference", gt_net::host_id()));
        assert!(!service.is_joined());
        let why = Refusal::WorkerToken { asked: true };
        line.tell(&ToWorker::Refused { why: why.clone() });
        let refused = ServeError::Refused { server: address.to_string(), why };
        assert_eq!(service.wait_ended(PATIENCE), Some(refused));
    });
}

#[test]
fn a_client_without_the_key_gets_nothing() {
    within_time(|| {
        let stage = Stage::new();
        stage.control.open(1);
        let refused = |ask: &[DataRequest<'_>]| {
            let client = FakeClient::connect(stage.service.info());
            // The connection may be gone before the second.
            ask.iter().for_each(|request| drop(client.line.connection.send(&encode(request))));
            let reason = client.refusal();
            client.line.wait_closed();
            reason
        };
        // The key of another role is a wrong one too: another worker of the session may not take its answers.
        for key in [&b"no"[..], &client_key()[1..], &peer_key(), WORKER_KEY] {
            assert!(refused(&[DataRequest::Attach { session: 1, key, resume: None }]).contains("key"));
        }
        for key in [&b"no"[..], &client_key(), WORKER_KEY] {
            assert!(refused(&[DataRequest::AttachPeer { session: 1, key, from: 0, epoch: 0 }]).contains("key"));
        }
        assert!(refused(&[DataRequest::Upload { id: TensorId(1) }]).contains("first message"));
        assert!(refused(&[DataRequest::Echo { request: 1 }]).contains("first message"));
        let key = client_key();
        let attach = || DataRequest::Attach { session: 1, key: &key, resume: None };
        let client = FakeClient::connect(stage.service.info());
        client.ask(&attach());
        client.wait_attached();
        client.ask(&attach());
        assert!(client.refusal().contains("already"));
        let client = stage.attach(1);
        client.line.connection.send(b"\xffgarbage").unwrap();
        assert!(client.refusal().contains("violated the protocol"));
        assert_eq!(stage.service.sessions(), [1]);
    });
}

#[test]
fn a_client_may_come_before_the_server_has_told_of_its_session() {
    within_time(|| {
        let stage = Stage::new();
        let (early, wrong) = (FakeClient::connect(stage.service.info()), FakeClient::connect(stage.service.info()));
        early.ask(&DataRequest::Attach { session: 3, key: &client_key(), resume: None });
        wrong.ask(&DataRequest::Attach { session: 3, key: b"something else", resume: None });
        assert!(early.line.is_silent() && wrong.line.is_silent());
        stage.control.open(3);
        early.wait_attached();
        assert!(wrong.refusal().contains("key"));
        stage.control.send(3, 0, &fill(1, 6));
        stage.control.read(3, 1, 1, 1);
        assert_eq!(early.floats(1), [6.0, 6.0]);
    });
}

#[test]
fn a_broken_session_is_closed_and_others_go_on() {
    within_time(|| {
        let stage = Stage::new();
        let control = &stage.control;
        control.open(1);
        let other = stage.attach(1);
        let (number, template, bindings) = outline(&fill(1, 3));
        let garbage: [&[u8]; 7] = [
            b"",
            b"\xff\xff\xff",
            &encode(&StreamMessage::Send { window: b"\x05garbage" }),
            &encode(&StreamMessage::Send { window: &[0; 100] }),
            &encode(&StreamMessage::Define { number, template: &template, bindings: b"\x00" }),
            &encode(&StreamMessage::Define { number, template: &template[1..], bindings: &bindings }),
            &encode(&StreamMessage::Template { number, template: b"\x7f" }),
        ];
        for (n, message) in garbage.into_iter().enumerate() {
            let session = 100 + n as u64;
            control.open(session);
            let client = stage.attach(session);
            control.send(session, 0, &fill(1, 3));
            control.tell(&ToWorker::Stream { session, seq: 1, message });
            let Said::Broken(of, reason) = control.said_otherwise() else { panic!("message {n} is not seen") };
            assert_eq!(of, session);
            assert_eq!(client.refusal(), reason);
            client.line.wait_closed();
            // What was on its way meets nobody.
            control.read(session, 2, 1, 1);
        }
        control.open_from(200, 0, &[("NONSENSE", "1")], None);
        assert_eq!(control.said_otherwise(), Said::Broken(200, "NONSENSE is not a variable".to_string()));
        control.send(1, 0, &fill(1, 8));
        control.read(1, 1, 1, 1);
        assert_eq!(other.floats(1), [8.0, 8.0]);
        assert_eq!(stage.service.sessions(), [1]);
    });
}

#[test]
fn a_session_that_overruns_what_may_be_held_is_closed() {
    within_time(|| {
        let stage = Stage::with(reference_worker(), |config| config.held.message_bytes = 20_000);
        stage.control.open(1);
        stage.control.open(2);
        // One waits for a template, the other for a payload that never comes.
        let (number, _, bindings) = outline(&fill(1, 3));
        let waits = spelled(&["%1 = upload() dtype=f32 shape=[2]"], &[], &[]);
        stage.control.stream(1, 0, &StreamMessage::Replay { number, bindings: &bindings });
        stage.control.open_from(2, 0, &[("CREDITS", "1")], None);
        stage.control.send(2, 0, &waits);
        for seq in 1..500 {
            stage.control.read(1, seq, seq, 1);
            stage.control.send(2, seq, &fill(1 + seq, 3));
        }
        let mut broken = Vec::new();
        while broken.len() < 2 {
            if let Said::Broken(session, reason) = stage.control.said_otherwise() {
                assert!(reason.contains("of work queued") || reason.contains("waiting"), "{reason}");
                broken.push(session);
            }
        }
        broken.sort_unstable();
        assert_eq!(broken, [1, 2]);
    });
}

#[test]
fn a_client_that_takes_no_answers_loses_its_session() {
    within_time(|| {
        let stage = Stage::with(reference_worker(), |config| config.held.answer_bytes = 1_000_000);
        stage.control.open(1);
        stage.control.send(1, 0, &spelled(&["%1 = fill() dtype=f32 shape=[100000] $ 2.5"], &[], &[]));
        (0..5).for_each(|n| stage.control.read(1, n + 1, n, 1));
        let Said::Broken(1, reason) = stage.control.said_otherwise() else { panic!("it is broken") };
        assert!(reason.contains("requested values but does not receive them"), "{reason}");
    });
}

#[test]
fn a_client_that_uploads_what_nobody_asked_for_is_turned_away() {
    within_time(|| {
        let stage = Stage::new();
        stage.control.open_from(1, 0, &[("CREDITS_BYTES", "1000000")], None);
        let client = stage.attach(1);
        client.upload(1, vec![0; 800_000].into());
        client.upload(2, vec![0; 800_000].into());
        assert!(client.refusal().contains("before the work that uses them"));
        client.line.wait_closed();
        assert_eq!(stage.service.sessions(), [1]);
    });
}

#[test]
fn a_client_that_vanishes_in_an_upload_can_come_back() {
    within_time(|| {
        let stage = Stage::new();
        stage.control.open(1);
        let client = stage.attach(1);
        let values = vec![1.5f32; 1 << 20];
        stage.control.send(
            1,
            0,
            &spelled(&["%1 = upload() dtype=f32 shape=[1048576]", "%2 = unary(%1) kind=neg"], &[], &[]),
        );
        stage.control.read(1, 1, 7, 2);
        client.upload(1, bytes_of(&values));
        drop(client);
        // The upload may have come or not; the client sends it again either way.
        let client = stage.attach(1);
        client.upload(1, bytes_of(&values));
        assert_eq!(client.floats(7), vec![-1.5; 1 << 20]);
    });
}

#[test]
fn clients_elsewhere_come_by_tls() {
    within_time(|| {
        let identity = gt_net::Identity::generate(&["localhost".to_string()]).unwrap();
        let fingerprint = identity.fingerprint().unwrap();
        let stage = Stage::with(reference_worker(), |config| {
            config.listen_host = Some("127.0.0.1".to_string());
            config.identity = Some(identity);
        });
        let info = stage.service.info();
        assert_eq!(info.fingerprint.as_deref(), Some(fingerprint.to_string().as_bytes()));
        stage.control.open(1);
        let tls = ClientTls::pinned(fingerprint).unwrap();
        let client = FakeClient::connect_to(&info.tcp.as_ref().unwrap().parse().unwrap(), Some(&tls));
        client.ask(&DataRequest::Attach { session: 1, key: &client_key(), resume: None });
        client.wait_attached();
        stage.control.send(1, 0, &fill(1, 6));
        stage.control.read(1, 1, 1, 1);
        assert_eq!(client.floats(1), [6.0, 6.0]);
        let large = vec![7u8; 300_000];
        assert_eq!(*client.echo(4, large.clone().into()), large[..]);
    });
}

#[test]
fn answers_that_a_network_may_have_lost_come_again() {
    within_time(|| {
        let stage = Stage::with(reference_worker(), |config| {
            config.listen_host = Some("127.0.0.1".to_string());
            config.held.sent_bytes = 600_000;
        });
        let address = stage.service.info().tcp.as_ref().unwrap().parse().unwrap();
        let attach = || {
            let client = FakeClient::connect_to(&address, None);
            client.ask(&DataRequest::Attach { session: 1, key: &client_key(), resume: None });
            client.wait_attached();
            client
        };
        stage.control.open(1);
        let client = attach();
        stage.control.send(1, 0, &spelled(&["%1 = fill() dtype=f32 shape=[100000] $ 2.0"], &[], &[]));
        stage.control.send(1, 1, &fill(2, 6));
        stage.control.read(1, 2, 10, 2);
        assert_eq!(client.floats(10), [6.0, 6.0]);
        for request in [11, 12] {
            stage.control.read(1, request - 8, request, 1);
            assert_eq!(client.floats(request).len(), 100_000);
        }
        drop(client);
        let client = attach();
        let mut answers = [client.answer(), client.answer(), client.answer()];
        answers.sort_by_key(|(request, _)| *request);
        assert!(matches!(&answers[0], (10, Answer::Value(value)) if floats(value) == [6.0, 6.0]));
        assert!(matches!(&answers[1], (11, Answer::Value(value)) if value.bytes.len() == 400_000));
        // Both would be more than is kept.
        assert!(matches!(&answers[2], (12, Answer::Failed(failure)) if failure.message.contains("read it again")));
        stage.control.read(1, 5, 13, 2);
        assert_eq!(client.floats(13), [6.0, 6.0]);
    });
}

#[test]
fn a_client_that_did_not_read_its_echoes_filled_the_worker() {
    within_time(|| {
        let stage = Stage::with(reference_worker(), |config| config.listen_host = Some("127.0.0.1".to_string()));
        stage.control.open(1);
        wait_until(|| stage.service.sessions() == [1]);
        let mut raw = std::net::TcpStream::connect(stage.service.info().tcp.as_ref().unwrap()).unwrap();
        // The worker stops reading from it.
        raw.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        raw.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut bytes = Vec::new();
        Frame::Greeting { features: 0 }.encode(&mut bytes);
        Frame::Challenge { nonce: [1; 32] }.encode(&mut bytes);
        Frame::Allow { head: 1000, body: 1 << 30 }.encode(&mut bytes);
        Frame::Head(&encode(&DataRequest::Attach { session: 1, key: &client_key(), resume: None })).encode(&mut bytes);
        let echo = encode(&DataRequest::Echo { request: 1 });
        let mut round = Vec::new();
        Frame::Open { stream: 0, len: 1 << 16, head: &echo }.encode(&mut round);
        Frame::Part { stream: 0, bytes: &[7; 1 << 16] }.encode(&mut round);
        // The connection may be over before all of it is said.
        let _ = raw.write_all(&bytes).and_then(|()| (0..2000).try_for_each(|_| raw.write_all(&round)));
        let mut held_bytes = 0;
        let mut scratch = vec![0; 1 << 20];
        while let Ok(read @ 1..) = raw.read(&mut scratch) {
            held_bytes += read;
        }
        assert!(held_bytes < 64 << 20, "{held_bytes} bytes were kept for it");
        let client = stage.attach(1);
        assert_eq!(*client.echo(4, vec![1, 2].into()), [1, 2], "others go on");
    });
}

#[test]
fn a_service_that_stops_lets_its_work_run_and_says_goodbye() {
    within_time(|| {
        let Stage { control, service, worker, directory, server } = Stage::new();
        control.open(1);
        let client = FakeClient::attach(service.info(), 1);
        let socket = service.info().unix.clone().unwrap();
        for n in 0..200 {
            control.send(1, n, &fill(n + 1, n));
        }
        control.read(1, 200, 1, 200);
        // Copied apart from the device, and still answered.
        control.send(1, 201, &spelled(&["%300 = fill() dtype=f32 shape=[1000000] $ 2.5"], &[], &[]));
        control.read(1, 202, 2, 300);
        // Heads come in order: once this one has, so have those before it.
        control.open(2);
        wait_until(|| service.sessions() == [1, 2]);
        service.stop(PATIENCE);
        let mut answers = [client.answer(), client.answer()];
        answers.sort_by_key(|(request, _)| *request);
        assert!(matches!(&answers[0], (1, Answer::Value(value)) if floats(value) == [199.0, 199.0]));
        assert!(matches!(&answers[1], (2, Answer::Value(value)) if value.bytes.len() == 4_000_000));
        client.line.wait_closed();
        control.wait_executed(1, 203);
        assert_eq!(control.said(), Said::Goodbye);
        control.wait_closed();
        assert!(!std::path::Path::new(&socket).exists());
        wait_until(|| worker.stats().sessions == 0);
        drop((server, directory));
    });
}

#[test]
fn a_service_that_stops_does_not_wait_for_ever() {
    within_time(|| {
        let stage = Stage::new();
        stage.control.open(1);
        stage.control.send(1, 0, &spelled(&["%1 = upload() dtype=f32 shape=[2]"], &[], &[]));
        wait_until(|| stage.service.sessions() == [1]);
        stage.service.stop(Duration::from_millis(50));
        assert_eq!(stage.control.said_otherwise(), Said::Goodbye);
    });
}
