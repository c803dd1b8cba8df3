//! Steps of one composite: its kernel where there is one for the dtype, its expansion otherwise.

use std::sync::Arc;

use gt_ir::ops::Update;
use gt_ir::{DType, Failure, Op};
use gt_plan::Slot;
use smallvec::{SmallVec, smallvec};

use crate::Layout;
use crate::buffer::CpuBuffer;
use crate::expansion;
use crate::fused::Slots;
use crate::kernels::{self, Dst, Src};
use crate::single::{Results, Single};

fn src(buffer: &CpuBuffer) -> Src {
    Src { ptr: buffer.storage.ptr(), layout: buffer.layout }
}

fn dst(buffer: &CpuBuffer) -> Dst {
    Dst { ptr: buffer.storage.ptr(), layout: buffer.layout }
}

impl Single<'_> {
    /// The results of a composite.
    pub(crate) fn composite(&self, slots: &mut Slots) -> Result<Results, Failure> {
        let dtype = self.operand(slots, 0).layout.dtype;
        match &self.instr.op {
            Op::CrossEntropy(_) if dtype == DType::F32 => self.cross_entropy(slots),
            Op::CrossEntropyGrad(_) if dtype == DType::F32 => self.cross_entropy_grad(slots),
            Op::Update(op) if matches!(dtype, DType::F32 | DType::F64) => self.update_tensors(slots, op),
            _ => {
                let ins: Vec<CpuBuffer> = (0..self.instr.ins.len()).map(|i| self.operand(slots, i).clone()).collect();
                expansion::run(self.cx, self.instr, self.scalars, &ins).map(SmallVec::from_vec)
            }
        }
    }

    /// An operand whose last axis is packed: itself, or a copy.
    fn with_packed_rows(&self, slots: &Slots, i: usize) -> Result<CpuBuffer, Failure> {
        let buffer = self.operand(slots, i);
        let last = buffer.layout.shape.rank() - 1;
        if buffer.layout.strides[last] == 1 || buffer.layout.shape[last] == 1 {
            return Ok(buffer.clone());
        }
        self.packed_copy(buffer)
    }

    fn cross_entropy(&self, slots: &Slots) -> Result<Results, Failure> {
        let logits = self.with_packed_rows(slots, 0)?;
        let (loss, log) = (self.fresh(self.out_type(0))?, self.fresh(self.out_type(1))?);
        let (classes, ignore) = (src(self.operand(slots, 1)), self.scalars[0].as_i64());
        kernels::cross_entropy(self.cx.pool, src(&logits), classes, dst(&loss), dst(&log), ignore)?;
        Ok(smallvec![loss, log])
    }

    fn cross_entropy_grad(&self, slots: &mut Slots) -> Result<Results, Failure> {
        let ignore = self.scalars[0].as_i64();
        // The gradient may be written over the logits: no second copy of them (SINGLE-1).
        self.update(slots, |ins, out| {
            // A copy made for the purpose is packed, and so is an operand that may be overwritten.
            let logits = Src { ptr: out.ptr, layout: out.layout };
            kernels::cross_entropy_grad(self.cx.pool, logits, ins[1], ins[2], ins[3], out, ignore)
        })
    }

    /// Updates parameters and states where they lie when nobody else holds them (SINGLE-1).
    fn update_tensors(&self, slots: &mut Slots, op: &Update) -> Result<Results, Failure> {
        let count = self.instr.ins.len();
        let n = op.tensors(count).unwrap_or(0);
        let is_gradient = |i: usize| (n..2 * n).contains(&i);
        // Everything that can fail first: copies of what is not packed, room for what cannot be written in place.
        let mut copies: Vec<Option<CpuBuffer>> = Vec::with_capacity(count);
        for i in 0..count {
            let buffer = self.operand(slots, i);
            copies.push(if buffer.layout.is_packed() { None } else { Some(self.packed_copy(buffer)?) });
        }
        let mut fresh: Vec<Option<CpuBuffer>> = Vec::with_capacity(count);
        for i in 0..count {
            let room = match is_gradient(i) || copies[i].is_some() || self.may_overwrite(slots, i) {
                true => None,
                false => Some(self.fresh(self.operand(slots, i).layout.ty())?),
            };
            fresh.push(room);
        }
        let ins: Vec<Src> =
            (0..count).map(|i| src(copies[i].as_ref().unwrap_or_else(|| self.operand(slots, i)))).collect();
        let mut results = Results::new();
        for i in (0..count).filter(|&i| !is_gradient(i)) {
            let result = match (fresh[i].take(), copies[i].take()) {
                (Some(room), _) => room,
                (None, Some(copy)) => copy,
                (None, None) => {
                    let slot = self.instr.ins[i].0 as usize;
                    let buffer = slots[slot].take().and_then(Result::ok).expect("looked at above");
                    let layout = Layout::packed(buffer.layout.ty());
                    CpuBuffer { layout, ..buffer }
                }
            };
            results.push(result);
        }
        let outs: Vec<Dst> = results.iter().map(dst).collect();
        let scalars: SmallVec<[f64; 6]> = self.scalars.iter().map(|s| s.as_f64()).collect();
        kernels::update(self.cx.pool, op, &scalars, &ins, &outs);
        Ok(results)
    }

    /// Whether the step may write where an operand lies: it is the operand's last reader, and its only holder.
    fn may_overwrite(&self, slots: &mut Slots, i: usize) -> bool {
        let slot = self.instr.ins[i].0 as Slot;
        // An operand that comes twice is read as well.
        let twice = self.instr.ins.iter().filter(|id| id.0 as Slot == slot).count() > 1;
        let Some(Ok(buffer)) = &mut slots[slot as usize] else { return false };
        !twice
            && self.step.takes.contains(&slot)
            && buffer.layout.offset == 0
            && buffer.storage.len_bytes() == buffer.layout.ty().bytes()
            && Arc::get_mut(&mut buffer.storage).is_some()
    }
}
