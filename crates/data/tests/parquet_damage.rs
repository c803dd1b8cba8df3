//! Parquet files with any byte changed or any part missing: an error that names the file, or batches; never a panic or a hang.

mod support;

use gt_data::*;
use support::{spec, uncached, write};

/// Opens and runs over everything; whatever happens must be a batch or an error about this file.
fn try_it(dir: &std::path::Path) {
    let pattern = dir.join("*.parquet").display().to_string();
    let outcome = ParquetSource::open(&FileAccess::everything(), &[pattern], &uncached()).and_then(|source| {
        let source: std::sync::Arc<dyn Source> = std::sync::Arc::new(source);
        let mut spec = spec(&source, Shuffle::Full, 4);
        spec.threads = 1;
        let mut run = Run::start(source, spec)?;
        while run.next(&|| false)?.is_some() {}
        Ok(())
    });
    if let Err(e) = outcome {
        assert!(e.to_string().contains("part_0.parquet") || matches!(e, DataError::Argument(_)), "{e}");
    }
}

#[test]
fn a_file_with_a_changed_byte_never_brings_the_loader_down() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[40], 10);
    let path = dir.path().join("part_0.parquet");
    let whole = std::fs::read(&path).unwrap();
    // A panic inside a decoder becomes an error, and says nothing else.
    static SAID: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    std::panic::set_hook(Box::new(|panic| {
        SAID.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        eprintln!("{panic}");
    }));
    for at in (0..whole.len()).step_by(whole.len() / 120) {
        for change in [0x01, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            std::fs::write(&path, &bytes).unwrap();
            try_it(dir.path());
        }
    }
    assert_eq!(SAID.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn a_file_cut_anywhere_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[40], 10);
    let path = dir.path().join("part_0.parquet");
    let whole = std::fs::read(&path).unwrap();
    for cut in (0..whole.len()).step_by(whole.len() / 60) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let pattern = path.display().to_string();
        let wrong = ParquetSource::open(&FileAccess::everything(), &[pattern], &uncached()).unwrap_err().to_string();
        assert!(wrong.contains("part_0.parquet"), "{wrong}");
    }
}

#[test]
fn every_compression_that_others_write_is_read() {
    use parquet::basic::Compression;
    let ids: arrow_array::ArrayRef = std::sync::Arc::new((0..1000).collect::<arrow_array::Int64Array>());
    let batch = arrow_array::RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("part_0.parquet");
    let all = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::BROTLI(Default::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(Default::default()),
    ];
    for how in all {
        let properties = parquet::file::properties::WriterProperties::builder().set_compression(how).build();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let source = support::open_dir(dir.path());
        let seen = support::ids(&source, &spec(&source, Shuffle::Off, 1000)).remove(0).0;
        assert_eq!(seen, (0..1000).collect::<Vec<i64>>(), "{how}");
    }
}
