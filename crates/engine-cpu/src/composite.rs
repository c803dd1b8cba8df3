//! Steps of one composite: its kernel where there is one for the dtype, its expansion otherwise.

#![allow(clippy::disallowed_macros, reason = "smallvec! lists the one to three results of an instruction")]

use std::sync::Arc;

use gt_ir::ops::Update;
use gt_ir::{DType, Failure, Op, Steps, TensorType};
use gt_plan::Slot;
use smallvec::{SmallVec, smallvec};

use crate::Layout;
use crate::buffer::CpuBuffer;
use crate::expansion;
use crate::fused::{Slots, convert};
use crate::kernels::{self, Attention, AttentionGrads, Dst, Src};
use crate::single::{Results, Single};

impl Single<'_> {
    /// The results of a composite.
    pub(crate) fn composite(&self, slots: &mut Slots) -> Result<Results, Failure> {
        let dtype = self.operand(slots, 0).layout.dtype;
        match &self.instr.op {
            Op::CrossEntropy(_) if dtype == DType::F32 => self.cross_entropy(slots),
            Op::CrossEntropyGrad(_) if dtype == DType::F32 => self.cross_entropy_grad(slots),
            Op::Attention(op) if dtype != DType::F64 => self.attention(slots, op),
            Op::AttentionGrad(op) if dtype != DType::F64 => self.attention_grad(slots, op),
            // The kernel takes one dtype; a group of several is spelled out.
            Op::Update(op)
                if matches!(dtype, DType::F32 | DType::F64)
                    && (0..self.instr.ins.len()).all(|i| self.operand(slots, i).layout.dtype == dtype) =>
            {
                self.update_tensors(slots, op)
            }
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
        let (classes, ignore) = (self.operand(slots, 1).src(), self.scalars[0].as_i64());
        kernels::cross_entropy(self.cx.pool, logits.src(), classes, loss.dst(), log.dst(), ignore)?;
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

    /// What is attended, in f32.
    fn attended(
        &self,
        slots: &Slots,
        causal: bool,
        masked: bool,
        held: &mut Vec<CpuBuffer>,
    ) -> Result<Attention, Failure> {
        let mut operand = |i: usize| -> Result<Src, Failure> {
            let wide = self.widened(self.operand(slots, i))?;
            held.push(wide);
            Ok(held[held.len() - 1].src())
        };
        let (q, k, v) = (operand(0)?, operand(1)?, operand(2)?);
        let mask = if masked { Some(operand(3)?) } else { None };
        Ok(Attention { q, k, v, mask, scale: self.scalars[0].as_f64() as f32, causal })
    }

    fn attention(&self, slots: &Slots, op: &gt_ir::ops::Attention) -> Result<Results, Failure> {
        let mut held = Vec::new();
        let attended = self.attended(slots, op.causal, op.masked, &mut held)?;
        let out = self.heads_inside(self.out_type(0))?;
        let log = self.fresh(self.out_type(1))?;
        kernels::attention(self.cx.pool, &attended, out.dst(), log.dst())?;
        Ok(smallvec![self.narrowed(out, 0)?, log])
    }

    fn attention_grad(&self, slots: &Slots, op: &gt_ir::ops::AttentionGrad) -> Result<Results, Failure> {
        let mut held = Vec::new();
        let attended = self.attended(slots, op.causal, op.masked, &mut held)?;
        let n = 3 + op.masked as usize;
        let [out, log, grad] = [n, n + 1, n + 2].map(|i| self.widened(self.operand(slots, i)));
        let (out, log, grad) = (out?, log?, grad?);
        let [q, k, v] = [0, 1, 2].map(|i| self.heads_inside(self.out_type(i)));
        let (q, k, v) = (q?, k?, v?);
        let to = AttentionGrads { q: q.dst(), k: k.dst(), v: v.dst() };
        kernels::attention_grad(self.cx.pool, &attended, out.src(), log.src(), grad.src(), to)?;
        Ok(smallvec![self.narrowed(q, 0)?, self.narrowed(k, 1)?, self.narrowed(v, 2)?])
    }

    /// Room for `[b, h, t, e]` in f32, in memory `[b, t, h, e]`: what follows an attention joins its heads.
    fn heads_inside(&self, ty: TensorType) -> Result<CpuBuffer, Failure> {
        let swap = Steps::new(&[0, 2, 1, 3]);
        let inside = Layout::packed(ty.with_dtype(DType::F32)).permute(&swap);
        let room = self.fresh(inside.ty())?;
        let layout = room.layout.permute(&swap);
        Ok(room.with_layout(layout))
    }

    /// A half operand in f32; others as they are.
    fn widened(&self, buffer: &CpuBuffer) -> Result<CpuBuffer, Failure> {
        let Some(half) = convert::half(buffer.layout.dtype) else { return Ok(buffer.clone()) };
        let packed = if buffer.layout.is_packed() { buffer.clone() } else { self.packed_copy(buffer)? };
        let wide = self.fresh(packed.layout.ty().with_dtype(DType::F32))?;
        let (n, from, to) = (packed.layout.shape.numel(), packed.first(), wide.storage.ptr());
        // SAFETY: both have `n` elements, and the result is fresh.
        unsafe { (half.widen)(n, to, from, from, from) };
        Ok(wide)
    }

    /// A result in the dtype it is to have.
    fn narrowed(&self, buffer: CpuBuffer, i: usize) -> Result<CpuBuffer, Failure> {
        let ty = self.out_type(i);
        let Some(half) = convert::half(ty.dtype) else { return Ok(buffer) };
        let narrow = self.fresh(ty)?;
        let (n, from, to) = (ty.numel(), buffer.storage.ptr(), narrow.storage.ptr());
        // SAFETY: both have `n` elements, in the same order, and the result is fresh.
        unsafe { (half.narrow)(n, to, from, from, from) };
        Ok(narrow.with_layout(Layout { dtype: ty.dtype, ..*buffer.layout }))
    }

    /// Updates parameters and states where they lie when nobody else holds them (SINGLE-1).
    fn update_tensors(&self, slots: &mut Slots, op: &Update) -> Result<Results, Failure> {
        let count = self.instr.ins.len();
        let n = op.tensors(count).unwrap_or(0);
        let is_gradient = |i: usize| (n..2 * n).contains(&i);
        // Everything that can fail first: copies of what is not packed, room for what cannot be written in place.
        let mut copies: Vec<Option<CpuBuffer>> = Vec::new();
        for i in 0..count {
            let buffer = self.operand(slots, i);
            copies.push(if buffer.layout.is_packed() { None } else { Some(self.packed_copy(buffer)?) });
        }
        let mut fresh: Vec<Option<CpuBuffer>> = Vec::new();
        for (i, copy) in copies.iter().enumerate() {
            let room = match is_gradient(i) || copy.is_some() || self.may_overwrite(slots, i) {
                true => None,
                false => Some(self.fresh(self.operand(slots, i).layout.ty())?),
            };
            fresh.push(room);
        }
        let ins: Vec<Src> =
            (0..count).map(|i| copies[i].as_ref().unwrap_or_else(|| self.operand(slots, i)).src()).collect();
        let mut results = Results::new();
        for i in (0..count).filter(|&i| !is_gradient(i)) {
            let result = match (fresh[i].take(), copies[i].take()) {
                (Some(room), _) => room,
                (None, Some(copy)) => copy,
                (None, None) => {
                    let slot = self.instr.ins[i].0 as usize;
                    let buffer = slots[slot].take().and_then(Result::ok).expect("looked at above");
                    let layout = Layout::packed(buffer.layout.ty());
                    buffer.with_layout(layout)
                }
            };
            results.push(result);
        }
        let outs: Vec<Dst> = results.iter().map(CpuBuffer::dst).collect();
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
