//! Every gradient rule against finite differences, with nothing but what it saved.
//!
//! GRAD-1: a rule sees of the forward pass only what `saves` asked for; anything else is an error here.
//! GRAD-2: in float64 a gradient equals the central difference of the reference; in other dtypes it is near the
//! float64 one.

use gt_ir::ops::{Binary, Reduce, ReduceKind, Scan, ScanKind, Side, Unary};
use gt_ir::rows::{BinaryKind, UnaryKind};
use gt_ir::{AxisSet, DType, Domain, GradCx, HostTensor, Op, OpError, OpKind, Sample, Scalar, TensorType, Val};

use super::values::{SplitMix, make_input, make_values};
use crate::eager::Eager;
use crate::numbers;
use crate::reference::evaluate;

/// One differentiation: an op on values, and the gradients of its outputs.
struct Case<'a> {
    op: &'a Op,
    ins: Vec<HostTensor>,
    scalars: &'a [Scalar],
    cotangents: Vec<Option<HostTensor>>,
}

impl<'a> Case<'a> {
    /// With random gradients for the float outputs.
    fn new(op: &'a Op, ins: Vec<HostTensor>, scalars: &'a [Scalar], random: &mut SplitMix) -> Self {
        let mut case = Case { op, ins, scalars, cotangents: Vec::new() };
        case.cotangents =
            case.outs().iter().map(|t| t.ty.dtype.is_float().then(|| make_values(t.ty, Domain::Any, random))).collect();
        case
    }

    fn outs(&self) -> Vec<HostTensor> {
        evaluate(self.op, &self.ins.iter().collect::<Vec<_>>(), self.scalars, None).expect("samples run")
    }

    /// Bit `i`: input `i` is a float.
    fn float_inputs(&self) -> u64 {
        self.ins.iter().enumerate().filter(|(_, t)| t.ty.dtype.is_float()).fold(0, |m, (i, _)| m | 1 << i)
    }

    /// What the rule gives for the inputs in `needs`.
    fn gradients(&self, needs: u64, cotangents: &[Option<HostTensor>]) -> Result<Vec<Option<HostTensor>>, OpError> {
        let outs = self.outs();
        let saves = self.op.primitive().saves(needs);
        let mut eager = Eager::new();
        let mut keep = |tensors: &[HostTensor], mask: u64| -> Vec<Option<Val>> {
            tensors
                .iter()
                .enumerate()
                .map(|(i, t)| (mask >> i.min(63) & 1 != 0).then(|| eager.put(t.clone())))
                .collect()
        };
        let (saved_ins, saved_outs) = (keep(&self.ins, saves.ins), keep(&outs, saves.outs));
        let grads: Vec<Option<Val>> = cotangents.iter().map(|c| c.as_ref().map(|c| eager.put(c.clone()))).collect();
        let cx = GradCx {
            ins: &self.ins.iter().map(|t| t.ty).collect::<Vec<_>>(),
            outs: &outs.iter().map(|t| t.ty).collect::<Vec<_>>(),
            scalars: self.scalars,
            grads: &grads,
            saved_ins: &saved_ins,
            saved_outs: &saved_outs,
            needs,
        };
        let found = self.op.primitive().grad(&cx, &mut eager)?;
        Ok(found.into_iter().map(|v| v.map(|v| eager.get(v).clone())).collect())
    }

    /// The number whose gradient is checked: outputs weighted with the cotangents.
    fn loss(&self, ins: &[HostTensor]) -> f64 {
        let outs = evaluate(self.op, &ins.iter().collect::<Vec<_>>(), self.scalars, None).expect("samples run");
        let weighted = |(out, cotangent): (&HostTensor, &Option<HostTensor>)| match cotangent {
            Some(c) => numbers::floats(out).iter().zip(numbers::floats(c)).map(|(x, w)| x * w).sum(),
            None => 0.0,
        };
        outs.iter().zip(&self.cotangents).map(weighted).sum()
    }

    /// The slope of the loss when input `i` moves along `direction`.
    fn slope(&self, i: usize, direction: &[f64]) -> f64 {
        const H: f64 = 1e-6;
        let base = numbers::floats(&self.ins[i]);
        let moved = |h: f64| {
            let mut ins = self.ins.clone();
            ins[i] = numbers::from_floats(
                self.ins[i].ty,
                &base.iter().zip(direction).map(|(x, d)| x + h * d).collect::<Vec<_>>(),
            );
            self.loss(&ins)
        };
        (moved(H) - moved(-H)) / (2.0 * H)
    }
}

/// Checks the gradient rule of every op on every sample. It runs on no engine: a gradient is a composition of ops.
///
/// # Panics
/// On the first wrong gradient, naming op, sample, input and element.
pub fn check_gradients() {
    // Those without a rule are differentiated through their expansion, whose ops are all here.
    let without_rule =
        |kind: &OpKind| kind.samples(DType::F64).iter().any(|s| s.op.composite().is_some_and(|c| !c.has_grad()));
    for &kind in OpKind::ALL.iter().filter(|kind| !without_rule(kind)) {
        for (number, sample) in kind.samples(DType::F64).iter().enumerate() {
            let title = format!("gradient of {} sample {number} in f64: {sample:?}", sample.op.display_name());
            let mut random = SplitMix::new(number as u64 * 31 + 7);
            let ins: Vec<HostTensor> = sample.ins.iter().map(|i| make_input(i, &mut random)).collect();
            let case = Case::new(&sample.op, ins, &sample.scalars, &mut random);
            check_case(&case, &mut random, &title);
        }
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            // A row may take float64 and not this dtype, which then has fewer samples.
            let narrowed = |ty: TensorType| if ty.dtype.is_float() { ty.with_dtype(dtype) } else { ty };
            let takes = |sample: &Sample| {
                let types: Vec<TensorType> = sample.ins.iter().map(|input| narrowed(input.ty)).collect();
                sample.op.primitive().infer(&types).is_ok()
            };
            let wide: Vec<Sample> = kind.samples(DType::F64).into_iter().filter(takes).collect();
            for (number, (narrow, wide)) in kind.samples(dtype).iter().zip(&wide).enumerate() {
                let title = format!("gradient of {} sample {number} in {dtype}: {narrow:?}", narrow.op.display_name());
                check_narrow(narrow, wide, number as u64, &title);
            }
        }
    }
    check_edges();
}

fn check_case(case: &Case<'_>, random: &mut SplitMix, title: &str) {
    let none: Vec<Option<HostTensor>> = vec![None; case.cotangents.len()];
    let all = case.float_inputs();
    let full = case.gradients(all, &case.cotangents).unwrap_or_else(|e| panic!("{title}: {e}"));
    assert_eq!(full.len(), case.ins.len(), "{title}: one gradient per input");
    // Asked for less, a rule may save less and gives the same for what it was asked.
    for needs in (1..=all).filter(|n| n & !all == 0) {
        let some =
            case.gradients(needs, &case.cotangents).unwrap_or_else(|e| panic!("{title}, needing {needs:b}: {e}"));
        for i in (0..case.ins.len()).filter(|i| needs >> i & 1 != 0) {
            assert_eq!(some[i], full[i], "{title}: input {i}'s gradient depends on what else is needed ({needs:b})");
        }
        let zero = case.gradients(needs, &none).unwrap_or_else(|e| panic!("{title}, of nothing: {e}"));
        assert!(zero.iter().all(Option::is_none), "{title}: a gradient where none came in");
    }
    for (i, (gradient, x)) in full.iter().zip(&case.ins).enumerate() {
        if !x.ty.dtype.is_float() {
            assert!(gradient.is_none(), "{title}: input {i} is {}, which has no gradient", x.ty);
            continue;
        }
        if let Some(gradient) = gradient {
            assert_eq!(gradient.ty, x.ty, "{title}: the gradient of input {i} has its type");
        }
        let quantised = case.outs().iter().any(|t| t.ty.dtype.is_float() && t.ty.dtype != DType::F64);
        if quantised {
            continue;
        }
        let values = gradient.as_ref().map_or_else(|| vec![0.0; x.ty.numel()], numbers::floats);
        check_slopes(case, i, &values, random, title);
    }
}

/// Single elements (some of them, if there are many) and random directions, which reach all of them.
fn check_slopes(case: &Case<'_>, i: usize, gradient: &[f64], random: &mut SplitMix, title: &str) {
    let count = gradient.len();
    let mut directions: Vec<(String, Vec<f64>)> = Vec::new();
    let stride = (count / 24).max(1);
    for at in (0..count).step_by(stride) {
        let mut direction = vec![0.0; count];
        direction[at] = 1.0;
        directions.push((format!("element {at}"), direction));
    }
    for _ in 0..2 {
        directions.push(("a random direction".into(), (0..count).map(|_| random.between(-1.0, 1.0)).collect()));
    }
    for (name, direction) in directions {
        let found: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
        let size: f64 = gradient.iter().zip(&direction).map(|(g, d)| (g * d).abs()).sum();
        let want = case.slope(i, &direction);
        let near = (found - want).abs() <= 2e-6 * (1.0 + size);
        assert!(near, "{title}: input {i}, {name}: the rule gives {found}, the difference {want}");
    }
}

fn check_narrow(narrow: &Sample, wide: &Sample, seed: u64, title: &str) {
    let mut random = SplitMix::new(seed * 31 + 7);
    let ins: Vec<HostTensor> = narrow.ins.iter().map(|i| make_input(i, &mut random)).collect();
    let widened = |t: &HostTensor, ty: TensorType| {
        if t.ty.dtype.is_float() { numbers::from_floats(ty, &numbers::floats(t)) } else { t.clone() }
    };
    let wide_ins: Vec<HostTensor> = ins.iter().zip(&wide.ins).map(|(t, i)| widened(t, i.ty)).collect();
    let case = Case::new(&narrow.op, ins, &narrow.scalars, &mut random);
    let mut exact = Case { op: &wide.op, ins: wide_ins, scalars: &wide.scalars, cotangents: Vec::new() };
    exact.cotangents =
        case.cotangents.iter().zip(exact.outs()).map(|(c, out)| c.as_ref().map(|c| widened(c, out.ty))).collect();
    let needs = case.float_inputs();
    let have = case.gradients(needs, &case.cotangents).unwrap_or_else(|e| panic!("{title}: {e}"));
    let want = exact.gradients(needs, &exact.cotangents).unwrap_or_else(|e| panic!("{title}, in f64: {e}"));
    for (i, pair) in have.iter().zip(&want).enumerate() {
        let (have, want) = match pair {
            (None, None) => continue,
            (Some(have), Some(want)) => (have, want),
            _ => panic!("{title}: input {i} has a gradient in one dtype only"),
        };
        assert_eq!(have.ty, case.ins[i].ty, "{title}: the gradient of input {i} has its type");
        let tolerance = match have.ty.dtype {
            DType::F32 => 2e-5,
            DType::F16 => 2e-2,
            _ => 1.5e-1,
        };
        let want = numbers::floats(want);
        let largest = want.iter().fold(1f64, |m, v| m.max(v.abs()));
        for (at, (x, y)) in numbers::floats(have).iter().zip(&want).enumerate() {
            let near = (x - y).abs() <= tolerance * largest || (x.is_nan() && y.is_nan());
            assert!(near, "{title}: input {i}, element {at}: {x} instead of {y}");
        }
    }
}

/// What random inputs do not meet: zeros among factors, ties, powers of and to zero.
fn check_edges() {
    let mut random = SplitMix::new(99);
    let tensor = |values: &[f64], shape: &[usize]| numbers::from_floats(TensorType::new(DType::F64, shape), values);
    let products: [(&str, Op); 4] = [
        ("prod", Reduce { kind: ReduceKind::Prod, axes: AxisSet::of(&[1]), keepdim: false }.into()),
        ("prod of all", Reduce { kind: ReduceKind::Prod, axes: AxisSet::of(&[0, 1]), keepdim: true }.into()),
        ("cumprod", Scan { kind: ScanKind::Prod, axis: 1, reverse: false }.into()),
        ("cumprod from the end", Scan { kind: ScanKind::Prod, axis: 1, reverse: true }.into()),
    ];
    for (name, op) in &products {
        for factors in [[2.0, 0.0, 3.0, -1.5, 0.5, 4.0], [0.0, 2.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0, 2.0, 0.0]]
        {
            let case = Case::new(op, vec![tensor(&factors, &[2, 3])], &[], &mut random);
            check_case(&case, &mut random, &format!("gradient of {name} over zeros {factors:?}"));
        }
    }
    let known = |op: Op, ins: Vec<HostTensor>, scalars: &[Scalar], want: &[&[f64]]| {
        let mut case = Case { op: &op, ins, scalars, cotangents: Vec::new() };
        case.cotangents =
            case.outs().iter().map(|t| Some(numbers::from_floats(t.ty, &vec![1.0; t.ty.numel()]))).collect();
        let found = case
            .gradients(case.float_inputs(), &case.cotangents)
            .unwrap_or_else(|e| panic!("{}: {e}", op.display_name()));
        for (i, want) in want.iter().enumerate() {
            let have = numbers::floats(found[i].as_ref().expect("a float input has a gradient"));
            assert_eq!(have, *want, "gradient of {} at an edge, input {i}", op.display_name());
        }
    };
    let binary = |kind, scalar| Op::from(Binary { kind, scalar });
    let line = |values: &[f64]| tensor(values, &[values.len()]);
    for (kind, sign) in [(ReduceKind::Max, 1.0), (ReduceKind::Min, -1.0)] {
        let x = line(&[sign, 3.0 * sign, 3.0 * sign, 0.0]);
        known(Reduce { kind, axes: AxisSet::of(&[0]), keepdim: false }.into(), vec![x], &[], &[&[0.0, 0.5, 0.5, 0.0]]);
    }
    for kind in [BinaryKind::Max, BinaryKind::Min] {
        known(binary(kind, Side::None), vec![line(&[2.0]), line(&[2.0])], &[], &[&[0.5], &[0.5]]);
    }
    known(Unary { kind: UnaryKind::Abs }.into(), vec![line(&[0.0, -2.0])], &[], &[&[0.0, -1.0]]);
    known(Unary { kind: UnaryKind::Relu }.into(), vec![line(&[0.0, -2.0, 2.0])], &[], &[&[0.0, 0.0, 1.0]]);
    known(binary(BinaryKind::Pow, Side::Right), vec![line(&[0.0, -3.0])], &[2.into()], &[&[0.0, -6.0]]);
    known(binary(BinaryKind::Pow, Side::Right), vec![line(&[0.0, 5.0])], &[0.into()], &[&[0.0, 0.0]]);
    known(binary(BinaryKind::Pow, Side::Right), vec![line(&[0.0, 5.0])], &[1.into()], &[&[1.0, 1.0]]);
    known(binary(BinaryKind::Pow, Side::Left), vec![line(&[0.0, 2.0])], &[0.into()], &[&[0.0, 0.0]]);
    known(binary(BinaryKind::Pow, Side::None), vec![line(&[0.0, 2.0]), line(&[0.0, 0.0])], &[], &[&[0.0, 0.0]]);
    known(binary(BinaryKind::Pow, Side::None), vec![line(&[0.0]), line(&[2.0])], &[], &[&[0.0], &[0.0]]);
    // An index that names nothing, of another rank than what it points into.
    let empty = numbers::from_ints(TensorType::new(DType::I64, &[0]), &[]);
    let scatter = gt_ir::ops::Scatter { axis: 0, mode: gt_ir::ops::PutMode::Set };
    let square = tensor(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let op = Op::from(scatter);
    let case = Case::new(&op, vec![square.clone(), empty, square], &[], &mut random);
    check_case(&case, &mut random, "gradient of scatter with an empty index");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A check that cannot fail would prove nothing.
    #[test]
    fn a_wrong_gradient_is_noticed() {
        let op = Op::from(Unary { kind: UnaryKind::Sin });
        let mut random = SplitMix::new(1);
        let x = make_values(TensorType::new(DType::F64, &[1037]), Domain::Any, &mut random);
        let case = Case::new(&op, vec![x], &[], &mut random);
        let found = case.gradients(1, &case.cotangents).expect("sin has a gradient");
        let mut gradient = numbers::floats(found[0].as_ref().expect("of its input"));
        check_slopes(&case, 0, &gradient, &mut random, "right");
        // An element that the single-element checks do not visit.
        gradient[5] += 1e-3;
        let wrong = std::panic::catch_unwind(move || check_slopes(&case, 0, &gradient, &mut SplitMix::new(2), "wrong"));
        assert!(wrong.is_err());
    }

    #[test]
    fn a_value_that_was_not_saved_is_noticed() {
        let op = Op::from(Unary { kind: UnaryKind::Sin });
        let ty = TensorType::new(DType::F64, &[2]);
        let mut eager = Eager::new();
        let g = eager.put(numbers::from_floats(ty, &[1.0, 1.0]));
        let cx = GradCx {
            ins: &[ty],
            outs: &[ty],
            scalars: &[],
            grads: &[Some(g)],
            saved_ins: &[None],
            saved_outs: &[None],
            needs: 1,
        };
        assert!(op.primitive().grad(&cx, &mut eager).is_err());
    }
}
