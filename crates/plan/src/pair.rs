//! Pass 7: brings short products that do not depend on each other next to each other.
//!
//! Cutting a short product among threads costs about as much as it saves; two of them side by side, each whole on a thread of its
//! own, cost one meeting instead of two. They come in pairs everywhere: the two gradients of a product, the projections of
//! one input. An engine that finds them adjacent may run them together.
//!
//! PAIR-1: a product moves up only to right behind the other one, past steps it does not depend on, and takes along views alone.

use gt_ir::{Instr, Op};

use crate::draft::Draft;
use crate::fuse::Grouping;

/// How many steps ahead a partner is looked for.
const REACH: usize = 16;

const NOWHERE: u32 = u32::MAX;

/// Pairs what it can.
pub(crate) fn pair(draft: &Draft, grouping: Grouping) -> Grouping {
    let mut made_by = vec![NOWHERE; draft.types.len()];
    for (at, group) in grouping.groups.iter().enumerate() {
        for &i in &group.instrs {
            draft.instrs[i as usize].outs.iter().for_each(|id| made_by[id.0 as usize] = at as u32);
        }
    }
    let mut pairing = Pairing { draft, grouping: &grouping, made_by, placed: vec![false; grouping.groups.len()] };
    let mut order = Vec::with_capacity(grouping.groups.len());
    for at in 0..grouping.groups.len() {
        if pairing.placed[at] {
            continue;
        }
        let partner = pairing.short_product(at).and_then(|work| pairing.partner(at, work));
        let (views, partner) = partner.map_or((Vec::new(), None), |(views, partner)| (views, Some(partner)));
        for group in views.into_iter().chain([at]).chain(partner) {
            pairing.placed[group] = true;
            order.push(group);
        }
    }
    let Grouping { mut groups } = grouping;
    let mut take = |at: usize| std::mem::take(&mut groups[at]);
    Grouping { groups: order.into_iter().map(&mut take).collect() }
}

struct Pairing<'a> {
    draft: &'a Draft,
    grouping: &'a Grouping,
    /// For each slot, the group that makes it.
    made_by: Vec<u32>,
    /// For each group, whether it has its place already.
    placed: Vec<bool>,
}

impl Pairing<'_> {
    fn only_instr(&self, group: usize) -> Option<&Instr> {
        let group = &self.grouping.groups[group];
        (!group.fused).then(|| &self.draft.instrs[group.instrs[0] as usize])
    }

    /// The multiplications of a group that is a product and short.
    fn short_product(&self, group: usize) -> Option<usize> {
        let instr = self.only_instr(group)?;
        let Op::Matmul(op) = &instr.op else { return None };
        let (a, out) = (self.draft.ty(instr.ins[0]).shape, self.draft.ty(instr.outs[0]));
        let inner = a[a.rank() - if op.turn_a { 2 } else { 1 }];
        Some(out.shape.numel().saturating_mul(inner))
            .filter(|&work| out.dtype.is_float() && work <= self.draft.limits.max_paired_product)
    }

    /// The next product about as long that could run beside this one, and the views to be made before.
    fn partner(&self, group: usize, work: usize) -> Option<(Vec<usize>, usize)> {
        let last = (group + REACH).min(self.grouping.groups.len() - 1);
        (group + 1..=last).filter(|&other| !self.placed[other]).find_map(|other| {
            let alike = |&have: &usize| have <= work + work / 2 && work <= have + have / 2;
            self.short_product(other).filter(alike)?;
            let mut views = Vec::new();
            self.gather_views(other, group, &mut views)?;
            views.sort_unstable();
            Some((views, other))
        })
    }

    /// The views between `first` and the group that it needs; nothing if it needs more than views.
    fn gather_views(&self, group: usize, first: usize, views: &mut Vec<usize>) -> Option<()> {
        for id in &self.only_instr(group)?.ins {
            let maker = self.made_by[id.0 as usize];
            if maker == NOWHERE || (maker as usize) < first || views.contains(&(maker as usize)) {
                continue;
            }
            let maker = maker as usize;
            if self.placed[maker] {
                continue;
            }
            let is_view = |op: &Op| matches!(op, Op::Reshape(_) | Op::Permute(_) | Op::Broadcast(_) | Op::Slice(_));
            self.only_instr(maker).filter(|instr| is_view(&instr.op))?;
            self.gather_views(maker, first, views)?;
            views.push(maker);
        }
        Some(())
    }
}
