//! What decides how a window is placed, as one number.

use gt_ir::shard::Split;
use gt_ir::{Digest, Op, Scalar, ScopeId, StreamHasher};
use gt_stream::Occurrence;

use super::{Layout, Placement, Placer};

impl Placer {
    /// Everything that decides how a window is placed; `None` if it takes something unknown.
    pub(super) fn key(&self, occurrence: &Occurrence, layouts: &dyn Fn(ScopeId) -> Option<Layout>) -> Option<Digest> {
        let (recipe, bindings) = (occurrence.recipe(), occurrence.bindings());
        let mut hasher = StreamHasher::default();
        hasher.word(recipe.number());
        // What is sent names the source lines.
        occurrence.sites().iter().for_each(|site| hasher.word(site.0 as u64));
        hasher.word(bindings.joined as u64);
        for met in &occurrence.met {
            let own = met.id.0.wrapping_sub(bindings.first.0);
            if own < recipe.defined() as u64 {
                hasher.word(own << 1 | met.is_state as u64);
            }
        }
        for &scope in recipe.scopes() {
            match layouts(scope) {
                Some(Layout { mesh, splits }) => feed_placement(&mut hasher, &Placement { mesh, splits }),
                None => hasher.word(u64::MAX),
            }
        }
        if !self.supplied.is_empty() {
            for place in recipe.uploads() {
                let id = occurrence.bound(recipe.instrs()[place.instr as usize].outs[0]);
                match self.supplied.get(&id) {
                    Some(placement) => feed_placement(&mut hasher, placement),
                    None => hasher.word(u64::MAX),
                }
            }
        }
        let mut scalars = &bindings.scalars[..];
        for instr in recipe.instrs().iter().filter(|instr| !instr.scalars.is_empty()) {
            let (own, others) = scalars.split_at(instr.scalars.len());
            scalars = others;
            // PLACED-REPEAT-4.
            let is_made_again = matches!(instr.op, Op::Fill(_) | Op::Iota(_));
            if is_made_again || instr.op.composite().is_some() && !matches!(instr.op, Op::Update(_)) {
                feed_scalars(&mut hasher, own);
            }
        }
        for &id in &bindings.inputs {
            let known = self.values.get(&id)?;
            hasher.tensor(&known.ty);
            hasher
                .word((known.copies.len() as u64) << 2 | (known.origin.is_some() as u64) << 1 | known.is_state as u64);
            known.copies.iter().for_each(|copy| feed_placement(&mut hasher, &copy.placement));
            if let Some(origin) = &known.origin {
                origin.op.feed(&mut hasher);
                hasher.word((origin.scope.0 as u64) << 32 | origin.site.0 as u64);
                feed_scalars(&mut hasher, &origin.scalars);
            }
        }
        Some(hasher.finish())
    }
}

/// A scalar as it is: zeros differ by their signs, and whole numbers from others.
pub(super) fn bits(scalar: &Scalar) -> (u64, u64) {
    match *scalar {
        Scalar::Bool(b) => (0, b as u64),
        Scalar::I64(i) => (1, i as u64),
        Scalar::F64(x) => (2, x.to_bits()),
    }
}

fn feed_scalars(hasher: &mut StreamHasher, scalars: &[Scalar]) {
    for (kind, number) in scalars.iter().map(bits) {
        hasher.word(kind);
        hasher.word(number);
    }
}

fn feed_placement(hasher: &mut StreamHasher, placement: &Placement) {
    let extents = placement.mesh.extents();
    hasher.word((extents.len() as u64) << 32 | placement.mesh.count() as u64);
    extents.iter().chain(placement.mesh.workers()).for_each(|&n| hasher.word(n as u64));
    for split in &placement.splits {
        hasher.word(match *split {
            Split::Replicate => 0,
            Split::Shard { axis, unit } => 1 << 60 | (axis as u64) << 32 | unit as u64,
            Split::Partial(kind) => 2 << 60 | kind as u64,
        });
    }
}
