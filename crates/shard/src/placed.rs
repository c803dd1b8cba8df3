//! A placed window: instructions on whole tensors, with where each value lies, and the conversions between them. The same
//! bytes go to every worker that takes part.
//!
//! PLACED-1: all values of one [`PlacedStep::Run`] are on one mesh; its workers run it, others do nothing.
//! PLACED-2: a name stands for one placement. What is needed in another one is converted, under another name.

use gt_ir::attr::Attr;
use gt_ir::codec::{Reader, put_varint};
use gt_ir::ops::ReduceKind;
use gt_ir::shard::Split;
use gt_ir::{INSTR_BYTES, Instr, MAX_RANK, Op, OpError, Payload, SiteId, TensorId, TensorType};
use smallvec::SmallVec;

use super::draft::fits;
use super::{Mesh, Placement};

/// The most workers of a mesh: lowering a window looks at all pairs of them.
const MAX_WORKERS: u32 = 1024;
/// The most axes of a mesh: there is no use for more than a tensor has.
const MAX_MESH_AXES: usize = MAX_RANK;

/// The place of a [`Placement`] in [`PlacedWindow::placements`].
pub type PlacementIndex = u32;

/// A value made from another one that lies elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversion {
    /// The name of what there is.
    pub from: TensorId,
    /// The name of what is made.
    pub to: TensorId,
    /// The type of the whole.
    pub ty: TensorType,
    /// Where it lies.
    pub lies: PlacementIndex,
    /// Where it will lie.
    pub wanted: PlacementIndex,
}

/// A part of a sum that everybody wants. What is computed between the parts hides what travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Addends leave.
    Begin,
    /// They arrive and are reduced; sums leave.
    Middle,
    /// Sums arrive.
    End,
}

/// A step of a placed window.
#[derive(Clone, Debug, PartialEq)]
// Nearly all of them are instructions.
#[allow(clippy::large_enum_variant)]
pub enum PlacedStep {
    /// An instruction, on whole tensors.
    Run {
        /// What is recorded.
        instr: Instr,
        /// The types of the whole inputs, and where they lie.
        ins: SmallVec<[(TensorType, PlacementIndex); 3]>,
        /// Where the outputs will lie.
        outs: SmallVec<[PlacementIndex; 2]>,
    },
    /// Conversions that travel together.
    Convert {
        /// What is converted, all with one dtype, one origin and one goal.
        values: Vec<Conversion>,
        /// The first of the names for what travels.
        first: TensorId,
        /// The line that makes it necessary.
        site: SiteId,
    },
    /// A part of such conversions: all parts are in one window, in order, with the same names.
    Reduce {
        /// Which part.
        phase: Phase,
        /// As of [`PlacedStep::Convert`].
        values: Vec<Conversion>,
        /// As of [`PlacedStep::Convert`].
        first: TensorId,
        /// As of [`PlacedStep::Convert`].
        site: SiteId,
    },
}

/// A window as it goes to the workers of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacedWindow {
    /// Every placement there is in it.
    pub placements: Vec<Placement>,
    /// In order.
    pub steps: Vec<PlacedStep>,
    /// Payloads of uploads, by step. Uploads without one are on their way.
    pub uploads: Vec<Payload>,
    /// Values that nobody can name any more, and where they lie.
    pub frees: Vec<(TensorId, PlacementIndex)>,
    /// As [`gt_ir::Window::eager`].
    pub eager: bool,
    /// As [`gt_ir::Window::joined`].
    pub joined: bool,
}

/// What one worker takes of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadShare {
    /// The step that uploads.
    pub step: u32,
    /// What it makes.
    pub id: TensorId,
    /// Who takes it.
    pub worker: u32,
    /// How many bytes of it.
    pub len_bytes: u64,
}

impl PlacedWindow {
    /// The workers that take part, ascending.
    pub fn workers(&self) -> Vec<u32> {
        let mut workers: Vec<u32> = self.placements.iter().flat_map(|p| p.mesh.workers().iter().copied()).collect();
        workers.sort_unstable();
        workers.dedup();
        workers
    }

    /// What it takes in memory, payloads left out.
    pub fn held_bytes(&self) -> usize {
        let of_step = |step: &PlacedStep| match step {
            PlacedStep::Run { instr, ins, outs } => instr.held_bytes() + size_of_val(&ins[..]) + size_of_val(&outs[..]),
            PlacedStep::Convert { values, .. } | PlacedStep::Reduce { values, .. } => {
                INSTR_BYTES + size_of_val(&values[..])
            }
        };
        let of_placement = |placement: &Placement| size_of::<Placement>() + size_of_val(placement.mesh.workers());
        self.steps.iter().map(of_step).sum::<usize>()
            + self.placements.iter().map(of_placement).sum::<usize>()
            + size_of_val(&self.frees[..])
    }

    /// What each worker takes of each upload, in order.
    pub fn upload_shares(&self) -> Vec<UploadShare> {
        let mut shares = Vec::new();
        for (step, placed) in (0u32..).zip(&self.steps) {
            let PlacedStep::Run { instr, outs, .. } = placed else { continue };
            let (Op::Upload(upload), Some(&id)) = (&instr.op, instr.outs.first()) else { continue };
            let ty = TensorType { dtype: upload.dtype, shape: upload.shape };
            let placement = outs.first().and_then(|&index| self.placements.get(index as usize));
            let placement = placement.filter(|placement| fits(placement, &ty).is_ok());
            let of_workers = placement.into_iter().flat_map(|placement| placement.shares(ty));
            shares.extend(of_workers.map(|(worker, len_bytes)| UploadShare { step, id, worker, len_bytes }));
        }
        shares
    }

    /// Appends the binary form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_list(out, &self.placements, put_placement);
        put_list(out, &self.steps, put_step);
        put_list(out, &self.uploads, |out, upload| {
            put_varint(out, upload.instr as u64);
            put_varint(out, upload.bytes.len() as u64);
            out.extend_from_slice(&upload.bytes);
        });
        put_list(out, &self.frees, |out, (id, index)| {
            put_varint(out, id.0);
            put_varint(out, *index as u64);
        });
        out.push(self.eager as u8 | (self.joined as u8) << 1);
    }

    /// Reads the binary form. What it says is checked where it is lowered.
    ///
    /// # Errors
    /// When the bytes are not one.
    pub fn decode(r: &mut Reader<'_>) -> Result<PlacedWindow, OpError> {
        let placements = list(r, 3, placement)?;
        let known = |index: u64| match index < placements.len() as u64 {
            true => Ok(index as PlacementIndex),
            false => Err(OpError::malformed(format!("there is no placement {index}"))),
        };
        let count = r.instr_count(3)?;
        let steps = (0..count).map(|_| step(r, &known)).collect::<Result<Vec<_>, _>>()?;
        let uploads = list(r, 2, |r| {
            let instr = r.small()?;
            let len = r.count(1)?;
            Ok(Payload { instr, bytes: r.take(len)?.into() })
        })?;
        let frees = list(r, 2, |r| Ok((TensorId(r.varint()?), known(r.varint()?)?)))?;
        let flags = r.byte()?;
        Ok(PlacedWindow { placements, steps, uploads, frees, eager: flags & 1 != 0, joined: flags & 2 != 0 })
    }
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    put_varint(out, items.len() as u64);
    items.iter().for_each(|item| put(out, item));
}

fn list<'a, T>(
    r: &mut Reader<'a>,
    item_bytes: usize,
    get: impl Fn(&mut Reader<'a>) -> Result<T, OpError>,
) -> Result<Vec<T>, OpError> {
    let n = r.list(item_bytes, size_of::<T>())?;
    (0..n).map(|_| get(r)).collect()
}

fn put_placement(out: &mut Vec<u8>, placement: &Placement) {
    put_list(out, placement.mesh.extents(), |out, &e| put_varint(out, e as u64));
    placement.mesh.workers().iter().for_each(|&w| put_varint(out, w as u64));
    for split in &placement.splits {
        match split {
            Split::Replicate => out.push(0),
            Split::Shard { axis, unit } => {
                out.extend([1, *axis]);
                put_varint(out, *unit as u64);
            }
            Split::Partial(kind) => {
                let code = ReduceKind::ALL.iter().position(|k| k == kind).unwrap_or_default();
                out.push(2 + code as u8);
            }
        }
    }
}

fn placement(r: &mut Reader<'_>) -> Result<Placement, OpError> {
    let extents = list(r, 1, |r| r.small())?;
    if extents.len() > MAX_MESH_AXES {
        return Err(OpError::malformed(format!("a mesh has more than {MAX_MESH_AXES} axes")));
    }
    let count = extents.iter().try_fold(1u32, |n, &e| n.checked_mul(e)).filter(|&n| n <= MAX_WORKERS);
    let count = count.ok_or_else(|| OpError::malformed(format!("a mesh has more than {MAX_WORKERS} workers")))?;
    let workers = (0..count).map(|_| r.small()).collect::<Result<Vec<u32>, _>>()?;
    let mesh =
        Mesh::grid(&workers, &extents).ok_or_else(|| OpError::malformed("a mesh names a worker twice, or none"))?;
    let splits = extents.iter().map(|_| {
        Ok(match r.byte()? {
            0 => Split::Replicate,
            1 => {
                let axis = r.byte()?;
                let unit = r.small()?;
                if axis as usize >= MAX_RANK || unit == 0 {
                    return Err(OpError::malformed("a placement cuts where there is no axis"));
                }
                Split::Shard { axis, unit }
            }
            code => match ReduceKind::ALL.get(code as usize - 2) {
                Some(&kind) => Split::Partial(kind),
                None => return Err(OpError::malformed(format!("no split has code {code}"))),
            },
        })
    });
    let splits = splits.collect::<Result<_, _>>()?;
    Ok(Placement { mesh, splits })
}

fn put_type(out: &mut Vec<u8>, ty: &TensorType) {
    Attr::encode(&ty.dtype, out);
    Attr::encode(&ty.shape, out);
}

fn tensor_type(r: &mut Reader<'_>) -> Result<TensorType, OpError> {
    Ok(TensorType { dtype: Attr::decode(r)?, shape: Attr::decode(r)? })
}

fn put_step(out: &mut Vec<u8>, step: &PlacedStep) {
    match step {
        PlacedStep::Run { instr, ins, outs } => {
            out.push(0);
            instr.encode(out);
            for (ty, index) in ins {
                put_type(out, ty);
                put_varint(out, *index as u64);
            }
            outs.iter().for_each(|&index| put_varint(out, index as u64));
        }
        PlacedStep::Convert { values, first, site } => {
            out.push(1);
            put_conversions(out, values, *first, *site);
        }
        PlacedStep::Reduce { phase, values, first, site } => {
            out.push(match phase {
                Phase::Begin => 2,
                Phase::Middle => 3,
                Phase::End => 4,
            });
            put_conversions(out, values, *first, *site);
        }
    }
}

fn put_conversions(out: &mut Vec<u8>, values: &[Conversion], first: TensorId, site: SiteId) {
    put_list(out, values, |out, value| {
        put_varint(out, value.from.0);
        put_varint(out, value.to.0);
        put_type(out, &value.ty);
        put_varint(out, value.lies as u64);
        put_varint(out, value.wanted as u64);
    });
    put_varint(out, first.0);
    put_varint(out, site.0 as u64);
}

fn step(r: &mut Reader<'_>, known: &dyn Fn(u64) -> Result<PlacementIndex, OpError>) -> Result<PlacedStep, OpError> {
    match r.byte()? {
        0 => {
            let instr = Instr::decode(r)?;
            r.spend(instr.ins.len() * size_of::<(TensorType, PlacementIndex)>())?;
            let ins = instr.ins.iter().map(|_| Ok((tensor_type(r)?, known(r.varint()?)?)));
            let ins = ins.collect::<Result<_, OpError>>()?;
            let outs = instr.outs.iter().map(|_| known(r.varint()?)).collect::<Result<_, OpError>>()?;
            Ok(PlacedStep::Run { instr, ins, outs })
        }
        code @ 1..=4 => {
            let values = list(r, 6, |r| {
                Ok(Conversion {
                    from: TensorId(r.varint()?),
                    to: TensorId(r.varint()?),
                    ty: tensor_type(r)?,
                    lies: known(r.varint()?)?,
                    wanted: known(r.varint()?)?,
                })
            })?;
            let (first, site) = (TensorId(r.varint()?), SiteId(r.small()?));
            Ok(match code {
                1 => PlacedStep::Convert { values, first, site },
                2 => PlacedStep::Reduce { phase: Phase::Begin, values, first, site },
                3 => PlacedStep::Reduce { phase: Phase::Middle, values, first, site },
                _ => PlacedStep::Reduce { phase: Phase::End, values, first, site },
            })
        }
        code => Err(OpError::malformed(format!("no step has code {code}"))),
    }
}
