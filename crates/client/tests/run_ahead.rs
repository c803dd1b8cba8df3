//! Recording that runs ahead of its worker by no more than about a second of work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gt_client::link::{Link, Progress, WaitError};
use gt_client::session::{self, Cuts, Session, WaitHooks, set_wait_hooks};
use gt_client::{Error, HostTensor, RunAhead, Tensor};
use gt_ir::rows::UnaryKind;
use gt_ir::{OpKind, TensorId, Window};
use gt_stream::Occurrence;

/// How long the worker takes for a product.
const PRODUCT: Duration = Duration::from_millis(3);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static ALONE: Mutex<()> = Mutex::new(());

/// What a window looks like, whatever the names in it.
type Outline = (Vec<OpKind>, bool, bool);

#[derive(Default)]
struct Seen {
    windows: Mutex<Vec<Outline>>,
    sent: AtomicU64,
    executed: AtomicU64,
    products: AtomicU64,
    products_run: AtomicU64,
}

impl Seen {
    /// How much work was sent and has not run.
    fn ahead(&self) -> Duration {
        PRODUCT * (self.products.load(SeqCst) - self.products_run.load(SeqCst)) as u32
    }
}

struct Slow {
    seen: Arc<Seen>,
    /// None runs nothing, and does not say how far it has come.
    worker: Option<Mutex<Sender<u64>>>,
}

fn products(window: &Window) -> u64 {
    window.instrs.iter().filter(|instr| instr.op.kind() == OpKind::Matmul).count() as u64
}

impl Slow {
    fn new(runs: bool) -> (Slow, Arc<Seen>) {
        let seen: Arc<Seen> = Arc::default();
        let (sender, receiver) = channel::<u64>();
        let of_worker = seen.clone();
        std::thread::spawn(move || {
            for products in receiver {
                std::thread::sleep(PRODUCT * products as u32);
                of_worker.products_run.fetch_add(products, SeqCst);
                of_worker.executed.fetch_add(1, SeqCst);
            }
        });
        (Slow { seen: seen.clone(), worker: runs.then(|| Mutex::new(sender)) }, seen)
    }
}

impl Link for Slow {
    fn send(&self, window: Occurrence, _: &dyn Fn() -> bool) -> Result<(), WaitError> {
        let window = window.window();
        let kinds = window.instrs.iter().map(|instr| instr.op.kind()).collect();
        self.seen.windows.lock().unwrap().push((kinds, window.eager, window.joined));
        self.seen.products.fetch_add(products(&window), SeqCst);
        self.seen.sent.fetch_add(1, SeqCst);
        if let Some(worker) = &self.worker {
            worker.lock().unwrap().send(products(&window)).unwrap();
        }
        Ok(())
    }
    fn read(&self, _: TensorId, _: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        Err(WaitError::Interrupted)
    }
    fn synchronize(&self, _: &dyn Fn() -> bool) -> Result<(), WaitError> {
        Ok(())
    }
    fn wake(&self) {}
    fn close(&self) {}
    fn is_full(&self) -> bool {
        false
    }
    fn progress(&self) -> Progress {
        match self.worker {
            Some(_) => Progress { sent: self.seen.sent.load(SeqCst), executed: self.seen.executed.load(SeqCst) },
            None => Progress::default(),
        }
    }
}

/// From now on everything is recorded for a new worker, in windows that begin small again.
fn begin(runs: bool) -> Arc<Seen> {
    set_wait_hooks(WaitHooks { around: |wait| wait(), interrupted: || INTERRUPTED.load(SeqCst) });
    INTERRUPTED.store(false, SeqCst);
    let (link, seen) = Slow::new(runs);
    session::replace(Some(Session {
        link: Box::new(link),
        owner: Box::new(()),
        name: "a test".into(),
        seat: Default::default(),
        batch_size: None,
        cuts: Cuts::NEAR,
        join_after: None,
        loops: None,
        waits: false,
        debug: None,
        ahead: RunAhead::default(),
    }));
    seen
}

/// Records so many products of matrices, on a lane of its own.
fn record(count: usize) -> Result<(), Error> {
    let lane = std::thread::spawn(move || {
        let mut x = Tensor::zeros(&[512, 512], None)?;
        (0..count).try_for_each(|_| {
            x = x.matmul(&x)?.unary(UnaryKind::Tanh)?;
            Ok(())
        })
    });
    lane.join().unwrap()
}

#[test]
fn a_loop_was_recorded_at_once_and_its_next_read_waited_for_all_of_it() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let seen = begin(true);
    let start = Instant::now();
    record(1200).unwrap();
    let (took, ahead) = (start.elapsed(), seen.ahead());
    assert!(ahead <= Duration::from_secs(2), "{ahead:?} of work was left to run after {took:?} of recording");
    let windows = std::mem::take(&mut *seen.windows.lock().unwrap());
    // AHEAD-1.
    let unhindered = begin(false);
    record(1200).unwrap();
    assert_eq!(*unhindered.windows.lock().unwrap(), windows);
}

#[test]
fn an_interrupted_loop_left_minutes_of_work_behind() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let seen = begin(true);
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(700));
        INTERRUPTED.store(true, SeqCst);
    });
    let start = Instant::now();
    let interrupted = record(100_000);
    assert!(matches!(interrupted, Err(Error::Interrupted)), "{interrupted:?}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let ahead = seen.ahead();
    assert!(ahead <= Duration::from_secs(2), "{ahead:?} of work was left");
}
