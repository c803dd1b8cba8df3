//! What the table tests and the fuzz tests share: every sample as an instruction, and an emitter of types.

use gt_ir::{DType, Emit, Instr, Op, OpError, OpKind, Scalar, ScopeId, SiteId, TensorId, TensorType, Val};
use smallvec::SmallVec;

/// Every sample of the op table in every dtype, as an instruction with the types of its inputs.
pub fn sample_instrs() -> Vec<(Instr, Vec<TensorType>)> {
    let mut out = Vec::new();
    for &kind in OpKind::ALL {
        for dtype in DType::ALL {
            for sample in kind.samples(dtype) {
                let ins: Vec<TensorType> = sample.ins.iter().map(|i| i.ty).collect();
                let n = out.len() as u64;
                let outs = sample.op.primitive().infer(&ins).expect("samples are well formed").len() as u64;
                let instr = Instr {
                    op: sample.op,
                    outs: (0..outs).map(|i| TensorId::new((n % 3) as u16, n * 5 + i)).collect(),
                    ins: (0..ins.len() as u64).map(|i| TensorId::new(1, n + i)).collect(),
                    scalars: sample.scalars.into_iter().collect(),
                    scope: ScopeId(n as u32 % 4),
                    site: SiteId(n as u32 * 7 % 1000),
                };
                out.push((instr, ins));
            }
        }
    }
    out
}

/// An emitter that computes nothing but types.
#[derive(Default)]
pub struct TypesOnly(Vec<TensorType>);

impl TypesOnly {
    /// A value of this type.
    pub fn put(&mut self, ty: TensorType) -> Val {
        self.0.push(ty);
        Val(self.0.len() as u32 - 1)
    }
}

impl Emit for TypesOnly {
    fn emit(&mut self, op: Op, ins: &[Val], scalars: &[Scalar]) -> Result<SmallVec<[Val; 2]>, OpError> {
        let types: Vec<TensorType> = ins.iter().map(|&v| self.ty(v)).collect();
        let outs = op.primitive().infer(&types)?;
        assert_eq!(op.primitive().scalars(&types), scalars.len(), "scalars of {}", op.display_name());
        Ok(outs.into_iter().map(|ty| self.put(ty)).collect())
    }
    fn ty(&self, value: Val) -> TensorType {
        self.0[value.0 as usize]
    }
}
