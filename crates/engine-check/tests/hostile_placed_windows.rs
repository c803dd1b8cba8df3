//! Placed windows come by wire: whatever the bytes are, a worker gets an error or steps, never a panic.

use gt_engine_check::conformance::SplitMix;
use gt_ir::codec::Reader;
use gt_ir::shard::Split;
use gt_ir::{ExternalValue, Instr, ScopeId, TensorId, TensorType, Window};
use gt_shard::{
    Layout, Lowerer, Mesh, Placed, PlacedBindings, PlacedStep, PlacedTemplate, PlacedWindow, Placer, Repeated,
};

/// What scopes mean.
type Layouts = Box<dyn Fn(ScopeId) -> Option<Layout>>;

/// Windows that have every kind of step.
fn windows() -> Vec<PlacedWindow> {
    let (window, layouts) = recorded();
    layouts.iter().map(|of| Placer::new(0).window(&window, of).unwrap()).collect()
}

/// The same as templates, each with the bindings of an occurrence.
fn templates() -> Vec<(PlacedTemplate, PlacedBindings)> {
    let (window, layouts) = recorded();
    let repeated = |of: &Layouts| {
        let mut placer = Placer::new(0);
        let mut last = None;
        for occurrence in 0..3u64 {
            let mut window = window.clone();
            let name = |id: &mut TensorId| id.0 += if id.lane() == 0 { 100 * occurrence } else { 0 };
            for instr in &mut window.instrs {
                instr.ins.iter_mut().chain(&mut instr.outs).for_each(name);
            }
            window.frees.iter_mut().for_each(name);
            window.instrs[4].scalars[1] = gt_ir::Scalar::I64(occurrence as i64);
            match placer.place_window(&gt_stream::Occurrence::of(window).unwrap(), of).unwrap() {
                Placed::Repeated(Repeated { template, bindings, .. }) => {
                    let template = template.as_deref().cloned().or(last.map(|(template, _)| template));
                    last = Some((template.unwrap(), bindings));
                }
                // What lies otherwise than before is not the same.
                Placed::Whole(_) => {}
            }
        }
        last
    };
    layouts.iter().filter_map(repeated).collect()
}

fn recorded() -> (Window, Vec<Layouts>) {
    let lines = [
        "%0 = matmul(%1.0, %1.1) turn_a=false turn_b=true @1",
        "%1 = unary(%0) kind=tanh @1",
        "%2 = reduce(%1) kind=sum axes=[0] keepdim=false @1",
        "%3 = reshape(%1) shape=[2,3,5] @1",
        "%4 = random() kind=normal dtype=f32 shape=[6,5] $ 3 4 @2",
        "%5 = binary(%4, %1) kind=add scalar=none @2",
        "%6 = permute(%5) perm=[1,0] @1",
        "%7 = binary(%2, %1.2) kind=mul scalar=none",
        "%8 = update(%1.2, %2) kind=sgd states=0 centered=false maximize=false $ 0.1 0.0 0.0 1.0 @1",
        "%9 = take(%1, %1.3) axis=0 wrap=true @1",
    ];
    let instrs: Vec<Instr> = lines.iter().map(|l| l.parse().unwrap_or_else(|e| panic!("{l}: {e}"))).collect();
    let f32 = gt_ir::DType::F32;
    let met = |n, ty, is_state| ExternalValue { id: TensorId::new(1, n), ty, is_state };
    let met = vec![
        met(0, TensorType::new(f32, &[6, 4]), false),
        met(1, TensorType::new(f32, &[5, 4]), true),
        met(2, TensorType::new(f32, &[5]), true),
        met(3, TensorType::new(gt_ir::DType::I64, &[3]), true),
    ];
    let window = Window { instrs, met, frees: vec![TensorId(0), TensorId(4)], ..Window::default() };
    let meshes = [Mesh::row(&[0, 1]), Mesh::row(&[2, 1, 0]), Mesh::grid(&[0, 1, 2, 3], &[2, 2]).unwrap()];
    let place = |mesh: &Mesh| {
        let splits = mesh.extents().iter().enumerate().map(|(k, _)| Split::shard(k)).collect();
        let first = Layout { mesh: mesh.clone(), splits };
        let second = Layout { mesh: Mesh::row(&[1]), splits: smallvec::smallvec![Split::Replicate] };
        Box::new(move |scope: ScopeId| match scope.0 {
            1 => Some(first.clone()),
            2 => Some(second.clone()),
            _ => None,
        }) as Layouts
    };
    let layouts = meshes.iter().map(place).collect();
    (window, layouts)
}

fn change(bytes: &[u8], random: &mut SplitMix) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for _ in 0..1 + random.below(3) {
        let at = random.below(changed.len() as u64) as usize;
        match random.below(4) {
            0 => changed.truncate(at.max(1)),
            1 => changed[at] = *random.pick(&[0, 1, 2, 127, 128, 255]),
            2 => changed.insert(at, random.bits() as u8),
            _ => changed[at] = random.bits() as u8,
        }
    }
    changed
}

#[test]
fn changed_templates_and_bindings_make_an_error_or_steps() {
    let mut random = SplitMix::new(3);
    let templates = templates();
    assert!(!templates.is_empty());
    let (mut defined, mut replayed) = (0, 0);
    for (template, bindings) in templates {
        let (mut whole, mut bound) = (Vec::new(), Vec::new());
        template.encode(&mut whole);
        bindings.encode(&mut bound);
        for turn in 0..10_000 {
            let template = if turn % 2 == 0 { change(&whole, &mut random) } else { whole.clone() };
            let bindings = if turn % 3 != 1 { change(&bound, &mut random) } else { bound.clone() };
            let template = PlacedTemplate::decode(&mut Reader::new(&template));
            let bindings = PlacedBindings::decode(&mut Reader::new(&bindings));
            if let (Ok(template), Ok(bindings)) = (template, bindings) {
                let mut lowerer = Lowerer::new(turn % 4);
                if lowerer.define(1, template).is_ok() {
                    defined += 1;
                    replayed += lowerer.replay(1, &bindings).is_ok() as u32;
                    let _ = lowerer.replay(1, &bindings);
                }
            }
        }
    }
    assert!(defined > 1000 && replayed > 500, "{defined} templates were defined, {replayed} replayed");
}

/// On how many of four workers the window could be lowered.
fn lower(window: &PlacedWindow) -> u32 {
    (0..4).map(|worker| Lowerer::new(worker).window(window).is_ok() as u32).sum()
}

#[test]
fn changed_bytes_make_an_error_or_steps() {
    let mut random = SplitMix::new(1);
    let (mut decoded, mut lowered) = (0, 0);
    for window in windows() {
        let mut bytes = Vec::new();
        window.encode(&mut bytes);
        for _ in 0..20_000 {
            let changed = change(&bytes, &mut random);
            if let Ok(window) = PlacedWindow::decode(&mut Reader::new(&changed)) {
                decoded += 1;
                lowered += lower(&window);
            }
        }
    }
    assert!(decoded > 5000 && lowered > 5000, "{decoded} windows were decoded, {lowered} lowered");
}

/// Sound bytes that lie about where things are.
#[test]
fn swapped_placements_make_an_error_or_steps() {
    let mut random = SplitMix::new(2);
    let splits = [Split::Replicate, Split::shard(0), Split::shard(1), Split::Shard { axis: 5, unit: 7 }, Split::SUM];
    let mut lowered = 0;
    for window in windows() {
        for _ in 0..20_000 {
            let mut window = window.clone();
            let count = window.placements.len() as u64;
            for _ in 0..1 + random.below(3) {
                let any = random.below(count) as u32;
                let at = random.below(window.steps.len() as u64) as usize;
                match (random.below(4), &mut window.steps[at]) {
                    (0, PlacedStep::Run { outs, .. }) => outs[0] = any,
                    (1, PlacedStep::Run { ins, .. }) if !ins.is_empty() => ins[0].1 = any,
                    (2, PlacedStep::Convert { values, .. }) => values[0].wanted = any,
                    (3, PlacedStep::Convert { values, .. }) => values[0].lies = any,
                    _ => {
                        let placement = &mut window.placements[any as usize];
                        let axis = random.below(placement.splits.len() as u64) as usize;
                        placement.splits[axis] = *random.pick(&splits);
                    }
                }
            }
            lowered += lower(&window);
        }
    }
    assert!(lowered > 5000, "{lowered} windows were lowered");
}
