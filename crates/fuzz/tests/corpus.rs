//! What the fuzzers have found worth keeping, replayed without a sanitizer.

use std::path::{Path, PathBuf};

use gt_fuzz::TARGETS;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

#[test]
fn every_target_takes_its_corpus() {
    for (name, target) in TARGETS {
        let (mut ran, mut understood) = (0, 0);
        let files = std::fs::read_dir(folder(name)).unwrap_or_else(|e| panic!("{name} has no corpus: {e}"));
        for file in files {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            ran += 1;
            understood += target(&bytes) as u32;
        }
        // Inputs that no decoder takes would show nothing.
        assert!(ran > 2 && understood * 3 > ran, "{name}: {understood} of {ran} inputs got past the decoder");
    }
}

#[test]
fn every_target_has_a_file() {
    for (name, _) in TARGETS {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fuzz/fuzz_targets/{name}.rs"));
        assert!(file.exists(), "{} is missing", file.display());
    }
}
