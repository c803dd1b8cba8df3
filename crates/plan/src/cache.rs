//! Plans kept for when their window comes again.
//!
//! CACHE-1: at most `capacity` plans are held, and if there is more than one, they take at most so many bytes together. The plan that
//! was unused for longest goes first. A session may send windows of any length, and its plans outlive it.
//! CACHE-2: a plan is found by the number of its recipe and by the types of its inputs, compared whole.
//! CACHE-3: plans of different variants never meet. A variant is whatever number the caller gives to one way of
//! planning: those who plan alike share plans, those who do not share only the room. All plans of a cache are made within the
//! limits of one engine.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use gt_ir::{Instr, TensorType};
use gt_stream::Recipe;

use crate::{Plan, PlanOptions};

/// Numbers of recipes follow each other: a multiplication spreads them.
#[derive(Clone, Copy, Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = self.0.rotate_left(8) ^ b as u64;
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

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
    /// Keeps its number from being another recipe's.
    recipe: Arc<Recipe>,
    variant: u128,
    held_bytes: usize,
    last_used: u64,
}

impl<P> Cached<P> {
    fn is_for(&self, variant: u128, input_types: &[TensorType]) -> bool {
        self.variant == variant && self.plan.types[..self.plan.inputs] == *input_types
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Windows whose plan was there.
    pub hits: u64,
    /// Windows whose plan had to be made.
    pub misses: u64,
}

/// Plans by recipe.
pub struct PlanCache<P> {
    /// The plans of each recipe, the one used last first.
    plans: HashMap<u64, Vec<Cached<P>>, BuildHasherDefault<Identity>>,
    len: usize,
    capacity: usize,
    most_bytes: usize,
    /// What all plans take.
    plan_bytes: usize,
    clock: u64,
    counts: CacheCounts,
}

/// The most that all plans take, unless the cache was given less.
const MOST_BYTES: usize = 1 << 30;
/// What an instruction, an operand and a scalar take in a plan and in what an engine makes of it, about.
const INSTR_BYTES: usize = 1024;
const OPERAND_BYTES: usize = 32;
const SCALAR_BYTES: usize = 32;

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
            plans: HashMap::default(),
            len: 0,
            capacity: capacity.max(1),
            most_bytes: most_bytes.min(MOST_BYTES),
            plan_bytes: 0,
            clock: 0,
            counts: CacheCounts::default(),
        }
    }

    /// The plan of a recipe on inputs of these types, if it is there. Counts.
    pub fn get(&mut self, variant: u128, recipe: &Recipe, input_types: &[TensorType]) -> Option<&mut Cached<P>> {
        self.clock += 1;
        let plans = self.plans.get_mut(&recipe.number());
        let found = plans.and_then(|plans| {
            let at = plans.iter().position(|cached| cached.is_for(variant, input_types))?;
            plans.swap(0, at);
            plans.first_mut()
        });
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

    /// Keeps a plan, in place of any other of the same variant, recipe and types.
    pub fn insert(
        &mut self,
        variant: u128,
        recipe: &Arc<Recipe>,
        plan: Arc<Plan>,
        program: Arc<P>,
        options: PlanOptions,
    ) -> &mut Cached<P> {
        let number = recipe.number();
        let known = self.plans.get(&number).into_iter().flatten();
        let old = known.into_iter().position(|cached| cached.is_for(variant, &plan.types[..plan.inputs]));
        let hits = old.and_then(|at| self.remove(number, at)).map_or(0, |old| old.hits);
        let held_bytes = held_bytes(&plan);
        self.plan_bytes += held_bytes;
        while self.len >= self.capacity || self.plan_bytes > self.most_bytes {
            // The clock gives every entry another time, so the order of the walk does not matter.
            let all = self.plans.iter().flat_map(|(&number, plans)| plans.iter().enumerate().map(move |p| (number, p)));
            let oldest = all.min_by_key(|(_, (_, cached))| cached.last_used).map(|(number, (at, _))| (number, at));
            let Some((number, at)) = oldest else { break };
            self.remove(number, at);
        }
        let recipe = recipe.clone();
        let entry = Cached { plan, program, options, hits, recipe, variant, held_bytes, last_used: self.clock };
        self.len += 1;
        let plans = self.plans.entry(number).or_default();
        plans.insert(0, entry);
        &mut plans[0]
    }

    fn remove(&mut self, number: u64, at: usize) -> Option<Cached<P>> {
        let plans = self.plans.get_mut(&number)?;
        let old = plans.swap_remove(at);
        if plans.is_empty() {
            self.plans.remove(&number);
        }
        debug_assert_eq!(old.recipe.number(), number);
        self.plan_bytes -= old.held_bytes;
        self.len -= 1;
        Some(old)
    }

    /// How many plans are held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no plan is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What happened so far.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }
}
