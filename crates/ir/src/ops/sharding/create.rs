//! Values from nothing: along every axis. What depends on the position is made whole and cut, so that the numbers are the
//! same however it is split.

use smallvec::smallvec;

use super::{Vals, axes};
use crate::ops::{Fill, Iota, Random, Upload};
use crate::shard::{LocalCx, Sharding, Split, Strategy};
use crate::{Emit, Op, TensorType, Val};

fn each_axis(outs: &[TensorType]) -> Vec<Strategy> {
    axes(&outs[0].shape).map(|axis| Strategy::new(&[], &[Split::shard(axis)])).collect()
}

fn whole_then_cut(op: Op, cx: &LocalCx<'_>, e: &mut dyn Emit) -> Vals {
    let whole = e.one(op, &[], cx.scalars)?;
    Ok(smallvec![cx.cut(0, whole, e)?])
}

impl Sharding for Fill {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, _: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        each_axis(outs)
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(Fill { dtype: self.dtype, shape: cx.outs[0].region.size }, vals, e)
    }
}

impl Sharding for Iota {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, _: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        each_axis(outs)
    }
    fn local(&self, cx: &LocalCx<'_>, _: &[Val], e: &mut dyn Emit) -> Vals {
        whole_then_cut(self.clone().into(), cx, e)
    }
}

impl Sharding for Random {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, _: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        each_axis(outs)
    }
    fn local(&self, cx: &LocalCx<'_>, _: &[Val], e: &mut dyn Emit) -> Vals {
        whole_then_cut(self.clone().into(), cx, e)
    }
}

impl Sharding for Upload {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, _: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        // The bytes go to one worker; what others need of them is sent on from there.
        Vec::new()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}
