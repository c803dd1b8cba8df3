//! Runs whose memory somebody counts: never more than there may be, as long as a batch can be made at all, and nothing
//! afterwards.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use gt_data::*;
use gt_ir::{Failure, FailureKind, HostAllocator, HostBuffer};
use support::*;

struct Counted {
    limit: u64,
    now: AtomicU64,
    most: AtomicU64,
}

impl Counted {
    fn new(limit: u64) -> Arc<Counted> {
        Arc::new(Counted { limit, now: AtomicU64::new(0), most: AtomicU64::new(0) })
    }
}

impl MemoryAccount for Counted {
    fn charge(&self, len_bytes: u64) -> std::result::Result<(), String> {
        let fits = |now: u64| Some(now + len_bytes).filter(|&sum| sum <= self.limit);
        let before = self.now.fetch_update(SeqCst, SeqCst, fits).map_err(|now| format!("no room: {now} are taken"))?;
        self.most.fetch_max(before + len_bytes, SeqCst);
        Ok(())
    }
    fn give_back(&self, len_bytes: u64) {
        let before = self.now.fetch_sub(len_bytes, SeqCst);
        assert!(before >= len_bytes, "{len_bytes} of {before} are given back");
    }
    fn limit_bytes(&self) -> u64 {
        self.limit
    }
}

fn all(source: &Arc<dyn Source>, spec: &RunSpec, memory: &PoolMemory) -> Result<Vec<Batch>> {
    let mut run = Run::start_in(source.clone(), spec.clone(), memory)?;
    let mut batches = Vec::new();
    while let Some((batch, _)) = run.next(&|| false)? {
        become_values(&batch);
        batches.push(batch);
    }
    Ok(batches)
}

/// What happens to the tensors of a batch that a session gets.
fn become_values(batch: &Batch) {
    for (_, entry) in &batch.entries {
        if let Entry::Tensor { bytes, .. } = entry {
            bytes.settle();
        }
    }
}

/// An allocator that only counts.
#[derive(Default)]
struct Largest(AtomicU64);

impl HostAllocator for Largest {
    fn allocate(&self, len_bytes: usize) -> std::result::Result<HostBuffer, Failure> {
        self.0.fetch_max(len_bytes as u64, SeqCst);
        HostBuffer::ordinary(len_bytes)
    }
}

#[test]
fn what_there_is_no_room_for_is_read_again_and_batches_stay_the_same() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[300; 20], 100);
    let source = open_dir(dir.path());
    let block = source.blocks()[0].memory_bytes;
    for threads in [0, 2] {
        let mut spec = spec(&source, Shuffle::Pool { blocks: 16, lanes: 4 }, 20);
        (spec.threads, spec.prefetch) = (threads, 6);
        let expected = all(&source, &spec, &PoolMemory::default()).unwrap();
        // The order of samples and a batch take as much as some of these small blocks.
        for blocks in [48, 40, 34] {
            let account = Counted::new(block * blocks);
            let memory = PoolMemory::charged_to(account.clone());
            assert!(all(&source, &spec, &memory).unwrap() == expected, "{blocks} blocks, {threads} threads");
            let (now, most) = (account.now.load(SeqCst), account.most.load(SeqCst));
            assert!(now == 0 && most > block * 4 && most <= account.limit, "{now} left of {most}");
        }
    }
}

#[test]
fn a_batch_that_cannot_be_made_is_an_error_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[300; 20], 100);
    let source = open_dir(dir.path());
    let account = Counted::new(source.blocks()[0].memory_bytes * 2);
    let spec = spec(&source, Shuffle::Pool { blocks: 16, lanes: 4 }, 20);
    let refused = all(&source, &spec, &PoolMemory::charged_to(account.clone())).unwrap_err();
    assert!(matches!(&refused, DataError::Memory(why) if why.contains("no room")), "{refused}");
    assert_eq!(account.now.load(SeqCst), 0);
}

#[test]
fn what_others_take_is_not_there_for_a_run() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[300; 20], 100);
    let source = open_dir(dir.path());
    let account = Counted::new(1 << 30);
    let spec = spec(&source, Shuffle::Pool { blocks: 16, lanes: 4 }, 20);
    let mut run = Run::start_in(source.clone(), spec.clone(), &PoolMemory::charged_to(account.clone())).unwrap();
    run.next(&|| false).unwrap();
    assert!(account.now.load(SeqCst) > 0);
    let rest = account.limit - account.now.load(SeqCst);
    drop(run);
    assert_eq!(account.now.load(SeqCst), 0);
    account.charge(account.limit - 1).unwrap();
    assert!(matches!(all(&source, &spec, &PoolMemory::charged_to(account.clone())), Err(DataError::Memory(_))));
    account.give_back(rest);
    assert!(all(&source, &spec, &PoolMemory::charged_to(account)).is_ok());
}

#[test]
fn padding_beyond_the_limit_is_refused_before_any_memory_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[300; 2], 100);
    let source = open_dir(dir.path());
    for (threads, multiple) in [(0, 1 << 28), (2, 1 << 28), (1, 1 << 40), (1, usize::MAX / 3), (1, usize::MAX)] {
        let (account, largest) = (Counted::new(64 << 20), Arc::new(Largest::default()));
        let memory = PoolMemory::charged_to(account.clone()).with_allocator(largest.clone());
        let mut spec = RunSpec { threads, ..spec(&source, Shuffle::Off, 20) };
        spec.batch.outputs.iter_mut().for_each(|output| output.multiple = multiple);
        let error = all(&source, &spec, &memory).unwrap_err();
        assert!(matches!(error, DataError::Memory(_)), "{error}");
        let said = error.to_string();
        assert!(multiple > 1 << 40 || said.contains("the batch needs") && said.contains("limit is 67108864"), "{said}");
        assert!(account.most.load(SeqCst) <= account.limit && largest.0.load(SeqCst) < 1 << 20);
        assert_eq!(account.now.load(SeqCst), 0);
        // In a program that reads its own files nobody counts, and sizes are checked all the same.
        if multiple > 1 << 40 {
            assert!(matches!(all(&source, &spec, &PoolMemory::default()), Err(DataError::Memory(_))));
        }
    }
}

#[test]
fn batches_that_were_given_count_until_they_are_values() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[300; 2], 100);
    let source = open_dir(dir.path());
    let account = Counted::new(1 << 30);
    let spec = spec(&source, Shuffle::Off, 50);
    let mut run = Run::start_in(source, spec, &PoolMemory::charged_to(account.clone())).unwrap();
    let kept: Vec<Batch> = (0..3).map(|_| run.next(&|| false).unwrap().unwrap().0).collect();
    drop(run);
    let bytes: usize = kept.iter().map(Batch::bytes).sum();
    let counted = account.now.load(SeqCst);
    assert!(counted >= bytes as u64);
    become_values(&kept[0]);
    assert!(account.now.load(SeqCst) <= counted - kept[0].bytes() as u64);
    drop(kept);
    assert_eq!(account.now.load(SeqCst), 0);
}

#[test]
fn batches_that_find_no_room_wait_for_those_before_them() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[300; 4], 100);
    let source = open_dir(dir.path());
    for threads in [0, 3] {
        let mut spec = RunSpec { threads, prefetch: 8, ..spec(&source, Shuffle::Off, 50) };
        // Rows of 64 KiB: two batches fit.
        spec.batch.outputs[1].multiple = 1 << 14;
        let expected = all(&source, &spec, &PoolMemory::default()).unwrap();
        let account = Counted::new(expected[0].bytes() as u64 * 5 / 2);
        let mut run = Run::start_in(source.clone(), spec, &PoolMemory::charged_to(account.clone())).unwrap();
        let mut before: Option<Batch> = None;
        for expected in &expected {
            // The session has one batch while the next is made.
            let (batch, _) = run.next(&|| false).unwrap().unwrap();
            assert!(batch == *expected);
            before.replace(batch);
        }
        assert!(run.next(&|| false).unwrap().is_none());
        assert!(account.most.load(SeqCst) <= account.limit);
        drop((run, before));
        assert_eq!(account.now.load(SeqCst), 0);
    }
}

/// An allocator that has nothing.
struct Nothing;

impl HostAllocator for Nothing {
    fn allocate(&self, _: usize) -> std::result::Result<HostBuffer, Failure> {
        Err(Failure::new(FailureKind::Memory, "no more is to be had"))
    }
}

#[test]
fn a_counted_batch_never_falls_back_to_ordinary_memory() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[300; 2], 100);
    let source = open_dir(dir.path());
    let account = Counted::new(1 << 30);
    let memory = PoolMemory::charged_to(account.clone()).with_allocator(Arc::new(Nothing));
    let error = all(&source, &spec(&source, Shuffle::Off, 20), &memory).unwrap_err();
    assert!(matches!(&error, DataError::Memory(why) if why.contains("no more is to be had")), "{error}");
    assert_eq!(account.now.load(SeqCst), 0);
}

#[test]
fn a_batch_of_the_whole_epoch_is_counted_before_its_places_are() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[20_000], 20_000);
    let source = open_dir(dir.path());
    // Room for the blocks, not for the places of all samples.
    let account = Counted::new(source.blocks()[0].memory_bytes + 100_000);
    let error = all(&source, &spec(&source, Shuffle::Full, usize::MAX), &PoolMemory::charged_to(account.clone()));
    assert!(matches!(error, Err(DataError::Memory(_))), "{error:?}");
    assert_eq!(account.now.load(SeqCst), 0);
}
