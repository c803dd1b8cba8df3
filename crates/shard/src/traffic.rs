//! What conversions are called, and what they move.

use std::collections::BTreeMap;
use std::fmt;

use gt_ir::TensorType;
use gt_ir::shard::Split;

use super::Placement;
use super::convert::{quiet, sent_by};

/// What a conversion is to those who take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    /// Nothing travels: everybody has what it needs.
    Cut,
    /// Addends become a sum that everybody has.
    AllReduce,
    /// Addends become a sum of which everybody has a part.
    ReduceScatter,
    /// Addends become a sum on one worker, or on another group.
    Reduce,
    /// Parts become a whole that everybody has.
    AllGather,
    /// Parts become other parts.
    AllToAll,
    /// A whole goes to everybody.
    Broadcast,
    /// A whole goes in parts.
    Scatter,
    /// Parts become a whole on one worker.
    Gather,
    /// A value goes from one worker to another.
    Send,
}

impl Collective {
    /// What a conversion between two placements of a tensor of this type is.
    pub fn of(from: &Placement, to: &Placement, ty: &TensorType) -> Collective {
        let cut = |p: &Placement| p.splits.iter().any(|s| matches!(s, Split::Shard { .. }));
        if quiet(from, to, &ty.shape).is_some() {
            return Collective::Cut;
        }
        if from.is_partial() {
            return match (from.mesh == to.mesh, cut(to) && !cut(from)) {
                (true, true) => Collective::ReduceScatter,
                (true, false) => Collective::AllReduce,
                (false, _) => Collective::Reduce,
            };
        }
        match (cut(from), cut(to), to.mesh.count()) {
            (true, _, 1) => Collective::Gather,
            (false, _, 1) => Collective::Send,
            (true, false, _) => Collective::AllGather,
            (true, true, _) => Collective::AllToAll,
            (false, false, _) => Collective::Broadcast,
            (false, true, _) => Collective::Scatter,
        }
    }

    /// The name people know.
    pub fn name(self) -> &'static str {
        match self {
            Collective::Cut => "cut",
            Collective::AllReduce => "all_reduce",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Reduce => "reduce",
            Collective::AllGather => "all_gather",
            Collective::AllToAll => "all_to_all",
            Collective::Broadcast => "broadcast",
            Collective::Scatter => "scatter",
            Collective::Gather => "gather",
            Collective::Send => "send",
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What has travelled since the session began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many conversions of each kind there were, values that travel together counting once, and their bytes.
    pub collectives: BTreeMap<Collective, (u64, u64)>,
    /// Bytes that each worker sends to others.
    pub sent_bytes: BTreeMap<u32, u64>,
}

impl Traffic {
    /// Counts conversions that travel together.
    pub(super) fn count(&mut self, from: &Placement, to: &Placement, types: &[TensorType]) -> (Collective, u64) {
        let Some(first) = types.first() else { return (Collective::Cut, 0) };
        let kind = types.iter().map(|ty| Collective::of(from, to, ty)).find(|k| *k != Collective::Cut);
        let kind = kind.unwrap_or_else(|| Collective::of(from, to, first));
        let mut total = 0;
        for (worker, bytes) in sent_by(from, to, types) {
            *self.sent_bytes.entry(worker).or_default() += bytes;
            total += bytes;
        }
        let (count, bytes) = self.collectives.entry(kind).or_default();
        *count += 1;
        *bytes += total;
        (kind, total)
    }

    /// What has travelled since it was like this.
    pub(super) fn since(&self, before: &Traffic) -> Traffic {
        let of = |kind: &Collective| before.collectives.get(kind).copied().unwrap_or_default();
        let sent = |worker: &u32| before.sent_bytes.get(worker).copied().unwrap_or_default();
        let collectives =
            self.collectives.iter().map(|(kind, (n, bytes))| (*kind, (n - of(kind).0, bytes - of(kind).1)));
        Traffic {
            collectives: collectives.filter(|(_, counted)| *counted != (0, 0)).collect(),
            sent_bytes: self.sent_bytes.iter().map(|(worker, bytes)| (*worker, bytes - sent(worker))).collect(),
        }
    }

    /// Counts what travels again.
    pub(super) fn add(&mut self, more: &Traffic) {
        for (kind, (n, bytes)) in &more.collectives {
            let counted = self.collectives.entry(*kind).or_default();
            *counted = (counted.0 + n, counted.1 + bytes);
        }
        for (worker, bytes) in &more.sent_bytes {
            *self.sent_bytes.entry(*worker).or_default() += bytes;
        }
    }
}
