//! Counters that any thread may raise and any thread may look at.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one worker. Each is raised on its own: a snapshot is not one instant of all of them.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: AtomicU64),* }

        /// The counters at about one time.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CounterSnapshot { $($(#[$doc])* pub $name: u64),* }

        impl Counters {
            /// All counters as plain numbers.
            pub fn snapshot(&self) -> CounterSnapshot {
                CounterSnapshot { $($name: self.$name.load(Relaxed)),* }
            }
        }

        impl CounterSnapshot {
            /// Adds another's numbers.
            pub fn add(&mut self, other: &CounterSnapshot) {
                $(self.$name += other.$name;)*
            }

            /// Names and numbers, in a fixed order.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

counters! {
    /// Instructions received.
    total_instructions,
    /// Windows received.
    windows,
    /// Windows cut by time because the worker had run dry.
    idle_cuts,
    /// Windows whose plan was cached.
    plan_hits,
    /// Windows that had to be planned.
    plan_misses,
    /// Windows that ran a compiled plan.
    compiled_windows,
    /// Instructions those windows had.
    compiled_instructions,
    /// Instructions of windows that had occurred more often than the threshold.
    hot_instructions,
    /// Reads answered.
    round_trips,
    /// Waits for everything sent.
    syncs,
    /// Bytes uploaded.
    bytes_in,
    /// Bytes read.
    bytes_out,
    /// Values sent to other workers.
    transfers,
    /// Bytes of those.
    moved_bytes_out,
    /// Bytes of values that came from other workers.
    moved_bytes_in,
    /// Bytes of batches that were made on the worker.
    loaded_bytes,
    /// Arithmetic operations of the plans that ran.
    flops,
    /// Nanoseconds spent running plans.
    busy_ns,
    /// Nanoseconds spent on hashing and planning.
    planning_ns,
    /// Failures that arose here.
    failures,
}

impl Counters {
    /// Raises a counter: `Counters::add(&counters.windows, 1)`.
    #[inline]
    pub fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_holds_what_was_added() {
        let counters = Counters::default();
        Counters::add(&counters.windows, 2);
        Counters::add(&counters.bytes_in, 7);
        let snapshot = counters.snapshot();
        assert_eq!((snapshot.windows, snapshot.bytes_in, snapshot.flops), (2, 7, 0));
        assert!(snapshot.entries().contains(&("bytes_in", 7)));
        let mut sum = snapshot;
        sum.add(&snapshot);
        assert_eq!((sum.windows, sum.bytes_in, sum.flops), (4, 14, 0));
    }
}
