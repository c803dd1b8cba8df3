//! Random streams: a seed and a counter of draws. The numbers themselves are made by the op.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::lane;

/// The seed of threads that never set one.
const DEFAULT_SEED: u64 = 67_280_421_310_721;

static BASE_SEED: AtomicU64 = AtomicU64::new(DEFAULT_SEED);

/// Where a sequence of draws stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The key of the generator.
    pub seed: u64,
    /// The number of the next draw.
    pub ordinal: u64,
}

impl Default for Stream {
    fn default() -> Self {
        Stream { seed: DEFAULT_SEED, ordinal: 0 }
    }
}

impl Stream {
    /// The stream of the `n`-th thread that uses GT: the first follows the base seed itself.
    pub(crate) fn for_thread(n: u64) -> Self {
        Stream { seed: BASE_SEED.load(Ordering::Relaxed), ordinal: n << 40 }
    }

    /// The seed and number of one draw.
    pub fn draw(&mut self) -> (u64, u64) {
        let out = (self.seed, self.ordinal);
        self.ordinal += 1;
        out
    }
}

/// A random stream of its own, apart from the thread's, or the calling thread's under a name.
///
/// ```
/// use gt_client::Generator;
/// let g = Generator::new(7);
/// assert_eq!(g.seed(), 7);
/// ```
#[derive(Clone, Debug)]
pub struct Generator(Option<Arc<Mutex<Stream>>>);

impl Generator {
    /// A stream that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Generator(Some(Arc::new(Mutex::new(Stream { seed, ordinal: 0 }))))
    }

    /// The stream of whichever thread uses it.
    pub const fn of_thread() -> Self {
        Generator(None)
    }

    /// Starts over at `seed`.
    pub fn manual_seed(&self, seed: u64) {
        match &self.0 {
            Some(own) => *own.lock() = Stream { seed, ordinal: 0 },
            None => manual_seed(seed),
        }
    }

    /// The seed it started from.
    pub fn seed(&self) -> u64 {
        self.state().seed
    }

    /// Where it stands.
    pub fn state(&self) -> Stream {
        match &self.0 {
            Some(own) => *own.lock(),
            None => state(),
        }
    }

    /// Puts it where another stood.
    pub fn set_state(&self, to: Stream) {
        match &self.0 {
            Some(own) => *own.lock() = to,
            None => set_state(to),
        }
    }

    pub(crate) fn draw(&self) -> (u64, u64) {
        match &self.0 {
            Some(own) => own.lock().draw(),
            None => lane::with_random(Stream::draw),
        }
    }
}

/// Seeds the calling thread, and the threads that start using GT later.
pub fn manual_seed(seed: u64) {
    BASE_SEED.store(seed, Ordering::Relaxed);
    lane::with_random(|s| *s = Stream { seed, ordinal: 0 });
}

/// Where the calling thread's stream stands.
pub fn state() -> Stream {
    lane::with_random(|s| *s)
}

/// Puts the calling thread's stream where another stood.
pub fn set_state(state: Stream) {
    lane::with_random(|s| *s = state);
}

/// The seed and number of the next draw, from `generator` or the thread.
pub(crate) fn draw(generator: Option<&Generator>) -> (u64, u64) {
    match generator {
        Some(g) => g.draw(),
        None => lane::with_random(Stream::draw),
    }
}
