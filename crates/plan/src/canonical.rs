//! The canonical form of a window: what it computes, apart from the names and numbers of this one occurrence.
//!
//! One pass over the window gives its hashes and its bindings. It runs for every window, also for those whose
//! plan is cached, so it allocates nothing once its scratch memory has grown.
//!
//! WINDOW-1: the ids a window defines are consecutive numbers of one lane, in recorded order. So the position of
//! a definition is its id less the first one, and only values from outside need a map.
//! CANON-1: two windows have one exact hash only if they bind as many inputs, of the same types, and do the
//! same with them: every number that is fed has a fixed place or is announced by a count.
//! CANON-2: two occurrences of one template whose inputs have the same types differ in names alone, so the form of one is
//! that of the other ([`Canonicalizer::rebind`]) without another look at the instructions.

use gt_ir::{Op, StreamHasher, TensorId, TensorType, Window, WindowHash};

use crate::input_index::InputIndex;
use crate::{Bindings, PlanError, Slot};

/// Marks an operand that the window itself defines.
const DEFINED: u32 = 1 << 31;

/// The most instructions a window may have; operand references have 31 bits.
pub const MAX_INSTRS: usize = 1 << 24;

/// What one window binds, and its hashes. Filled by [`Canonicalizer::run`].
#[derive(Clone, Debug)]
pub struct Canonical {
    /// Under which its plan is cached.
    pub hash: WindowHash,
    /// The values from outside, in order of first use: input slot `k` is `inputs[k]`.
    pub inputs: Vec<TensorId>,
    /// Their types.
    pub input_types: Vec<TensorType>,
    /// Which of them die in the window.
    pub dying: Vec<bool>,
    /// The id of the first value the window defines.
    pub first: TensorId,
    /// For each value the window defines: whether it is freed in the window too.
    pub dead: Vec<bool>,
    /// Freed values that the window does not use: to be forgotten, no part of the plan.
    pub older_frees: Vec<TensorId>,
    /// How many scalars all instructions have together.
    pub scalars: usize,
    /// Every operand of every instruction: an input's number, or a definition's number with [`DEFINED`] set.
    operands: Vec<u32>,
}

impl Default for Canonical {
    fn default() -> Self {
        Canonical {
            hash: WindowHash { structure: 0, exact: 0 },
            inputs: Vec::new(),
            input_types: Vec::new(),
            dying: Vec::new(),
            first: TensorId(0),
            dead: Vec::new(),
            older_frees: Vec::new(),
            scalars: 0,
            operands: Vec::new(),
        }
    }
}

impl Canonical {
    /// The id that a slot of the plan stands for in this window.
    #[inline]
    pub fn id(&self, slot: Slot) -> TensorId {
        match self.inputs.get(slot as usize) {
            Some(&id) => id,
            None => TensorId(self.first.0 + (slot as u64 - self.inputs.len() as u64)),
        }
    }

    /// The slots of all operands of all instructions, in order.
    pub(crate) fn operand_slots(&self) -> impl Iterator<Item = Slot> {
        let inputs = self.inputs.len() as u32;
        self.operands.iter().map(move |&r| if r & DEFINED != 0 { (r & !DEFINED) + inputs } else { r })
    }

    fn clear(&mut self) {
        self.inputs.clear();
        self.input_types.clear();
        self.dying.clear();
        self.dead.clear();
        self.older_frees.clear();
        self.operands.clear();
        self.scalars = 0;
        self.first = TensorId(0);
    }
}

/// Makes canonical forms, with memory that it keeps between windows.
pub struct Canonicalizer {
    index: InputIndex,
    out: Canonical,
}

impl Default for Canonicalizer {
    fn default() -> Self {
        Canonicalizer { index: InputIndex::new(), out: Canonical::default() }
    }
}

impl Canonicalizer {
    /// The [`Canonical::older_frees`] of the last window.
    pub fn older_frees(&self) -> &[TensorId] {
        &self.out.older_frees
    }

    /// The canonical form of `window`; `lookup` gives the types of values from outside.
    pub fn run(
        &mut self,
        window: &Window,
        mut lookup: impl FnMut(TensorId) -> Option<TensorType>,
    ) -> Result<&Canonical, PlanError> {
        if window.instrs.len() > MAX_INSTRS {
            return Err(PlanError::TooLong { instrs: window.instrs.len(), limit: MAX_INSTRS });
        }
        self.index.reset();
        let out = &mut self.out;
        out.clear();
        let mut hasher = StreamHasher::default();
        let first = window.instrs.first().and_then(|i| i.outs.first()).map_or(0, |id| id.0);
        out.first = TensorId(first);
        let mut defined = 0u64;
        let mut payloads = window.uploads.iter();

        for (at, instr) in window.instrs.iter().enumerate() {
            instr.op.feed(&mut hasher);
            let (ins, outs, scalars) = (instr.ins.len(), instr.outs.len(), instr.scalars.len());
            let scope = (instr.scope.0 as u64) << 32;
            if ins < 128 && outs < 256 && scalars < 256 {
                hasher.word(scope | (ins << 16 | outs << 8 | scalars) as u64);
            } else {
                // Bit 31 announces that the counts follow one by one.
                hasher.word(scope | 1 << 31);
                [ins, outs, scalars].into_iter().for_each(|n| hasher.word(n as u64));
            }
            out.scalars += scalars;

            // Two operands to a word; an odd one is followed by zeros, which its count tells apart.
            let mut pair = 0u64;
            for (k, &id) in instr.ins.iter().enumerate() {
                let offset = id.0.wrapping_sub(first);
                let reference = if offset < defined {
                    offset as u32 | DEFINED
                } else {
                    if id.0 >= first && id.lane() == out.first.lane() {
                        return Err(PlanError::NotYetDefined { instr: at as u32, id });
                    }
                    let next = out.inputs.len() as u32;
                    let index = self.index.get_or_insert(id, next);
                    if index == next {
                        let ty = lookup(id).ok_or(PlanError::UnknownInput { instr: at as u32, id })?;
                        hasher.tensor(&ty);
                        out.inputs.push(id);
                        out.input_types.push(ty);
                        out.dying.push(false);
                    }
                    index
                };
                out.operands.push(reference);
                pair = pair << 32 | reference as u64;
                if k & 1 == 1 {
                    hasher.word(pair);
                    pair = 0;
                }
            }
            if ins & 1 == 1 {
                hasher.word(pair);
            }

            if outs == 0 {
                return Err(PlanError::NoOuts { instr: at as u32, op: instr.op.display_name() });
            }
            for &id in &instr.outs {
                if id.0 != first.wrapping_add(defined) || id.lane() != out.first.lane() {
                    let expected = TensorId(first.wrapping_add(defined));
                    return Err(PlanError::NotConsecutive { instr: at as u32, found: id, expected });
                }
                defined += 1;
            }
            if let Op::Upload(upload) = &instr.op {
                let wanted = upload.shape.numel() * upload.dtype.size();
                let message = match payloads.next() {
                    Some(p) if p.instr as usize == at && p.bytes.len() == wanted => continue,
                    Some(p) if p.instr as usize == at => format!("{} bytes, expected {wanted}", p.bytes.len()),
                    _ => "it is missing".to_string(),
                };
                return Err(PlanError::Payload { instr: at as u32, message });
            }
        }
        if let Some(extra) = payloads.next() {
            let message = "no upload uses it".to_string();
            return Err(PlanError::Payload { instr: extra.instr, message });
        }

        out.dead.resize(defined as usize, false);
        for &id in &window.frees {
            let offset = id.0.wrapping_sub(first);
            if offset < defined {
                out.dead[offset as usize] = true;
            } else if defined > 0 && id.0 >= first && id.lane() == out.first.lane() {
                return Err(PlanError::FreedUndefined { id });
            } else if let Some(k) = self.index.get(id) {
                out.dying[k as usize] = true;
            } else {
                out.older_frees.push(id);
            }
        }
        hash_bits(&mut hasher, &out.dying);
        hash_bits(&mut hasher, &out.dead);
        out.hash = hasher.finish();
        Ok(&self.out)
    }

    /// Makes `known`, the form of one occurrence of a template, that of another one (CANON-2). Whether it is: values of
    /// other types, and bindings that no window of this template has, leave it as it was.
    pub fn rebind(
        &mut self,
        known: &mut Canonical,
        bindings: &Bindings,
        mut lookup: impl FnMut(TensorId) -> Option<TensorType>,
    ) -> bool {
        let Bindings { first, inputs, older_frees, .. } = bindings;
        let is_older = |id: TensorId| id.0 < first.0 || id.lane() != first.lane();
        self.index.reset();
        let fits = inputs.len() == known.inputs.len()
            && inputs.iter().zip(0..).all(|(&id, k)| is_older(id) && self.index.get_or_insert(id, k) == k)
            && inputs.iter().zip(&known.input_types).all(|(&id, ty)| lookup(id).as_ref() == Some(ty))
            && older_frees.iter().all(|&id| is_older(id) && self.index.get(id).is_none());
        if fits {
            known.first = *first;
            known.inputs.clone_from(inputs);
            known.older_frees.clone_from(older_frees);
        }
        fits
    }
}

fn hash_bits(hasher: &mut StreamHasher, bits: &[bool]) {
    for chunk in bits.chunks(64) {
        hasher.word(chunk.iter().rev().fold(0, |word, &bit| word << 1 | bit as u64));
    }
}
