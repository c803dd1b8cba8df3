//! Many elements to one, or along an axis: reductions, scans, sorts, products of matrices.

use std::cmp::Ordering;

use gt_ir::ops::{ArgKind, ArgReduce, Reduce, ReduceKind, Scan, ScanKind, Sort};
use gt_ir::{DType, HostTensor, Shape, Steps, TensorType};

use super::movement::{around, broadcast_strides, offsets, read_at};
use crate::numbers::{self, Numbers};

/// The elements of each output, in row-major order over the reduced axes.
fn groups<T: Copy>(values: &[T], shape: &Shape, op: &Reduce, count: usize) -> Vec<Vec<T>> {
    let packed = op.axes.flatten_in(shape).contiguous_strides();
    let strides: Steps = (0..shape.rank()).map(|a| if op.axes.contains(a) { 0 } else { packed[a] }).collect();
    let mut out = vec![Vec::new(); count];
    for (&value, group) in values.iter().zip(offsets(shape, &strides, 0)) {
        out[group].push(value);
    }
    out
}

pub(super) fn reduce(op: &Reduce, x: &HostTensor, ty: TensorType) -> HostTensor {
    match Numbers::of(x) {
        Numbers::Floats(v) => {
            let all = groups(&v, &x.ty.shape, op, ty.numel());
            let out: Vec<f64> = all.iter().map(|group| reduce_floats(op.kind, group)).collect();
            numbers::from_floats(ty, &out)
        }
        Numbers::Ints(v) => {
            let all = groups(&v, &x.ty.shape, op, ty.numel());
            let out: Vec<i64> = all.iter().map(|group| reduce_ints(op.kind, group)).collect();
            numbers::from_ints(ty, &out)
        }
    }
}

fn reduce_floats(kind: ReduceKind, values: &[f64]) -> f64 {
    let extreme = |wins: fn(f64, f64) -> bool| {
        values[1..]
            .iter()
            .fold(values[0], |best, &v| if best.is_nan() || !(v.is_nan() || wins(v, best)) { best } else { v })
    };
    match kind {
        ReduceKind::Sum => values.chunks(Reduce::BLOCK).fold(0.0, |total, block| total + block_sum(block)),
        ReduceKind::Prod => values.iter().product(),
        ReduceKind::Max => extreme(|v, best| v > best),
        ReduceKind::Min => extreme(|v, best| v < best),
    }
}

/// REDUCE-1 inside a block.
fn block_sum(block: &[f64]) -> f64 {
    let mut lanes = [0.0; Reduce::LANES];
    for (k, v) in block.iter().enumerate() {
        lanes[k % Reduce::LANES] += v;
    }
    let mut width = Reduce::LANES / 2;
    while width > 0 {
        for k in 0..width {
            lanes[k] += lanes[k + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Empty groups reach the extremes only as bool: none is any of no elements, all of them are.
fn reduce_ints(kind: ReduceKind, values: &[i64]) -> i64 {
    match kind {
        ReduceKind::Sum => values.iter().fold(0, |a, &v| a.wrapping_add(v)),
        ReduceKind::Prod => values.iter().fold(1, |a, &v| a.wrapping_mul(v)),
        ReduceKind::Max => values.iter().copied().max().unwrap_or(0),
        ReduceKind::Min => values.iter().copied().min().unwrap_or(1),
    }
}

/// The elements of every line along `axis`, as positions: line by line.
fn lines(shape: &Shape, axis: usize) -> Vec<Vec<usize>> {
    if shape.numel() == 0 {
        return Vec::new();
    }
    let (before, along, after) = around(shape, axis);
    let line = |row: usize, column: usize| (0..along).map(|k| (row * along + k) * after + column).collect();
    (0..before).flat_map(|row| (0..after).map(move |column| (row, column))).map(|(r, c)| line(r, c)).collect()
}

/// The order of sorting: a NaN is larger than every number, zeros are equal.
fn rank(values: &Numbers, a: usize, b: usize) -> Ordering {
    match values {
        Numbers::Ints(v) => v[a].cmp(&v[b]),
        Numbers::Floats(v) => v[a].partial_cmp(&v[b]).unwrap_or_else(|| v[a].is_nan().cmp(&v[b].is_nan())),
    }
}

pub(super) fn arg_reduce(op: &ArgReduce, x: &HostTensor, ty: TensorType) -> HostTensor {
    let values = Numbers::of(x);
    let is_nan = |i: usize| matches!(&values, Numbers::Floats(v) if v[i].is_nan());
    let position = |line: Vec<usize>| {
        let better = |v: usize, best: usize| match (op.kind, is_nan(best), is_nan(v)) {
            (_, true, _) => false,
            (_, _, true) => true,
            (ArgKind::Max, _, _) => rank(&values, v, best) == Ordering::Greater,
            (ArgKind::Min, _, _) => rank(&values, v, best) == Ordering::Less,
        };
        (1..line.len()).fold(0, |best, k| if better(line[k], line[best]) { k } else { best }) as i64
    };
    let out: Vec<i64> = lines(&x.ty.shape, op.axis as usize).into_iter().map(position).collect();
    numbers::from_ints(ty, &out)
}

pub(super) fn scan(op: &Scan, x: &HostTensor) -> HostTensor {
    let along = lines(&x.ty.shape, op.axis as usize).into_iter().map(|mut line| {
        if op.reverse {
            line.reverse();
        }
        line
    });
    match Numbers::of(x) {
        Numbers::Floats(mut v) => {
            for pair in along.flat_map(pairs) {
                v[pair.1] = match op.kind {
                    ScanKind::Sum => v[pair.0] + v[pair.1],
                    ScanKind::Prod => v[pair.0] * v[pair.1],
                };
            }
            numbers::from_floats(x.ty, &v)
        }
        Numbers::Ints(mut v) => {
            for pair in along.flat_map(pairs) {
                v[pair.1] = match op.kind {
                    ScanKind::Sum => v[pair.0].wrapping_add(v[pair.1]),
                    ScanKind::Prod => v[pair.0].wrapping_mul(v[pair.1]),
                };
            }
            numbers::from_ints(x.ty, &v)
        }
    }
}

/// Each position with the one before it.
fn pairs(line: Vec<usize>) -> Vec<(usize, usize)> {
    line.windows(2).map(|w| (w[0], w[1])).collect()
}

pub(super) fn sort(op: &Sort, x: &HostTensor) -> Vec<HostTensor> {
    let values = Numbers::of(x);
    let mut source = vec![0; x.ty.numel()];
    let mut order = vec![0; x.ty.numel()];
    for line in lines(&x.ty.shape, op.axis as usize) {
        let mut by_rank: Vec<usize> = (0..line.len()).collect();
        by_rank.sort_by(|&a, &b| {
            let ascending = rank(&values, line[a], line[b]);
            if op.descending { ascending.reverse() } else { ascending }
        });
        for (k, &from) in by_rank.iter().enumerate() {
            source[line[k]] = line[from];
            order[line[k]] = from as i64;
        }
    }
    vec![read_at(x, &source, x.ty), numbers::from_ints(x.ty.with_dtype(DType::I64), &order)]
}

pub(super) fn matmul(a: &HostTensor, b: &HostTensor, ty: TensorType) -> HostTensor {
    let (rank_a, rank_b, rank) = (a.ty.shape.rank(), b.ty.shape.rank(), ty.shape.rank());
    let (m, n) = (ty.shape[rank - 2], ty.shape[rank - 1]);
    let k = a.ty.shape[rank_a - 1];
    let batch = ty.shape.leading(rank - 2);
    // Which matrix of each operand a batch element reads.
    let matrices = |shape: &Shape, rank: usize| {
        let own = shape.leading(rank - 2);
        offsets(&batch, &broadcast_strides(&own, &batch), 0)
    };
    let pairs = matrices(&a.ty.shape, rank_a).into_iter().zip(matrices(&b.ty.shape, rank_b));
    let cells =
        pairs.flat_map(|(x, y)| (0..m).flat_map(move |i| (0..n).map(move |j| (x * m * k + i * k, y * k * n + j))));
    match (Numbers::of(a), Numbers::of(b)) {
        (Numbers::Floats(a), Numbers::Floats(b)) => {
            let out: Vec<f64> = cells.map(|(x, y)| (0..k).fold(0.0, |sum, l| sum + a[x + l] * b[y + l * n])).collect();
            numbers::from_floats(ty, &out)
        }
        (Numbers::Ints(a), Numbers::Ints(b)) => {
            let dot = |(x, y): (usize, usize)| {
                (0..k).fold(0i64, |sum, l| sum.wrapping_add(a[x + l].wrapping_mul(b[y + l * n])))
            };
            let out: Vec<i64> = cells.map(dot).collect();
            numbers::from_ints(ty, &out)
        }
        _ => unreachable!("infer demands one dtype"),
    }
}
