//! Loaders of a session make their batches in memory of its worker's engine.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use gt_data::{BatchSpec, Cut, Elem, OrderSpec, Position, RowPart, RunSpec, Shuffle, SourceSpec, write_npy_header};
use gt_engine::{Engine, HostMemory, Memory, Quota, Run as EngineRun, Ticket, Transfer};
use gt_engine_check::{Null, NullBuffer};
use gt_ir::{Bytes, Failure, HostBlock, HostBuffer, TensorType, Window};
use gt_plan::{EngineLimits, Plan};
use gt_stream::Occurrence;
use gt_worker::{SessionConfig, WorkerConfig, WorkerHandle};

use super::*;

/// Blocks that are out, and how many there were.
#[derive(Default)]
struct Books {
    out: AtomicUsize,
    given: AtomicUsize,
    given_bytes: AtomicUsize,
}

struct Lent(Vec<u8>, Arc<Books>);

impl HostBlock for Lent {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.1.out.fetch_sub(1, SeqCst);
    }
}

struct OfBooks(Arc<Books>);

impl HostMemory for OfBooks {
    fn charge(&self, _: u64) -> Result<(), Failure> {
        Ok(())
    }
    fn give_back(&self, _: u64) {}
    fn limit_bytes(&self) -> u64 {
        u64::MAX
    }
    fn allocate(&self, len_bytes: usize) -> Result<HostBuffer, Failure> {
        self.0.out.fetch_add(1, SeqCst);
        self.0.given.fetch_add(1, SeqCst);
        self.0.given_bytes.fetch_add(len_bytes, SeqCst);
        Ok(HostBuffer::new(Arc::new(Lent(vec![0xAA; len_bytes], self.0.clone()))))
    }
}

impl<B> Transfer<B> for OfBooks {
    fn upload(&self, _: TensorType, _: &Bytes, _: Option<&Arc<Quota>>) -> Option<B> {
        None
    }
    fn memory(&self) -> Option<Memory> {
        None
    }
}

/// An engine that only has memory.
struct Lending(Arc<Books>);

impl Engine for Lending {
    type Buffer = NullBuffer;
    type Program = <Null as Engine>::Program;

    fn name(&self) -> &'static str {
        "lending"
    }
    fn limits(&self) -> EngineLimits {
        EngineLimits::MODERATE
    }
    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<Self::Program, Failure> {
        Null.prepare(plan)
    }
    fn submit(&mut self, program: &Arc<Self::Program>, run: EngineRun<NullBuffer>) -> Box<dyn Ticket> {
        Null.submit(program, run)
    }
    fn synchronize(&mut self) {}
    fn memory(&self) -> Memory {
        Memory::default()
    }
    fn trim(&mut self) {}
    fn transfer(&self) -> Arc<dyn Transfer<Self::Buffer>> {
        Arc::new(OfBooks(self.0.clone()))
    }
}

/// A loader over a column of 100 numbers, in batches of ten, changed as a test wants it.
fn description(path: &std::path::Path, change: impl FnOnce(&mut RunSpec)) -> Vec<u8> {
    let mut file = write_npy_header(Elem::I64, &[100]);
    (0..100i64).for_each(|i| file.extend(i.to_le_bytes()));
    std::fs::write(path, file).unwrap();
    let source = SourceSpec::Npy { columns: vec![("x".into(), vec![path.display().to_string()])], skip_errors: false };
    let opened = source.open(&FileAccess::everything()).unwrap();
    let mut run = RunSpec {
        order: OrderSpec { seed: 0, shuffle: Shuffle::Off },
        epoch: 0,
        start: Position::default(),
        cut: Cut::every(10),
        batch: BatchSpec::plain(opened.fields()),
        threads: 1,
        prefetch: 3,
        memory_budget: 1 << 20,
        skip_errors: false,
        part: RowPart::default(),
    };
    change(&mut run);
    LoaderSpec { source, number: 1, fingerprint: opened.fingerprint(), run }.encode().unwrap()
}

#[test]
fn batches_lie_in_memory_of_the_engine_until_nobody_has_them() {
    let books = Arc::new(Books::default());
    let engine = Lending(books.clone());
    let session = WorkerHandle::spawn(move || engine, WorkerConfig::default()).open(SessionConfig::default());
    // Once something has run there is an engine.
    let instrs = vec!["%1 = fill() dtype=f32 shape=[1] $ 3.0".parse().unwrap()];
    session.send(Occurrence::of(Window { instrs, ..Window::default() }).unwrap(), &|| false).unwrap();
    session.synchronize(&|| false).unwrap();
    let path = std::env::temp_dir().join(format!("gt-loading-{}.npy", std::process::id()));
    let loading = SessionLoading::new(session.memory(), FileAccess::everything());
    let mut maker = loading.open(&description(&path, |_| ()));
    let mut kept = Vec::new();
    for number in 0..4i64 {
        let made = maker.next(&|| false);
        let [(_, bytes)] = &made.tensors[..] else { panic!("one column") };
        assert!(bytes.block::<Lent>().is_some());
        assert_eq!(bytes[..8], (10 * number).to_le_bytes());
        kept.push(made);
    }
    // Closed early, with batches ahead.
    drop(maker);
    assert_eq!(books.out.load(SeqCst), kept.len());
    assert_eq!(kept[3].tensors[0].1[72..], 39i64.to_le_bytes());
    drop(kept);
    assert_eq!(books.out.load(SeqCst), 0);
    assert!((4..=8).contains(&books.given.load(SeqCst)));
    std::fs::remove_file(path).unwrap();
}

/// A session of a worker whose engine exists, with so much memory.
fn session(books: &Arc<Books>, memory_limit_bytes: Option<u64>) -> gt_worker::SessionHandle {
    let engine = Lending(books.clone());
    let config = SessionConfig { memory_limit_bytes, ..SessionConfig::default() };
    let session = WorkerHandle::spawn(move || engine, WorkerConfig::default()).open(config);
    let instrs = vec!["%1 = fill() dtype=f32 shape=[1] $ 3.0".parse().unwrap()];
    session.send(Occurrence::of(Window { instrs, ..Window::default() }).unwrap(), &|| false).unwrap();
    session.synchronize(&|| false).unwrap();
    session
}

fn failure(made: &MadeBatch) -> String {
    match Announcement::decode(&made.note).unwrap().outcome {
        Outcome::Failed { error, .. } => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_batch_beyond_the_sessions_memory_is_refused_before_memory_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    // One sample of two numbers, padded to a quarter of a GiB.
    let path = dir.path().join("x.jsonl");
    std::fs::write(&path, "{\"x\": [1, 2]}\n".repeat(100)).unwrap();
    let options = gt_data::ParquetOptions { no_index_cache: true, ..Default::default() };
    let source = SourceSpec::Jsonl { patterns: vec![path.display().to_string()], options };
    let opened = source.open(&FileAccess::everything()).unwrap();
    let batch = BatchSpec::plain(opened.fields());
    for (collate_len, is_refused) in [(1 << 28, true), (1 << 10, false)] {
        let mut spec = LoaderSpec::decode(&description(&dir.path().join("y.npy"), |_| ())).unwrap();
        (spec.source, spec.fingerprint, spec.run.batch) = (source.clone(), opened.fingerprint(), batch.clone());
        spec.run.cut = Cut::every(1);
        spec.run.batch.outputs[0].multiple = collate_len;
        let books = Arc::new(Books::default());
        let session = session(&books, Some(64 << 20));
        let loading = SessionLoading::new(session.memory(), FileAccess::everything());
        let mut maker = loading.open(&spec.encode().unwrap());
        let made = maker.next(&|| false);
        if is_refused {
            let said = failure(&made);
            assert!(said.contains("the batch needs") && said.contains("limit is 67108864 bytes"), "{said}");
            assert!(books.given_bytes.load(SeqCst) < 1 << 20);
        } else {
            assert!(!made.tensors.is_empty());
        }
    }
}

#[test]
fn batches_that_were_announced_stay_within_the_sessions_memory() {
    let dir = tempfile::tempdir().unwrap();
    let books = Arc::new(Books::default());
    // The files' block and their order leave room for some batches of ten numbers.
    let limit = 8_000;
    let session = session(&books, Some(limit));
    let loading = SessionLoading::new(session.memory(), FileAccess::everything());
    let mut maker = loading.open(&description(&dir.path().join("x.npy"), |run| run.threads = 0));
    // A client that asks for batches and takes none; after a while it is nobody's fault but its own.
    let begun = std::time::Instant::now();
    let gives_up = || begun.elapsed() > std::time::Duration::from_secs(2);
    let mut announced = Vec::new();
    while let made = maker.next(&gives_up)
        && !made.tensors.is_empty()
    {
        announced.push(made);
    }
    assert!((1..10).contains(&announced.len()), "{} batches", announced.len());
    let memory = session.memory();
    memory.charge(limit - 1_000).unwrap_err();
    drop((announced, maker));
    memory.charge(limit - 1_000).unwrap();
}

#[test]
fn loaders_of_a_session_share_a_few_threads() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&Arc::new(Books::default()), None);
    let loading = SessionLoading::new(session.memory(), FileAccess::everything());
    let most = *loading.threads.0.lock();
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("gt-data-")).count()
    };
    let before = threads();
    let description = description(&dir.path().join("x.npy"), |run| run.threads = 256);
    let mut makers: Vec<_> = (0..20).map(|_| loading.open(&description)).collect();
    for maker in &mut makers {
        assert_eq!(maker.next(&|| false).tensors.len(), 1, "a loader without threads makes its batches as well");
    }
    // One that has just begun may not have its name yet.
    assert_eq!(*loading.threads.0.lock(), 0);
    assert!((1..=most).contains(&(threads() - before)));
    drop(makers);
    assert_eq!(*loading.threads.0.lock(), most);
}
