//! Windows of instructions that fit each other often enough to be planned and run, with extents at which numbers overflow.
//! Random bytes would hardly ever get that far.

use std::sync::OnceLock;

use gt_ir::codec::{Reader, put_varint};
use gt_ir::{DType, Instr, OpKind, Sample, Scalar, ScopeId, SiteId, TensorId, TensorType, Window};

use crate::draw::Draw;
use gt_stream::Occurrence;

use crate::running::run_window;

/// Instances of every op: what the generator changes.
fn samples() -> &'static [Sample] {
    static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let each = |kind: OpKind| DType::ALL.into_iter().flat_map(move |dtype| kind.samples(dtype));
        OpKind::ALL.iter().copied().flat_map(each).collect()
    })
}

/// The binary form of an extent list, its extents changed.
struct Stretch {
    /// By extent.
    changed: [Option<u64>; 64],
}

impl Stretch {
    fn draw(draw: &mut Draw<'_>) -> Stretch {
        let mut changed = [None; 64];
        for _ in 0..draw.below(5) {
            changed[draw.below(8)] = Some(draw.extent());
        }
        Stretch { changed }
    }

    fn of(&self, extent: usize) -> u64 {
        self.changed[extent % 64].unwrap_or(extent as u64)
    }
}

pub fn instructions(bytes: &[u8]) -> bool {
    let mut draw = Draw::new(bytes);
    let (mut encoded, mut count, mut types) = (Vec::new(), 0u64, Vec::<TensorType>::new());
    while !draw.is_over() && count < 24 {
        let sample = &samples()[draw.below(samples().len())];
        let stretch = Stretch::draw(&mut draw);
        let mut ins: Vec<TensorId> = Vec::new();
        for input in &sample.ins {
            // What there is already, if it fits, or is forced to; else a fill of the stretched extents.
            let same = types.iter().rposition(|ty| *ty == input.ty);
            let at = match (draw.byte() % 4, same) {
                (0..=1, Some(at)) => at,
                (2, _) if !types.is_empty() => draw.below(types.len()),
                _ => {
                    let extents: Vec<u64> = input.ty.shape.iter().map(|&d| stretch.of(d)).collect();
                    let Some(ty) = fill(&mut encoded, types.len() as u64, input.ty.dtype, &extents) else {
                        return false;
                    };
                    count += 1;
                    types.push(ty);
                    types.len() - 1
                }
            };
            ins.push(TensorId(at as u64));
        }
        let scalars = sample.scalars.iter().map(|scalar| match (draw.byte() % 4, scalar) {
            (0, Scalar::I64(_)) => Scalar::I64(draw.signed()),
            (1, _) => Scalar::F64(draw.signed() as f64),
            _ => *scalar,
        });
        let mut instr = Instr {
            op: sample.op.clone(),
            outs: Default::default(),
            ins: ins.into(),
            scalars: scalars.collect(),
            scope: ScopeId(0),
            site: SiteId(count as u32),
        };
        // Attributes are changed as text: equal extents stay equal.
        let line = stretched(&instr.to_string(), &stretch);
        if let Ok(changed) = line.parse::<Instr>() {
            instr.op = changed.op;
        }
        let own: Vec<TensorType> = instr.ins.iter().map(|id| types[id.0 as usize]).collect();
        let Ok(outs) = instr.op.primitive().infer(&own) else { continue };
        let wanted = instr.op.primitive().scalars(&own);
        instr.scalars.resize(wanted, Scalar::I64(draw.signed()));
        instr.outs = (0..outs.len()).map(|i| TensorId((types.len() + i) as u64)).collect();
        types.extend(outs);
        instr.encode(&mut encoded);
        count += 1;
    }
    let mut window = Vec::new();
    put_varint(&mut window, count);
    window.extend_from_slice(&encoded);
    // No payloads, nothing freed; by its last bytes eager or joined.
    window.extend([0, 0, 0, (bytes.len() % 2) as u8]);
    match Window::decode(&mut Reader::new(&window)) {
        Ok(window) => Occurrence::of(window).is_ok_and(|window| run_window(&window)),
        Err(_) => false,
    }
}

/// The bytes of a fill with any extents, and its type if one with those extents can exist.
fn fill(out: &mut Vec<u8>, id: u64, dtype: DType, extents: &[u64]) -> Option<TensorType> {
    let mut own = vec![OpKind::Fill as u8, dtype as u8, extents.len() as u8];
    extents.iter().for_each(|&d| put_varint(&mut own, d));
    own.push(1);
    put_varint(&mut own, id);
    own.extend([0, 1]);
    Scalar::I64(1).encode(&mut own);
    own.extend([0, 0]);
    let decoded = Instr::decode(&mut Reader::new(&own)).ok()?;
    out.extend_from_slice(&own);
    decoded.infer(&[]).ok().map(|outs| outs[0])
}

/// A line with the extents in its attributes changed.
fn stretched(line: &str, stretch: &Stretch) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(open) = rest.find('[') {
        let named = ["shape=", "sizes=", "low=", "high="].iter().any(|name| rest[..open].ends_with(name));
        let close = rest[open..].find(']').map_or(rest.len(), |at| at + open);
        out.push_str(&rest[..=open]);
        let list = &rest[open + 1..close];
        let numbers: Option<Vec<usize>> = list.split(',').map(|n| n.trim().parse().ok()).collect();
        match numbers.filter(|_| named) {
            Some(numbers) => {
                let changed: Vec<String> = numbers.iter().map(|&n| stretch.of(n).to_string()).collect();
                out.push_str(&changed.join(", "));
            }
            None => out.push_str(list),
        }
        rest = &rest[close..];
    }
    out + rest
}
