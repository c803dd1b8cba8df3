//! Windows of whoever speaks the protocol by hand: whatever extents they name, a worker gets an error or a plan all of whose
//! values could exist (SHAPE-1). Counted here in numbers that do not overflow, since what is at stake is what the code counts
//! in numbers that do.

use gt_ir::codec::{Reader, put_varint};
use gt_ir::ops::{Attention, Reshape};
use gt_ir::shard::{LocalCx, Part, Region, Split};
use gt_ir::{
    DType, Emit, Instr, Op, OpError, OpKind, Scalar, ScopeId, Shape, SiteId, TensorId, TensorType, Val, Window,
};
use gt_plan::{Plan, PlanOptions, build, expand};
use gt_stream::Occurrence;
use smallvec::SmallVec;

/// Whether a machine could count the elements and the bytes, with every extent of 0 taken as 1.
fn exists(ty: &TensorType) -> bool {
    let elements = ty.shape.iter().fold(1u128, |n, &d| n.saturating_mul(d.max(1) as u128));
    elements.saturating_mul(ty.dtype.size() as u128) <= 1 << 62
}

/// What a worker does with the bytes of a window before it runs it: nothing, or a plan.
fn planned(bytes: &[u8]) -> Result<Plan, String> {
    let window = Window::decode(&mut Reader::new(bytes)).map_err(|e| e.to_string())?;
    let window = Occurrence::of(window).map_err(|e| e.to_string())?;
    if let Some(input) = window.bindings().inputs.first() {
        return Err(format!("{input} does not exist"));
    }
    let options = PlanOptions { compiled: true, ..PlanOptions::DEFAULT };
    build(window.recipe(), &[], options).map_err(|e| e.to_string())
}

/// An emitter that keeps the types of all that is emitted.
struct Emitted(Vec<TensorType>);

impl Emit for Emitted {
    fn emit(&mut self, op: Op, ins: &[Val], _: &[Scalar]) -> Result<SmallVec<[Val; 2]>, OpError> {
        let types: Vec<TensorType> = ins.iter().map(|&v| self.ty(v)).collect();
        let outs = op.primitive().infer(&types)?;
        self.0.extend(outs.iter().copied());
        Ok((self.0.len() - outs.len()..self.0.len()).map(|i| Val(i as u32)).collect())
    }
    fn ty(&self, v: Val) -> TensorType {
        self.0[v.0 as usize]
    }
}

/// Every type of the plan, of the expansions of its composites, and of the parts that three workers would make of it.
fn expect_all_exist(plan: &Plan, title: &str) {
    let expect = |ty: &TensorType, what: &str| assert!(exists(ty), "{title}: {what} is {ty}, which cannot exist");
    plan.types.iter().for_each(|ty| expect(ty, "a value"));
    for instr in &plan.instrs {
        let types = |ids: &[TensorId]| ids.iter().map(|id| plan.types[id.0 as usize]).collect::<Vec<_>>();
        let (ins, outs) = (types(&instr.ins), types(&instr.outs));
        let _ = instr.op.primitive().cost(&ins, &outs);
        let scalars = vec![Scalar::I64(1); instr.op.primitive().scalars(&ins)];
        if let Some(Ok(expansion)) = expand(&instr.op, &ins, &scalars) {
            let of = |id: &TensorId| expansion.inputs.iter().position(|i| i == id).map(|at| ins[at]);
            let window = Occurrence::of(expansion.window).expect("an expansion is a window");
            let types: Vec<TensorType> = window.bindings().inputs.iter().filter_map(of).collect();
            let spelled = build(window.recipe(), &types, PlanOptions::default()).expect("its types were inferred");
            spelled.types.iter().for_each(|ty| expect(ty, "a value of the expansion"));
        }
        // Ops that handle several tensors side by side are asked about one at a time.
        let alone = instr.op.primitive().packed_tensors(ins.len()) == 1;
        let strategies = if alone { instr.op.primitive().shard(&ins, &outs) } else { Vec::new() };
        for strategy in strategies {
            for rank in 0..3 {
                let part = |ty: &TensorType, split: &Split| Part {
                    ty: *ty,
                    region: Region::whole(&ty.shape).part(*split, 3, rank),
                };
                let in_parts: Vec<Part> = ins.iter().zip(&strategy.ins).map(|(ty, split)| part(ty, split)).collect();
                let out_parts: Vec<Part> = outs.iter().zip(&strategy.outs).map(|(ty, split)| part(ty, split)).collect();
                let mut emitted = Emitted(in_parts.iter().map(Part::local).collect());
                let vals: Vec<Val> = (0..in_parts.len() as u32).map(Val).collect();
                let cx = LocalCx { ins: &in_parts, outs: &out_parts, scalars: &scalars };
                let _ = instr.op.primitive().local(&cx, &vals, &mut emitted);
                emitted.0.iter().for_each(|ty| expect(ty, "a part of one worker"));
            }
        }
    }
}

/// The bytes of `fill` with any extents at all.
fn fill(out: &mut Vec<u8>, id: u64, dtype: DType, extents: &[u64]) {
    out.extend([OpKind::Fill as u8, dtype as u8, extents.len() as u8]);
    extents.iter().for_each(|&d| put_varint(out, d));
    // One output, no inputs, one scalar, no scope and no line.
    out.push(1);
    put_varint(out, id);
    out.extend([0, 1]);
    Scalar::I64(1).encode(out);
    out.extend([0, 0]);
}

fn instr(op: impl Into<Op>, outs: std::ops::Range<u64>, ins: &[u64], scalars: &[Scalar]) -> Instr {
    Instr {
        op: op.into(),
        outs: outs.map(TensorId).collect(),
        ins: ins.iter().map(|&id| TensorId(id)).collect(),
        scalars: scalars.iter().copied().collect(),
        scope: ScopeId(0),
        site: SiteId(0),
    }
}

/// A window of so many instructions, encoded already, that frees nothing.
fn window(count: usize, instrs: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, count as u64);
    bytes.extend_from_slice(instrs);
    bytes.extend([0, 0, 0, 0]);
    bytes
}

/// The inverse of an odd number: their product wraps to one.
const THIRD: u64 = 0xaaaa_aaaa_aaaa_aaab;

#[test]
fn attention_whose_rows_wrap_to_one_element_is_refused() {
    // [b, h, t, 0]: nothing to compute, and b * h = 1 (mod 2^64) logarithms that are written and can be read.
    let mut bytes = Vec::new();
    fill(&mut bytes, 0, DType::F32, &[3, THIRD, 1, 0]);
    fill(&mut bytes, 1, DType::F32, &[3, 1, 0, 0]);
    fill(&mut bytes, 2, DType::F32, &[3, 1, 0, 0]);
    instr(Attention { causal: false, masked: false }, 3..5, &[0, 1, 2], &[Scalar::F64(1.0)]).encode(&mut bytes);
    // By itself too: the values that it makes can be sliced.
    if let Ok(plan) = planned(&window(4, &bytes)) {
        panic!("planned with values {:?}", plan.types);
    }
    instr(Reshape { shape: Shape::new(&[1]) }, 5..6, &[4], &[]).encode(&mut bytes);
    if let Ok(plan) = planned(&window(5, &bytes)) {
        panic!("planned with values {:?}", plan.types);
    }
}

const EXTREMES: [u64; 16] = [
    0,
    1,
    2,
    3,
    1 << 16,
    1 << 20,
    1 << 31,
    1 << 32,
    1 << 40,
    1 << 59,
    (1 << 59) + 1,
    1 << 61,
    1 << 62,
    1 << 63,
    THIRD,
    u64::MAX,
];

#[test]
fn extents_on_the_wire_whose_product_overflows_are_refused() {
    let mut refused = 0;
    for dtype in DType::ALL {
        for a in EXTREMES {
            for b in EXTREMES {
                for c in EXTREMES {
                    let mut bytes = Vec::new();
                    fill(&mut bytes, 0, dtype, &[a, b, c]);
                    match planned(&window(1, &bytes)) {
                        Ok(plan) => expect_all_exist(&plan, &format!("fill of [{a}, {b}, {c}]")),
                        Err(_) => refused += 1,
                    }
                }
            }
        }
    }
    assert!(refused > 9 * 1000, "{refused} were refused");
}

#[test]
fn extents_whose_product_overflows_on_the_way_to_zero_are_refused_in_any_order() {
    let big = 1 << 40;
    for extents in [[big, big, 0], [0, big, big], [big, 0, big]] {
        let mut bytes = Vec::new();
        fill(&mut bytes, 0, DType::U8, &extents);
        let error = planned(&window(1, &bytes)).expect_err("too large");
        assert!(error.contains("too large"), "{error}");
    }
}

/// A line of an op with its extents replaced: those that were equal stay equal. Small ones mostly, or nothing would fit.
fn stretched(line: &str, names: &[&str], of: &dyn Fn(u64) -> u64) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(open) = rest.find('[') {
        let named = names.iter().any(|name| rest[..open].ends_with(name));
        let close = rest[open..].find(']').expect("lists are closed") + open;
        out.push_str(&rest[..=open]);
        let list = &rest[open + 1..close];
        if named && !list.is_empty() {
            let numbers = list.split(',').map(|n| of(n.trim().parse().expect("an extent")).to_string());
            out.push_str(&numbers.collect::<Vec<_>>().join(", "));
        } else {
            out.push_str(list);
        }
        rest = &rest[close..];
    }
    out + rest
}

#[test]
fn every_op_on_extreme_extents_gives_an_error_or_values_that_can_exist() {
    let names = ["shape=", "sizes=", "low=", "high="];
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut draw = move |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let (mut accepted, mut refused) = (0, 0);
    for &kind in OpKind::ALL {
        for sample in [DType::F32, DType::I64, DType::Bool].iter().flat_map(|&dtype| kind.samples(dtype)) {
            for _ in 0..24 {
                // By extent: itself, or an extreme one.
                let changes: Vec<Option<u64>> =
                    (0..64).map(|_| (draw(3) == 0).then(|| EXTREMES[draw(EXTREMES.len())])).collect();
                let of = |d: u64| changes[d as usize % 64].unwrap_or(d);
                let mut bytes = Vec::new();
                for (k, input) in sample.ins.iter().enumerate() {
                    let extents: Vec<u64> = input.ty.shape.iter().map(|&d| of(d as u64)).collect();
                    fill(&mut bytes, k as u64, input.ty.dtype, &extents);
                }
                let types: Vec<TensorType> = sample.ins.iter().map(|i| i.ty).collect();
                let (first, outs) = (types.len() as u64, sample.op.primitive().infer(&types).unwrap().len() as u64);
                let ins: Vec<u64> = (0..first).collect();
                let line = instr(sample.op.clone(), first..first + outs, &ins, &sample.scalars).to_string();
                let line = stretched(&line, &names, &of);
                let Ok(last) = line.parse::<Instr>() else {
                    refused += 1;
                    continue;
                };
                last.encode(&mut bytes);
                match planned(&window(types.len() + 1, &bytes)) {
                    Ok(plan) => {
                        accepted += 1;
                        expect_all_exist(&plan, &line);
                    }
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
}
