//! The messages: PROTOCOL-1 to PROTOCOL-4, for every kind.

use gt_ir::{DType, Failure, FailureKind, SiteId, TensorId, TensorType};
use gt_net::Secret;
use gt_net::protocol::*;
use proptest::prelude::*;

fn failure() -> Failure {
    Failure {
        kind: FailureKind::Memory,
        message: "no room".into(),
        op: "matmul".into(),
        ins: vec![TensorType::new(DType::F32, &[3, 4]), TensorType::new(DType::BF16, &[])],
        worker: "worker_1".into(),
        site: SiteId(77),
        holders: vec![(1 << 40, SiteId(3)), (5, SiteId(0))],
    }
}

fn variables() -> Vec<Variable> {
    vec![
        Variable { name: "GT_COMPILE".into(), value: "1".into() },
        Variable { name: "GT_CONFIG".into(), value: String::new() },
    ]
}

fn limits() -> SessionLimits {
    SessionLimits { instructions_ahead: 10_000, bytes_ahead: 1 << 28, memory_bytes: 0 }
}

fn worker() -> WorkerInfo {
    WorkerInfo {
        index: 3,
        id: "worker_3".into(),
        data_address: "10.0.0.3:9001".into(),
        engine: "cpu".into(),
        threads: 8,
        memory_bytes: 1 << 36,
    }
}

fn reads() -> Vec<ReadRequest> {
    vec![ReadRequest { request: 1, id: TensorId::new(0, 5) }, ReadRequest { request: 300, id: TensorId::new(2, 9) }]
}

const SECRET: &str = "0123456789abcdef";

fn secret() -> Secret {
    Secret::from_bytes(SECRET.as_bytes())
}

fn client_to_server() -> Vec<ClientToServer<'static>> {
    let resume = Some(Resume { session: 7, secret: secret(), received: 12 });
    vec![
        ClientToServer::Hello {
            release: "0.1.0".into(),
            token: secret(),
            name: "host 4711 train.py".into(),
            variables: variables(),
            resume,
        },
        ClientToServer::Hello {
            release: String::new(),
            token: Secret::none(),
            name: String::new(),
            variables: vec![],
            resume: None,
        },
        ClientToServer::Stream { seq: u64::MAX, message: b"forwarded as it came" },
        ClientToServer::Ack { received: 1 << 40 },
        ClientToServer::Stats { request: 4 },
        ClientToServer::Goodbye {},
    ]
}

fn server_to_client() -> Vec<ServerToClient<'static>> {
    vec![
        ServerToClient::Welcome {
            release: "0.1.0".into(),
            session: 9,
            secret: secret(),
            workers: vec![worker(), WorkerInfo { index: 4, ..worker() }],
            home: 3,
            data_token: secret(),
            limits: limits(),
            resumed_from: Some(55),
        },
        ServerToClient::Refused { kind: RefusalKind::Token {}, text: "wrong token".into() },
        ServerToClient::Ack { received: 100, executed: 90 },
        ServerToClient::NeedTemplate { hash: u128::MAX - 5, seq: 8 },
        ServerToClient::WorkerLost { worker: 2, reason: "nothing was heard for 5 s".into() },
        ServerToClient::WorkerJoined { worker: worker() },
        ServerToClient::Failed { request: None, failure: failure() },
        ServerToClient::Failed { request: Some(6), failure: Failure::new(FailureKind::WorkerLost, "gone") },
        ServerToClient::Stats { request: 4, json: b"{\"windows\": 3}" },
    ]
}

fn server_to_worker() -> Vec<ServerToWorker<'static>> {
    vec![
        ServerToWorker::Welcome {
            index: 0,
            id: "worker_0".into(),
            generation: 2,
            peer_token: secret(),
            heartbeat_ms: 500,
        },
        ServerToWorker::Refused { kind: RefusalKind::Name {}, text: "there is one".into() },
        ServerToWorker::SessionOpen { session: 1, data_token: secret(), variables: variables(), limits: limits() },
        ServerToWorker::SessionClose { session: 1 },
        ServerToWorker::Stream { session: 1, seq: 2, message: b"forwarded as it came" },
        ServerToWorker::Move { session: 1, id: TensorId(5), to: 1, address: "unix:/w1".into(), generation: 2 },
        ServerToWorker::Stats { request: 9 },
        ServerToWorker::Drain {},
    ]
}

fn worker_to_server() -> Vec<WorkerToServer<'static>> {
    vec![
        WorkerToServer::Join {
            release: "0.1.0".into(),
            token: secret(),
            id: String::new(),
            engine: "cuda".into(),
            threads: 1,
            memory_bytes: 1 << 33,
            data_address: "[::1]:9001".into(),
            inventory: vec![SessionInventory { session: 1, executed: 99, bytes: 1 << 20 }],
        },
        WorkerToServer::Heartbeat { queued_windows: 3, memory_used_bytes: 1 << 30 },
        WorkerToServer::Executed { session: 1, executed: 100 },
        WorkerToServer::NeedTemplate { session: 1, hash: 1, seq: 4 },
        WorkerToServer::Stats { request: 9, json: b"{}" },
        WorkerToServer::Leaving { reason: "SIGTERM".into() },
    ]
}

fn stream() -> Vec<StreamMessage<'static>> {
    vec![
        StreamMessage::Send { lane: 0, window: b"a window", reads: vec![] },
        StreamMessage::Define { lane: 65535, hash: 1 << 100, window: b"a window", reads: reads() },
        StreamMessage::Replay { lane: 1, hash: 1 << 100, bindings: b"", reads: reads() },
        StreamMessage::Read { request: 3, id: TensorId::new(1, 2) },
        StreamMessage::Synchronize { request: 4 },
    ]
}

fn data() -> Vec<DataMessage> {
    let ty = TensorType::new(DType::I64, &[2, 0, 3]);
    vec![
        DataMessage::Hello { session: 5, data_token: secret() },
        DataMessage::Ready {},
        DataMessage::Upload { id: TensorId::new(0, 1) },
        DataMessage::Answer { request: 1, outcome: Outcome::Done {} },
        DataMessage::Answer { request: 2, outcome: Outcome::Value { ty } },
        DataMessage::Answer { request: 3, outcome: Outcome::Failed { failure: failure() } },
    ]
}

fn peer() -> Vec<PeerMessage> {
    let ty = TensorType::new(DType::F16, &[7]);
    vec![
        PeerMessage::Hello { worker: 1, token: secret(), generation: 3 },
        PeerMessage::Transfer { session: 1, id: TensorId(9), ty, generation: 3 },
        PeerMessage::Failed { session: 1, id: TensorId(9), failure: failure(), generation: 3 },
    ]
}

/// Runs a check for every type of message: its samples, and its decoder as "bytes in, the same message's bytes out".
fn for_every_type(mut check: impl FnMut(&str, Vec<Vec<u8>>, &dyn Fn(&[u8]) -> Option<Vec<u8>>)) {
    macro_rules! each {
        ($($ty:ident: $samples:expr),* $(,)?) => {
            $(
                let samples = $samples.iter().map(|m| m.to_bytes()).collect();
                check(stringify!($ty), samples, &|bytes| {
                    let message = $ty::decode(bytes).ok()?;
                    let again = message.to_bytes();
                    assert_eq!($ty::decode(&again).as_ref(), Ok(&message), "PROTOCOL-2");
                    Some(again)
                });
            )*
        };
    }
    each! {
        ClientToServer: client_to_server(), ServerToClient: server_to_client(), ServerToWorker: server_to_worker(),
        WorkerToServer: worker_to_server(), StreamMessage: stream(), DataMessage: data(), PeerMessage: peer(),
    }
}

#[test]
fn every_message_comes_back_as_it_was() {
    for_every_type(|name, samples, decode| {
        for bytes in samples {
            assert_eq!(decode(&bytes).as_ref(), Some(&bytes), "{name}");
        }
    });
}

/// A kind without a sample would go untested.
#[test]
fn every_kind_has_a_sample() {
    let declared = wire_types();
    for_every_type(|name, samples, _| {
        let of_type = declared.split(&format!("{name}\n")).nth(1).unwrap();
        for line in of_type.lines().take_while(|l| l.starts_with("  ")) {
            let code: u8 = line.split_whitespace().next().unwrap().parse().unwrap();
            assert!(samples.iter().any(|s| s[0] == code), "{name} has no sample of {line}");
        }
    });
}

#[test]
fn a_message_cut_anywhere_or_with_more_behind_it_is_refused() {
    for_every_type(|name, samples, decode| {
        for bytes in samples {
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut]), None, "{name} cut at {cut} of {}", bytes.len());
            }
            assert_eq!(decode(&[&bytes[..], &[0]].concat()), None, "{name} with a byte too many");
        }
    });
}

#[test]
fn mistakes_are_named() {
    let error = |bytes: &[u8]| ClientToServer::decode(bytes).unwrap_err().to_string();
    assert!(error(&[99]).contains("no ClientToServer has code 99"));
    assert!(error(&[5, 0]).contains("1 bytes follow a ClientToServer"));
    assert!(error(&[]).contains("ends too early"));
    // A list of 2^63 variables in a message of twelve bytes.
    assert!(error(&[1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 127]).contains("items announced"));
    assert!(error(&[1, 1, 0xff, 0, 0, 0, 0]).contains("not UTF-8"));
    // 2^40 × 2^40 elements.
    let big = [&[4, 0, 2, 7, 2][..], &[128, 128, 128, 128, 128, 32], &[128, 128, 128, 128, 128, 32]].concat();
    let error = DataMessage::decode(&big).unwrap_err().to_string();
    assert!(error.contains("too large to exist"), "{error}");
}

/// What is forwarded is lent, not copied (PROTOCOL-3).
#[test]
fn windows_are_borrowed_from_the_bytes_that_came() {
    let window = vec![7u8; 1000];
    let inner = StreamMessage::Send { lane: 0, window: &window, reads: vec![] }.to_bytes();
    let outer = ClientToServer::Stream { seq: 3, message: &inner }.to_bytes();
    let Ok(ClientToServer::Stream { message, .. }) = ClientToServer::decode(&outer) else { panic!("another message") };
    assert!(outer.as_ptr_range().contains(&message.as_ptr()));
    let forwarded = ServerToWorker::Stream { session: 1, seq: 3, message }.to_bytes();
    let Ok(ServerToWorker::Stream { message, .. }) = ServerToWorker::decode(&forwarded) else { panic!("another") };
    let Ok(StreamMessage::Send { window: arrived, .. }) = StreamMessage::decode(message) else { panic!("another") };
    assert_eq!(arrived, window);
}

#[test]
fn no_secret_is_printed() {
    let printed = format!(
        "{:?}{:?}{:?}{:?}{:?}{:?}",
        client_to_server(),
        server_to_client(),
        server_to_worker(),
        worker_to_server(),
        data(),
        peer()
    );
    assert!(printed.contains("Secret(***)"));
    assert!(!printed.contains(SECRET) && !printed.contains(&format!("{:?}", SECRET.as_bytes())));
}

proptest! {
    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for_every_type(|_, _, decode| drop(decode(&bytes)));
    }

    #[test]
    fn changed_messages_do_no_harm(at in any::<prop::sample::Index>(), to in any::<u8>(), more in any::<u8>()) {
        for_every_type(|_, samples, decode| {
            for mut bytes in samples {
                let at = at.index(bytes.len());
                bytes[at] = to;
                decode(&bytes);
                bytes.insert(at, more);
                decode(&bytes);
            }
        });
    }
}
