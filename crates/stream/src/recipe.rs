//! Recipes: what windows compute, without names, numbers and source lines.
//!
//! RECIPE-1: operands are numbered: inputs in order of first use, definitions in order of definition. Every value is
//! defined before it is used, and every instruction defines at least one.
//! RECIPE-2: scalars are placeholders, sites are zero.
//! RECIPE-3: two interned recipes with different numbers differ. Numbers are never reused in a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gt_ir::codec::{Reader, put_varint};
use gt_ir::{Digest, Instr, Op, OpError, ScopeId, StreamHasher, TensorId, TensorType};

use crate::{Operand, intern};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Where a recipe uploads a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadPlace {
    /// The position of the upload among the instructions.
    pub instr: u32,
    /// The size of its payload.
    pub len_bytes: usize,
}

/// What a window computes.
#[derive(Debug)]
pub struct Recipe {
    number: u64,
    digest: Digest,
    body: Body,
    scalars: usize,
    uploads: Box<[UploadPlace]>,
    scopes: Box<[ScopeId]>,
    survivors: Box<[Survivor]>,
}

/// A value that a window defines and does not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its number among the definitions.
    pub defined: u32,
    /// The position of the instruction that defines it.
    pub instr: u32,
}

/// What makes recipes equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Body {
    /// See RECIPE-1 and RECIPE-2.
    pub(crate) instrs: Vec<Instr>,
    /// For each input: whether the window frees it.
    pub(crate) dying: Vec<bool>,
    /// For each definition: whether the window frees it.
    pub(crate) dead: Vec<bool>,
}

impl Body {
    /// A digest that peers cannot construct another body for (HASH-1).
    pub(crate) fn digest(&self) -> Digest {
        let mut hasher = StreamHasher::default();
        self.feed(&mut hasher, &[]);
        hasher.finish()
    }

    fn feed(&self, hasher: &mut StreamHasher, input_types: &[TensorType]) {
        let mut types = input_types.iter();
        let mut inputs = 0;
        for instr in &self.instrs {
            instr.op.feed(hasher);
            hasher.word((instr.ins.len() as u64) << 40 | (instr.outs.len() as u64) << 20 | instr.scalars.len() as u64);
            hasher.word(instr.scope.0 as u64);
            for &id in &instr.ins {
                hasher.word(id.0);
                if id == Operand::Input(inputs).id() {
                    inputs += 1;
                    if let Some(ty) = types.next() {
                        hasher.tensor(ty);
                    }
                }
            }
        }
        for bits in [&self.dying, &self.dead] {
            for chunk in bits.chunks(64) {
                hasher.word(chunk.iter().rev().fold(0, |word, &bit| word << 1 | bit as u64));
            }
        }
    }
}

impl Recipe {
    /// The most instructions of a recipe.
    pub const MAX_INSTRS: usize = 1 << 24;

    /// The recipe with this body: the interned one if there is one already.
    pub(crate) fn interned(body: Body) -> Arc<Recipe> {
        intern::intern(body)
    }

    /// A recipe that no other window will share, unless it is interned.
    pub(crate) fn new(body: Body, digest: Digest) -> Recipe {
        let scalars = body.instrs.iter().map(|instr| instr.scalars.len()).sum();
        let upload = |(at, instr): (usize, &Instr)| match &instr.op {
            Op::Upload(upload) => Some(UploadPlace {
                instr: at as u32,
                len_bytes: upload.shape.numel().saturating_mul(upload.dtype.size()),
            }),
            _ => None,
        };
        let uploads = body.instrs.iter().enumerate().filter_map(upload).collect();
        let mut scopes: Vec<ScopeId> = Vec::new();
        let (mut survivors, mut defined) = (Vec::new(), 0u32);
        for (at, instr) in (0u32..).zip(&body.instrs) {
            if scopes.last() != Some(&instr.scope) && !scopes.contains(&instr.scope) {
                scopes.push(instr.scope);
            }
            let own = defined..defined + instr.outs.len() as u32;
            defined = own.end;
            let alive = own.filter(|&k| !body.dead[k as usize]);
            survivors.extend(alive.map(|defined| Survivor { defined, instr: at }));
        }
        Recipe {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            digest,
            body,
            scalars,
            uploads,
            scopes: scopes.into(),
            survivors: survivors.into(),
        }
    }

    /// The recipe of a window that does not repeat.
    pub(crate) fn once(body: Body) -> Arc<Recipe> {
        Arc::new(Recipe::new(body, 0))
    }

    /// Its number in this process (RECIPE-3).
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Names it in statistics. 0 for a recipe that is not interned.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Its instructions, with [`Operand`]s for names.
    #[inline]
    pub fn instrs(&self) -> &[Instr] {
        &self.body.instrs
    }

    /// How many instructions it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.body.instrs.len()
    }

    /// Whether it has no instructions.
    pub fn is_empty(&self) -> bool {
        self.body.instrs.is_empty()
    }

    /// For each value from outside: whether the window frees it.
    #[inline]
    pub fn dying(&self) -> &[bool] {
        &self.body.dying
    }

    /// For each value that the window defines: whether the window frees it.
    #[inline]
    pub fn dead(&self) -> &[bool] {
        &self.body.dead
    }

    /// How many values from outside it uses.
    #[inline]
    pub fn inputs(&self) -> usize {
        self.body.dying.len()
    }

    /// How many values it defines.
    #[inline]
    pub fn defined(&self) -> usize {
        self.body.dead.len()
    }

    /// How many scalars all instructions have together.
    #[inline]
    pub fn scalars(&self) -> usize {
        self.scalars
    }

    /// Its uploads, in order.
    pub fn uploads(&self) -> &[UploadPlace] {
        &self.uploads
    }

    /// The scopes of its instructions, each once.
    pub fn scopes(&self) -> &[ScopeId] {
        &self.scopes
    }

    /// The values that it defines and does not free, in order.
    pub fn survivors(&self) -> &[Survivor] {
        &self.survivors
    }

    /// The position of the first instruction that reads input `k`.
    pub fn first_reader(&self, k: usize) -> u32 {
        let id = Operand::Input(k as u32).id();
        self.body.instrs.iter().position(|instr| instr.ins.contains(&id)).unwrap_or(0) as u32
    }

    /// The digest of the recipe with the types of its inputs.
    pub fn hash(&self, input_types: &[TensorType]) -> Digest {
        let mut hasher = StreamHasher::default();
        self.body.feed(&mut hasher, input_types);
        hasher.finish()
    }

    /// The memory it takes.
    pub fn held_bytes(&self) -> usize {
        self.body.instrs.iter().map(Instr::held_bytes).sum::<usize>()
            + self.body.dying.len()
            + self.body.dead.len()
            + size_of_val(&self.uploads[..])
            + size_of_val(&self.survivors[..])
    }

    pub(crate) fn body(&self) -> &Body {
        &self.body
    }

    /// Appends the binary form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.body.instrs.len() as u64);
        self.body.instrs.iter().for_each(|instr| instr.encode(out));
        for bits in [&self.body.dying, &self.body.dead] {
            put_varint(out, bits.iter().filter(|&&bit| bit).count() as u64);
            for (k, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
                put_varint(out, k as u64);
            }
        }
    }

    /// Reads the binary form of a recipe from outside.
    ///
    /// # Errors
    /// When the bytes are not a recipe (RECIPE-1, RECIPE-2).
    pub fn decode(r: &mut Reader<'_>) -> Result<Arc<Recipe>, OpError> {
        Body::decode(r).map(Recipe::interned)
    }
}

impl Body {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Body, OpError> {
        fn wrong<T>(what: &str) -> Result<T, OpError> {
            Err(OpError::malformed(format!("a recipe {what}")))
        }

        let count = r.instr_count(4)?;
        let mut instrs = Vec::with_capacity(count);
        let (mut inputs, mut defined) = (0u32, 0u32);
        for _ in 0..count {
            let instr = Instr::decode(r)?;
            for &id in &instr.ins {
                match Operand::of(id) {
                    _ if id.0 >> 33 != 0 => return wrong("names a value that cannot exist"),
                    Operand::Defined(k) if k >= defined => return wrong("uses a value before it is defined"),
                    Operand::Input(k) if k > inputs => return wrong("skips an input"),
                    Operand::Input(k) if k == inputs => inputs += 1,
                    Operand::Defined(_) | Operand::Input(_) => {}
                }
            }
            if instr.outs.is_empty() {
                return wrong("has an instruction that defines nothing");
            }
            for &id in &instr.outs {
                if id != Operand::Defined(defined).id() {
                    return wrong("does not count its values");
                }
                defined += 1;
            }
            if instr.site.0 != 0 || instr.scalars.iter().any(|&scalar| scalar != PLACEHOLDER) {
                return wrong("has scalars or source lines of its own");
            }
            instrs.push(instr);
        }
        let mut bits = |count: u32| -> Result<Vec<bool>, OpError> {
            r.spend(count as usize)?;
            let mut bits = vec![false; count as usize];
            for _ in 0..r.count(1)? {
                let k = r.varint()?;
                match usize::try_from(k).ok().and_then(|k| bits.get_mut(k)) {
                    Some(bit) => *bit = true,
                    None => return wrong("frees an unknown value"),
                }
            }
            Ok(bits)
        };
        let (dying, dead) = (bits(inputs)?, bits(defined)?);
        Ok(Body { instrs, dying, dead })
    }
}

/// Stands for every scalar in a recipe (RECIPE-2).
pub(crate) const PLACEHOLDER: gt_ir::Scalar = gt_ir::Scalar::Bool(false);

/// The id of a value of an occurrence that names its inputs so and whose first definition is `first`.
#[inline]
pub(crate) fn bound(id: TensorId, first: TensorId, inputs: &[TensorId]) -> TensorId {
    match Operand::of(id) {
        Operand::Input(k) => inputs[k as usize],
        Operand::Defined(k) => TensorId(first.0 + k as u64),
    }
}
