//! Steps of one instruction that is not elementwise: views, which only make layouts, and calls into
//! [`crate::kernels`].
//!
//! SINGLE-1: a kernel that changes a part of its first operand writes in place when the step may take the operand over
//! (PLAN-3) and into a copy otherwise. The operand leaves its slot only when the kernel has succeeded.

#![allow(clippy::disallowed_macros, reason = "smallvec! lists the one to three results of an instruction")]

use std::sync::Arc;

use gt_ir::ops::{Check, Matmul, Slice, UpdateSlice};
use gt_ir::{Bytes, Failure, FailureKind, Instr, Op, Scalar, Shape, Steps, TensorType};
use gt_plan::{Slot, Step};
use smallvec::{SmallVec, smallvec};

use crate::Layout;
use crate::buffer::CpuBuffer;
use crate::engine::{Context, PreparedSingle};
use crate::fused::Slots;
use crate::kernels::{self, Dst, Operands, Src};
use crate::transfer::{adopted, has_only_bools};

pub(crate) type Results = SmallVec<[CpuBuffer; 2]>;

/// One step with all it needs.
pub(crate) struct Single<'a> {
    pub cx: &'a Context<'a>,
    pub step: &'a Step,
    pub instr: &'a Instr,
    pub scalars: &'a [Scalar],
}

/// Computes the results of a step's instruction. Its inputs are there and not poisoned.
pub(crate) fn run(
    cx: &Context<'_>,
    step: &Step,
    instr: &Instr,
    lone: PreparedSingle,
    slots: &mut Slots,
) -> Result<Results, Failure> {
    let single = Single { cx, step, instr, scalars: cx.plan.scalars(step.instrs[0], cx.immediates) };
    let pool = cx.pool;
    match &instr.op {
        Op::Upload(_) => single.upload(cx.immediates.uploads.get(lone.payload)),
        Op::Reshape(op) => single.reshape(slots, &op.shape),
        Op::Permute(op) => single.view(slots, |layout| layout.permute(&op.perm)),
        Op::Broadcast(op) => single.view(slots, |layout| layout.broadcast(&op.shape)),
        Op::Slice(op) => single.slice(slots, op),
        Op::Iota(_) => single.make(slots, |_, outs| {
            kernels::iota(pool, outs[0], single.scalars[0], single.scalars[1]);
            Ok(())
        }),
        Op::Random(op) => single.make(slots, |_, outs| kernels::random(pool, outs[0], op.kind, single.scalars)),
        Op::ArgReduce(op) => single.make(slots, |ins, outs| {
            kernels::arg_reduce(pool, ins[0], outs[0], op.axis as usize, op.kind);
            Ok(())
        }),
        Op::Scan(op) => single.make(slots, |ins, outs| {
            kernels::scan(pool, ins[0], outs[0], op.axis as usize, op.kind, op.reverse);
            Ok(())
        }),
        Op::Sort(op) => single
            .make(slots, |ins, outs| kernels::sort(pool, ins[0], outs[0], outs[1], op.axis as usize, op.descending)),
        Op::Matmul(op) => {
            let (operands, result) = single.product(slots, op, lone.turned)?;
            kernels::matmul(pool, operands.a, operands.b, operands.c)?;
            Ok(smallvec![result])
        }
        Op::Pad(op) => single.make(slots, |ins, outs| {
            kernels::pad(pool, ins[0], outs[0], &op.low, single.scalars[0]);
            Ok(())
        }),
        Op::Concat(op) => single.make(slots, |ins, outs| {
            kernels::concat(pool, ins, outs[0], op.axis as usize);
            Ok(())
        }),
        Op::Take(op) => {
            single.make(slots, |ins, outs| kernels::take(pool, ins[0], ins[1], outs[0], op.axis as usize, op.wrap))
        }
        Op::Gather(op) => {
            single.make(slots, |ins, outs| kernels::gather(pool, ins[0], ins[1], outs[0], op.axis as usize))
        }
        Op::UpdateSlice(op) => single.update_slice(slots, op),
        Op::Put(op) => {
            single.update(slots, |ins, out| kernels::put(pool, ins[1], ins[2], out, op.axis as usize, op.mode, op.wrap))
        }
        Op::Scatter(op) => {
            single.update(slots, |ins, out| kernels::scatter(pool, ins[1], ins[2], out, op.axis as usize, op.mode))
        }
        Op::Fill(_) | Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select(_) | Op::Cast(_) | Op::Reduce(_) => {
            unreachable!("{} runs as a fused step", instr.op.display_name())
        }
        Op::Attention(_) | Op::AttentionGrad(_) | Op::CrossEntropy(_) | Op::CrossEntropyGrad(_) | Op::Update(_) => {
            single.composite(slots)
        }
        Op::Check(op) => single.check(slots, op),
        Op::Write(_) => unreachable!("the engine runs writes itself"),
    }
}

/// Computes two products neither of which reads the other. Their inputs are there and not poisoned.
pub(crate) fn run_two_products(
    cx: &Context<'_>,
    steps: [&Step; 2],
    lones: [PreparedSingle; 2],
    slots: &Slots,
) -> Result<[CpuBuffer; 2], Failure> {
    let product = |i: usize| {
        let (step, instr) = (steps[i], &cx.plan.instrs[steps[i].instrs[0] as usize]);
        let Op::Matmul(op) = &instr.op else { unreachable!("the engine saw that both are products") };
        Single { cx, step, instr, scalars: &[] }.product(slots, op, lones[i].turned)
    };
    let [(first, first_result), (second, second_result)] = [product(0)?, product(1)?];
    kernels::two_matmuls(cx.pool, [first, second])?;
    Ok([first_result, second_result])
}

/// The layout with its last two axes swapped.
fn swapped(layout: &Layout) -> Layout {
    let rank = layout.shape.rank();
    let mut perm: Steps = (0..rank as i64).collect();
    perm.swap(rank - 1, rank - 2);
    layout.permute(&perm)
}

/// An operand of a product, its last two axes swapped if they are to be.
fn turned(operand: Src, turn: bool) -> Src {
    if turn { Src { layout: swapped(&operand.layout), ..operand } } else { operand }
}

impl Single<'_> {
    pub(crate) fn operand<'s>(&self, slots: &'s Slots, i: usize) -> &'s CpuBuffer {
        match &slots[self.instr.ins[i].0 as usize] {
            Some(Ok(buffer)) => buffer,
            Some(Err(_)) | None => panic!("input {i} of {} is not there", self.instr.op.display_name()),
        }
    }

    fn sources(&self, slots: &Slots) -> SmallVec<[Src; 3]> {
        (0..self.instr.ins.len()).map(|i| self.operand(slots, i).src()).collect()
    }

    pub(crate) fn out_type(&self, i: usize) -> TensorType {
        self.cx.plan.types[self.instr.outs[i].0 as usize]
    }

    pub(crate) fn fresh(&self, ty: TensorType) -> Result<CpuBuffer, Failure> {
        Ok(CpuBuffer::new(Arc::new(self.cx.allocator.allocate(ty.bytes())?), Layout::packed(ty)))
    }

    /// Fresh results, filled by a kernel.
    fn make(
        &self,
        slots: &Slots,
        kernel: impl FnOnce(&[Src], &[Dst]) -> Result<(), Failure>,
    ) -> Result<Results, Failure> {
        let results: Results =
            (0..self.instr.outs.len()).map(|i| self.fresh(self.out_type(i))).collect::<Result<_, _>>()?;
        let outs: SmallVec<[Dst; 2]> = results.iter().map(CpuBuffer::dst).collect();
        kernel(&self.sources(slots), &outs)?;
        Ok(results)
    }

    /// The operands of a product and a fresh result, as the kernel is to see it and as it is afterwards. One that is stored with
    /// its last two axes swapped is the product of the swapped operands, whose bits are the same (GEMM-1).
    fn product(&self, slots: &Slots, op: &Matmul, is_turned: bool) -> Result<(Operands, CpuBuffer), Failure> {
        let operand = |i: usize, turn: bool| turned(self.operand(slots, i).src(), turn);
        let (mut a, mut b) = (operand(0, op.turn_a != is_turned), operand(1, op.turn_b != is_turned));
        let mut layout = Layout::packed(self.out_type(0));
        if is_turned {
            (a, b, layout) = (b, a, Layout::packed(swapped(&layout).ty()));
        }
        let mut result = self.fresh(layout.ty())?;
        let c = result.dst();
        if is_turned {
            result = result.with_layout(swapped(&c.layout));
        }
        Ok((Operands { a, b, c }, result))
    }

    /// The first operand with a part of it changed by a kernel (SINGLE-1).
    pub(crate) fn update(
        &self,
        slots: &mut Slots,
        kernel: impl FnOnce(&[Src], Dst) -> Result<(), Failure>,
    ) -> Result<Results, Failure> {
        let sources = self.sources(slots);
        let slot = self.instr.ins[0].0 as Slot;
        // An operand that is also what is written would change while it is read.
        let is_alone = !self.instr.ins[1..].contains(&self.instr.ins[0]);
        if is_alone
            && self.step.takes.contains(&slot)
            && let Some(Ok(buffer)) = &mut slots[slot as usize]
        {
            let whole = buffer.layout.offset == 0
                && buffer.layout.is_packed()
                && buffer.storage.len_bytes() == buffer.layout.ty().bytes();
            if whole && Arc::get_mut(&mut buffer.storage).is_some() {
                let layout = Layout::packed(buffer.layout.ty());
                kernel(&sources, Dst { ptr: buffer.storage.ptr(), layout })?;
                let taken = slots[slot as usize].take().and_then(Result::ok);
                return Ok(taken.map(|buffer| buffer.with_layout(layout)).into_iter().collect());
            }
        }
        let copy = self.packed_copy(self.operand(slots, 0))?;
        kernel(&sources, copy.dst())?;
        Ok(smallvec![copy])
    }

    pub(crate) fn packed_copy(&self, buffer: &CpuBuffer) -> Result<CpuBuffer, Failure> {
        let copy = self.fresh(buffer.layout.ty())?;
        kernels::copy(self.cx.pool, buffer.src(), copy.dst());
        Ok(copy)
    }

    fn view(&self, slots: &Slots, change: impl FnOnce(&Layout) -> Layout) -> Result<Results, Failure> {
        let buffer = self.operand(slots, 0);
        Ok(smallvec![CpuBuffer::new(buffer.storage.clone(), change(&buffer.layout))])
    }

    /// The operand itself, unless the condition beside it holds.
    fn check(&self, slots: &Slots, op: &Check) -> Result<Results, Failure> {
        let wrong = self.operand(slots, 1);
        // SAFETY: the condition is one bool (`infer`), and its step is done.
        if unsafe { *wrong.storage.ptr().add(wrong.layout.offset) } != 0 {
            return Err(op.complaint.failure());
        }
        self.view(slots, |layout| *layout)
    }

    /// A view where the strides allow it, a packed copy otherwise.
    fn reshape(&self, slots: &Slots, shape: &Shape) -> Result<Results, Failure> {
        let buffer = self.operand(slots, 0);
        if let Some(layout) = buffer.layout.reshape(shape) {
            return Ok(smallvec![CpuBuffer::new(buffer.storage.clone(), layout)]);
        }
        Ok(smallvec![self.packed_copy(buffer)?.with_layout(Layout::packed(self.out_type(0)))])
    }

    fn slice(&self, slots: &Slots, op: &Slice) -> Result<Results, Failure> {
        let buffer = self.operand(slots, 0);
        let layout = self.slice_layout(&buffer.layout, &op.sizes, &op.steps)?.drop_axes(op.drop);
        Ok(smallvec![CpuBuffer::new(buffer.storage.clone(), layout)])
    }

    fn update_slice(&self, slots: &mut Slots, op: &UpdateSlice) -> Result<Results, Failure> {
        let sizes = op.drop.insert_into(&self.operand(slots, 1).layout.shape);
        // Looked at before anything is copied or written.
        self.slice_layout(&self.operand(slots, 0).layout, &sizes, &op.steps)?;
        let starts: SmallVec<[i64; 8]> = self.scalars.iter().map(|s| s.as_i64()).collect();
        self.update(slots, |ins, out| {
            let part = Src { layout: ins[1].layout.insert_axes(op.drop), ..ins[1] };
            kernels::update_slice(self.cx.pool, part, out, &starts, &op.steps)
        })
    }

    /// The part of a layout that the instruction's scalars and these sizes and steps name.
    fn slice_layout(&self, layout: &Layout, sizes: &Shape, steps: &Steps) -> Result<Layout, Failure> {
        let starts: SmallVec<[i64; 8]> = self.scalars.iter().map(|s| s.as_i64()).collect();
        layout.slice(sizes, &starts, steps).ok_or_else(|| {
            let (name, shape) = (self.instr.op.display_name(), layout.shape);
            let message =
                format!("{name}: {sizes} elements starting at {starts:?} with steps {steps} do not fit shape {shape}");
            Failure::new(FailureKind::Value, message)
        })
    }

    fn upload(&self, payload: Option<&Bytes>) -> Result<Results, Failure> {
        let ty = self.out_type(0);
        let have = payload.map_or(0, |p| p.len());
        let Some(payload) = payload.filter(|p| p.len() == ty.bytes()) else {
            let message = format!("an upload of {ty} needs {} bytes, got {have}", ty.bytes());
            return Err(Failure::new(FailureKind::Value, message));
        };
        payload.settle();
        if let Some(value) = adopted(ty, payload, |storage| self.cx.allocator.adopt(storage)) {
            return Ok(smallvec![value]);
        }
        let out = self.fresh(ty)?;
        // SAFETY: the storage is fresh, has room for all of the payload, and nobody else knows it.
        let bytes = unsafe {
            std::ptr::copy_nonoverlapping(payload.as_ptr(), out.storage.ptr(), payload.len());
            std::slice::from_raw_parts_mut(out.storage.ptr(), payload.len())
        };
        if !has_only_bools(ty, bytes) {
            bytes.iter_mut().for_each(|b| *b = (*b != 0) as u8);
        }
        Ok(smallvec![out])
    }
}
