//! Keeps a pool's helpers off the core its caller runs on.
//!
//! A helper that is woken while every core is busy is queued somewhere, often behind the very thread that woke it, and the
//! kernel may leave it there for milliseconds after another core fell idle: two threads then take turns on one core. Nothing
//! is pinned: the caller goes where the kernel puts it, and when it has moved the helpers are told to keep away from there.

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::atomic::{AtomicI32, Ordering};

    use parking_lot::Mutex;

    /// Where a pool's threads may run.
    pub struct Placement {
        allowed: libc::cpu_set_t,
        cores: usize,
        /// The core the caller was seen on last.
        caller: AtomicI32,
        helpers: Mutex<Vec<libc::pid_t>>,
    }

    impl Placement {
        /// The cores the calling thread may use now.
        pub fn new() -> Placement {
            // SAFETY: a cpu_set_t is plain bits, all of them zero is the empty set; the call fills at most its size.
            let (allowed, cores) = unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                let known = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) == 0;
                (set, if known { libc::CPU_COUNT(&set) as usize } else { 0 })
            };
            Placement { allowed, cores, caller: AtomicI32::new(-1), helpers: Mutex::default() }
        }

        /// To be called by each helper as it starts.
        pub fn enrol(&self) {
            // SAFETY: the call takes nothing and cannot fail.
            let id = unsafe { libc::gettid() };
            self.helpers.lock().push(id);
            self.caller.store(-1, Ordering::Relaxed);
        }

        /// To be called by the caller before it shares work. One cheap look unless it has moved.
        #[inline]
        pub fn keep_helpers_away(&self) {
            // SAFETY: the call takes nothing.
            let core = unsafe { libc::sched_getcpu() };
            if core != self.caller.load(Ordering::Relaxed) {
                self.move_helpers(core);
            }
        }

        #[cold]
        fn move_helpers(&self, core: i32) {
            let helpers = self.helpers.lock();
            self.caller.store(core, Ordering::Relaxed);
            // With more threads than cores somebody has to share.
            if core < 0 || helpers.len() >= self.cores {
                return;
            }
            let mut set = self.allowed;
            // SAFETY: the core is one the kernel named; the set is valid, and the ids are those of our own threads. A thread
            // that is gone or may not be moved is an error that changes nothing.
            unsafe {
                libc::CPU_CLR(core as usize, &mut set);
                if libc::CPU_COUNT(&set) == 0 {
                    return;
                }
                for &id in helpers.iter() {
                    libc::sched_setaffinity(id, size_of::<libc::cpu_set_t>(), &set);
                }
            }
        }
    }
}

#[cfg(target_os = "linux")]
pub use linux::Placement;

/// Elsewhere threads run where the system puts them.
#[cfg(not(target_os = "linux"))]
pub struct Placement;

#[cfg(not(target_os = "linux"))]
#[allow(missing_docs)]
impl Placement {
    pub fn new() -> Placement {
        Placement
    }
    pub fn enrol(&self) {}
    pub fn keep_helpers_away(&self) {}
}
