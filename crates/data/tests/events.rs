//! Flat rows with a table of events: any row groups, events across their borders, tables in any order.

mod support;

use std::path::Path;
use std::sync::Arc;

use arrow_buffer::Buffer;
use gt_data::*;
use proptest::prelude::*;
use support::{field, i64s, ids, picked, spec, uncached};

fn write(path: &Path, fields: &[Field], columns: Vec<Buffer>, rows: usize, group: usize) {
    let columns =
        fields.iter().zip(columns).map(|(f, values)| Column::new(f, values, Extents::One, rows).unwrap()).collect();
    let block = Block { columns, samples: rows };
    let mut writer = ParquetWriter::create(path, fields, group).unwrap();
    writer.write(&picked(&block)).unwrap();
    writer.close().unwrap();
}

/// Files of flat rows that hold `file * 1000 + row`, and a table of events of these lengths, mixed over the files.
fn data_set(dir: &Path, lens: &[Vec<usize>], group: usize, reversed: bool) {
    let mut events: Vec<(i64, i64, i64)> = Vec::new();
    for (file, lens) in lens.iter().enumerate() {
        let rows: usize = lens.iter().sum();
        let values: Vec<i64> = (0..rows as i64).map(|r| file as i64 * 1000 + r).collect();
        let flags: Vec<u8> = values.iter().map(|v| (v % 2) as u8).collect();
        let fields = [field("v", Elem::I64, Kind::Fixed), field("odd", Elem::Bool, Kind::Fixed)];
        let path = dir.join(format!("batch_{}.parquet", file + 1));
        write(&path, &fields, vec![Buffer::from_vec(values), Buffer::from_vec(flags)], rows, group);
        let mut at = 0;
        for &len in lens {
            events.push((file as i64 + 1, at, at + len as i64 - 1));
            at += len as i64;
        }
    }
    if reversed {
        events.reverse();
    }
    let names = ["batch_id", "first", "last", "label"];
    let fields: Vec<Field> = names.iter().map(|n| field(n, Elem::I64, Kind::Fixed)).collect();
    let columns = [
        events.iter().map(|e| e.0).collect::<Vec<_>>(),
        events.iter().map(|e| e.1).collect(),
        events.iter().map(|e| e.2).collect(),
        (0..events.len() as i64).map(|i| i * 3).collect(),
    ];
    write(&dir.join("meta.parquet"), &fields, columns.into_iter().map(Buffer::from_vec).collect(), events.len(), 5);
}

fn table(dir: &Path) -> EventTable {
    let path = |name: &str| dir.join(name).display().to_string();
    EventTable {
        patterns: vec![path("meta.parquet")],
        first: "first".into(),
        end: RangeEnd::Last("last".into()),
        file: Some(("batch_id".into(), path("batch_{}.parquet"))),
        columns: vec!["label".into()],
    }
}

fn open(dir: &Path, files: &str) -> Result<EventSource> {
    EventSource::open(&FileAccess::everything(), &[dir.join(files).display().to_string()], &table(dir), &uncached())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn events_are_whole_wherever_row_groups_end(
        lens in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0usize), 1usize..6, Just(40)], 0..15), 1..4),
        group in 1usize..20, reversed: bool, threads in 0usize..4,
    ) {
        let dir = tempfile::tempdir().unwrap();
        data_set(dir.path(), &lens, group, reversed);
        let total: usize = lens.iter().map(Vec::len).sum();
        let source: Arc<dyn Source> = Arc::new(open(dir.path(), "batch_*.parquet").unwrap());
        let mut spec = spec(&source, Shuffle::Pool { blocks: 4, lanes: 2 }, 5);
        spec.threads = threads;
        let mut seen: Vec<i64> = ids(&source, &spec).into_iter().flat_map(|(ids, _)| ids).collect();
        seen.sort();
        prop_assert_eq!(seen, (0..total as i64).collect::<Vec<_>>());

        let mut flat: Vec<(usize, usize, usize)> = Vec::new();
        for (file, lens) in lens.iter().enumerate() {
            let mut at = 0;
            for &len in lens {
                flat.push((file, at, len));
                at += len;
            }
        }
        if reversed {
            flat.reverse();
        }
        spec.batch.collate = Collate::Packed;
        let mut run = Run::start(source, spec).unwrap();
        while let Some((batch, _)) = run.next(&|| false).unwrap() {
            let ids = i64s(batch.get("sample_id").unwrap());
            let expected: Vec<i64> = ids.iter().flat_map(|&id| {
                let (file, at, len) = flat[id as usize];
                (0..len).map(move |i| (file * 1000 + at + i) as i64)
            }).collect();
            prop_assert_eq!(&i64s(batch.get("v").unwrap()), &expected);
            prop_assert_eq!(i64s(batch.get("label").unwrap()), ids.iter().map(|i| i * 3).collect::<Vec<_>>());
            let Some(Entry::Tensor { bytes: odd, .. }) = batch.get("odd") else { panic!("no flags") };
            prop_assert_eq!(odd.to_vec(), expected.iter().map(|v| (v % 2) as u8).collect::<Vec<_>>());
        }
    }
}

#[test]
fn files_that_were_not_asked_for_are_not_part_of_it() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), &[vec![3, 4], vec![2], vec![5, 1]], 4, false);
    let source: Arc<dyn Source> = Arc::new(open(dir.path(), "batch_3.parquet").unwrap());
    let spec = spec(&source, Shuffle::Off, 8);
    assert_eq!(ids(&source, &spec)[0].0, [3, 4]);
}

#[test]
fn rows_that_are_not_there_are_an_error_that_names_event_and_file() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), &[vec![3, 4]], 4, false);
    let fields = [field("v", Elem::I64, Kind::Fixed), field("odd", Elem::Bool, Kind::Fixed)];
    let path = dir.path().join("batch_1.parquet");
    write(&path, &fields, vec![Buffer::from_vec(vec![0i64; 5]), Buffer::from_vec(vec![0u8; 5])], 5, 4);
    let wrong = open(dir.path(), "batch_1.parquet").unwrap_err().to_string();
    assert!(wrong.contains("event 1") && wrong.contains("batch_1.parquet"), "{wrong}");
}

#[test]
fn a_pattern_that_fits_no_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), &[vec![3]], 4, false);
    let mut table = table(dir.path());
    table.file = Some(("batch_id".into(), "other_{}.parquet".into()));
    let patterns = [dir.path().join("batch_1.parquet").display().to_string()];
    let wrong = EventSource::open(&FileAccess::everything(), &patterns, &table, &uncached()).unwrap_err().to_string();
    assert!(wrong.contains("file_pattern"), "{wrong}");
}

#[test]
fn events_of_a_file_that_is_not_there_are_not_dropped_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), &[vec![3, 4], vec![2], vec![5, 1]], 4, false);
    std::fs::remove_file(dir.path().join("batch_2.parquet")).unwrap();
    let wrong = open(dir.path(), "batch_*.parquet").unwrap_err();
    assert!(matches!(&wrong, DataError::Missing { path } if path.ends_with("batch_2.parquet")), "{wrong}");
    let skipping = ParquetOptions { skip_errors: true, ..uncached() };
    let patterns = [dir.path().join("batch_*.parquet").display().to_string()];
    let source = EventSource::open(&FileAccess::everything(), &patterns, &table(dir.path()), &skipping).unwrap();
    assert_eq!(source.blocks().iter().map(|b| b.samples).sum::<u32>(), 4);
    assert!(matches!(source.left_out(), [(name, _)] if name.ends_with("batch_2.parquet")), "{:?}", source.left_out());
}

#[test]
fn a_file_shorter_than_its_events_can_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), &[vec![3, 4], vec![2]], 4, false);
    let fields = [field("v", Elem::I64, Kind::Fixed), field("odd", Elem::Bool, Kind::Fixed)];
    let path = dir.path().join("batch_1.parquet");
    write(&path, &fields, vec![Buffer::from_vec(vec![0i64; 5]), Buffer::from_vec(vec![0u8; 5])], 5, 4);
    let skipping = ParquetOptions { skip_errors: true, ..uncached() };
    let opened = |files: &str| {
        EventSource::open(
            &FileAccess::everything(),
            &[dir.path().join(files).display().to_string()],
            &table(dir.path()),
            &skipping,
        )
    };
    let source: Arc<dyn Source> = Arc::new(opened("batch_*.parquet").unwrap());
    assert_eq!(ids(&source, &spec(&source, Shuffle::Off, 8))[0].0, [2]);
    let [(name, why)] = source.left_out() else { panic!("{:?}", source.left_out()) };
    assert!(name.ends_with("batch_1.parquet") && why.contains("event 1"), "{name}: {why}");
    let none = opened("batch_1.parquet").unwrap_err().to_string();
    assert!(none.contains("no file could be read") && none.contains("batch_1.parquet"), "{none}");
}

#[test]
fn a_column_of_the_table_that_the_files_have_too_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), &[vec![3]], 4, false);
    let table = EventTable { columns: vec!["v".into()], ..table(dir.path()) };
    let patterns = [dir.path().join("batch_1.parquet").display().to_string()];
    let wrong = EventSource::open(&FileAccess::everything(), &patterns, &table, &uncached()).unwrap_err();
    assert!(matches!(&wrong, DataError::Argument(why) if why.contains("\"v\"")), "{wrong}");
}
