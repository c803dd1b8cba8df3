//! What the messages look like on the wire.

use gt_net::protocol::*;

/// The wire: change it only with `gt_net::VERSION`.
#[test]
fn the_wire_is_the_recorded_one() {
    let now = [
        Resume::SCHEMA,
        Pin::SCHEMA,
        WorkerInfo::SCHEMA,
        Peer::SCHEMA,
        Resumption::SCHEMA,
        Refusal::SCHEMA,
        ToServer::SCHEMA,
        FromServer::SCHEMA,
        FromWorker::SCHEMA,
        ToWorker::SCHEMA,
        StreamMessage::SCHEMA,
        DataRequest::SCHEMA,
        ReadAnswer::SCHEMA,
        DataReply::SCHEMA,
        ToRelay::SCHEMA,
        FromRelay::SCHEMA,
    ]
    .concat();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/wire.txt");
    if std::env::var("GT_GOLDEN").is_ok_and(|v| v == "write") {
        std::fs::write(path, &now).unwrap();
    }
    assert_eq!(now, std::fs::read_to_string(path).unwrap(), "GT_GOLDEN=write records it anew");
}
