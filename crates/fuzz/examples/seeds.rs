//! Writes inputs to start from into `fuzz/corpus`, one file each: small and sound, a few of every kind.
//!
//! `cargo run -p gt-fuzz --example seeds`

use std::path::Path;

use gt_ir::ops::Fill;
use gt_ir::shard::Split;
use gt_ir::{DType, ExternalValue, Instr, OpKind, Scalar, ScopeId, SiteId, TensorId, TensorType, Window};
use gt_net::Frame;
use gt_net::protocol::{DataRequest, StreamMessage, ToServer, encode};
use gt_shard::{Layout, Mesh, Placed, Placer};
use gt_stream::Occurrence;

fn keep(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    std::fs::write(folder.join(name), bytes).expect("the file can be written");
}

fn instr(op: gt_ir::Op, outs: std::ops::Range<u64>, ins: std::ops::Range<u64>, scalars: &[Scalar]) -> Instr {
    Instr {
        op,
        outs: outs.map(TensorId).collect(),
        ins: ins.map(TensorId).collect(),
        scalars: scalars.iter().copied().collect(),
        scope: ScopeId(0),
        site: SiteId(3),
    }
}

/// One window for every op: its inputs filled, and the op on them.
fn windows() -> Vec<(String, Window)> {
    let mut out = Vec::new();
    for &kind in OpKind::ALL {
        let samples = kind.samples(DType::F32);
        for (n, sample) in samples.iter().enumerate().step_by(samples.len().div_ceil(2).max(1)) {
            let types: Vec<TensorType> = sample.ins.iter().map(|i| i.ty).collect();
            let count = types.len() as u64;
            let fill = |(k, ty): (u64, &TensorType)| {
                instr(Fill { dtype: ty.dtype, shape: ty.shape }.into(), k..k + 1, 0..0, &[Scalar::I64(0)])
            };
            let mut instrs: Vec<Instr> = (0..).zip(&types).map(fill).collect();
            let outs = sample.op.primitive().infer(&types).expect("samples are sound").len() as u64;
            instrs.push(instr(sample.op.clone(), count..count + outs, 0..count, &sample.scalars));
            let frees = (0..count).map(TensorId).collect();
            out.push((format!("{}-{n}", kind.name()), Window { instrs, frees, ..Window::default() }));
        }
    }
    out
}

fn occurrence_of(window: &Window) -> Occurrence {
    Occurrence::of(window.clone()).expect("an occurrence")
}

fn placed() {
    let lines = [
        "%0 = matmul(%1.0, %1.1) turn_a=false turn_b=true @1",
        "%1 = unary(%0) kind=tanh @1",
        "%2 = reduce(%1) kind=sum axes=[0] keepdim=false @1",
        "%3 = reshape(%1) shape=[2,3,5] @1",
        "%4 = binary(%2, %1.2) kind=mul scalar=none",
        "%5 = take(%1, %1.3) axis=0 wrap=true @1",
    ];
    let instrs: Vec<Instr> = lines.iter().map(|l| l.parse().expect("a line")).collect();
    let met = |n, dtype, shape: &[usize]| ExternalValue {
        id: TensorId::new(1, n),
        ty: TensorType::new(dtype, shape),
        is_state: n > 0,
    };
    let met = vec![
        met(0, DType::F32, &[6, 4]),
        met(1, DType::F32, &[5, 4]),
        met(2, DType::F32, &[5]),
        met(3, DType::I64, &[3]),
    ];
    let window = Window { instrs, met, frees: vec![TensorId(0)], ..Window::default() };
    for (n, mesh) in [Mesh::row(&[0, 1]), Mesh::row(&[2, 1, 0]), Mesh::grid(&[0, 1, 2, 3], &[2, 2]).expect("a grid")]
        .iter()
        .enumerate()
    {
        let splits = mesh.extents().iter().enumerate().map(|(k, _)| Split::shard(k)).collect();
        let layout = Layout { mesh: mesh.clone(), splits };
        let of = |scope: ScopeId| (scope.0 == 1).then(|| layout.clone());
        let mut bytes = Vec::new();
        Placer::new(0).window(&window, &of).expect("it can be placed").encode(&mut bytes);
        keep("placed_window", &format!("mesh-{n}"), &bytes);
        let (mut placer, mut found) = (Placer::new(0), Vec::new());
        for occurrence in 0..4u64 {
            let mut window = window.clone();
            let name = |id: &mut TensorId| id.0 += if id.lane() == 0 { 100 * occurrence } else { 0 };
            for instr in &mut window.instrs {
                instr.ins.iter_mut().chain(&mut instr.outs).for_each(name);
            }
            window.frees.iter_mut().for_each(name);
            if let Placed::Repeated(repeated) =
                placer.place_window(&occurrence_of(&window), &of).expect("it can be placed")
            {
                if let Some(template) = &repeated.template {
                    found.clear();
                    template.encode(&mut found);
                }
                repeated.bindings.encode(&mut found);
                keep("placed_template", &format!("mesh-{n}-{occurrence}"), &found);
            }
        }
    }
}

fn main() {
    for (name, window) in windows() {
        let (mut bytes, mut template) = (Vec::new(), Vec::new());
        let occurrence = occurrence_of(&window);
        occurrence.encode(usize::MAX, &mut bytes);
        keep("window", &name, &bytes);
        occurrence.template().encode(&mut template);
        occurrence.bindings().encode(usize::MAX, &mut template);
        keep("template", &name, &template);
        let mut message = vec![4];
        message.extend(encode(&StreamMessage::Send { window: &bytes }));
        keep("messages", &format!("send-{name}"), &message);
        let mut frames = vec![7];
        Frame::Greeting { features: 1 }.encode(&mut frames);
        Frame::Challenge { nonce: [9; 32] }.encode(&mut frames);
        Frame::Allow { head: 1 << 20, body: 1 << 20 }.encode(&mut frames);
        Frame::Head(&message[1..]).encode(&mut frames);
        Frame::Open { stream: 1, len: 4, head: b"head" }.encode(&mut frames);
        Frame::Part { stream: 1, bytes: b"body" }.encode(&mut frames);
        keep("frames", &name, &frames);
    }
    placed();
    for seed in 0..64u8 {
        let mut state = seed as u32 + 1;
        let bytes: Vec<u8> = (0..48 + seed as usize)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        keep("instructions", &format!("drawn-{seed}"), &bytes);
    }
    let hello = ToServer::Hello {
        proof: b"open",
        name: "train.py".into(),
        variables: vec![("GT_COMPILE".to_string(), "1".to_string())],
        workers: 2,
        resume: None,
        pin: None,
    };
    keep("messages", "hello", &[&[0][..], &encode(&hello)].concat());
    let ty = TensorType::new(DType::F32, &[2]);
    let transfer = DataRequest::Transfer { number: 0, id: TensorId(1), value: Ok(ty), bytes: Some(&[0; 8]) };
    keep("messages", "transfer", &[&[5][..], &encode(&transfer)].concat());
}
