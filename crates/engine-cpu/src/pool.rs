//! Threads that help with one piece of work at a time.
//!
//! A run is open while the caller takes chunks. Helpers that see it open join, take chunks too, and leave. When the
//! caller finds no chunk left it closes the run and waits for those who joined, and only for them: a helper
//! that was asleep and comes late finds the run closed and costs nothing.
//!
//! POOL-1: `job` is written by the caller only while the run is closed and nobody is inside (`left == joined`); a
//! helper reads it only between joining and leaving.
//! POOL-2: `state` holds the run's number, whether it is open, and how many joined. Joining is a compare-and-swap
//! on the whole word, so nobody joins a closed run or mistakes one run for another.
//! POOL-3: where there is no core to spare, a helper leaves it to the thread that records: while somebody does, nobody
//! spins longer than `SPIN`, and short work is not shared.
//! POOL-4: chunks are dealt in order, the same way each time: a thread begins with its own share and then helps with the
//! others'. Steps that cut their rows alike thus find what the step before wrote in the cache of the core they run on.
//! POOL-5: while the only helper is far away and all work is short, none is shared: its data would travel longer than it takes. Among
//! long pieces of work short ones are shared too, as what they read lies with both threads. Of several helpers some are near.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use gt_engine::{Cancel, presence};
use gt_ir::Failure;
use parking_lot::Mutex;

use crate::affinity::CoreAffinity;
use crate::alloc::{Allocator, Plain, Room};
use crate::denormal;
use crate::distance::Ball;

/// How long a thread looks for work, or for the end of it, before it sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// How long a helper looks while nobody records: then the steps of a plan follow each other closely, and waking up takes
/// longer than many of them.
const PATIENCE: Duration = Duration::from_micros(300);
/// Work that takes one thread less than this is not worth disturbing a thread that records.
const WORTH_DISTURBING_NANOS: usize = 60_000;

/// Work that takes one thread less than this is not worth sharing with a thread that is far away.
const WORTH_FETCHING_NANOS: usize = 300_000;
/// After about how many pieces of work a long one is forgotten.
const REMEMBERED: usize = 64;
/// After how many pieces of work is looked again how far away the helper is. No clock: looking at it would take as long as some.
const LOOK_EVERY: usize = 1024;

const OPEN: u64 = 1 << 31;
/// What a look for the helper finds when it does not come.
const UNKNOWN: u32 = 2;
const JOINED: u64 = OPEN - 1;
const RUN: u64 = 1 << 32;

/// A fixed set of helper threads.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let pool = gt_engine_cpu::pool::Pool::new(2);
/// let sum = AtomicUsize::new(0);
/// pool.run(10, 1_000, &|i| { sum.fetch_add(i, Ordering::Relaxed); });
/// assert_eq!(sum.into_inner(), 45);
/// ```
pub struct Pool {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    /// What pieces of work take their memory from.
    memory: Arc<Allocator>,
    /// Of the plan that runs.
    cancel: Cancel,
}

struct Shared {
    state: AtomicU64,
    left: AtomicU64,
    /// One share of the chunks for each thread, the caller's first.
    shares: Box<[Share]>,
    busy: AtomicBool,
    ending: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    job: UnsafeCell<Job>,
    affinity: CoreAffinity,
    /// The longest work of late.
    longest_nanos: AtomicUsize,
    /// Whether the helper is far away (POOL-5), and how many pieces of work there were since that was looked at.
    is_far: AtomicBool,
    since_looked: AtomicUsize,
}

/// The chunks a thread begins with, and how many of them are taken. On a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Share {
    next: AtomicUsize,
    end: AtomicUsize,
}

/// What a run works on. The lifetime of `work` is erased; POOL-1 keeps it inside the call to `run`.
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    caller: Thread,
    /// Whether the caller takes denormal numbers for zeros (DENORMAL-1).
    flushes: bool,
}

// SAFETY: `job` is handed over through `state` as POOL-1 says; `work` is Sync, everything else is atomic or locked.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Pool {
    /// A pool in which `threads` threads work, the caller and `threads - 1` helpers, with no limit on memory.
    pub fn new(threads: usize) -> Pool {
        Pool::within(threads, Allocator::new(u64::MAX))
    }

    /// A pool of so many threads, which work in memory of this allocator.
    pub(crate) fn within(threads: usize, memory: Arc<Allocator>) -> Pool {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            left: AtomicU64::new(0),
            shares: (0..threads.max(1)).map(|_| Share::default()).collect(),
            busy: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            panic: Mutex::new(None),
            job: UnsafeCell::new(Job { work: &|_| (), caller: thread::current(), flushes: false }),
            affinity: CoreAffinity::new(),
            longest_nanos: AtomicUsize::new(0),
            is_far: AtomicBool::new(false),
            since_looked: AtomicUsize::new(0),
        });
        // A helper that cannot be started is one fewer: results do not depend on how many there are.
        let helpers = (1..threads)
            .filter_map(|i| {
                let shared = shared.clone();
                thread::Builder::new().name(format!("gt-cpu-{i}")).spawn(move || shared.help(i)).ok()
            })
            .collect();
        Pool { shared, helpers, memory, cancel: Cancel::default() }
    }

    /// Whether nobody wants the work any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Says whom the work is for from now on.
    pub(crate) fn set_cancel(&mut self, cancel: Cancel) {
        self.cancel = cancel;
    }

    /// Memory for `len` elements to work with (ROOM-1).
    ///
    /// # Errors
    /// When the limit or the session's quota leaves no room for them.
    pub(crate) fn room<T: Plain>(&self, len: usize) -> Result<Room<T>, Failure> {
        self.memory.room(len)
    }

    /// How many threads work on a run, the caller included.
    pub fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `f(0..chunks)`, each once, on the caller and the helpers; returns when all calls have. A panic in `f` is
    /// raised here. Calls from inside `f`, or from a second thread while a run is on, do all the work themselves.
    ///
    /// `nanos` says about how long one thread would take for all of it.
    pub fn run(&self, chunks: usize, nanos: usize, f: &(dyn Fn(usize) + Sync)) {
        if self.helpers.is_empty()
            || chunks <= 1
            || self.is_short(nanos) && self.is_far()
            || self.shared.busy.swap(true, Ordering::Acquire)
        {
            (0..chunks).for_each(f);
            return;
        }
        self.share(chunks, nanos, f);
    }

    /// Whether all work of late took one thread less than [`WORTH_FETCHING_NANOS`], this included.
    fn is_short(&self, nanos: usize) -> bool {
        // Threads may forget each other's: it is a matter of speed only.
        let longest = self.shared.longest_nanos.load(Ordering::Relaxed);
        let longest = nanos.max(longest - longest.div_ceil(REMEMBERED));
        self.shared.longest_nanos.store(longest, Ordering::Relaxed);
        longest < WORTH_FETCHING_NANOS
    }

    /// Whether the only helper is far away (POOL-5), as far as is known.
    fn is_far(&self) -> bool {
        if self.helpers.len() != 1 {
            return false;
        }
        let shared = &*self.shared;
        let since = shared.since_looked.load(Ordering::Relaxed) + 1;
        shared.since_looked.store(since, Ordering::Relaxed);
        if since >= LOOK_EVERY && !shared.busy.swap(true, Ordering::Acquire) {
            shared.since_looked.store(0, Ordering::Relaxed);
            let (ball, found) = (Ball::default(), AtomicU32::new(UNKNOWN));
            self.share(2, usize::MAX, &|side| match side {
                0 => found.store(ball.is_far().map_or(UNKNOWN, u32::from), Ordering::Relaxed),
                _ => ball.throw_back(),
            });
            match found.into_inner() {
                UNKNOWN => {}
                far => shared.is_far.store(far == 1, Ordering::Relaxed),
            }
        }
        shared.is_far.load(Ordering::Relaxed)
    }

    /// Runs `f` on all threads. Who calls it has set `busy`.
    fn share(&self, chunks: usize, nanos: usize, f: &(dyn Fn(usize) + Sync)) {
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes, and `finish` returns when nobody uses `work` any more.
        let work: *const (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(f) };
        // SAFETY: the run is closed and nobody is inside: the previous one waited for that (POOL-1).
        unsafe { *shared.job.get() = Job { work, caller: thread::current(), flushes: denormal::is_flushed() } };
        shared.deal(chunks);
        shared.left.store(0, Ordering::Relaxed);
        let run = (shared.state.load(Ordering::Relaxed) & !(RUN - 1)).wrapping_add(RUN);
        shared.state.store(run | OPEN, Ordering::Release);
        shared.affinity.keep_away();
        let mut alone = nanos < WORTH_DISTURBING_NANOS && shared.is_crowded();
        let call = || self.helpers.iter().take(chunks - 1).for_each(|helper| helper.thread().unpark());
        if !alone {
            call();
        }
        let before_each = &mut || {
            if alone && !shared.is_crowded() {
                alone = false;
                call();
            }
        };
        shared.take_chunks(0, before_each, f);
        shared.finish();
        let panic = shared.panic.lock().take();
        shared.busy.store(false, Ordering::Release);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper catches what it runs, so there is no panic to pass on.
            let _ = helper.join();
        }
    }
}

impl Shared {
    /// Deals the chunks of a run out in order (POOL-4).
    fn deal(&self, chunks: usize) {
        let takers = self.shares.len().min(chunks);
        for (i, share) in self.shares.iter().enumerate() {
            let border = |i: usize| chunks * i.min(takers) / takers;
            share.next.store(border(i), Ordering::Relaxed);
            share.end.store(border(i + 1), Ordering::Relaxed);
        }
    }

    /// Does the chunks of thread `own`'s share, then what is left of the others'.
    fn take_chunks(&self, own: usize, before_each: &mut dyn FnMut(), work: &(dyn Fn(usize) + Sync)) {
        let (others, from_own) = self.shares.split_at(own);
        for share in from_own.iter().chain(others) {
            let end = share.end.load(Ordering::Relaxed);
            loop {
                // Most shares found empty are others' that are done: a look does not take their line away.
                if share.next.load(Ordering::Relaxed) >= end {
                    break;
                }
                before_each();
                let chunk = share.next.fetch_add(1, Ordering::Relaxed);
                if chunk >= end {
                    break;
                }
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| work(chunk))) {
                    self.panic.lock().get_or_insert(payload);
                    for share in &self.shares {
                        share.next.store(usize::MAX / 2, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    /// Whether a helper would take its core from a thread that records.
    fn is_crowded(&self) -> bool {
        self.affinity.cores() <= self.shares.len() && presence::is_recording()
    }

    /// Looks for work, for as long as that harms nobody (POOL-3); whether there is some.
    fn watch(&self, ready: impl Fn() -> bool) -> bool {
        let start = Instant::now();
        loop {
            for _ in 0..32 {
                if ready() {
                    return true;
                }
                std::hint::spin_loop();
            }
            let looked = start.elapsed();
            if looked > PATIENCE || (looked > SPIN && self.is_crowded()) {
                return ready();
            }
        }
    }

    /// Closes the run and waits for those who joined it.
    fn finish(&self) {
        let joined = self.state.fetch_and(!OPEN, Ordering::AcqRel) & JOINED;
        let done = || self.left.load(Ordering::Acquire) == joined;
        if !spin_until(done) {
            while !done() {
                thread::park();
            }
        }
    }

    fn help(&self, own: usize) {
        self.affinity.enrol();
        let mut last_run = 0;
        loop {
            let fresh = |state: u64| state & OPEN != 0 && state / RUN != last_run;
            let ready = || self.ending.load(Ordering::Acquire) || fresh(self.state.load(Ordering::Relaxed));
            if !self.watch(ready) {
                thread::park();
                continue;
            }
            if self.ending.load(Ordering::Acquire) {
                return;
            }
            let state = self.state.load(Ordering::Relaxed);
            if !fresh(state)
                || self.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed).is_err()
            {
                continue;
            }
            last_run = state / RUN;
            // SAFETY: this thread joined, so the caller waits for it and `job` stays as it is (POOL-1).
            let job = unsafe { &*self.job.get() };
            let caller = job.caller.clone();
            denormal::set_flushed(job.flushes);
            // SAFETY: `work` outlives the run, which does not end before this thread leaves.
            self.take_chunks(own, &mut || (), unsafe { &*job.work });
            self.left.fetch_add(1, Ordering::Release);
            caller.unpark();
        }
    }
}

/// Looks for at most [`SPIN`]; whether it was found.
fn spin_until(done: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..32 {
            if done() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() > SPIN {
            return done();
        }
    }
}
