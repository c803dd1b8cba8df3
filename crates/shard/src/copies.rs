//! The names of one value: where it lies, and how it comes to lie elsewhere too.

use gt_ir::shard::Split;
use gt_ir::{Instr, OpError, Outs, TensorId, TensorType};
use smallvec::SmallVec;

use super::convert::{Tags, quiet};
use super::cost::moved;
use super::placer::{Draft, PlacedCopy};
use super::{Conversion, PlacedStep, Placement, Placer};

impl Placer {
    /// The name under which a value lies so that every worker has just what this placement says.
    pub(super) fn find_copy(&self, id: TensorId, placement: &Placement) -> Result<Option<TensorId>, OpError> {
        let known = self.known(id)?;
        let same = |copy: &&PlacedCopy| {
            copy.placement.mesh == placement.mesh && same_parts(&copy.placement, placement, &known.ty)
        };
        Ok(known.copies.iter().find(same).map(|copy| copy.id))
    }

    /// Makes copies: those that travel the same way go together.
    pub(super) fn convert(
        &mut self,
        draft: &mut Draft,
        instr: &Instr,
        wanted: Vec<(TensorId, Placement)>,
    ) -> Result<(), OpError> {
        let mut groups: Vec<(Placement, Placement, Vec<Conversion>)> = Vec::new();
        for (id, to) in wanted {
            let known = self.known(id)?;
            let ty = known.ty;
            if let Some(origin) = known.origin.clone()
                && !to.is_partial()
            {
                // Made again where it is needed.
                let copy = self.fresh(1);
                let again = Instr { outs: Outs::from_iter([copy]), ..*origin };
                let index = draft.index(&to);
                draft.out.steps.push(PlacedStep::Run {
                    instr: again,
                    ins: SmallVec::new(),
                    outs: SmallVec::from_iter([index]),
                });
                self.add_copy(id, PlacedCopy { id: copy, placement: to });
                continue;
            }
            let source = known.copies.iter().min_by_key(|copy| moved(&copy.placement, &to, &ty));
            let source = source.ok_or_else(|| OpError::malformed(format!("no worker holds {id}")))?.clone();
            let through = on_the_way(&source.placement, &to, &ty);
            let made = self.fresh(1);
            if let Some(through) = through {
                self.convert(draft, instr, vec![(id, through.clone())])?;
                let from = self.find_copy(id, &through)?.unwrap_or(source.id);
                push(&mut groups, draft, (from, made, ty), (&through, &to));
            } else {
                push(&mut groups, draft, (source.id, made, ty), (&source.placement, &to));
            }
            self.add_copy(id, PlacedCopy { id: made, placement: to });
        }
        for (from, to, values) in groups {
            let first = self.fresh(Tags::count(&from, &to, values.len()));
            let types: SmallVec<[TensorType; 4]> = values.iter().map(|v| v.ty).collect();
            let counted = self.traffic.count(&from, &to, &types);
            if let Some(report) = &mut self.report {
                report.moved(instr.site, counted, (&from, &to), &types);
            }
            draft.out.steps.push(PlacedStep::Convert { values, first, site: instr.site });
        }
        Ok(())
    }

    pub(super) fn add_copy(&mut self, id: TensorId, copy: PlacedCopy) {
        if let Some(known) = self.values.get_mut(&id) {
            if let Some(report) = &mut self.report {
                report.holds(&known.ty, &copy.placement, true);
            }
            known.copies.push(copy);
        }
    }
}

type Travel<'a> = (&'a Placement, &'a Placement);

fn push(
    groups: &mut Vec<(Placement, Placement, Vec<Conversion>)>,
    draft: &mut Draft,
    (from, to, ty): (TensorId, TensorId, TensorType),
    (lies, wanted): Travel<'_>,
) {
    let conversion = Conversion { from, to, ty, lies: draft.index(lies), wanted: draft.index(wanted) };
    let together = groups.iter_mut().find(|(a, b, values)| a == lies && b == wanted && values[0].ty.dtype == ty.dtype);
    match together {
        Some((.., values)) => values.push(conversion),
        None => groups.push((lies.clone(), wanted.clone(), vec![conversion])),
    }
}

/// Whether both give every worker the same part.
pub(super) fn same_parts(a: &Placement, b: &Placement, ty: &TensorType) -> bool {
    if a == b {
        return true;
    }
    let partial = |p: &Placement, k: usize| if let Split::Partial(kind) = p.splits[k] { Some(kind) } else { None };
    (0..a.splits.len()).all(|k| partial(a, k) == partial(b, k))
        && (0..a.mesh.count()).all(|rank| a.region(&ty.shape, rank) == b.region(&ty.shape, rank))
}

/// What a value becomes first, where one conversion does not do.
fn on_the_way(from: &Placement, to: &Placement, ty: &TensorType) -> Option<Placement> {
    let whole = |splits: &[Split]| {
        splits.iter().map(|s| if matches!(s, Split::Partial(_)) { Split::Replicate } else { *s }).collect()
    };
    if to.is_partial() && quiet(from, to, &ty.shape).is_none() {
        return Some(Placement { mesh: to.mesh.clone(), splits: whole(&to.splits) });
    }
    // A sum that goes to another group is made first, where its addends are: then each byte travels once.
    let crosses = from.is_partial() && !to.is_partial() && from.mesh != to.mesh && to.mesh.count() > 1;
    crosses.then(|| Placement { mesh: from.mesh.clone(), splits: whole(&from.splits) })
}
