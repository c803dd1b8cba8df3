//! Keeps threads off the core of the thread that hands them work: a pool's helpers off the device thread's, the device
//! thread off the recorder's, and those that carry messages off the device thread's.
//!
//! A thread that is woken while every core is busy is queued somewhere, often behind the very thread that woke it, and the
//! kernel may leave it there for milliseconds after another core fell idle: two threads then take turns on one core. Nothing
//! is pinned: the caller goes where the kernel puts it, and when it has moved the others are told to keep away from there.

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::atomic::{AtomicI32, Ordering};

    use parking_lot::Mutex;

    /// Where the threads that one caller hands work to may run.
    pub struct CoreAffinity {
        allowed: libc::cpu_set_t,
        cores: usize,
        /// The core the caller was seen on last.
        caller: AtomicI32,
        threads: Mutex<Vec<libc::pid_t>>,
    }

    impl Default for CoreAffinity {
        fn default() -> Self {
            CoreAffinity::new()
        }
    }

    impl CoreAffinity {
        /// The cores the process may use now. Not those of the calling thread: it may itself be kept off one.
        pub fn new() -> CoreAffinity {
            // SAFETY: a cpu_set_t is plain bits, all of them zero is the empty set; the call fills at most its size.
            let (allowed, cores) = unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                let known = libc::sched_getaffinity(libc::getpid(), size_of::<libc::cpu_set_t>(), &mut set) == 0;
                (set, if known { libc::CPU_COUNT(&set) as usize } else { 0 })
            };
            CoreAffinity { allowed, cores, caller: AtomicI32::new(-1), threads: Mutex::default() }
        }

        /// How many cores there are, 0 if that is not known.
        pub fn cores(&self) -> usize {
            self.cores
        }

        /// To be called by each thread that is to keep away from the caller.
        pub fn enrol(&self) {
            // SAFETY: the call takes nothing and cannot fail.
            let id = unsafe { libc::gettid() };
            self.threads.lock().push(id);
            self.caller.store(-1, Ordering::Relaxed);
        }

        /// To be called by the caller when it hands work over. One cheap look unless it has moved.
        #[inline]
        pub fn keep_away(&self) {
            // SAFETY: the call takes nothing.
            let core = unsafe { libc::sched_getcpu() };
            if core != self.caller.load(Ordering::Relaxed) {
                self.move_threads(core);
            }
        }

        /// As [`CoreAffinity::keep_away`], for a caller in another process that says where it runs. A number that no core has
        /// lets the threads run anywhere.
        pub fn keep_off(&self, core: u32) {
            let core = i32::try_from(core).ok().filter(|&core| core < libc::CPU_SETSIZE).unwrap_or(-1);
            if core != self.caller.load(Ordering::Relaxed) {
                self.move_threads(core);
            }
        }

        #[cold]
        fn move_threads(&self, core: i32) {
            let threads = self.threads.lock();
            self.caller.store(core, Ordering::Relaxed);
            // With more threads than cores somebody has to share.
            if threads.len() >= self.cores {
                return;
            }
            let mut set = self.allowed;
            // SAFETY: the core is one the kernel named, or at least one that a set has room for; the set is valid, and the ids are those of our own threads. A thread
            // that is gone or may not be moved is an error that changes nothing.
            unsafe {
                if core >= 0 {
                    libc::CPU_CLR(core as usize, &mut set);
                }
                if libc::CPU_COUNT(&set) == 0 {
                    return;
                }
                for &id in threads.iter() {
                    libc::sched_setaffinity(id, size_of::<libc::cpu_set_t>(), &set);
                }
            }
        }
    }
}

#[cfg(target_os = "linux")]
pub use linux::CoreAffinity;

/// Elsewhere threads run where the system puts them.
#[cfg(not(target_os = "linux"))]
#[derive(Default)]
pub struct CoreAffinity;

#[cfg(not(target_os = "linux"))]
#[allow(missing_docs)]
impl CoreAffinity {
    pub fn new() -> CoreAffinity {
        CoreAffinity
    }
    pub fn cores(&self) -> usize {
        0
    }
    pub fn enrol(&self) {}
    pub fn keep_away(&self) {}
    pub fn keep_off(&self, _: u32) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::CoreAffinity;

    #[test]
    fn a_core_that_no_machine_has_changes_nothing() {
        let affinity = CoreAffinity::new();
        affinity.enrol();
        let before = std::thread::available_parallelism().unwrap();
        for core in [1023, 1024, 1 << 20, u32::MAX] {
            affinity.keep_off(core);
            assert_eq!(std::thread::available_parallelism().unwrap(), before, "{core}");
        }
    }
}
