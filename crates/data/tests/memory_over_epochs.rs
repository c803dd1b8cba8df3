//! What the process really takes, over epochs. A file of its own, as tests of one file share a process.
#![cfg(target_os = "linux")]

mod support;

use gt_data::*;
use support::*;

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn memory_does_not_grow_over_epochs() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[20_000; 32], 20_000);
    let source = open_dir(dir.path());
    let block = source.blocks()[0].memory_bytes;
    let mut spec = spec(&source, Shuffle::Pool { blocks: 12, lanes: 4 }, 256);
    spec.memory_budget = block * 24;
    spec.threads = 2;
    spec.prefetch = 4;
    let before = resident_bytes();
    let (mut peaks, mut afters) = (Vec::new(), Vec::new());
    for epoch in 0..6 {
        spec.epoch = epoch;
        let mut run = Run::start(source.clone(), spec.clone()).unwrap();
        let (mut peak, mut batches) = (0, 0);
        while run.next(&|| false).unwrap().is_some() {
            batches += 1;
            if batches % 64 == 0 {
                peak = peak.max(resident_bytes());
            }
        }
        assert_eq!(run.stats().blocks, 32);
        drop(run);
        peaks.push(peak.saturating_sub(before));
        afters.push(resident_bytes().saturating_sub(before));
    }
    // Beside the budget: what three threads have in hand while they decode, and what the allocator keeps of it.
    let allowed = spec.memory_budget * 11 / 10 + (16 << 20);
    assert!(peaks.iter().all(|&p| p <= allowed), "{peaks:?} with {allowed} allowed");
    // What leaks in every epoch is more than this after four of them; how threads meet makes a difference of some MiB.
    let slack = spec.memory_budget / 10 + (4 << 20);
    assert!(peaks[5] <= peaks[1] + slack, "{peaks:?} of a budget of {}", spec.memory_budget);
    assert!(afters[5] <= afters[1] + slack, "{afters:?} of a budget of {}", spec.memory_budget);
}
