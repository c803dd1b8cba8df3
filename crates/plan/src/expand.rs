//! A composite as a window of primitives: for engines without a kernel for it, and for whoever has to look inside.

use gt_ir::{Emit, Instr, Op, OpError, Outs, Scalar, Scalars, ScopeId, SiteId, TensorId, TensorType, Val, Window};
use smallvec::SmallVec;

/// A composite spelled out.
pub struct Expansion {
    /// The primitives; what is not among `outs` dies in it.
    pub window: Window,
    /// The ids of the composite's inputs.
    pub inputs: Vec<TensorId>,
    /// The ids of its outputs.
    pub outs: Vec<TensorId>,
}

/// Spells out a composite on inputs of these types; `None` for a primitive.
pub fn expand(op: &Op, ins: &[TensorType], scalars: &[Scalar]) -> Option<Result<Expansion, OpError>> {
    let composite = op.composite()?;
    let mut recorder = Recorder::default();
    let vals: Vec<Val> = ins
        .iter()
        .enumerate()
        // Another lane than that of the window's own values (WINDOW-1).
        .map(|(i, &ty)| recorder.put(TensorId::new(1, i as u64), ty))
        .collect();
    Some(composite.expand(&vals, scalars, &mut recorder).map(|outs| {
        let id = |v: &Val| recorder.values[v.0 as usize].0;
        let (inputs, outs): (Vec<_>, Vec<_>) = (vals.iter().map(id).collect(), outs.iter().map(id).collect());
        let mut window = recorder.window;
        window.frees = (0..recorder.next).map(|n| TensorId::new(0, n)).filter(|id| !outs.contains(id)).collect();
        Expansion { window, inputs, outs }
    }))
}

/// Puts instructions into a window.
#[derive(Default)]
struct Recorder {
    window: Window,
    values: Vec<(TensorId, TensorType)>,
    next: u64,
}

impl Recorder {
    fn put(&mut self, id: TensorId, ty: TensorType) -> Val {
        self.values.push((id, ty));
        Val(self.values.len() as u32 - 1)
    }
}

impl Emit for Recorder {
    fn emit(&mut self, op: Op, ins: &[Val], scalars: &[Scalar]) -> Result<SmallVec<[Val; 2]>, OpError> {
        let types: SmallVec<[TensorType; 4]> = ins.iter().map(|&v| self.ty(v)).collect();
        let made = op.primitive().infer(&types)?;
        let first = self.next;
        self.next += made.len() as u64;
        let outs: Outs = (0..made.len() as u64).map(|i| TensorId::new(0, first + i)).collect();
        self.window.instrs.push(Instr {
            op,
            outs: outs.clone(),
            ins: ins.iter().map(|&v| self.values[v.0 as usize].0).collect(),
            scalars: Scalars::from_slice(scalars),
            scope: ScopeId(0),
            site: SiteId(0),
        });
        Ok(outs.iter().zip(made).map(|(&id, ty)| self.put(id, ty)).collect())
    }

    fn ty(&self, v: Val) -> TensorType {
        self.values[v.0 as usize].1
    }
}
