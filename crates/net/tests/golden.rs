//! The wire types, as checked-in text (PROTOCOL-5).

/// When this fails, peers of the last release do not understand this one: raise `VERSION`, then `make golden`.
#[test]
fn wire_types_are_those_that_are_checked_in() {
    let types = format!("version {}\n{}", gt_net::VERSION, gt_net::protocol::wire_types());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/wire_types.txt");
    if std::env::var("GT_GOLDEN").is_ok_and(|v| v == "write") {
        std::fs::write(path, &types).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap();
    assert_eq!(types, checked_in, "the wire types have changed");
}
