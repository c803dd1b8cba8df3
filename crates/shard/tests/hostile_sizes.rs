//! Short messages that ask for a lot of work or memory: they are refused, and soon.

use std::time::{Duration, Instant};

use gt_ir::codec::{MAX_WINDOW_INSTRS, Reader, put_varint};
use gt_ir::ops::Fill;
use gt_ir::shard::Split;
use gt_ir::{DType, Instr, Scalar, ScopeId, Shape, SiteId, TensorId, TensorType, Window};
use gt_shard::{Conversion, Lowerer, Mesh, PlacedStep, PlacedWindow, Placement};
use smallvec::smallvec;

const PATIENCE: Duration = Duration::from_secs(30);
/// Other sessions wait meanwhile.
const SOON: Duration = Duration::from_secs(10);

/// A window that makes something of a tensor of one number: whole on 1024 workers, then cut over them.
fn converted(values: u64, conversions: u64) -> PlacedWindow {
    let workers: Vec<u32> = (0..1024).collect();
    let mesh = Mesh::row(&workers);
    let cut = Placement { mesh: mesh.clone(), splits: smallvec![Split::Shard { axis: 0, unit: 1 }] };
    let turned = Placement { mesh, splits: smallvec![Split::Shard { axis: 1, unit: 1 }] };
    let step = |n: u64| PlacedStep::Convert {
        values: (0..values)
            .map(|value| Conversion {
                from: TensorId(1 + value),
                to: TensorId(1_000_000 + n * values + value),
                ty: TensorType::new(DType::F32, &[1024, 1024]),
                lies: 0,
                wanted: 1,
            })
            .collect(),
        first: TensorId(1 << 40),
        site: SiteId::default(),
    };
    PlacedWindow {
        placements: vec![cut, turned],
        steps: (0..conversions).map(step).collect(),
        uploads: Vec::new(),
        frees: Vec::new(),
        eager: false,
        joined: false,
    }
}

#[test]
fn conversions_between_a_thousand_workers_kept_their_receiver_busy_for_hours() {
    let begun = Instant::now();
    let mut bytes = Vec::new();
    converted(1, 10_000).encode(&mut bytes);
    assert!(bytes.len() < 300_000, "the message is short: {} bytes", bytes.len());
    let window = PlacedWindow::decode(&mut Reader::new(&bytes)).expect("it is one");
    let error = Lowerer::new(0).window(&window).expect_err("it is too much");
    assert!(error.to_string().contains("too many"), "{error}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // About the most that passes takes no longer: twice as much kept a worker busy for nine seconds.
    let begun = Instant::now();
    assert!(Lowerer::new(0).window(&converted(1, 64)).is_ok());
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // A reasonable one passes.
    let steps = Lowerer::new(0).window(&converted(1, 1)).expect("it is a window");
    assert!(steps.len() > 1024);
}

#[test]
fn conversions_of_many_values_took_time_that_grew_with_their_square() {
    let begun = Instant::now();
    let workers = Placement::replicated(Mesh::row(&[0, 1]));
    let mut window = converted(100_000, 1);
    let cut = Placement { mesh: workers.mesh.clone(), splits: smallvec![Split::Shard { axis: 0, unit: 1 }] };
    window.placements = vec![cut, workers];
    let Some(PlacedStep::Convert { values, .. }) = window.steps.first_mut() else { unreachable!() };
    values.iter_mut().for_each(|value| value.ty = TensorType::new(DType::F32, &[2]));
    let steps = Lowerer::new(0).window(&window).expect("it is a window");
    assert!(!steps.is_empty());
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn a_mesh_had_as_many_axes_as_a_message_has_bytes() {
    let mut bytes = Vec::new();
    // One placement, whose mesh is one worker on a million axes of one worker each.
    put_varint(&mut bytes, 1);
    put_varint(&mut bytes, 1_000_000);
    bytes.extend(std::iter::repeat_n(1u8, 2_000_000));
    let error = PlacedWindow::decode(&mut Reader::new(&bytes)).expect_err("no tensor has so many axes");
    assert!(error.to_string().contains("axes"), "{error}");
}

fn fill() -> Instr {
    Instr {
        op: Fill { dtype: DType::F32, shape: Shape::default() }.into(),
        outs: smallvec![TensorId(1)],
        ins: smallvec![],
        scalars: smallvec![Scalar::F64(1.0)],
        scope: ScopeId::default(),
        site: SiteId::default(),
    }
}

#[test]
fn a_window_had_as_many_instructions_as_a_message_has_bytes() {
    let mut instr = Vec::new();
    fill().encode(&mut instr);
    let mut bytes = Vec::new();
    put_varint(&mut bytes, MAX_WINDOW_INSTRS as u64 + 1);
    (0..=MAX_WINDOW_INSTRS).for_each(|_| bytes.extend_from_slice(&instr));
    let error = Window::decode(&mut Reader::new(&bytes)).expect_err("it is too long");
    assert!(error.to_string().contains("instructions"), "{error}");
}
