//! Random windows: their plans keep the invariants and compute what the window says.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use gt_ir::ops::*;
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use gt_ir::{
    AxisSet, DType, Ins, Instr, Op, Outs, Scalar, Scalars, ScopeId, Shape, SiteId, Steps, TensorId, TensorType, Window,
};
use gt_plan::{Plan, PlanOptions, Role, Step, build, role, text, verify};
use gt_stream::{Occurrence, Recipe};
use proptest::prelude::*;

const INPUTS: u64 = 8;
const FIRST: u64 = 100;

type Typed = (TensorId, TensorType);

/// Takes numbers from a list, so that a window is a function of what proptest shrinks.
struct Draw<'a>(&'a [u32], usize);

impl Draw<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        self.0[self.1 % self.0.len()] as usize % n.max(1)
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// One of the values, mostly a recent one, so that chains grow.
    fn value(&mut self, types: &[Typed]) -> Typed {
        let recent = types.len() - 1 - self.below(types.len().min(6));
        if self.below(3) > 0 { types[recent] } else { self.of(types) }
    }

    /// One of the values of a type.
    fn like(&mut self, types: &[Typed], ty: TensorType) -> Typed {
        let alike: Vec<Typed> = types.iter().copied().filter(|t| t.1 == ty).collect();
        alike[alike.len() - 1 - self.below(alike.len().min(8))]
    }
}

/// Extents that grow: rows, and their length, which passes what a step can hold of a row.
#[derive(Clone, Copy)]
struct Extents {
    rows: usize,
    len: usize,
}

const SMALL: Extents = Extents { rows: 4, len: 6 };

fn input_type(n: u64, e: Extents) -> TensorType {
    let shapes: [&[usize]; 5] = [&[e.rows, e.len], &[e.len], &[e.rows, 1], &[e.rows, e.len], &[2, e.rows, e.len]];
    TensorType::new(DType::F32, shapes[n as usize % 5])
}

/// The last two axes swapped.
fn swap(rank: usize) -> Op {
    let mut perm: Steps = (0..rank as i64).collect();
    perm[rank.saturating_sub(2)..].reverse();
    Permute { perm }.into()
}

/// One more instruction, if the draw gives one that fits: its op and operands.
fn draw_op(draw: &mut Draw<'_>, types: &[Typed]) -> (Op, Vec<Typed>) {
    let (a, b) = (draw.value(types), draw.value(types));
    let (rank, ty) = (a.1.shape.rank(), a.1);
    let binary = Binary { kind: draw.of(&[BinaryKind::Add, BinaryKind::Sub, BinaryKind::Div]), scalar: Side::None };
    match draw.below(26) {
        0..=2 => (Unary { kind: UnaryKind::ALL[draw.below(UnaryKind::ALL.len())] }.into(), vec![a]),
        3..=5 => (binary.into(), vec![a, b]),
        // Also arithmetic between rows.
        6..=7 => (binary.into(), vec![a, draw.like(types, ty)]),
        8 => (Binary { kind: BinaryKind::Mul, scalar: Side::Right }.into(), vec![a]),
        9 => (Compare { kind: CompareKind::Lt, scalar: Side::None }.into(), vec![a, b]),
        10 => (Cast { dtype: DType::F32 }.into(), vec![a]),
        11..=12 => (Fill { dtype: DType::F32, shape: ty.shape }.into(), vec![]),
        13 => {
            let axes = AxisSet(draw.below(1 << rank) as u16);
            (Reduce { kind: ReduceKind::Max, axes, keepdim: draw.below(2) == 0 }.into(), vec![a])
        }
        // Of the last axes, mostly kept: what a step may read itself.
        14..=17 => {
            let folded = if rank > 2 && draw.below(2) == 0 { 2 } else { rank.min(1) };
            let axes = AxisSet::of(&(rank - folded..rank).collect::<Vec<_>>());
            let kind = draw.of(&[ReduceKind::Max, ReduceKind::Sum, ReduceKind::Min]);
            (Reduce { kind, axes, keepdim: draw.below(6) > 0 }.into(), vec![a])
        }
        18 => (Reshape { shape: Shape::new(&[ty.numel()]) }.into(), vec![a]),
        19 => (swap(rank), vec![a]),
        20..=21 => (Broadcast { shape: b.1.shape }.into(), vec![a]),
        22 => (Matmul { turn_a: draw.below(2) == 0, turn_b: draw.below(2) == 0 }.into(), vec![a, b]),
        23 => {
            let pairs = 1 + draw.below(3);
            let olds: Vec<Typed> = (0..pairs).map(|_| draw.value(types)).collect();
            let news: Vec<Typed> = olds.iter().map(|old| draw.like(types, old.1)).collect();
            (Write {}.into(), [olds, news].concat())
        }
        24 => {
            let states = draw.below(2) as u8;
            let update = Update { kind: UpdateKind::Sgd, states, centered: false, maximize: false };
            let tensors = 1 + draw.below(3);
            let olds: Vec<Typed> = (0..tensors).map(|_| draw.value(types)).collect();
            let more = |_| olds.iter().map(|old| draw.like(types, old.1)).collect();
            let rest: Vec<Vec<Typed>> = (0..1 + states).map(more).collect();
            (update.into(), [olds, rest.concat()].concat())
        }
        _ => (Concat { axis: 0 }.into(), vec![a, a]),
    }
}

/// Adds an instruction if it takes these operands.
fn put(window: &mut Window, types: &mut Vec<Typed>, op: Op, ins: &[Typed]) -> Option<Vec<Typed>> {
    let in_types: Vec<_> = ins.iter().map(|i| i.1).collect();
    let outs = op.primitive().infer(&in_types).ok()?;
    let next = FIRST + types.len() as u64 - INPUTS;
    let made: Vec<Typed> = outs.into_iter().enumerate().map(|(k, ty)| (TensorId(next + k as u64), ty)).collect();
    types.extend(&made);
    window.instrs.push(Instr {
        outs: made.iter().map(|t| t.0).collect::<Outs>(),
        ins: ins.iter().map(|i| i.0).collect::<Ins>(),
        scalars: (0..op.primitive().scalars(&in_types)).map(|_| Scalar::F64(1.5)).collect::<Scalars>(),
        op,
        scope: ScopeId(0),
        site: SiteId(0),
    });
    Some(made)
}

fn random_window(numbers: &[u32], instrs: usize, extents: Extents) -> Window {
    let mut draw = Draw(numbers, 0);
    let mut types: Vec<Typed> = (0..INPUTS).map(|n| (TensorId(n), input_type(n, extents))).collect();
    let mut window = Window::default();
    // Not every draw fits its operands, and a short list of numbers may never fit.
    for _ in 0..instrs * 8 {
        if window.instrs.len() >= instrs {
            break;
        }
        let (op, ins) = draw_op(&mut draw, &types);
        let Some(made) = put(&mut window, &mut types, op.clone(), &ins) else { continue };
        // What tends to follow.
        match op {
            // As an optimizer ends: parameters and states take their new values.
            Op::Update(_) if draw.below(4) > 0 => {
                let gradients = ins.len() - made.len();
                let olds = ins.iter().enumerate().filter(|(i, _)| !(gradients..2 * gradients).contains(i));
                let pairs: Vec<Typed> = olds.map(|(_, old)| *old).chain(made).collect();
                put(&mut window, &mut types, Write {}.into(), &pairs);
            }
            Op::Matmul(_) if draw.below(4) > 0 => {
                put(&mut window, &mut types, swap(made[0].1.shape.rank()), &made);
            }
            _ => {}
        }
    }
    let keep = 1 + draw.below(4);
    window.frees = types.iter().map(|t| t.0).filter(|_| draw.below(5) >= keep).collect();
    window
}

/// What instructions compute, as numbers. Elementwise ones see through broadcasts: `x + broadcast(y)` is `x + y` where the
/// results have the same type.
#[derive(Default)]
struct Symbols {
    sources: HashMap<u64, u64>,
}

impl Symbols {
    fn of(&mut self, instr: &Instr, ins: &[u64], out: usize, ty: TensorType) -> u64 {
        let source = |s: &u64| self.sources.get(s).copied().unwrap_or(*s);
        let mut h = DefaultHasher::new();
        let elementwise = role(&instr.op) == Role::Elementwise;
        let read: Vec<u64> = ins.iter().map(|s| if elementwise { source(s) } else { *s }).collect();
        (format!("{:?}", instr.op), read, out, format!("{ty}")).hash(&mut h);
        let symbol = h.finish();
        if let Op::Broadcast(_) = instr.op {
            let from = source(&ins[0]);
            self.sources.insert(symbol, from);
        }
        symbol
    }
}

/// Runs a plan on symbols, forgetting what it drops; gives what it publishes.
fn run(plan: &Plan) -> HashMap<u32, u64> {
    let mut slots: Vec<Option<u64>> = vec![None; plan.types.len()];
    let mut symbols = Symbols::default();
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
                inside.insert(id.0, symbols.of(instr, &ins, k, plan.types[id.0 as usize]));
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

#[derive(Clone, Copy, PartialEq)]
enum State {
    Good,
    Poisoned,
    /// Its storage has another value by now (PLAN-3).
    Overwritten,
}

/// Runs a plan whose step `failing` fails, overwriting all that steps may take: nothing that is gone may be asked for.
fn fail_at(plan: &Plan, failing: usize) {
    let mut slots = vec![State::Good; plan.types.len()];
    for (at, step) in plan.steps.iter().enumerate() {
        let instr = &plan.instrs[step.instrs[0] as usize];
        if let Op::Write(_) = instr.op {
            let state = |id: &TensorId| slots[id.0 as usize];
            let (olds, news) = instr.ins.split_at(instr.ins.len() / 2);
            let poisoned = news.iter().any(|id| state(id) == State::Poisoned);
            let chosen: Vec<State> = if poisoned { olds } else { news }.iter().map(state).collect();
            assert!(chosen.iter().all(|s| *s != State::Overwritten), "step {at} of\n{}", text::print(plan));
            instr.outs.iter().zip(chosen).for_each(|(id, state)| slots[id.0 as usize] = state);
            continue;
        }
        assert!(step.ins.iter().all(|&s| slots[s as usize] != State::Overwritten), "step {at}");
        let poisoned = step.ins.iter().any(|&s| slots[s as usize] == State::Poisoned);
        for &i in &step.instrs {
            let instr = &plan.instrs[i as usize];
            let depends = instr.ins.iter().any(|id| slots[id.0 as usize] == State::Poisoned);
            let state = if depends || at == failing { State::Poisoned } else { State::Good };
            instr.outs.iter().for_each(|id| slots[id.0 as usize] = state);
        }
        if !poisoned && at != failing {
            step.takes.iter().for_each(|&s| slots[s as usize] = State::Overwritten);
        }
    }
}

/// The recipe of a random window, and the types of its inputs.
fn recipe(numbers: &[u32], instrs: usize, extents: Extents) -> (Arc<Recipe>, Vec<TensorType>) {
    let occurrence = Occurrence::of(random_window(numbers, instrs, extents)).expect("an occurrence");
    let types = occurrence.bindings().inputs.iter().map(|id| input_type(id.0, extents)).collect();
    (occurrence.recipe().clone(), types)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_are_valid_and_compute_the_window(
        numbers in proptest::collection::vec(any::<u32>(), 64..400),
        instrs in 1usize..90,
    ) {
        let (recipe, types) = recipe(&numbers, instrs, SMALL);
        let separate = build(&recipe, &types, PlanOptions { fusion: false, ..PlanOptions::DEFAULT }).unwrap();
        prop_assert_eq!(verify(&separate), Ok(()));
        prop_assert_eq!(separate.steps.len(), recipe.len());
        let expected = run(&separate);
        let outlives = recipe.dead().iter().filter(|&&dead| !dead).count();
        prop_assert_eq!(expected.len(), outlives);
        for compiled in [false, true] {
            let plan = build(&recipe, &types, PlanOptions { compiled, ..PlanOptions::DEFAULT }).unwrap();
            prop_assert_eq!(verify(&plan), Ok(()), "{}", text::print(&plan));
            prop_assert_eq!(run(&plan), expected.clone(), "{}", text::print(&plan));
            prop_assert!(compiled || plan.instrs_run() == recipe.len());
            // One past the last: none fails.
            (0..=plan.steps.len()).for_each(|failing| fail_at(&plan, failing));
        }
        // Dying inputs are all dropped, the others never.
        let plan = build(&recipe, &types, PlanOptions::default()).unwrap();
        for (k, &dies) in recipe.dying().iter().enumerate() {
            let dropped = plan.steps.iter().any(|s| s.drops.contains(&(k as u32)));
            prop_assert_eq!(dropped, dies);
        }
    }

    #[test]
    fn windows_of_any_extents_compute_the_same_fused(
        numbers in proptest::collection::vec(any::<u32>(), 64..400),
        instrs in 1usize..60,
    ) {
        for (rows, len) in [(12, 6), (20, 600), (20, 1024), (20, 1025)] {
            let (recipe, types) = recipe(&numbers, instrs, Extents { rows, len });
            let plan = build(&recipe, &types, PlanOptions::default()).unwrap();
            prop_assert_eq!(verify(&plan), Ok(()), "{}", text::print(&plan));
            let separate = build(&recipe, &types, PlanOptions { fusion: false, ..PlanOptions::DEFAULT }).unwrap();
            prop_assert_eq!(run(&plan), run(&separate));
        }
    }
}

/// The windows are only worth as much as what they hold.
#[test]
fn random_windows_hold_what_is_to_be_planned() {
    let (mut rows, mut row_arithmetic, mut past_broadcasts, mut written_over, mut turned_products) = (0, 0, 0, 0, 0);
    for seed in 0..400u64 {
        let mut hasher = DefaultHasher::new();
        let numbers: Vec<u32> = (0..300u64)
            .map(|i| {
                (seed, i).hash(&mut hasher);
                hasher.finish() as u32
            })
            .collect();
        let (recipe, types) = recipe(&numbers, 40, SMALL);
        let plan = build(&recipe, &types, PlanOptions::default()).unwrap();
        let separate = build(&recipe, &types, PlanOptions { fusion: false, ..PlanOptions::DEFAULT }).unwrap();
        past_broadcasts += plan.instrs.iter().zip(&separate.instrs).filter(|(a, b)| a.ins != b.ins).count();
        for step in &plan.steps {
            let instrs = || step.instrs.iter().map(|&i| &plan.instrs[i as usize]);
            let folded = |id: &TensorId| instrs().any(|i| matches!(i.op, Op::Reduce(_)) && i.outs[0] == *id);
            let Some(space) = step.space() else { continue };
            rows += instrs().any(|i| i.ins.iter().any(folded)) as usize;
            let over_rows = |i: &Instr| plan.types[i.outs[0].0 as usize].shape != space;
            row_arithmetic += instrs().any(|i| role(&i.op) == Role::Elementwise && over_rows(i)) as usize;
        }
        let gone = |step: &Step| step.takes.iter().any(|s| !step.drops.contains(s));
        written_over += plan.steps.iter().filter(|step| gone(step)).count();
        let product = |id: &TensorId| plan.instrs.iter().any(|i| matches!(i.op, Op::Matmul(_)) && i.outs[0] == *id);
        let turns = |i: &&Instr| matches!(i.op, Op::Permute(_)) && product(&i.ins[0]);
        turned_products += plan.instrs.iter().filter(turns).count();
    }
    let counts = [rows, row_arithmetic, past_broadcasts, written_over, turned_products];
    assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
}
