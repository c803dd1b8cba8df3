//! Arrow IPC files: record batches as blocks, nulls, damage.

mod support;

use std::sync::Arc;

use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, DictionaryArray, Int32Array, ListArray, RecordBatch, StringArray,
    StringViewArray, StructArray,
};
use arrow_ipc::writer::FileWriter;
use gt_data::*;
use support::{f32s, i64s, ids, spec};

fn batch(start: i32, rows: i32, nulls: bool) -> RecordBatch {
    let id: Int32Array = (start..start + rows).map(|i| (!nulls || i % 3 != 0).then_some(i)).collect();
    let lists = (start..start + rows).map(|i| Some((0..i % 4).map(|k| Some((i * 10 + k) as f32)).collect::<Vec<_>>()));
    let names: StringArray = (start..start + rows).map(|i| Some(format!("n{i}"))).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(id) as ArrayRef, true),
        ("x", Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists)), true),
        ("name", Arc::new(names), true),
    ])
    .unwrap()
}

fn write(path: &std::path::Path, batches: &[RecordBatch]) {
    let mut writer = FileWriter::try_new(std::fs::File::create(path).unwrap(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|b| writer.write(b).unwrap());
    writer.finish().unwrap();
}

#[test]
fn record_batches_are_blocks() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a.arrow"), &[batch(0, 7, false), batch(7, 1, false)]);
    write(&dir.path().join("b.arrow"), &[batch(8, 12, false)]);
    let source = open(&[dir.path().display().to_string()], &ParquetOptions::default()).unwrap();
    assert_eq!(source.blocks().iter().map(|b| b.samples).collect::<Vec<_>>(), [7, 1, 12]);
    let mut run_spec = spec(&source, Shuffle::Pool { blocks: 2, lanes: 2 }, 3);
    let mut seen: Vec<i64> = ids(&source, &run_spec).into_iter().flat_map(|(ids, _)| ids).collect();
    seen.sort();
    assert_eq!(seen, (0..20).collect::<Vec<i64>>());
    run_spec.batch.collate = Collate::Packed;
    let mut run = Run::start(source, run_spec).unwrap();
    while let Some((batch, _)) = run.next(&|| false).unwrap() {
        let ids = i64s(batch.get("sample_id").unwrap());
        let expected: Vec<f32> = ids.iter().flat_map(|&i| (0..i % 4).map(move |k| (i * 10 + k) as f32)).collect();
        assert_eq!(f32s(batch.get("x").unwrap()).1, expected);
        let Some(Entry::Text { rows, .. }) = batch.get("name") else { panic!("no names") };
        assert_eq!(*rows, ids.iter().map(|i| format!("n{i}").into_bytes()).collect::<Vec<_>>());
    }
}

#[test]
fn columns_stored_by_dictionary_are_read_in_both_formats() {
    let words: DictionaryArray<Int32Type> = ["up", "down", "up", "left"].into_iter().collect();
    let keys = Int32Array::from(vec![2, 0, 1, 2]);
    let numbers = DictionaryArray::try_new(keys, Arc::new(Int32Array::from(vec![7, 8, 9]))).unwrap();
    let columns = [("word", Arc::new(words) as ArrayRef, true), ("number", Arc::new(numbers), true)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a.arrow"), std::slice::from_ref(&batch));
    let file = std::fs::File::create(dir.path().join("a.parquet")).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    for name in ["a.arrow", "a.parquet"] {
        let source = open(&[dir.path().join(name).display().to_string()], &support::uncached()).unwrap();
        let mut run = Run::start(source.clone(), spec(&source, Shuffle::Off, 4)).unwrap();
        let (batch, _) = run.next(&|| false).unwrap().unwrap();
        let Some(Entry::Text { rows, utf8: true }) = batch.get("word") else { panic!("no words in {name}") };
        assert_eq!(*rows, ["up", "down", "up", "left"].map(|w| w.as_bytes().to_vec()), "{name}");
        let Some(Entry::Tensor { bytes, .. }) = batch.get("number") else { panic!("no numbers in {name}") };
        assert_eq!(**bytes, *[9i32, 7, 8, 9].map(i32::to_le_bytes).as_flattened(), "{name}");
    }
}

#[test]
fn views_are_text_and_what_is_not_read_is_said() {
    let long = "longer than the twelve bytes that lie in a view itself";
    let texts: StringViewArray = [Some(long), None, Some("up"), Some(long)].into_iter().collect();
    let bytes: BinaryViewArray = [Some(&b"\x00\xFF"[..]), Some(b""), None, Some(long.as_bytes())].into_iter().collect();
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
    let pairs =
        StructArray::from(vec![(Arc::new(arrow_schema::Field::new("a", inner.data_type().clone(), false)), inner)]);
    let columns =
        [("t", Arc::new(texts) as ArrayRef, true), ("b", Arc::new(bytes), true), ("pair", Arc::new(pairs), false)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a.arrow"), &[batch.clone(), batch.slice(1, 3)]);
    let file = std::fs::File::create(dir.path().join("a.parquet")).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.write(&batch.slice(1, 3)).unwrap();
    writer.close().unwrap();
    for name in ["a.arrow", "a.parquet"] {
        let source = open(&[dir.path().join(name).display().to_string()], &support::uncached()).unwrap();
        let [(unread, why)] = source.unread() else { panic!("{name}: {:?}", source.unread()) };
        assert!(unread == "pair" && why.contains("does not read"), "{name}: {why}");
        let mut run = Run::start(source.clone(), spec(&source, Shuffle::Off, 7)).unwrap();
        let (batch, _) = run.next(&|| false).unwrap().unwrap();
        let Some(Entry::Text { rows, utf8: true }) = batch.get("t") else { panic!("no texts in {name}") };
        assert_eq!(*rows, [long, "", "up", long, "", "up", long].map(|w| w.as_bytes().to_vec()), "{name}");
        let Some(Entry::Text { rows, utf8: false }) = batch.get("b") else { panic!("no bytes in {name}") };
        assert_eq!((&rows[0][..], &rows[4][..]), (&b"\x00\xFF"[..], &b""[..]), "{name}");
    }
}

#[test]
fn a_stream_may_replace_its_dictionaries() {
    let word = |words: &[&str]| {
        let words: DictionaryArray<Int32Type> = words.iter().copied().collect();
        RecordBatch::try_from_iter([("word", Arc::new(words) as ArrayRef)]).unwrap()
    };
    let batches = [word(&["up", "down", "up"]), word(&["left", "up"]), word(&["left", "right"])];
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|b| writer.write(b).unwrap());
    let stream = writer.into_inner().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.arrow");
    // A stream may also end without its last message.
    for end in [stream.len(), stream.len() - 8] {
        std::fs::write(&path, &stream[..end]).unwrap();
        let source = open(&[path.display().to_string()], &support::uncached()).unwrap();
        let mut run = Run::start(source.clone(), spec(&source, Shuffle::Off, 7)).unwrap();
        let (batch, _) = run.next(&|| false).unwrap().unwrap();
        let Some(Entry::Text { rows, .. }) = batch.get("word") else { panic!("no words") };
        let expected = ["up", "down", "up", "left", "up", "left", "right"];
        assert_eq!(*rows, expected.map(|w| w.as_bytes().to_vec()));
    }
    std::fs::write(&path, &stream[..stream.len() - 9]).unwrap();
    let wrong = open(&[path.display().to_string()], &support::uncached()).map(|_| ()).unwrap_err();
    assert!(matches!(&wrong, DataError::Corrupt { path, .. } if path.ends_with("a.arrow")), "{wrong}");
}

#[test]
fn a_column_named_twice_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a.arrow"), &[batch(0, 7, false)]);
    let options = ParquetOptions { columns: Some(vec!["id".into(), "id".into()]), ..support::uncached() };
    let wrong = open(&[dir.path().display().to_string()], &options).map(|_| ()).unwrap_err();
    assert!(matches!(&wrong, DataError::Argument(why) if why.contains("\"id\" is named twice")), "{wrong}");
}

#[test]
fn nulls_need_a_number_to_stand_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.arrow");
    write(&path, &[batch(0, 6, true)]);
    let patterns = [path.display().to_string()];
    let load = |options: &ParquetOptions| open(&patterns, options).unwrap().load(0, &mut LoadTimes::default());
    let wrong = load(&ParquetOptions::default()).unwrap_err().to_string();
    assert!(wrong.contains("a.arrow") && wrong.contains("null_value"), "{wrong}");
    let options = ParquetOptions { null_values: vec![("id".into(), -1.0)], ..ParquetOptions::default() };
    let block = load(&options).unwrap();
    let ids: Vec<i32> =
        (0..6).map(|row| i32::from_le_bytes(block.columns[0].sample(row).try_into().unwrap())).collect();
    assert_eq!(ids, [-1, 1, 2, -1, 4, 5]);
}

#[test]
fn a_file_cut_anywhere_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.arrow");
    write(&path, &[batch(0, 7, false), batch(7, 9, false)]);
    let whole = std::fs::read(&path).unwrap();
    for cut in (0..whole.len()).step_by(37) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let wrong =
            open(&[path.display().to_string()], &ParquetOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(wrong.contains("a.arrow"), "{wrong}");
    }
}
