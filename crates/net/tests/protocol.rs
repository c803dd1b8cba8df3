//! The messages: PROTO-1 and PROTO-2, for every one of them.

use gt_ir::{Cause, DType, Failure, FailureKind, SiteId, SkippedWrite, TensorId, TensorType};
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
        cause: Some(Cause::Value(TensorId(1 << 50))),
        skipped: Some(SkippedWrite { site: SiteId(78), kept: vec![TensorType::new(DType::F32, &[3, 4])] }),
    }
}

fn worker() -> WorkerInfo {
    WorkerInfo {
        index: 3,
        id: "worker_3".into(),
        unix: Some("/run/gt/worker_3.sock".into()),
        tcp: None,
        fingerprint: Some(Box::from(&b"ab12"[..])),
        host: "one".into(),
        engine: "cpu".into(),
        threads: 8,
        memory_limit: 1 << 36,
        seal: Box::from(*b"seal"),
    }
}

fn peer(number: u32) -> Peer {
    Peer { number, epoch: 2, worker: worker(), session: 11, key: secret() }
}

fn secret() -> Box<[u8]> {
    Box::from(&b"secret"[..])
}

fn to_server() -> Vec<ToServer<'static>> {
    let resume = Some(Resume { session: 7, secret: secret(), losses: 1 });
    let variables = vec![("GT_COMPILE".to_string(), "1".to_string())];
    vec![
        ToServer::Hello {
            proof: b"open",
            name: "train.py".into(),
            variables,
            workers: 2,
            resume,
            pin: Some(Pin { worker: 2, home: 9, secret: secret() }),
        },
        ToServer::Stream { seq: u64::MAX, instrs: 3, bytes: 1 << 40, message: b"for the worker" },
        ToServer::Observe { proof: b"" },
        ToServer::Goodbye {},
    ]
}

fn from_server() -> Vec<FromServer> {
    let refused = |why| FromServer::Refused { why };
    vec![
        FromServer::Welcome {
            session: 1,
            secret: secret(),
            proof: Box::default(),
            lease_ms: 30_000,
            workers: vec![worker(), worker()],
            home: Some(0),
            received: 9,
            credits_instrs: 10,
            credits_bytes: 11,
        },
        refused(Refusal::Token {}),
        refused(Refusal::Sessions { most: 4 }),
        refused(Refusal::UnknownSession {}),
        refused(Refusal::Variable { reason: "GT_COMPILE".into() }),
        refused(Refusal::Malformed { reason: "?".into() }),
        refused(Refusal::Ending {}),
        refused(Refusal::WorkerToken { asked: true }),
        refused(Refusal::WorkerToken { asked: false }),
        refused(Refusal::OtherUser {}),
        refused(Refusal::Unused { most: 5 }),
        FromServer::Ack { received: 2, executed: 1 },
        FromServer::NeedTemplate { number: u64::MAX - 5 },
        FromServer::WorkerLost { worker: "worker_0".into(), reason: "killed".into() },
        FromServer::Home { worker: worker(), from: 12 },
        FromServer::Status { json: "{}".into() },
        FromServer::Workers { workers: vec![worker()] },
    ]
}

fn from_worker() -> Vec<FromWorker<'static>> {
    vec![
        FromWorker::Join { proof: b"open", info: worker(), secret: secret(), sessions: vec![(1, 2), (3, 4)] },
        FromWorker::Executed { session: 1, executed: 300 },
        FromWorker::NeedTemplate { session: 1, number: 77 },
        FromWorker::Broken { session: 1, reason: "noise".into() },
        FromWorker::Load { busy_ns: 1, live_bytes: 2, instructions: 3, threads: 4, memory_limit: 5 },
        FromWorker::Goodbye {},
    ]
}

fn to_worker() -> Vec<ToWorker<'static>> {
    let variables = vec![("A".to_string(), String::new())];
    vec![
        ToWorker::Joined { id: "worker_0".into(), index: 0, secret: secret(), proof: secret(), seal_key: secret() },
        ToWorker::Refused { why: Refusal::Token {} },
        ToWorker::Open {
            session: 1,
            key: secret(),
            variables,
            max_memory: 5,
            from: 6,
            lost: Some(failure()),
            same_user: true,
        },
        ToWorker::Stream { session: 1, seq: 2, message: b"as it came" },
        ToWorker::Close { session: 1 },
    ]
}

fn stream() -> Vec<StreamMessage<'static>> {
    vec![
        StreamMessage::Send { window: b"w" },
        StreamMessage::Define { number: 1, template: b"t", bindings: b"b" },
        StreamMessage::Replay { number: 1, bindings: b"b" },
        StreamMessage::Template { number: 1, template: b"t" },
        StreamMessage::Read { request: 1, id: TensorId::new(0, 5) },
        StreamMessage::Synchronize { request: 1 },
        StreamMessage::Trim {},
        StreamMessage::Stats { request: 1 },
        StreamMessage::Peers { own: 1, epoch: 4, peers: vec![peer(0), peer(3)] },
        StreamMessage::Placed { window: b"w" },
        StreamMessage::Abandon { from: 3, failure: failure() },
        StreamMessage::DefinePlaced { number: 4, template: b"t", bindings: b"b" },
        StreamMessage::ReplayPlaced { number: 4, bindings: b"b" },
        StreamMessage::OpenLoader { loader: 1, description: b"{}" },
        StreamMessage::Announce { loader: 1, request: 4 },
        StreamMessage::Bind { loader: 1, batch: 1 << 40, values: vec![(0, TensorId::new(1, 5)), (3, TensorId(0))] },
        StreamMessage::CloseLoader { loader: 1, taken: 2 },
    ]
}

fn data_requests() -> Vec<DataRequest<'static>> {
    let resumption = Resumption {
        requests: 9,
        awaited: vec![(3, 0), (7, 1 << 33)],
        uploads: vec![TensorId(4), TensorId::new(2, 9)],
    };
    let transfer = |value, bytes| DataRequest::Transfer { number: 1 << 40, id: TensorId(9), value, bytes };
    vec![
        DataRequest::Attach { session: 1, key: b"s", resume: None },
        DataRequest::Attach { session: 1, key: b"s", resume: Some(resumption) },
        DataRequest::Upload { id: TensorId::new(3, 4) },
        DataRequest::AttachPeer { session: 1, key: b"s", from: 2, epoch: 300 },
        transfer(Ok(TensorType::new(DType::I64, &[2, 0, 3])), Some(b"")),
        transfer(Ok(TensorType::new(DType::I64, &[2])), None),
        transfer(Err(failure()), None),
        DataRequest::Echo { request: 1 },
        DataRequest::RecorderAt { core: 3 },
        DataRequest::Rest { from: 1 << 33, message: b"upload" },
        DataRequest::Got { request: 300 },
    ]
}

fn data_replies() -> Vec<DataReply<'static>> {
    let answer = |answer| DataReply::Answer { request: 300, answer };
    vec![
        DataReply::Attached { uploads: vec![] },
        DataReply::Attached { uploads: vec![(TensorId(4), 300), (TensorId::new(2, 9), WHOLE)] },
        DataReply::Refused { reason: "who?".into() },
        answer(ReadAnswer::Value { ty: TensorType::new(DType::Bool, &[1]), bytes: Some(b"\x01") }),
        answer(ReadAnswer::Value { ty: TensorType::new(DType::F64, &[9]), bytes: None }),
        answer(ReadAnswer::Failed { failure: failure() }),
        answer(ReadAnswer::Done {}),
        answer(ReadAnswer::Stats { json: "windows 3".into() }),
        answer(ReadAnswer::Batch { types: vec![TensorType::new(DType::F32, &[4, 9])], note: Some(b"x") }),
        answer(ReadAnswer::Batch { types: vec![], note: None }),
        DataReply::Echo { request: 1 },
        DataReply::Taken { transfers: 300 },
        DataReply::Rest { from: 1 << 33, message: b"answer" },
        DataReply::OutOfReach { number: 3, epoch: 4, reason: "nobody answers".into() },
    ]
}

/// Runs `$check` on every example, as its bytes and a function that decodes them and says whether it is the same again.
macro_rules! for_all {
    ($check:expr) => {
        for_all!($check, to_server, ToServer);
        for_all!($check, from_server, FromServer);
        for_all!($check, from_worker, FromWorker);
        for_all!($check, to_worker, ToWorker);
        for_all!($check, stream, StreamMessage);
        for_all!($check, data_requests, DataRequest);
        for_all!($check, data_replies, DataReply);
    };
    ($check:expr, $examples:ident, $type:ident) => {
        for message in $examples() {
            let again = |bytes: &[u8]| decode::<$type>(bytes).map(|found| found == message).map_err(|e| e.to_string());
            $check(encode(&message), &again);
        }
    };
}

type Again<'a> = &'a dyn Fn(&[u8]) -> Result<bool, String>;

#[test]
fn every_message_survives_and_is_refused_when_cut_or_followed() {
    for_all!(|bytes: Vec<u8>, again: Again<'_>| {
        assert_eq!(again(&bytes), Ok(true));
        for end in 0..bytes.len() {
            assert!(again(&bytes[..end]).is_err(), "cut at {end} of {}", bytes.len());
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(again(&longer).is_err());
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_is_an_error_not_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        for_all!(|_: Vec<u8>, again: Again<'_>| { let _ = again(&bytes); });
    }

    #[test]
    fn messages_with_a_wrong_byte_do_no_harm(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        for_all!(|mut bytes: Vec<u8>, again: Again<'_>| {
            let at = at.index(bytes.len());
            bytes[at] = value;
            let _ = again(&bytes);
        });
    }
}

#[test]
fn every_kind_of_failure_survives() {
    for kind in FailureKind::ALL {
        let sent =
            DataReply::Answer { request: 1, answer: ReadAnswer::Failed { failure: Failure { kind, ..failure() } } };
        assert_eq!(decode::<DataReply<'_>>(&encode(&sent)), Ok(sent));
    }
}

/// PROTO-4.
#[test]
fn the_first_byte_tells_clients_from_workers() {
    let clients: Vec<u8> = to_server().iter().map(|m| encode(m)[0]).collect();
    let workers: Vec<u8> = from_worker().iter().map(|m| encode(m)[0]).collect();
    assert!(clients.iter().all(|code| !workers.contains(code)), "{clients:?} {workers:?}");
}
