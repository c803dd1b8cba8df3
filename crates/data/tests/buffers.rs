//! Batches in memory that somebody gives: every tensor of them lies there, every byte of it is written, and all of it goes back
//! once, however a run ends.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arrow_buffer::Buffer;
use gt_data::*;
use gt_ir::{Failure, FailureKind, HostAllocator, HostBlock, HostBuffer};
use parking_lot::Mutex;
use support::*;

/// Gives memory and keeps what comes back for the next who asks, as engines do. What was there before is rubbish.
#[derive(Default)]
struct Ledger {
    books: Mutex<Books>,
    limit_bytes: Option<usize>,
    /// The allocation that panics.
    panics_at: Option<usize>,
}

#[derive(Default)]
struct Books {
    given: usize,
    /// Numbers of blocks that somebody has.
    out: BTreeSet<usize>,
    live_bytes: usize,
    peak_bytes: usize,
    kept: Vec<Vec<u8>>,
    reused: usize,
}

struct Loan {
    number: usize,
    memory: Vec<u8>,
    owner: Arc<Ledger>,
}

/// The ledger as runs have it.
struct Lender(Arc<Ledger>);

impl HostAllocator for Lender {
    fn allocate(&self, len_bytes: usize) -> std::result::Result<HostBuffer, Failure> {
        let mut books = self.0.books.lock();
        assert_ne!(self.0.panics_at, Some(books.given), "the chosen allocation");
        if self.0.limit_bytes.is_some_and(|limit| books.live_bytes + len_bytes > limit) {
            return Err(Failure::new(FailureKind::Memory, "no more is to be had"));
        }
        let number = books.given;
        books.given += 1;
        books.out.insert(number);
        books.live_bytes += len_bytes;
        books.peak_bytes = books.peak_bytes.max(books.live_bytes);
        let kept = books.kept.iter().position(|memory| memory.len() == len_bytes);
        books.reused += usize::from(kept.is_some());
        let memory = kept.map_or_else(|| vec![0xAA; len_bytes], |at| books.kept.swap_remove(at));
        drop(books);
        Ok(HostBuffer::new(Arc::new(Loan { number, memory, owner: self.0.clone() })))
    }
}

impl HostBlock for Loan {
    fn bytes(&self) -> &[u8] {
        &self.memory
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut books = self.owner.books.lock();
        assert!(books.out.remove(&self.number), "block {} comes back twice", self.number);
        books.live_bytes -= self.memory.len();
        // Whoever reads what went back sees it.
        self.memory.fill(0xAA);
        let memory = std::mem::take(&mut self.memory);
        books.kept.push(memory);
    }
}

impl Ledger {
    fn memory(self: &Arc<Self>) -> PoolMemory {
        PoolMemory::default().with_allocator(Arc::new(Lender(self.clone())))
    }

    fn is_settled(&self) -> bool {
        let books = self.books.lock();
        books.given > 0 && books.out.is_empty() && books.live_bytes == 0
    }
}

/// How many tensors of a batch lie in memory of a ledger, and how many elsewhere.
fn loans(batch: &Batch) -> (usize, usize) {
    let mut count = (0, 0);
    for (_, entry) in &batch.entries {
        if let Entry::Tensor { bytes, .. } = entry {
            match bytes.block::<Loan>() {
                Some(_) => count.0 += 1,
                None => count.1 += 1,
            }
        }
    }
    count
}

fn all(source: &Arc<dyn Source>, spec: &RunSpec, memory: &PoolMemory) -> Result<Vec<Batch>> {
    let mut run = Run::start_in(source.clone(), spec.clone(), memory)?;
    let mut batches = Vec::new();
    while let Some((batch, _)) = run.next(&|| false)? {
        batches.push(batch);
    }
    Ok(batches)
}

/// Twenty files of 300 samples.
fn data() -> (tempfile::TempDir, Arc<dyn Source>) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[300; 20], 100);
    let source = open_dir(dir.path());
    (dir, source)
}

fn shuffled(source: &Arc<dyn Source>, threads: usize) -> RunSpec {
    RunSpec { threads, prefetch: 4, ..spec(source, Shuffle::Pool { blocks: 16, lanes: 4 }, 50) }
}

#[test]
fn every_tensor_is_written_whole_where_it_was_given_and_goes_back_once() {
    let (_dir, source) = data();
    for (collate, threads) in [(Collate::Padded, 0), (Collate::Padded, 2), (Collate::Packed, 2)] {
        let mut spec = shuffled(&source, threads);
        spec.batch.collate = collate;
        // Every entry there is: columns, lengths or ends, a mask, numbers; and a padding that is not zero.
        spec.batch.outputs.push(Output { name: "more".into(), pad_value: -1.0, ..spec.batch.outputs[1].clone() });
        let ledger = Arc::new(Ledger::default());
        let expected = all(&source, &spec, &PoolMemory::default()).unwrap();
        let tensors = expected[0].entries.len();
        // Twice: the second time all memory has been used before.
        for _ in 0..2 {
            let mut run = Run::start_in(source.clone(), spec.clone(), &ledger.memory()).unwrap();
            for expected in &expected {
                let (batch, _) = run.next(&|| false).unwrap().unwrap();
                assert_eq!(loans(&batch), (tensors, 0));
                assert!(batch == *expected);
            }
            assert!(run.next(&|| false).unwrap().is_none());
        }
        assert!(ledger.is_settled());
        let books = ledger.books.lock();
        let longest = expected.iter().map(Batch::bytes).max().unwrap();
        // What is made ahead, what is being made, and what the consumer has.
        assert!(books.peak_bytes <= longest * (4 + threads + 1), "{} for {longest} each", books.peak_bytes);
        assert!(books.reused > books.given / 4, "{} of {} reused", books.reused, books.given);
        assert_eq!(books.given, 2 * tensors * expected.len());
    }
}

#[test]
fn batches_outlive_a_run_that_is_closed_early() {
    let (_dir, source) = data();
    for threads in [0, 2] {
        let spec = shuffled(&source, threads);
        let expected = all(&source, &spec, &PoolMemory::default()).unwrap();
        let ledger = Arc::new(Ledger::default());
        let mut run = Run::start_in(source.clone(), spec, &ledger.memory()).unwrap();
        let mut kept: Vec<Batch> = (0..5).map(|_| run.next(&|| false).unwrap().unwrap().0).collect();
        kept.remove(1);
        drop(run);
        let tensors: usize = kept.iter().map(|batch| loans(batch).0).sum();
        assert_eq!(ledger.books.lock().out.len(), tensors, "what was made ahead went back");
        for (batch, number) in kept.iter().zip([0, 2, 3, 4]) {
            assert!(*batch == expected[number]);
        }
        drop(kept);
        assert!(ledger.is_settled());
    }
}

/// A source whose blocks take their time.
struct Slow(Arc<dyn Source>);

impl Source for Slow {
    fn fields(&self) -> &[Field] {
        self.0.fields()
    }
    fn blocks(&self) -> &[BlockInfo] {
        self.0.blocks()
    }
    fn load(&self, block: u32, times: &mut LoadTimes) -> Result<Block> {
        std::thread::sleep(Duration::from_millis(if block > 30 { 100 } else { 0 }));
        self.0.load(block, times)
    }
    fn sample_id(&self, block: u32, row: u32) -> u64 {
        self.0.sample_id(block, row)
    }
    fn files(&self) -> &SourceFiles {
        self.0.files()
    }
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    let (_dir, source) = data();
    let source: Arc<dyn Source> = Arc::new(Slow(source));
    for threads in [0, 2] {
        let mut spec = shuffled(&source, threads);
        spec.order.shuffle = Shuffle::Off;
        let ledger = Arc::new(Ledger::default());
        let mut run = Run::start_in(source.clone(), spec, &ledger.memory()).unwrap();
        let interrupted = loop {
            match run.next(&|| true) {
                Ok(batch) => assert!(batch.is_some(), "it was never interrupted"),
                Err(error) => break error,
            }
        };
        assert!(matches!(interrupted, DataError::Interrupted), "{interrupted}");
        drop(run);
        assert!(ledger.is_settled());
    }
}

#[test]
fn batches_that_cannot_be_made_leave_nothing_behind() {
    // The 40th sample has two items in one column and one in the other.
    let dir = tempfile::tempdir().unwrap();
    let fields = vec![field("a", Elem::F32, Kind::Ragged), field("b", Elem::F32, Kind::Ragged)];
    let column = |of: &Field, lens: Vec<u32>| {
        let offsets: Vec<u32> = std::iter::once(0)
            .chain(lens.iter().scan(0, |end, len| {
                *end += len;
                Some(*end)
            }))
            .collect();
        let items = vec![1f32; lens.iter().sum::<u32>() as usize];
        Column::new(of, Buffer::from_vec(items), Extents::Offsets(offsets.into()), lens.len()).unwrap()
    };
    let lens = vec![2; 100];
    let other = (0..100).map(|i| if i == 40 { 1 } else { 2 }).collect();
    let block = Block { columns: vec![column(&fields[0], lens), column(&fields[1], other)], samples: 100 };
    let mut writer = ParquetWriter::create(&dir.path().join("a.parquet"), &fields, 25).unwrap();
    writer.write(&picked(&block)).unwrap();
    writer.close().unwrap();
    let source = open_dir(dir.path());
    for threads in [0, 2] {
        let ledger = Arc::new(Ledger::default());
        let spec = RunSpec { threads, ..spec(&source, Shuffle::Off, 10) };
        let error = all(&source, &spec, &ledger.memory()).unwrap_err().to_string();
        assert!(error.contains("sample 40"), "{error}");
        assert!(ledger.is_settled());
        // And one in the middle of which something goes wrong that nobody thought of.
        let ledger = Arc::new(Ledger { panics_at: Some(7), ..Ledger::default() });
        let error = all(&source, &spec, &ledger.memory()).unwrap_err().to_string();
        assert!(error.contains("the chosen allocation"), "{error}");
        assert!(ledger.is_settled());
    }
}

#[test]
fn what_is_not_to_be_had_is_made_in_ordinary_memory() {
    let (_dir, source) = data();
    let spec = shuffled(&source, 2);
    let expected = all(&source, &spec, &PoolMemory::default()).unwrap();
    for limit_bytes in [expected[0].bytes() / 2, 0] {
        let ledger = Arc::new(Ledger { limit_bytes: Some(limit_bytes), ..Ledger::default() });
        let made = all(&source, &spec, &ledger.memory()).unwrap();
        assert!(made == expected);
        assert_eq!(made.iter().any(|batch| loans(batch).0 > 0), limit_bytes > 0);
        drop(made);
        let books = ledger.books.lock();
        assert!(books.peak_bytes <= limit_bytes && books.out.is_empty());
    }
}
