//! Batches that several runs make together, part by part: the same ones, and each part reads its share.

mod support;

use std::path::Path;
use std::sync::Arc;

use arrow_buffer::Buffer;
use gt_data::*;
use proptest::prelude::*;
use support::*;

fn write_columns(path: &Path, fields: &[Field], values: Vec<Vec<i64>>, group: usize) {
    let samples = values[0].len();
    let column = |(field, values): (&Field, Vec<i64>)| {
        Column::new(field, Buffer::from_vec(values), Extents::One, samples).unwrap()
    };
    let columns = fields.iter().zip(values).map(column).collect();
    let mut writer = ParquetWriter::create(path, fields, group).unwrap();
    writer.write(&picked(&Block { columns, samples })).unwrap();
    writer.close().unwrap();
}

/// Files of events whose numbers of rows follow from their ids, `rows_per_group` rows in a group.
fn events(dir: &Path, files: usize, per_file: usize, rows_per_group: usize) -> Arc<dyn Source> {
    let (mut file, mut first, mut length) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..files {
        let mut values = Vec::new();
        for event in 0..per_file {
            let id = (number * per_file + event) as i64;
            file.push(number as i64);
            first.push(values.len() as i64);
            length.push(len_of(id) as i64);
            values.extend((0..len_of(id) as i64).map(|i| id * 100 + i));
        }
        let fields = [field("v", Elem::I64, Kind::Fixed)];
        write_columns(&dir.join(format!("hits_{number}.parquet")), &fields, vec![values], rows_per_group);
    }
    let fields = ["file", "first", "length"].map(|name| field(name, Elem::I64, Kind::Fixed));
    write_columns(&dir.join("table.parquet"), &fields, vec![file, first, length.clone()], 1000);
    let path = |name: &str| dir.join(name).display().to_string();
    let table = EventTable {
        patterns: vec![path("table.parquet")],
        first: "first".into(),
        end: RangeEnd::Length("length".into()),
        file: Some(("file".into(), path("hits_{}.parquet"))),
        columns: vec!["length".into()],
    };
    Arc::new(EventSource::open(&FileAccess::everything(), &[path("hits_*.parquet")], &table, &uncached()).unwrap())
}

fn batches(source: &Arc<dyn Source>, spec: &RunSpec) -> (Vec<(Batch, Position)>, Stats) {
    let mut run = Run::start(source.clone(), spec.clone()).unwrap();
    let mut out = Vec::new();
    while let Some(given) = run.next(&|| false).unwrap() {
        out.push(given);
    }
    (out, run.stats())
}

/// The parts of a run one behind another, and what each has counted.
fn joined(source: &Arc<dyn Source>, spec: &RunSpec, of: usize) -> (Vec<(Batch, Position)>, Vec<Stats>) {
    let each = (0..of).map(|number| batches(source, &RunSpec { part: RowPart { number, of }, ..spec.clone() }));
    let (parts, stats): (Vec<_>, Vec<_>) = each.unzip();
    assert!(parts.iter().all(|part| part.len() == parts[0].len()), "all have as many batches");
    let join = |at: usize| {
        let (mut whole, position) = parts[0][at].clone();
        for (next, there) in parts[1..].iter().map(|part| &part[at]) {
            assert_eq!((*there, next.of), (position, whole.of));
            // Fewer rows than parts are whole in each.
            if whole.of < of {
                assert_eq!(next, &whole);
                continue;
            }
            whole.samples += next.samples;
            whole.entries.iter_mut().zip(&next.entries).for_each(|(entry, next)| append(entry, next));
        }
        (whole, position)
    };
    ((0..parts[0].len()).map(join).collect(), stats)
}

fn append((name, entry): &mut (String, Entry), (next_name, next): &(String, Entry)) {
    assert_eq!(name, next_name);
    match (entry, next) {
        (Entry::Tensor { shape, bytes, .. }, Entry::Tensor { shape: more, bytes: next, .. }) => {
            assert_eq!(shape[1..], more[1..], "{name} is as wide in every part");
            shape[0] += more[0];
            *bytes = [&bytes[..], &next[..]].concat().into();
        }
        (Entry::Text { rows, .. }, Entry::Text { rows: next, .. }) => rows.extend(next.iter().cloned()),
        _ => panic!("{name} is a tensor in one part and text in another"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    #[test]
    fn parts_are_the_batch_whatever_the_layout(
        (files, per_file, group) in (1usize..6, 1usize..40, 1usize..60), (pool, lanes) in (1usize..20, 1usize..9),
        size in 1usize..30, of in 2usize..6, multiple in 1usize..5, max_len in prop::option::of(1usize..9),
        subsample: bool, drop_last: bool, threads in 0usize..3, at in 0.0f64..1.0, tight: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let source = events(dir.path(), files, per_file, group);
        let mut spec = spec(&source, Shuffle::Pool { blocks: pool, lanes }, size);
        (spec.cut.drop_last, spec.threads) = (drop_last, threads);
        spec.batch.outputs[0].multiple = multiple;
        spec.batch.outputs[0].max_len = max_len;
        spec.batch.outliers = if subsample { Outliers::Subsample } else { Outliers::Truncate };
        let (whole, _) = batches(&source, &spec);
        if tight {
            spec.memory_budget = 500;
        }
        prop_assert_eq!(&joined(&source, &spec, of).0, &whole);
        // From where one number of them stopped another one goes on.
        if !whole.is_empty() {
            let stop = (whole.len() as f64 * at) as usize;
            spec.start = whole[stop].1;
            prop_assert_eq!(&joined(&source, &spec, of - 1).0[..], &whole[stop + 1..]);
            prop_assert_eq!(&joined(&source, &spec, of + 2).0[..], &whole[stop + 1..]);
        }
    }
}

#[test]
fn each_part_reads_its_share_and_together_they_read_everything_once() {
    let dir = tempfile::tempdir().unwrap();
    let source = events(dir.path(), 64, 400, 300);
    let spec = spec(&source, Shuffle::Pool { blocks: 64, lanes: 16 }, 64);
    assert_eq!(most_parts(&*source, &spec), 16);
    let (whole, all) = batches(&source, &spec);
    assert_eq!(all.blocks, source.blocks().len() as u64);
    for of in [2, 4] {
        let (together, stats) = joined(&source, &spec, of);
        assert!(together == whole, "{of} parts");
        let read: Vec<u64> = stats.iter().map(|part| part.read_bytes).collect();
        let (share, sum) = (all.read_bytes as f64 / of as f64, read.iter().sum::<u64>() as f64);
        // Where lanes end they do so within a block of each other, and blocks of the others are needed for a few rows.
        assert!(read.iter().all(|&bytes| (bytes as f64) < share * 1.1), "{read:?} of {}", all.read_bytes);
        assert!(sum < all.read_bytes as f64 * 1.06 && sum >= all.read_bytes as f64, "{read:?} of {}", all.read_bytes);
        // What others give of a block is gone for everybody: nobody holds more than its share of the pool.
        let peaks: Vec<u64> = stats.iter().map(|part| part.peak_bytes).collect();
        assert!(peaks.iter().all(|&peak| peak < all.peak_bytes), "{peaks:?} of {}", all.peak_bytes);
    }
    // Sixteen lanes are not three times as many; 100 rows not as many times sixteen: lanes at a border are read twice.
    let uneven = RunSpec { cut: Cut::every(100), ..spec };
    let (together, stats) = joined(&source, &uneven, 3);
    assert!(together == batches(&source, &uneven).0);
    let sum: u64 = stats.iter().map(|part| part.read_bytes).sum();
    assert!(sum < all.read_bytes * 5 / 4, "{sum} of {}", all.read_bytes);
}

#[test]
fn batches_whose_rows_are_not_known_before_are_not_made_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[50; 8], 10);
    let lists = open_dir(dir.path());
    let pool = Shuffle::Pool { blocks: 16, lanes: 8 };
    let of_lists = spec(&lists, pool, 8);
    // How long they are is only known to who has read them.
    assert_eq!(most_parts(&*lists, &of_lists), 1);
    let mut one_each = of_lists.clone();
    one_each.batch.outputs.truncate(1);
    assert_eq!(most_parts(&*lists, &one_each), 8);
    let changed = |change: &dyn Fn(&mut RunSpec)| {
        let mut spec = one_each.clone();
        change(&mut spec);
        most_parts(&*lists, &spec)
    };
    assert_eq!(changed(&|spec| spec.skip_errors = true), 1);
    assert_eq!(changed(&|spec| spec.cut.bucket = true), 1);
    assert_eq!(changed(&|spec| spec.cut.max_tokens = Some(100)), 1);
    // One sequence of blocks is read by everybody, so by one for all.
    assert_eq!(changed(&|spec| spec.order.shuffle = Shuffle::Full), 1);
    let part = RowPart { number: 1, of: 2 };
    let refused = Run::start(lists.clone(), RunSpec { part, ..of_lists }).unwrap_err().to_string();
    assert!(refused.contains("among 2 workers"), "{refused}");
    for part in [RowPart { number: 2, of: 2 }, RowPart { number: 0, of: 0 }] {
        assert!(Run::start(lists.clone(), RunSpec { part, ..one_each.clone() }).is_err());
    }
}
