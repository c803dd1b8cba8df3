//! Arrow files and streams with bytes changed: an error that names the file, or batches; never an end of the process.
//!
//! What a damaged length asks for may end the process, which no test can catch: each file is read by a child, within a
//! bound of memory.

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, FixedSizeListArray, Int64Array, ListArray, RecordBatch, StringArray,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use gt_data::*;
use support::{spec, uncached};

/// Says to a child which folder it is to read.
const FOLDER: &str = "GT_TEST_DAMAGED_FILES";
/// What a child may take: far more than these files need, far less than a damaged length claims.
const MEMORY_BYTES: u64 = 2 << 30;

fn batch(start: i64) -> RecordBatch {
    let rows = start..start + 51;
    let lists = rows.clone().map(|i| Some((0..i % 4).map(|k| Some((i * 10 + k) as f32)).collect::<Vec<_>>()));
    let triples = rows.clone().map(|i| Some([i as f32; 3].map(Some)));
    let words: DictionaryArray<Int32Type> = rows.clone().map(|i| ["up", "down", "left"][i as usize % 3]).collect();
    RecordBatch::try_from_iter([
        ("id", Arc::new(rows.clone().collect::<Int64Array>()) as ArrayRef),
        ("x", Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists))),
        ("at", Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(triples, 3))),
        ("odd", Arc::new(rows.clone().map(|i| Some(i % 2 == 1)).collect::<BooleanArray>())),
        ("name", Arc::new(rows.map(|i| Some(format!("sample {i}"))).collect::<StringArray>())),
        ("word", Arc::new(words)),
    ])
    .unwrap()
}

/// The same batches in every form.
fn forms() -> Vec<Vec<u8>> {
    let batches = [batch(0), batch(51)];
    let mut forms = Vec::new();
    for how in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        let options = IpcWriteOptions::default().try_with_compression(how).unwrap();
        let mut file = FileWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options.clone()).unwrap();
        let mut stream = StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
        for batch in &batches {
            file.write(batch).unwrap();
            stream.write(batch).unwrap();
        }
        forms.push(file.into_inner().unwrap());
        forms.push(stream.into_inner().unwrap());
    }
    forms
}

/// Opens a file and runs over everything.
fn read(path: &Path) -> Result<u64> {
    let source: Arc<dyn Source> =
        Arc::new(ArrowSource::open(&FileAccess::everything(), &[path.display().to_string()], &uncached())?);
    let mut samples = 0;
    let mut run = Run::start(source.clone(), RunSpec { threads: 0, ..spec(&source, Shuffle::Full, 16) })?;
    while let Some((batch, _)) = run.next(&|| false)? {
        samples += batch.samples as u64;
    }
    Ok(samples)
}

#[test]
fn forms_are_read_alike() {
    let dir = tempfile::tempdir().unwrap();
    for (n, form) in forms().into_iter().enumerate() {
        let path = dir.path().join(format!("{n}.arrow"));
        std::fs::write(&path, form).unwrap();
        assert_eq!(read(&path), Ok(102), "form {n}");
    }
}

/// What the child of [`a_damaged_length_does_not_end_the_process`] does.
#[test]
fn child_reads_damaged_files() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        if let Err(e) = read(&path) {
            assert!(e.to_string().contains(&path.display().to_string()), "{e}");
        }
    }
}

#[test]
fn a_damaged_length_does_not_end_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |n: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % n
    };
    for (n, form) in forms().iter().enumerate() {
        for change in 0..150 {
            let mut bytes = form.clone();
            match change % 3 {
                0 => bytes[below(form.len())] ^= 1 << below(8),
                1 => bytes[below(form.len())] = 0xFF,
                _ => {
                    let at = below(form.len() - 8);
                    bytes[at..at + 8].fill_with(|| below(256) as u8);
                }
            }
            std::fs::write(dir.path().join(format!("{n}_{change}.arrow")), bytes).unwrap();
        }
    }
    let limit = format!("ulimit -v {}; exec \"$0\" --exact child_reads_damaged_files --nocapture", MEMORY_BYTES >> 10);
    let child = std::env::current_exe().unwrap();
    let child = Command::new("sh").arg("-c").arg(limit).arg(child).env(FOLDER, dir.path()).output().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success(), "{} at {}: {wrong}", child.status, said.lines().last().unwrap_or_default());
    assert!(!wrong.contains("panicked"), "{wrong}");
}
