//! What loads, and where each error is.

use super::*;

fn one(text: &str) -> SignalConfig {
    let mut signals = parse(text).unwrap();
    assert_eq!(signals.len(), 1);
    signals.remove(0).1
}

fn indices(of: &[usize]) -> Workers {
    Workers::Listed(of.iter().map(|&i| WorkerName::Index(i)).collect())
}

#[test]
fn the_forms_of_a_signal() {
    let text = "stage_1:\n  shard: {axis: 0, workers: [0, 1]}\n  backward: stage_1_backward\n  compile: true\n";
    let wanted = SignalConfig {
        shard: vec![ShardConfig { axis: Some(0), workers: indices(&[0, 1]) }],
        backward: Some("stage_1_backward".into()),
        compile: true,
        ..SignalConfig::default()
    };
    assert_eq!(one(text), wanted);
    let grid = one("grid:\n  shard: [{axis: 0, workers: 2}, {axis: 1, workers: 2}]\n  workers: [4, 5, 6, 7]\n");
    assert_eq!(grid.shard.len(), 2);
    assert_eq!(grid.workers, indices(&[4, 5, 6, 7]));
    assert_eq!(one("a: {replicated: true}"), SignalConfig::replicated(Workers::All));
    let inside = one("a:\n  shard:\n    replicated: true\n    workers:\n    - worker_1\n    - 'x'\n");
    let ids = Workers::Listed(vec![WorkerName::Id("worker_1".into()), WorkerName::Id("x".into())]);
    assert_eq!(inside, SignalConfig::replicated(ids));
    assert_eq!(one("a: {compile: true}").shard, []);
    // As `ShardConfig` of Python: axis 0 unless another one is named.
    let first = |workers| vec![ShardConfig { axis: Some(0), workers }];
    assert_eq!(one("a:\n  shard: {workers: [0, 1]}\n").shard, first(indices(&[0, 1])));
    assert_eq!(one("a:\n  shard: {replicated: false}\n").shard, first(Workers::All));
    assert_eq!(parse("").unwrap(), []);
    assert_eq!(parse("# nothing\n---\n").unwrap(), []);
}

#[test]
fn every_error_says_where() {
    let cases = [
        ("a:\n  shard: {axis: 0}\n  shards: 1\n", 3, 3, "unknown key \"shards\""),
        ("a:\n  shard: {axis: 0, workres: [0]}\n", 2, 20, "unknown key \"workres\""),
        ("a:\n  shard: {axis: 0, workers: [0, -1]}\n", 2, 33, "index must be between 0"),
        ("a:\n  shard: {axis: 0, workers: [0, 1, 0]}\n", 2, 36, "worker 0 is listed twice"),
        ("a:\n  shard: {axis: 0, workers: []}\n", 2, 29, "workers is empty"),
        ("a:\n  shard: {axis: 0, workers: 0}\n", 2, 29, "between 1 and"),
        ("a:\n  shard: {axis: 0, workers: [1.5]}\n  x: 1", 3, 3, "unknown key"),
        ("a:\n  shard: {axis: 0, workers: [[0]]}\n", 2, 30, "expected a worker index or name"),
        ("a:\n  shard: {axis: zero}\n", 2, 17, "expected an axis number, got text"),
        ("a:\n  shard: {axis: -1}\n", 2, 17, "axis must be between 0"),
        ("a:\n  shard: {axis: 99}\n", 2, 17, "axis must be between 0"),
        ("a:\n  shard: 3\n", 2, 10, "expected a mapping with axis and workers"),
        ("a:\n  shard: {axis: 0}\n  replicated: true\n", 3, 3, "not both"),
        ("a:\n  replicated: 1\n", 2, 15, "expected true or false"),
        ("a:\n  compile: yes please\n", 2, 12, "expected true or false"),
        ("a:\n  backward: [b]\n", 2, 13, "expected the name of a signal"),
        ("a:\n  workers: [0]\n", 2, 3, "`workers` also needs `shard` or"),
        ("a: {compile: true}\na: {compile: false}\n", 2, 1, "duplicate key \"a\", first used on line 1"),
        ("a:\n  compile: true\n  compile: true\n", 3, 3, "duplicate key"),
        ("a:\n  shard: [{axis: 0, workers: 2}, {axis: 0, workers: 2}]\n", 2, 3, "axis 0 is sharded twice"),
        ("a:\n  shard: [{axis: 0, workers: [0]}, {axis: 1, workers: 2}]\n", 2, 3, "give each a number"),
        ("a:\n  shard: [{axis: 0}, {axis: 1}]\n", 2, 3, "at most one axis"),
        ("a:\n  shard: [{axis: 0, workers: 65536}, {axis: 1, workers: 2}]\n", 2, 3, "the mesh has more than"),
        ("a:\n  shard: [{axis: 0, workers: 2}, {axis: 1, workers: 2}]\n  workers: [0, 1]\n", 2, 3, "needs 4 workers"),
        ("a:\n", 1, 2, "expected a mapping"),
        ("[a, b]\n", 1, 1, "expected a mapping of signal names"),
        ("a: {shard: {axis: 0}\nb: 1\n", 2, 1, "flow"),
        ("a: &x {compile: true}\nb: *x\n", 2, 4, "aliases"),
        ("a: !!map {compile: true}\n", 1, 4, "tags"),
        ("? [a]\n: {compile: true}\n", 1, 3, "expected a name"),
        ("a: {compile: true}\n---\nb: {compile: true}\n", 2, 1, "one YAML document"),
    ];
    for (text, line, column, message) in cases {
        let e = parse(text).expect_err(text);
        assert!(e.message.contains(message), "{text}: {e:?}");
        assert_eq!((e.line, e.column), (line, column), "{text}: {e:?}");
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let e = parse(&format!("a: {}", "[".repeat(100_000))).unwrap_err();
    assert!(!e.message.is_empty());
}

proptest::proptest! {
    #[test]
    fn any_text_loads_or_is_an_error(text in "[a-z0-9:{}\\[\\], \n&*!|>'\"#?-]{0,80}") {
        let _ = parse(&text);
    }
}
