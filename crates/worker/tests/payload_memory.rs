//! Memory for payloads comes from the engine, and goes back once, however the session ends.

mod support;

use std::sync::Arc;

use gt_engine::{Engine, HostMemory, Memory, Quota, Run, Ticket, Transfer};
use gt_engine_check::{Reference, ReferenceBuffer};
use gt_ir::{Bytes, Failure, HostAllocator, HostBlock, HostBuffer, TensorId, TensorType};
use gt_plan::{EngineLimits, Plan};
use gt_worker::{SessionConfig, SessionHandle, WorkerConfig, WorkerHandle};
use parking_lot::Mutex;
use support::*;

/// What was given and came back, in blocks.
#[derive(Default)]
struct Books {
    given: usize,
    back: usize,
}

/// The reference engine with memory of a kind of its own.
struct Lending {
    inner: Reference,
    books: Arc<Mutex<Books>>,
}

struct Lent {
    memory: Vec<u8>,
    books: Arc<Mutex<Books>>,
}

impl HostBlock for Lent {
    fn bytes(&self) -> &[u8] {
        &self.memory
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.books.lock().back += 1;
    }
}

struct OfBooks(Arc<Mutex<Books>>);

impl HostMemory for OfBooks {
    fn charge(&self, _: u64) -> Result<(), Failure> {
        Ok(())
    }
    fn give_back(&self, _: u64) {}
    fn limit_bytes(&self) -> u64 {
        u64::MAX
    }
    fn allocate(&self, len_bytes: usize) -> Result<HostBuffer, Failure> {
        self.0.lock().given += 1;
        Ok(HostBuffer::new(Arc::new(Lent { memory: vec![0xAA; len_bytes], books: self.0.clone() })))
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

impl Engine for Lending {
    type Buffer = ReferenceBuffer;
    type Program = <Reference as Engine>::Program;

    fn name(&self) -> &'static str {
        "lending"
    }
    fn limits(&self) -> EngineLimits {
        self.inner.limits()
    }
    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<Self::Program, Failure> {
        self.inner.prepare(plan)
    }
    fn submit(&mut self, program: &Arc<Self::Program>, run: Run<ReferenceBuffer>) -> Box<dyn Ticket> {
        assert!(run.immediates.uploads.iter().all(|payload| payload.block::<Lent>().is_some()), "it was copied");
        self.inner.submit(program, run)
    }
    fn synchronize(&mut self) {}
    fn memory(&self) -> Memory {
        self.inner.memory()
    }
    fn trim(&mut self) {
        self.inner.trim();
    }
    fn transfer(&self) -> Arc<dyn Transfer<Self::Buffer>> {
        Arc::new(OfBooks(self.books.clone()))
    }
}

/// A session whose engine is there, with what its memory counts.
fn lending(config: SessionConfig) -> (SessionHandle, Arc<Mutex<Books>>) {
    let books = Arc::new(Mutex::new(Books::default()));
    let engine = Lending { inner: Reference::new(), books: books.clone() };
    let session = WorkerHandle::spawn(move || engine, WorkerConfig::default()).open(config);
    session.send(two(1000), &never).unwrap();
    session.synchronize(&never).unwrap();
    (session, books)
}

fn payload(session: &SessionHandle, values: &[f32]) -> gt_ir::Bytes {
    let mut memory = session.memory().allocate(4 * values.len()).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    memory.bytes_mut().copy_from_slice(&bytes);
    memory.freeze()
}

#[test]
fn a_payload_reaches_the_engine_where_it_was_written_and_goes_back_once() {
    within_time(|| {
        let (session, books) = lending(SessionConfig::default());
        for turn in 0..10u64 {
            let line = format!("%{turn} = upload() dtype=f32 shape=[2]");
            let values = [turn as f32, 1.0];
            session.send_waiting(window(&[&line], &[], &[]), vec![(0, TensorId(turn))], &never).unwrap();
            session.supply_loaded(TensorId(turn), payload(&session, &values)).unwrap();
            assert_eq!(read(&session, turn), values);
        }
        session.synchronize(&never).unwrap();
        wait_until(|| books.lock().back == 10);
        assert_eq!(books.lock().given, 10);
    });
}

#[test]
fn payloads_that_never_become_values_go_back_too() {
    within_time(|| {
        let config = SessionConfig { memory_limit_bytes: Some(116), ..SessionConfig::default() };
        let (session, books) = lending(config);
        // What is made ahead is in nobody's way, and fails where it would be more than the session may have.
        let line = "%1 = upload() dtype=f32 shape=[30]";
        session.send_waiting(window(&[line], &[], &[]), vec![(0, TensorId(1))], &never).unwrap();
        session.supply_loaded(TensorId(1), payload(&session, &[1.0; 30])).unwrap();
        let failed = failure(session.read(TensorId(1), &never));
        assert_eq!(failed.kind, gt_ir::FailureKind::Memory);
        session.synchronize(&never).unwrap();
        wait_until(|| books.lock().back == 1);
        // One that waits for a window that never comes goes with the session.
        session.supply_loaded(TensorId(7), payload(&session, &[1.0; 20])).unwrap();
        assert_eq!(books.lock().back, 1);
        session.close();
        wait_until(|| books.lock().back == 2);
        assert_eq!(books.lock().given, 2);
    });
}
