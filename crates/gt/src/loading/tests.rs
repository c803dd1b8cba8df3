//! Loaders of a session make their batches in memory of its worker's engine.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use gt_data::{BatchSpec, Cut, Elem, OrderSpec, Position, RowPart, RunSpec, Shuffle, SourceSpec, write_npy_header};
use gt_engine::{Engine, HostMemory, Memory, Null, NullBuffer, Run as EngineRun, Ticket};
use gt_ir::{Failure, HostBlock, HostBuffer, Window};
use gt_plan::Plan;
use gt_worker::{SessionConfig, WorkerConfig, WorkerHandle};

use super::*;

/// Blocks that are out, and how many there were.
#[derive(Default)]
struct Books {
    out: AtomicUsize,
    given: AtomicUsize,
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
        Ok(HostBuffer::new(Arc::new(Lent(vec![0xAA; len_bytes], self.0.clone()))))
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
    fn prepare(&mut self, plan: Arc<Plan>) -> Self::Program {
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
    fn host_memory(&self) -> Arc<dyn HostMemory> {
        Arc::new(OfBooks(self.0.clone()))
    }
}

/// A loader over a column of 100 numbers, in batches of ten.
fn description(path: &std::path::Path) -> Vec<u8> {
    let mut file = write_npy_header(Elem::I64, &[100]);
    (0..100i64).for_each(|i| file.extend(i.to_le_bytes()));
    std::fs::write(path, file).unwrap();
    let source = SourceSpec::Npy { columns: vec![("x".into(), vec![path.display().to_string()])], skip_errors: false };
    let opened = source.open().unwrap();
    let run = RunSpec {
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
    LoaderSpec { source, number: 1, fingerprint: opened.fingerprint(), run }.encode().unwrap()
}

#[test]
fn batches_lie_in_memory_of_the_engine_until_nobody_has_them() {
    let books = Arc::new(Books::default());
    let engine = Lending(books.clone());
    let session = WorkerHandle::spawn(move || engine, WorkerConfig::default()).open(SessionConfig::default());
    // Once something has run there is an engine.
    let instrs = vec!["%1 = fill() dtype=f32 shape=[1] $ 3.0".parse().unwrap()];
    session.send(Window { instrs, ..Window::default() }, &|| false).unwrap();
    session.synchronize(&|| false).unwrap();
    let path = std::env::temp_dir().join(format!("gt-loading-{}.npy", std::process::id()));
    let loading = SessionLoading::new(session.memory());
    let mut maker = loading.open(&description(&path));
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
