//! `gt data shuffle` keeps what files say of their samples, whether GT reads it or not.

mod support;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::*;
use arrow_schema::{DataType, Field as ArrowField, TimeUnit};
use gt_data::*;
use support::uncached;

const NO_ONE: &dyn Fn() -> bool = &|| false;

fn how() -> ShuffleFiles {
    ShuffleFiles { rows_per_file: 30, rows_per_group: 7, seed: 1, memory_budget: 1 << 30 }
}

/// Rows with everything that a batch of numbers has no place for.
fn rows(start: i64, n: i64) -> RecordBatch {
    let ids = || start..start + n;
    let some = |i: i64| i % 3 != 0;
    let lists = ids().map(|i| some(i).then(|| (0..i % 4).map(|k| Some((i * 10 + k) as f32)).collect::<Vec<_>>()));
    let inner: ArrayRef = Arc::new(ids().map(|i| some(i).then_some(i as i32)).collect::<Int32Array>());
    let part = Arc::new(ArrowField::new("a", DataType::Int32, true));
    let times = ids().map(|i| some(i).then_some(i * 1_000_000));
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(ids().collect::<Int64Array>()) as ArrayRef, false),
        ("pair", Arc::new(StructArray::from(vec![(part, inner)])), true),
        ("name", Arc::new(ids().map(|i| some(i).then(|| format!("n{i}"))).collect::<StringArray>()), true),
        ("x", Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists)), true),
        ("y", Arc::new(ids().map(|i| some(i).then_some(i as f64)).collect::<Float64Array>()), true),
        ("n", Arc::new(ids().map(|i| some(i).then_some(i as i32)).collect::<Int32Array>()), true),
        ("at", Arc::new(times.collect::<TimestampMicrosecondArray>().with_timezone("UTC")), true),
        ("day", Arc::new(ids().map(|i| Some(i as i32)).collect::<Date32Array>()), true),
    ])
    .unwrap()
}

fn write(path: &std::path::Path, batch: &RecordBatch) {
    let file = std::fs::File::create(path).unwrap();
    if path.extension().is_some_and(|e| e == "arrow") {
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        return writer.finish().unwrap();
    }
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// Every row of the files of a folder, by its id.
fn sorted(folder: &std::path::Path) -> RecordBatch {
    let mut batches = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = std::fs::File::open(entry.unwrap().path()).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 1024).unwrap();
        batches.extend(reader.map(|b| b.unwrap()));
    }
    let all = arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap();
    let ids = all.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec();
    let mut order: Vec<u32> = (0..ids.len() as u32).collect();
    assert!(!ids.is_sorted(), "nothing was shuffled");
    order.sort_by_key(|&i| ids[i as usize]);
    arrow_select::take::take_record_batch(&all, &UInt32Array::from(order)).unwrap()
}

#[test]
fn structs_nulls_and_times_survive_a_shuffle() {
    for ending in ["parquet", "arrow"] {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join(format!("a.{ending}")), &rows(0, 50));
        write(&dir.path().join(format!("b.{ending}")), &rows(50, 23));
        let source = open(&[dir.path().display().to_string()], &uncached()).unwrap();
        assert_eq!(source.unread().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["pair"], "{ending}");
        let out = dir.path().join("out");
        assert_eq!(shuffle_files(&source, &out, &how(), NO_ONE), Ok(3));
        let (found, expected) = (sorted(&out), rows(0, 73));
        assert_eq!(found.columns(), expected.columns(), "{ending}");
        assert_eq!(found.schema().fields(), expected.schema().fields(), "{ending}");

        let named = ParquetOptions { columns: Some(vec!["id".into(), "at".into()]), ..uncached() };
        let source = open(&[dir.path().join(format!("*.{ending}")).display().to_string()], &named).unwrap();
        let out = dir.path().join("some");
        shuffle_files(&source, &out, &how(), NO_ONE).unwrap();
        let found = sorted(&out);
        let of_type = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        assert_eq!((found.num_columns(), found.schema().field(1).data_type()), (2, &of_type));
    }
}

#[test]
fn columns_that_only_some_files_have_are_not_dropped_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let one = RecordBatch::try_from_iter([("id", ids.clone())]).unwrap();
    let two = RecordBatch::try_from_iter([("id", ids.clone()), ("more", ids)]).unwrap();
    write(&dir.path().join("a.parquet"), &one);
    write(&dir.path().join("b.parquet"), &two);
    let source = open(&[dir.path().display().to_string()], &uncached()).unwrap();
    let wrong = shuffle_files(&source, &dir.path().join("out"), &how(), NO_ONE).unwrap_err().to_string();
    assert!(wrong.contains("b.parquet") && wrong.contains("more") && wrong.contains("--columns"), "{wrong}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_failure_leaves_no_folder_behind() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a.parquet"), &rows(0, 50));
    let source = open(&[dir.path().display().to_string()], &uncached()).unwrap();
    let stopped = shuffle_files(&source, &dir.path().join("out"), &how(), &|| true);
    assert_eq!(stopped, Err(DataError::Interrupted));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
