//! Parquet files with any byte changed or any part missing: an error that names the file, or batches; never a panic or a hang.

mod support;

use gt_data::*;
use support::{spec, uncached, write};

/// Opens and runs over everything; whatever happens must be a batch or an error about this file.
fn try_it(dir: &std::path::Path) {
    let pattern = dir.join("*.parquet").display().to_string();
    let outcome = ParquetSource::open(&[pattern], &uncached()).and_then(|source| {
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
    // A panic inside a decoder is caught and becomes an error; its message need not fill the screen.
    std::panic::set_hook(Box::new(|_| {}));
    for at in (0..whole.len()).step_by(whole.len() / 120) {
        for change in [0x01, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            std::fs::write(&path, &bytes).unwrap();
            try_it(dir.path());
        }
    }
    let _ = std::panic::take_hook();
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
        let wrong = ParquetSource::open(&[pattern], &uncached()).unwrap_err().to_string();
        assert!(wrong.contains("part_0.parquet"), "{wrong}");
    }
}
