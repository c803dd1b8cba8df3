//! Plans kept for when their window comes again.
//!
//! CACHE-1: at most `capacity` plans are held, and if there is more than one, they take at most so many bytes together. The plan that
//! was unused for longest goes first. A session may send windows of any length, and its plans outlive it.
//! CACHE-2: a hit is a match of the exact hash *and* of the counts a run is indexed by, so that not even a
//! collision of hashes makes an engine read out of bounds.
//! CACHE-3: plans of different variants never meet. A variant is whatever number the caller gives to one way of
//! planning: those who plan alike share plans, those who do not share only the room. All plans of a cache are made within the
//! limits of one engine.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use gt_ir::{Digest, Instr, Window};

use crate::build::{Built, build_from};
use crate::fuse::Grouping;
use crate::{Canonical, Plan, PlanError, PlanOptions};

/// Digests are well mixed already: their low half is the hash.
#[derive(Clone, Copy, Default)]
pub struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = self.0.rotate_left(8) ^ b as u64;
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.0 = self.0.rotate_left(1) ^ n as u64;
    }
    fn write_u128(&mut self, n: u128) {
        self.0 ^= n as u64;
    }
}

/// A map keyed by digests.
pub type DigestMap<V> = HashMap<Digest, V, BuildHasherDefault<DigestHasher>>;

/// A plan with what an engine made of it.
pub struct Cached<P> {
    /// The plan.
    pub plan: Arc<Plan>,
    /// What the engine prepared.
    pub program: Arc<P>,
    /// How it was made.
    pub options: PlanOptions,
    /// How often it was found.
    pub hits: u64,
    scalars: usize,
    held_bytes: usize,
    last_used: u64,
}

impl<P> Cached<P> {
    /// Whether the counts are those of the window (CACHE-2).
    fn is_of(&self, instrs: usize, canonical: &Canonical) -> bool {
        self.plan.inputs == canonical.inputs.len()
            && self.plan.instrs.len() == instrs
            && self.plan.types.len() == canonical.inputs.len() + canonical.dead.len()
            && self.scalars == canonical.scalars
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Windows whose plan was there.
    pub hits: u64,
    /// Windows whose plan had to be made.
    pub misses: u64,
    /// Misses that found the grouping of a window of the same structure.
    pub structure_hits: u64,
}

/// Plans by exact hash, groupings by structure hash.
pub struct PlanCache<P> {
    plans: DigestMap<Cached<P>>,
    groupings: DigestMap<Arc<Grouping>>,
    capacity: usize,
    most_bytes: usize,
    /// What all plans take.
    plan_bytes: usize,
    /// Instructions of all groupings.
    grouping_instrs: usize,
    clock: u64,
    counts: CacheCounts,
}

/// The most that all plans take, unless the cache was given less.
const MOST_BYTES: usize = 1 << 30;
/// What an instruction, an operand and a scalar take in a plan and in what an engine makes of it, about.
const INSTR_BYTES: usize = 1024;
const OPERAND_BYTES: usize = 32;
const SCALAR_BYTES: usize = 32;
/// The most instructions of all groupings together.
const MAX_INSTRS: usize = 1 << 20;

/// What a plan takes in memory, about.
fn held_bytes(plan: &Plan) -> usize {
    let of = |instr: &Instr| {
        let operands = instr.ins.len() + instr.outs.len();
        INSTR_BYTES + OPERAND_BYTES * operands + SCALAR_BYTES * instr.scalars.len()
    };
    plan.instrs.iter().map(of).sum()
}

impl<P> Default for PlanCache<P> {
    fn default() -> Self {
        PlanCache::new(512)
    }
}

impl<P> PlanCache<P> {
    /// A cache of at most `capacity` plans.
    pub fn new(capacity: usize) -> Self {
        PlanCache::within(capacity, MOST_BYTES)
    }

    /// A cache of at most `capacity` plans, which take `most_bytes` at most (CACHE-1).
    pub fn within(capacity: usize, most_bytes: usize) -> Self {
        PlanCache {
            plans: DigestMap::default(),
            groupings: DigestMap::default(),
            capacity: capacity.max(1),
            most_bytes: most_bytes.min(MOST_BYTES),
            plan_bytes: 0,
            grouping_instrs: 0,
            clock: 0,
            counts: CacheCounts::default(),
        }
    }

    /// The plan of a window of so many instructions, if it is there. Counts.
    pub fn get(&mut self, variant: u128, instrs: usize, canonical: &Canonical) -> Option<&mut Cached<P>> {
        self.clock += 1;
        let found = self.plans.get_mut(&(canonical.hash.exact ^ variant));
        let found = found.filter(|cached| cached.is_of(instrs, canonical));
        match found {
            Some(cached) => {
                self.counts.hits += 1;
                cached.hits += 1;
                cached.last_used = self.clock;
                Some(cached)
            }
            None => {
                self.counts.misses += 1;
                None
            }
        }
    }

    /// As [`PlanCache::get`], only to look: nothing is counted.
    pub fn peek(&self, variant: u128, instrs: usize, canonical: &Canonical) -> Option<&Cached<P>> {
        self.plans.get(&(canonical.hash.exact ^ variant)).filter(|cached| cached.is_of(instrs, canonical))
    }

    /// Makes the plan of a window, with a known grouping if the structure was seen. Does not keep the plan.
    pub fn plan(&mut self, window: &Window, canonical: &Canonical, options: PlanOptions) -> Result<Plan, PlanError> {
        // Each way of planning groups differently.
        let key = canonical.hash.structure ^ (options.fusion as u128 | (options.compiled as u128) << 1);
        let known = self.groupings.get(&key);
        let Built { plan, grouping, reused } = build_from(window, canonical, options, known)?;
        if reused {
            self.counts.structure_hits += 1;
        } else {
            if self.groupings.len() >= 2 * self.capacity || self.grouping_instrs > MAX_INSTRS {
                // Groupings are cheap to find again; a window of many shapes must not collect them for ever.
                self.groupings.clear();
                self.grouping_instrs = 0;
            }
            self.grouping_instrs += plan.instrs.len();
            self.groupings.insert(key, grouping);
        }
        Ok(plan)
    }

    /// Keeps a plan, in place of any other of the same variant and exact hash.
    pub fn insert(&mut self, variant: u128, plan: Arc<Plan>, program: Arc<P>, options: PlanOptions) -> &mut Cached<P> {
        let key = plan.hash.exact ^ variant;
        let hits = self.remove(&key).map_or(0, |old| old.hits);
        let held_bytes = held_bytes(&plan);
        self.plan_bytes += held_bytes;
        while self.plans.len() >= self.capacity || self.plan_bytes > self.most_bytes {
            // The clock gives every entry another time, so the order of the walk does not matter.
            let oldest = self.plans.iter().min_by_key(|(_, cached)| cached.last_used).map(|(&key, _)| key);
            let Some(oldest) = oldest else { break };
            self.remove(&oldest);
        }
        let scalars = plan.instrs.iter().map(|i| i.scalars.len()).sum();
        let last_used = self.clock;
        let entry = Cached { plan, program, options, hits, scalars, held_bytes, last_used };
        self.plans.entry(key).insert_entry(entry).into_mut()
    }

    fn remove(&mut self, key: &Digest) -> Option<Cached<P>> {
        let old = self.plans.remove(key)?;
        self.plan_bytes -= old.held_bytes;
        Some(old)
    }

    /// How many plans are held.
    pub fn len(&self) -> usize {
        self.plans.len()
    }

    /// Whether no plan is held.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// What happened so far.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }
}
