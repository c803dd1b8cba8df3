//! What workers and sessions have done, counted.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use gt_engine::{Buffer, Memory};
use gt_observe::CounterSnapshot;
use serde::{Deserialize, Serialize};

use crate::sequences::{Sequence, Sequences};
use crate::session::Session;
use crate::shared::Shared;

/// What one or several sessions did.
#[derive(Clone, Default)]
pub(crate) struct Totals {
    pub(crate) counts: CounterSnapshot,
    sequences: Sequences,
    live_tensors: u64,
    hot_threshold: u64,
}

impl Totals {
    /// Adds what a session did.
    pub(crate) fn add<B: Buffer>(&mut self, session: &Session<B>) {
        self.counts.add(&session.counters.snapshot());
        self.sequences.add(&session.sequences.lock());
        self.live_tensors += session.table.len() as u64;
        self.hot_threshold = session.config.hotpath_threshold;
    }

    pub(crate) fn stats(&self, worker: &Shared, memory: Memory, sessions: u64) -> WorkerStats {
        let (counts, sequences) = (&self.counts, &self.sequences);
        WorkerStats {
            worker: worker.name.clone(),
            engine: worker.engine.lock().to_string(),
            sessions,
            total_instructions: counts.total_instructions,
            windows: counts.windows,
            idle_cuts: counts.idle_cuts,
            plan_hits: counts.plan_hits,
            plan_misses: counts.plan_misses,
            cached_plans: worker.cached_plans.load(Relaxed),
            compiled_windows: counts.compiled_windows,
            compiled_instructions: counts.compiled_instructions,
            round_trips: counts.round_trips,
            syncs: counts.syncs,
            bytes_in: counts.bytes_in,
            bytes_out: counts.bytes_out,
            transfers: counts.transfers,
            moved_bytes_out: counts.moved_bytes_out,
            moved_bytes_in: counts.moved_bytes_in,
            loaded_bytes: counts.loaded_bytes,
            live_bytes: memory.live_bytes,
            peak_bytes: memory.peak_bytes,
            cached_bytes: memory.cached_bytes,
            limit_bytes: memory.limit_bytes,
            live_tensors: self.live_tensors,
            flops: counts.flops,
            busy_ns: counts.busy_ns,
            planning_ns: counts.planning_ns,
            family_ns: worker.family_times.get().map_or_else(BTreeMap::new, |times| {
                times.nanos().into_iter().map(|(family, nanos)| (family.name().to_string(), nanos)).collect()
            }),
            failures: counts.failures,
            unique_sequences: sequences.unique(),
            hot_sequences: sequences.hot(),
            hot_instructions: counts.hot_instructions,
            hot_threshold: self.hot_threshold,
            top_sequences: sequences.top(10),
        }
    }
}

/// How busy a worker is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Nanoseconds of work so far.
    pub busy_ns: u64,
    /// Bytes held when the last window finished.
    pub live_bytes: u64,
    /// Instructions so far.
    pub instructions: u64,
}

/// What a worker, or one session of it, has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStats {
    /// The worker's name.
    pub worker: String,
    /// The engine's name.
    pub engine: String,
    /// Sessions that are open: 1 where the counts are those of one.
    pub sessions: u64,
    /// Instructions received.
    pub total_instructions: u64,
    /// Windows received.
    pub windows: u64,
    /// Windows cut by time.
    pub idle_cuts: u64,
    /// Windows whose plan was cached.
    pub plan_hits: u64,
    /// Windows that had to be planned.
    pub plan_misses: u64,
    /// Plans held now.
    pub cached_plans: u64,
    /// Windows that ran a compiled plan.
    pub compiled_windows: u64,
    /// Instructions of those windows.
    pub compiled_instructions: u64,
    /// Reads answered.
    pub round_trips: u64,
    /// Waits for everything sent.
    pub syncs: u64,
    /// Bytes uploaded.
    pub bytes_in: u64,
    /// Bytes read.
    pub bytes_out: u64,
    /// Values sent to other workers.
    pub transfers: u64,
    /// Bytes of those.
    pub moved_bytes_out: u64,
    /// Bytes of values that came from other workers.
    pub moved_bytes_in: u64,
    /// Bytes of batches that it read from files itself.
    #[serde(default)]
    pub loaded_bytes: u64,
    /// Bytes in buffers that someone holds.
    pub live_bytes: u64,
    /// The most there ever were.
    pub peak_bytes: u64,
    /// Bytes kept for reuse.
    pub cached_bytes: u64,
    /// The most that may be allocated.
    pub limit_bytes: u64,
    /// Values held.
    pub live_tensors: u64,
    /// Arithmetic operations of the plans that ran.
    pub flops: u64,
    /// Nanoseconds spent running plans.
    pub busy_ns: u64,
    /// Nanoseconds spent on hashing and planning.
    pub planning_ns: u64,
    /// Nanoseconds of the worker's steps by family of ops, of all sessions. Estimated from a part of the runs.
    #[serde(default)]
    pub family_ns: BTreeMap<String, u64>,
    /// Failures that arose here.
    pub failures: u64,
    /// Different windows seen.
    pub unique_sequences: u64,
    /// Of those, the ones that came more often than the threshold.
    pub hot_sequences: u64,
    /// Instructions of windows that were hot when they came.
    pub hot_instructions: u64,
    /// The threshold; a worker's is that of its youngest session.
    pub hot_threshold: u64,
    /// The most frequent windows.
    pub top_sequences: Vec<Sequence>,
}

impl WorkerStats {
    /// The form that travels between processes, and that people can read.
    pub fn to_json(&self) -> String {
        // Numbers, texts and a list of them: there is nothing in it that has no such form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what [`WorkerStats::to_json`] wrote.
    ///
    /// # Errors
    /// When it is something else.
    pub fn from_json(json: &str) -> Result<WorkerStats, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_come_back_from_their_json() {
        let hot = Sequence { hash: "00ff".to_string(), count: 7, instrs: 12 };
        let stats = WorkerStats {
            worker: "worker \"0\"\n".to_string(),
            engine: "cpu".to_string(),
            windows: 3,
            live_bytes: u64::MAX,
            top_sequences: vec![hot.clone(), Sequence { count: 1, ..hot }],
            ..WorkerStats::default()
        };
        assert_eq!(WorkerStats::from_json(&stats.to_json()), Ok(stats));
        assert!(WorkerStats::from_json("{}").is_err());
        assert!(WorkerStats::from_json("no").is_err());
    }
}
