//! What plans promise beyond arithmetic: poison, writes, order, and that nobody's value changes under them.

use std::sync::Arc;

use gt_ir::ops::{
    Binary, Check, Complaint, Gather, Matmul, Put, PutMode, Scatter, Side, Slice, Take, Unary, UpdateSlice, Write,
};
use gt_ir::rows::{BinaryKind, UnaryKind};
use gt_ir::{Bytes, DType, Failure, FailureKind, HostTensor, Op, Scalar, Shape, SiteId, Steps, TensorType};
use gt_plan::Slot;

use super::plans::{Grouping, PlanBuilder, prepared, run_plan, start, upload};
use crate::numbers;
use gt_engine::{Buffer, Engine};

const DOUBLE: Binary = Binary { kind: BinaryKind::Mul, scalar: Side::Right };

/// Runs every check, each on a fresh engine.
///
/// # Panics
/// On the first that fails, with what was expected.
pub fn semantics<E: Engine>(make: &impl Fn() -> E) {
    failures_poison_their_dependents_only(&mut make());
    indices_are_checked_before_anything_is_written(&mut make());
    a_check_passes_its_input_or_fails(&mut make());
    slice_starts_are_checked(&mut make());
    uploads_are_checked(&mut make());
    poison_in_a_fused_step_reaches_only_what_reads_it(&mut make());
    writes_are_all_or_nothing(&mut make());
    a_failed_step_leaves_the_old_value_it_was_given(&mut make());
    an_input_may_be_used_twice(&mut make());
    scalars_come_with_the_run(&mut make());
    runs_are_done_in_order(&mut make());
    memory_is_given_back(&mut make());
}

fn floats(values: &[f64]) -> HostTensor {
    numbers::from_floats(TensorType::new(DType::F32, &[values.len()]), values)
}

fn indices(values: &[i64]) -> HostTensor {
    numbers::from_ints(TensorType::new(DType::I64, &[values.len()]), values)
}

fn types(tensors: &[HostTensor]) -> Vec<TensorType> {
    tensors.iter().map(|t| t.ty).collect()
}

fn failures_poison_their_dependents_only<E: Engine>(engine: &mut E) {
    let inputs = [floats(&[1.0, 2.0, 3.0, 4.0, 5.0]), indices(&[0, 7])];
    let mut b = PlanBuilder::new(&types(&inputs));
    let good = b.one(DOUBLE, &[0], &[2.into()]);
    let bad = b.one(Take { axis: 0, wrap: false }, &[0, 1], &[]);
    let after = b.one(Unary { kind: UnaryKind::Neg }, &[bad], &[]);
    let later = b.one(Unary { kind: UnaryKind::Neg }, &[good], &[]);
    for grouping in [Grouping::Fused, Grouping::OneByOne] {
        let buffers = upload(engine, &inputs).into_iter().map(Ok).collect();
        let outcome = run_plan(engine, &b.finish(&[good, bad, after, later], grouping), buffers);
        assert_eq!(numbers::floats(&outcome.read(later)), [-2.0, -4.0, -6.0, -8.0, -10.0]);
        let failure = outcome.failure(bad);
        assert_eq!(failure.kind, FailureKind::Index, "{failure}");
        assert_eq!(failure.message, "index 7 is out of bounds for dimension 0 with size 5");
        assert_eq!(
            (failure.op.as_str(), &failure.ins),
            ("take", &types(&inputs)),
            "the failure names its op and shapes"
        );
        assert_eq!(failure.site, SiteId(101), "the failure names the line of the run, not of the plan");
        assert_eq!(outcome.failure(after), failure, "a dependent carries the original failure");
        assert!(outcome.skipped.is_empty());
    }
    // Poison that comes in with the run.
    let poison = Arc::new(Failure::new(FailureKind::Value, "from before"));
    let index = upload(engine, &inputs[1..]).remove(0);
    let outcome =
        run_plan(engine, &b.finish(&[good, bad, after, later], Grouping::Fused), vec![Err(poison.clone()), Ok(index)]);
    for slot in [good, bad, after, later] {
        assert_eq!(outcome.failure(slot), poison);
    }
}

fn indices_are_checked_before_anything_is_written<E: Engine>(engine: &mut E) {
    let matrix = numbers::from_floats(TensorType::new(DType::F32, &[2, 3]), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let rows = numbers::from_floats(TensorType::new(DType::F32, &[2, 3]), &[9.0; 6]);
    let cases: [(Op, HostTensor, &str); 5] = [
        (
            Take { axis: 1, wrap: false }.into(),
            indices(&[0, -1]),
            "index -1 is out of bounds for dimension 1 with size 3",
        ),
        (
            Put { axis: 0, mode: PutMode::Set, wrap: false }.into(),
            indices(&[0, 2]),
            "index 2 is out of bounds for dimension 0 with size 2",
        ),
        (
            Put { axis: 0, mode: PutMode::Add, wrap: false }.into(),
            indices(&[1, i64::MAX]),
            "index 9223372036854775807 is out of bounds for dimension 0 with size 2",
        ),
        (
            Gather { axis: 0 }.into(),
            numbers::from_ints(TensorType::new(DType::I64, &[1, 2]), &[1, 5]),
            "index 5 is out of bounds for dimension 0 with size 2",
        ),
        (
            Scatter { axis: 1, mode: PutMode::Set }.into(),
            numbers::from_ints(TensorType::new(DType::I64, &[2, 2]), &[0, 1, 2, i64::MIN]),
            "index -9223372036854775808 is out of bounds for dimension 1 with size 3",
        ),
    ];
    for (op, index, message) in cases {
        let writes = matches!(op, Op::Put(_) | Op::Scatter(_));
        let mut inputs = vec![matrix.clone(), index];
        inputs.extend(writes.then(|| rows.clone()));
        let mut b = PlanBuilder::new(&types(&inputs));
        let slots: Vec<Slot> = (0..inputs.len() as Slot).collect();
        let out = b.one(op.clone(), &slots, &[]);
        let buffers = upload(engine, &inputs);
        let held = buffers[0].clone();
        let outcome = run_plan(engine, &b.finish(&[out], Grouping::Fused), buffers.into_iter().map(Ok).collect());
        let failure = outcome.failure(out);
        let kind = match &op {
            Op::Gather(_) | Op::Scatter(_) => FailureKind::Domain,
            Op::Put(put) => Put::out_of_range(put.mode, put.wrap, 2),
            _ => FailureKind::Index,
        };
        assert_eq!((failure.kind, failure.message.as_str()), (kind, message), "{}", op.display_name());
        assert!(
            held.read().expect("a held value can be read") == matrix,
            "{} wrote before it failed",
            op.display_name()
        );
    }
}

fn slice_starts_are_checked<E: Engine>(engine: &mut E) {
    let inputs = [floats(&[0.0, 1.0, 2.0, 3.0, 4.0]), floats(&[7.0, 8.0])];
    let mut b = PlanBuilder::new(&types(&inputs));
    let cut = b.one(
        Slice { sizes: Shape::new(&[2]), steps: Steps::new(&[2]), drop: gt_ir::AxisSet::default() },
        &[0],
        &[0.into()],
    );
    let put = b.one(UpdateSlice { steps: Steps::new(&[-1]), drop: gt_ir::AxisSet::default() }, &[0, 1], &[1.into()]);
    let built = b.finish(&[cut, put], Grouping::Fused);
    let program = prepared(engine, &built.plan);
    let mut run = |starts: [i64; 2]| {
        let mut immediates = built.immediates.clone();
        immediates.scalars = starts.iter().map(|&s| Scalar::I64(s)).collect();
        let buffers = upload(engine, &inputs).into_iter().map(Ok).collect();
        let (ticket, collector) = start(engine, &program, &immediates, buffers);
        ticket.wait();
        collector.finish(&built.plan)
    };
    let good = run([2, 4]);
    assert_eq!(numbers::floats(&good.read(cut)), [2.0, 4.0]);
    assert_eq!(numbers::floats(&good.read(put)), [0.0, 1.0, 2.0, 8.0, 7.0]);
    for starts in [[3, 0], [-1, 5], [5, -1], [i64::MAX, i64::MIN]] {
        let bad = run(starts);
        for slot in [cut, put] {
            assert_eq!(bad.failure(slot).kind, FailureKind::Value, "a slice from {starts:?}");
        }
    }
}

fn uploads_are_checked<E: Engine>(engine: &mut E) {
    let tensor = floats(&[1.0, 2.0]);
    let flags = HostTensor { ty: TensorType::new(DType::Bool, &[3]), bytes: vec![0, 2, 255] };
    let mut b = PlanBuilder::new(&[]);
    let first = b.upload(&tensor);
    let second = b.upload(&tensor);
    let third = b.upload(&flags);
    let mut built = b.finish(&[first, second, third], Grouping::Fused);
    built.immediates.uploads[0] = Bytes::from(&[0u8; 7][..]);
    let outcome = run_plan(engine, &built, Vec::new());
    let kind = outcome.failure(first).kind;
    assert!(matches!(kind, FailureKind::Value | FailureKind::Internal), "a payload of the wrong length is a failure");
    assert_eq!(outcome.read(second), tensor);
    assert_eq!(outcome.read(third).bytes, [0, 1, 1], "a bool is 0 or 1 whatever was sent");
}

fn poison_in_a_fused_step_reaches_only_what_reads_it<E: Engine>(engine: &mut E) {
    let input = floats(&[1.0, 2.0, 3.0]);
    let mut b = PlanBuilder::new(&[input.ty, input.ty]);
    b.begin_fused(input.ty.shape);
    let clean = b.one(DOUBLE, &[0], &[3.into()]);
    let tainted = b.one(DOUBLE, &[1], &[3.into()]);
    let both = b.one(Binary { kind: BinaryKind::Add, scalar: Side::None }, &[clean, tainted], &[]);
    b.end_fused();
    let poison = Arc::new(Failure::new(FailureKind::Value, "from before"));
    let buffer = upload(engine, std::slice::from_ref(&input)).remove(0);
    let outcome =
        run_plan(engine, &b.finish(&[clean, tainted, both], Grouping::Fused), vec![Ok(buffer), Err(poison.clone())]);
    assert_eq!(numbers::floats(&outcome.read(clean)), [3.0, 6.0, 9.0]);
    assert_eq!(outcome.failure(tainted), poison);
    assert_eq!(outcome.failure(both), poison);
}

fn writes_are_all_or_nothing<E: Engine>(engine: &mut E) {
    let inputs = [floats(&[1.0, 2.0]), floats(&[3.0]), floats(&[5.0, 6.0]), floats(&[7.0])];
    let mut b = PlanBuilder::new(&types(&inputs));
    let first = b.one(DOUBLE, &[2], &[10.into()]);
    let second = b.one(DOUBLE, &[3], &[10.into()]);
    let outs = b.op(Write {}, &[0, 1, first, second], &[]);
    let after = b.one(Unary { kind: UnaryKind::Neg }, &[outs[0]], &[]);
    let built = b.finish(&[outs[0], outs[1], after], Grouping::Fused);

    let good = upload(engine, &inputs).into_iter().map(Ok).collect();
    let outcome = run_plan(engine, &built, good);
    assert_eq!(numbers::floats(&outcome.read(outs[0])), [50.0, 60.0]);
    assert_eq!(numbers::floats(&outcome.read(outs[1])), [70.0]);
    assert_eq!(numbers::floats(&outcome.read(after)), [-50.0, -60.0]);
    assert!(outcome.skipped.is_empty());

    let poison = Arc::new(Failure::new(FailureKind::Value, "no gradient today"));
    let buffers = upload(engine, &inputs);
    let half_bad = vec![Ok(buffers[0].clone()), Ok(buffers[1].clone()), Ok(buffers[2].clone()), Err(poison.clone())];
    let outcome = run_plan(engine, &built, half_bad);
    assert_eq!(outcome.read(outs[0]), inputs[0], "the whole write is skipped, good parts too");
    assert_eq!(outcome.read(outs[1]), inputs[1]);
    assert_eq!(numbers::floats(&outcome.read(after)), [-1.0, -2.0], "what follows reads the value that was kept");
    assert_eq!(outcome.skipped, std::slice::from_ref(&poison), "a skipped write is reported once");

    let older = Arc::new(Failure::new(FailureKind::Index, "lost long ago"));
    let all_bad = vec![Ok(buffers[0].clone()), Err(older.clone()), Err(poison.clone()), Err(poison.clone())];
    let outcome = run_plan(engine, &built, all_bad);
    assert_eq!(outcome.read(outs[0]), inputs[0]);
    assert_eq!(outcome.failure(outs[1]), older, "a value that was poisoned before keeps its own failure");
    assert_eq!(outcome.skipped, [poison]);

    // A poisoned old value is healed by a good new one.
    let healed = vec![Err(older.clone()), Err(older), Ok(buffers[2].clone()), Ok(buffers[3].clone())];
    let outcome = run_plan(engine, &built, healed);
    assert_eq!(numbers::floats(&outcome.read(outs[0])), [50.0, 60.0]);
    assert!(outcome.skipped.is_empty());
}

/// PLAN-3's exception: the step that makes the new value may take the old one's buffer, but not before it can no
/// longer fail.
fn a_failed_step_leaves_the_old_value_it_was_given<E: Engine>(engine: &mut E) {
    let (old, row) = (floats(&[1.0, 2.0, 3.0]), floats(&[8.0, 9.0]));
    for (index, fails) in [(indices(&[0, 2]), false), (indices(&[0, 3]), true)] {
        for held in [false, true] {
            let inputs = [old.clone(), index.clone(), row.clone()];
            let mut b = PlanBuilder::new(&types(&inputs));
            let new = b.one(Put { axis: 0, mode: PutMode::Set, wrap: false }, &[0, 1, 2], &[]);
            let out = b.one(Write {}, &[0, new], &[]);
            let built = b.finish(&[out], Grouping::Fused);
            assert!(built.plan.steps[0].takes.contains(&0), "the plan offers the old value's buffer");
            let buffers = upload(engine, &inputs);
            let keep = held.then(|| buffers[0].clone());
            let outcome = run_plan(engine, &built, buffers.into_iter().map(Ok).collect());
            let want: &[f64] = if fails { &[1.0, 2.0, 3.0] } else { &[8.0, 2.0, 9.0] };
            assert_eq!(numbers::floats(&outcome.read(out)), want, "fails: {fails}, held: {held}");
            assert_eq!(outcome.skipped.len(), fails as usize);
            if let Some(keep) = keep {
                assert!(keep.read().expect("a held value can be read") == old, "a held value was overwritten");
            }
        }
    }
    // The same with an elementwise step, which may run in place.
    for held in [false, true] {
        let mut b = PlanBuilder::new(&[old.ty, old.ty]);
        let new = b.one(Binary { kind: BinaryKind::Sub, scalar: Side::None }, &[0, 1], &[]);
        let out = b.one(Write {}, &[0, new], &[]);
        let built = b.finish(&[out], Grouping::Fused);
        let buffers = upload(engine, &[old.clone(), floats(&[1.0, 1.0, 1.0])]);
        let keep = held.then(|| buffers[0].clone());
        let outcome = run_plan(engine, &built, buffers.into_iter().map(Ok).collect());
        assert_eq!(numbers::floats(&outcome.read(out)), [0.0, 1.0, 2.0]);
        if let Some(keep) = keep {
            assert!(keep.read().expect("a held value can be read") == old, "a held value was overwritten");
        }
    }
}

fn an_input_may_be_used_twice<E: Engine>(engine: &mut E) {
    let square = numbers::from_floats(TensorType::new(DType::F32, &[2, 2]), &[1.0, 2.0, 3.0, 4.0]);
    let mut b = PlanBuilder::new(&[square.ty]);
    let sum = b.one(Binary { kind: BinaryKind::Add, scalar: Side::None }, &[0, 0], &[]);
    let product = b.one(Matmul::PLAIN, &[0, 0], &[]);
    let written = b.one(
        UpdateSlice { steps: Steps::new(&[1, 1]), drop: gt_ir::AxisSet::default() },
        &[0, 0],
        &[0.into(), 0.into()],
    );
    let rest = b.one(Binary { kind: BinaryKind::Sub, scalar: Side::None }, &[0, 0], &[]);
    let built = b.finish(&[sum, product, written, rest], Grouping::Fused);
    let buffers = upload(engine, std::slice::from_ref(&square)).into_iter().map(Ok).collect();
    let outcome = run_plan(engine, &built, buffers);
    assert_eq!(numbers::floats(&outcome.read(sum)), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(numbers::floats(&outcome.read(product)), [7.0, 10.0, 15.0, 22.0]);
    assert_eq!(outcome.read(written), square);
    assert_eq!(numbers::floats(&outcome.read(rest)), [0.0; 4]);
    // The same buffer bound to two inputs, both dying in one step that may take them.
    let mut b = PlanBuilder::new(&[square.ty, square.ty]);
    let sum = b.one(Binary { kind: BinaryKind::Add, scalar: Side::None }, &[0, 1], &[]);
    let buffer = upload(engine, std::slice::from_ref(&square)).remove(0);
    let outcome = run_plan(engine, &b.finish(&[sum], Grouping::Fused), vec![Ok(buffer.clone()), Ok(buffer)]);
    assert_eq!(numbers::floats(&outcome.read(sum)), [2.0, 4.0, 6.0, 8.0]);
}

fn scalars_come_with_the_run<E: Engine>(engine: &mut E) {
    let input = floats(&[1.0, 2.0]);
    let mut b = PlanBuilder::new(&[input.ty]);
    let scaled = b.one(DOUBLE, &[0], &[2.into()]);
    let filled = b.one(gt_ir::ops::Fill { dtype: DType::I64, shape: Shape::new(&[2]) }, &[], &[5.into()]);
    let built = b.finish(&[scaled, filled], Grouping::Fused);
    let program = prepared(engine, &built.plan);
    let buffer = upload(engine, std::slice::from_ref(&input)).remove(0);
    for factor in [2i64, -3, 40] {
        let mut immediates = built.immediates.clone();
        immediates.scalars = vec![factor.into(), (factor + 1).into()];
        let (ticket, collector) = start(engine, &program, &immediates, vec![Ok(buffer.clone())]);
        ticket.wait();
        let outcome = collector.finish(&built.plan);
        assert_eq!(numbers::floats(&outcome.read(scaled)), [factor as f64, 2.0 * factor as f64]);
        assert_eq!(numbers::ints(&outcome.read(filled)), [factor + 1; 2]);
    }
}

fn runs_are_done_in_order<E: Engine>(engine: &mut E) {
    let input = floats(&[1.0; 64]);
    let mut b = PlanBuilder::new(&[input.ty]);
    let scaled = b.one(DOUBLE, &[0], &[2.into()]);
    let built = b.finish(&[scaled], Grouping::Fused);
    let program = prepared(engine, &built.plan);
    let buffer = upload(engine, std::slice::from_ref(&input)).remove(0);
    let mut collectors = Vec::new();
    for n in 0..30i64 {
        let mut immediates = built.immediates.clone();
        immediates.scalars = vec![n.into()];
        // The ticket may be dropped: waiting is not what makes a run happen.
        let (_, collector) = start(engine, &program, &immediates, vec![Ok(buffer.clone())]);
        collectors.push(collector);
    }
    engine.synchronize();
    for (n, collector) in collectors.iter().enumerate() {
        assert_eq!(
            numbers::floats(&collector.finish(&built.plan).read(scaled)),
            [n as f64; 64],
            "run {n} is done after synchronize"
        );
    }
}

fn memory_is_given_back<E: Engine>(engine: &mut E) {
    engine.synchronize();
    let before = engine.memory().live_bytes;
    {
        let buffers = upload(engine, &[floats(&[1.0; 5000])]);
        let mut b = PlanBuilder::new(&[buffers[0].ty()]);
        let doubled = b.one(DOUBLE, &[0], &[2.into()]);
        let again = b.one(DOUBLE, &[doubled], &[2.into()]);
        let outcome = run_plan(engine, &b.finish(&[again], Grouping::Fused), buffers.into_iter().map(Ok).collect());
        assert_eq!(numbers::floats(&outcome.read(again)), [4.0; 5000]);
    }
    engine.synchronize();
    let memory = engine.memory();
    assert_eq!(memory.live_bytes, before, "buffers nobody holds are not live");
    assert!(memory.peak_bytes >= memory.live_bytes);
    engine.trim();
}

fn a_check_passes_its_input_or_fails<E: Engine>(engine: &mut E) {
    let inputs = [floats(&[1.0, 2.0]), numbers::from_ints(TensorType::new(DType::Bool, &[]), &[0])];
    let wrong = numbers::from_ints(TensorType::new(DType::Bool, &[]), &[1]);
    let mut b = PlanBuilder::new(&types(&inputs));
    let out = b.one(Check { complaint: Complaint::Probability }, &[0, 1], &[]);
    let after = b.one(Unary { kind: UnaryKind::Neg }, &[out], &[]);
    for grouping in [Grouping::Fused, Grouping::OneByOne] {
        let plan = b.finish(&[out, after], grouping);
        let fine = upload(engine, &inputs).into_iter().map(Ok).collect();
        assert_eq!(numbers::floats(&run_plan(engine, &plan, fine).read(after)), [-1.0, -2.0]);
        let bad = upload(engine, &[inputs[0].clone(), wrong.clone()]).into_iter().map(Ok).collect();
        let outcome = run_plan(engine, &plan, bad);
        for slot in [out, after] {
            let failure = outcome.failure(slot);
            assert_eq!(
                (failure.kind, failure.message.as_str()),
                (FailureKind::Domain, Complaint::Probability.message())
            );
        }
    }
}
