//! Runs whose memory somebody counts: never more than there may be, as long as a batch can be made at all, and nothing
//! afterwards.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use gt_data::*;
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
        batches.push(batch);
    }
    Ok(batches)
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
        for blocks in [40, 24, 18] {
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
