//! A worker, as the dispatcher knows it.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use gt_net::Secret;
use gt_net::protocol::WorkerInfo;

use crate::session::Link;

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) info: WorkerInfo,
    pub(crate) secret: Secret,
    pub(crate) link: Link,
    pub(crate) since: Instant,
    /// Those that live here.
    pub(crate) sessions: BTreeSet<u64>,
    /// Those of them that wait for room, in the order of their turns.
    pub(crate) turns: VecDeque<u64>,
    pub(crate) load: Load,
}

/// How a worker is doing, by its last reports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    pub(crate) live_bytes: u64,
    pub(crate) instructions: u64,
    /// Thousandths of the time between the last two reports that it worked.
    pub(crate) busy_permille: u32,
    last: Option<(Instant, u64)>,
}

impl Load {
    pub(crate) fn report(&mut self, now: Instant, busy_ns: u64, live_bytes: u64, instructions: u64) {
        if let Some((at, before_ns)) = self.last {
            let passed_ns = now.saturating_duration_since(at).as_nanos().max(1);
            let worked_ns = busy_ns.saturating_sub(before_ns) as u128;
            self.busy_permille = (worked_ns.saturating_mul(1000) / passed_ns).min(1000) as u32;
        }
        self.last = Some((now, busy_ns));
        self.live_bytes = live_bytes;
        self.instructions = instructions;
    }
}
