//! Operands whose elements come again after so many positions (FUSED-1): a bias, a row of weights, a table of positions. The
//! bits of the reference engine, whatever the period is to a tile.

mod recorded;

use std::collections::BTreeMap;

use gt_engine::Value;
use gt_engine_check::conformance::{SplitMix, make_values};
use gt_engine_check::evaluate;
use gt_ir::ops::*;
use gt_ir::rows::BinaryKind;
use gt_ir::{AxisSet, DType, Domain, HostTensor, TensorId, TensorType};
use recorded::{FUSED, Placed, Recorded, difference, engine, place};

const fn binary(kind: BinaryKind) -> Binary {
    Binary { kind, scalar: Side::None }
}

/// Runs a window on one thread and on two, its inputs lying anyhow, and holds it to the reference engine.
fn check(r: &Recorded, kept: &[TensorId], random: &mut SplitMix) {
    let inputs: Vec<HostTensor> = r.inputs.iter().map(|id| make_values(r.ty(*id), Domain::Positive, random)).collect();
    let mut want: BTreeMap<TensorId, HostTensor> = r.inputs.iter().copied().zip(inputs.iter().cloned()).collect();
    for instr in &r.window.instrs {
        let ins: Vec<&HostTensor> = instr.ins.iter().map(|id| &want[id]).collect();
        let outs = evaluate(&instr.op, &ins, &instr.scalars, None).expect("nothing here fails");
        want.extend(instr.outs.iter().copied().zip(outs));
    }
    for threads in [1, 2] {
        let mut engine = engine(threads);
        let placed: Vec<Placed> = inputs.iter().map(|_| *random.pick(&Placed::ALL)).collect();
        let buffers: Vec<Value<_>> =
            inputs.iter().zip(&placed).map(|(tensor, &placed)| Ok(place(&mut engine, tensor, placed))).collect();
        let ran = r.plan(FUSED).run(&mut engine, buffers);
        for id in kept {
            let title = || format!("{:?} {placed:?}", inputs.iter().map(|i| i.ty).collect::<Vec<_>>());
            assert_eq!(difference(&ran.read(*id), &want[id]), None, "{}", title());
        }
    }
}

/// Extents of a value, and of what is broadcast to it.
const BROADCASTS: [(&[usize], &[usize]); 12] = [
    (&[300, 16], &[16]),
    (&[8, 64, 16], &[64, 16]),
    (&[9, 128, 32], &[128, 32]),
    (&[5, 2048], &[2048]),
    (&[7, 1536], &[1536]),
    (&[100, 24], &[24]),
    (&[2000, 7], &[7]),
    (&[3, 1025], &[1025]),
    (&[6, 5, 8, 32], &[8, 32]),
    (&[6, 5, 8, 32], &[5, 1, 32]),
    (&[4, 512, 2], &[512, 1]),
    (&[0, 16], &[16]),
];

#[test]
fn elementwise_loops_read_what_comes_again() {
    let mut random = SplitMix::new(21);
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::U8] {
        for (dims, narrow) in BROADCASTS {
            let mut r = Recorded::default();
            let (x, table) = (r.input(TensorType::new(dtype, dims)), r.input(TensorType::new(dtype, narrow)));
            let scaled = r.one(binary(BinaryKind::Mul), &[x, table], &[]);
            let out = r.one(binary(BinaryKind::Add), &[table, scaled], &[]);
            r.keep(&[out]);
            check(&r, &[out], &mut random);
        }
    }
}

#[test]
fn loops_over_rows_read_what_comes_again() {
    let mut random = SplitMix::new(22);
    for dtype in [DType::F32, DType::BF16, DType::I32] {
        for (dims, narrow) in BROADCASTS.into_iter().filter(|(dims, _)| dims[0] > 0) {
            let mut r = Recorded::default();
            let (x, table) = (r.input(TensorType::new(dtype, dims)), r.input(TensorType::new(dtype, narrow)));
            // Of rows, as they repeat along the axis before them.
            let mut by_row = dims.to_vec();
            (by_row[0], by_row[dims.len() - 1]) = (1, 1);
            let shift = r.input(TensorType::new(dtype, &by_row));
            let axes = AxisSet::of(&[dims.len() - 1]);
            let top = r.one(Reduce { kind: ReduceKind::Max, axes, keepdim: true }, &[x], &[]);
            let top = r.one(binary(BinaryKind::Add), &[top, shift], &[]);
            let less = r.one(binary(BinaryKind::Sub), &[top, x], &[]);
            let out = r.one(binary(BinaryKind::Mul), &[less, table], &[]);
            r.keep(&[out, top]);
            check(&r, &[out, top], &mut random);
        }
    }
}
