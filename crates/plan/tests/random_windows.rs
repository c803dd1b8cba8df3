//! Random windows: their plans keep the invariants and compute what the window says.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use gt_ir::ops::*;
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use gt_ir::{
    AxisSet, DType, Ins, Instr, Op, Outs, Scalar, Scalars, ScopeId, Shape, SiteId, Steps, TensorId, TensorType, Window,
};
use gt_plan::{Canonicalizer, Plan, PlanCache, PlanOptions, build, text, verify};
use proptest::prelude::*;

const INPUTS: u64 = 6;
const FIRST: u64 = 100;

/// Takes numbers from a list, so that a window is a function of what proptest shrinks.
struct Draw<'a>(&'a [u32], usize);

impl Draw<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        self.0[self.1 % self.0.len()] as usize % n.max(1)
    }
}

fn input_type(n: u64, scale: usize) -> TensorType {
    let shapes: [&[usize]; 3] = [&[4 * scale, 6], &[6], &[4 * scale, 1]];
    TensorType::new(DType::F32, shapes[n as usize % 3])
}

fn random_window(numbers: &[u32], instrs: usize, scale: usize) -> Window {
    let mut draw = Draw(numbers, 0);
    let mut types: Vec<(TensorId, TensorType)> = (0..INPUTS).map(|n| (TensorId(n), input_type(n, scale))).collect();
    let mut window = Window::default();
    let mut next = FIRST;
    // Not every draw fits its operands, and a short list of numbers may never fit.
    for _ in 0..instrs * 8 {
        if window.instrs.len() == instrs {
            break;
        }
        let pick = |draw: &mut Draw<'_>, types: &[(TensorId, TensorType)]| {
            // Mostly recent values, so that chains grow.
            let recent = types.len() - 1 - draw.below(types.len().min(6));
            if draw.below(3) > 0 { types[recent] } else { types[draw.below(types.len())] }
        };
        let (a, b) = (pick(&mut draw, &types), pick(&mut draw, &types));
        let rank = a.1.shape.rank();
        let (op, ins, scalars): (Op, Vec<(TensorId, TensorType)>, usize) = match draw.below(14) {
            0..=2 => (Unary { kind: UnaryKind::ALL[draw.below(UnaryKind::ALL.len())] }.into(), vec![a], 0),
            3..=5 => (Binary { kind: BinaryKind::Add, scalar: Side::None }.into(), vec![a, b], 0),
            6 => (Binary { kind: BinaryKind::Mul, scalar: Side::Right }.into(), vec![a], 1),
            7 => (Compare { kind: CompareKind::Lt, scalar: Side::None }.into(), vec![a, b], 0),
            8 => (Cast { dtype: DType::F32 }.into(), vec![a], 0),
            9 => (Fill { dtype: DType::F32, shape: a.1.shape }.into(), vec![], 1),
            10 => {
                let axes = AxisSet(draw.below(1 << rank) as u8);
                (Reduce { kind: ReduceKind::Max, axes, keepdim: draw.below(2) == 0 }.into(), vec![a], 0)
            }
            11 => (Reshape { shape: Shape::new(&[a.1.numel()]) }.into(), vec![a], 0),
            12 => (Permute { perm: Steps::new(&(0..rank as i64).rev().collect::<Vec<_>>()) }.into(), vec![a], 0),
            _ if draw.below(2) == 0 => (Write {}.into(), vec![a, b], 0),
            _ => (Concat { axis: 0 }.into(), vec![a, a], 0),
        };
        let in_types: Vec<_> = ins.iter().map(|i| i.1).collect();
        let Ok(outs) = op.primitive().infer(&in_types) else { continue };
        let ids: Outs = (0..outs.len()).map(|k| TensorId(next + k as u64)).collect();
        next += outs.len() as u64;
        types.extend(ids.iter().copied().zip(outs));
        window.instrs.push(Instr {
            op,
            outs: ids,
            ins: ins.iter().map(|i| i.0).collect::<Ins>(),
            scalars: (0..scalars).map(|_| Scalar::F64(1.5)).collect::<Scalars>(),
            scope: ScopeId(0),
            site: SiteId(0),
        });
    }
    let keep = 1 + draw.below(4);
    window.frees = types.iter().map(|t| t.0).filter(|_| draw.below(5) >= keep).collect();
    window
}

/// A number that stands for what an instruction computes.
fn symbol(instr: &Instr, ins: &[u64], out: usize) -> u64 {
    let mut h = DefaultHasher::new();
    (format!("{:?}", instr.op), ins, out).hash(&mut h);
    h.finish()
}

/// Runs a plan on symbols, forgetting what it drops; gives what it publishes.
fn run(plan: &Plan) -> HashMap<u32, u64> {
    let mut slots: Vec<Option<u64>> = vec![None; plan.types.len()];
    (0..plan.inputs).for_each(|k| slots[k] = Some(k as u64));
    let mut published = HashMap::new();
    for step in &plan.steps {
        let mut inside = HashMap::new();
        for &i in &step.instrs {
            let instr = &plan.instrs[i as usize];
            let read = |id: &TensorId| match inside.get(&id.0) {
                Some(&value) => value,
                None => {
                    assert!(step.ins.contains(&(id.0 as u32)), "{id} is not listed");
                    slots[id.0 as usize].expect("a value that is read has not been dropped")
                }
            };
            let ins: Vec<u64> = instr.ins.iter().map(read).collect();
            for (k, id) in instr.outs.iter().enumerate() {
                inside.insert(id.0, symbol(instr, &ins, k));
            }
        }
        for &s in &step.outs {
            slots[s as usize] = Some(inside[&(s as u64)]);
        }
        for &s in &step.publish {
            published.insert(s, inside[&(s as u64)]);
        }
        step.drops.iter().for_each(|&s| slots[s as usize] = None);
    }
    published
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_are_valid_and_compute_the_window(
        numbers in proptest::collection::vec(any::<u32>(), 64..400),
        instrs in 1usize..90,
    ) {
        let window = random_window(&numbers, instrs, 1);
        let mut canonicalizer = Canonicalizer::default();
        let canonical = canonicalizer.run(&window, |id| Some(input_type(id.0, 1))).unwrap();
        let separate = build(&window, canonical, PlanOptions { fusion: false, compiled: false }).unwrap();
        prop_assert_eq!(verify(&separate), Ok(()));
        prop_assert_eq!(separate.steps.len(), window.instrs.len());
        let expected = run(&separate);
        let outlives = canonical.dead.iter().filter(|&&dead| !dead).count();
        prop_assert_eq!(expected.len(), outlives);
        for compiled in [false, true] {
            let plan = build(&window, canonical, PlanOptions { fusion: true, compiled }).unwrap();
            prop_assert_eq!(verify(&plan), Ok(()), "{}", text::print(&plan));
            prop_assert_eq!(run(&plan), expected.clone(), "{}", text::print(&plan));
            prop_assert!(compiled || plan.instrs_run() == window.instrs.len());
        }
        // Dying inputs are all dropped, the others never.
        let plan = build(&window, canonical, PlanOptions::default()).unwrap();
        for (k, &dies) in canonical.dying.iter().enumerate() {
            let dropped = plan.steps.iter().any(|s| s.drops.contains(&(k as u32)));
            prop_assert_eq!(dropped, dies);
        }
    }

    #[test]
    fn a_grouping_serves_other_extents_of_the_same_structure(
        numbers in proptest::collection::vec(any::<u32>(), 64..400),
        instrs in 1usize..60,
    ) {
        let mut cache: PlanCache<()> = PlanCache::new(4);
        let mut canonicalizer = Canonicalizer::default();
        let mut structures = Vec::new();
        for scale in [1usize, 3, 5] {
            let window = random_window(&numbers, instrs, scale);
            let canonical = canonicalizer.run(&window, |id| Some(input_type(id.0, scale))).unwrap();
            let plan = cache.plan(&window, canonical, PlanOptions::default()).unwrap();
            prop_assert_eq!(verify(&plan), Ok(()));
            let separate = build(&window, canonical, PlanOptions { fusion: false, compiled: false }).unwrap();
            prop_assert_eq!(run(&plan), run(&separate));
            structures.push(canonical.hash.structure);
        }
        if structures[1] == structures[2] {
            prop_assert!(cache.counts().structure_hits > 0 || window_changes_with_scale(&numbers, instrs));
        }
    }
}

/// Sums of extents can meet other extents at one scale and not at another.
fn window_changes_with_scale(numbers: &[u32], instrs: usize) -> bool {
    let has = |w: Window| w.instrs.iter().any(|i| matches!(i.op, Op::Concat(_) | Op::Reshape(_)));
    has(random_window(numbers, instrs, 3))
}
