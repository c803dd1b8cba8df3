//! JSON Lines as programs write them, and what is said of files that none can read.

mod support;

use std::path::Path;

use gt_data::*;
use support::uncached;

fn opened(dir: &Path, name: &str, content: &[u8]) -> Result<std::sync::Arc<dyn Source>> {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    open(&[path.display().to_string()], &uncached())
}

fn floats(source: &dyn Source, column: usize) -> Vec<f64> {
    let block = source.load(0, &mut LoadTimes::default()).unwrap();
    let bytes = (0..block.samples as u32).flat_map(|row| block.columns[column].sample(row).to_vec());
    bytes.collect::<Vec<u8>>().as_chunks::<8>().0.iter().map(|c| f64::from_le_bytes(*c)).collect()
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line() {
    let dir = tempfile::tempdir().unwrap();
    let source = opened(dir.path(), "a.jsonl", b"\xEF\xBB\xBF{\"x\": 1.5}\n{\"x\": 2.5}\n").unwrap();
    assert_eq!(floats(&*source, 0), [1.5, 2.5]);
    let source = opened(dir.path(), "b.jsonl", b"\xEF\xBB\xBF\n{\"x\": 2.5}").unwrap();
    assert_eq!(floats(&*source, 0), [2.5]);
}

#[test]
fn floats_that_python_writes_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let content = b"{\"x\": NaN, \"v\": [Infinity]}\n{\"x\": -Infinity, \"v\": [1, NaN]}\n";
    let source = opened(dir.path(), "a.jsonl", content).unwrap();
    let found = |name: &str| floats(&*source, source.fields().iter().position(|f| f.name == name).unwrap());
    assert!(found("x")[0].is_nan() && found("x")[1] == f64::NEG_INFINITY);
    assert!(found("v")[..2] == [f64::INFINITY, 1.0] && found("v")[2].is_nan());
}

#[test]
fn text_that_is_not_utf8_is_the_fault_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let bad = b"{\"x\": \"\xFF\"}\n";
    let wrong = opened(dir.path(), "a.jsonl", bad).map(|_| ()).unwrap_err();
    assert!(matches!(&wrong, DataError::Corrupt { why, .. } if why.contains("line 1")), "{wrong}");
}

#[test]
fn json_is_read_where_it_has_an_object_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let source = opened(dir.path(), "a.json", b"{\"x\": 1.0}\n{\"x\": 2.0}\n").unwrap();
    assert_eq!(floats(&*source, 0), [1.0, 2.0]);
    let wrong = opened(dir.path(), "b.json", b"[\n  {\"x\": 1}\n]\n").map(|_| ()).unwrap_err().to_string();
    assert!(wrong.contains("b.json") && wrong.contains("one JSON object per line"), "{wrong}");
    // Beside files of lines it only says something about them.
    std::fs::write(dir.path().join("c.jsonl"), b"{\"x\": 3.0}\n").unwrap();
    let source = open(&[dir.path().display().to_string()], &uncached()).unwrap();
    assert_eq!(floats(&*source, 0), [3.0]);
    let wrong = opened(dir.path(), "d.jsonl.gz", b"").map(|_| ()).unwrap_err().to_string();
    assert!(wrong.contains("decompress"), "{wrong}");
}

#[test]
fn a_shuffle_keeps_nulls_and_says_what_it_cannot_keep() {
    let dir = tempfile::tempdir().unwrap();
    let content = b"{\"n\": 1, \"t\": \"a\", \"o\": {}}\n{\"n\": null, \"o\": {}}\n{\"n\": 3, \"t\": \"c\"}\n";
    let source = opened(dir.path(), "a.jsonl", content).unwrap();
    let how = ShuffleFiles { rows_per_file: 9, rows_per_group: 9, seed: 0, memory_budget: 1 << 20 };
    let refused = shuffle_files(&source, &dir.path().join("out"), &how, &|| false).unwrap_err().to_string();
    assert!(refused.contains("written to the new files: o;") && refused.contains("--columns"), "{refused}");
    let named = ParquetOptions { columns: Some(vec!["n".into(), "t".into()]), ..uncached() };
    let source = open(&[dir.path().join("a.jsonl").display().to_string()], &named).unwrap();
    assert_eq!(shuffle_files(&source, &dir.path().join("out"), &how, &|| false), Ok(1));
    let file = std::fs::File::open(dir.path().join("out/part_0.parquet")).unwrap();
    let mut rows = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 9).unwrap();
    let rows = rows.next().unwrap().unwrap();
    assert_eq!(rows.columns().iter().map(|c| c.null_count()).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn where_no_file_is_left_each_is_named_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    for ending in ["parquet", "arrow", "tar", "npy", "safetensors", "jsonl"] {
        let below = dir.path().join(ending);
        std::fs::create_dir(&below).unwrap();
        for name in ["one", "two"] {
            std::fs::write(below.join(format!("{name}.{ending}")), [b'!'; 700]).unwrap();
        }
        let skipping = ParquetOptions { skip_errors: true, ..uncached() };
        let wrong = open(&[below.display().to_string()], &skipping).map(|_| ()).unwrap_err().to_string();
        for name in ["no file could be read", &format!("one.{ending}"), &format!("two.{ending}"), "corrupt"] {
            assert!(wrong.contains(name), "{wrong}");
        }
    }
}
