//! Templates: a window that repeats, apart from the names and numbers of one occurrence.
//!
//! A client sends a window whole the first time, as a definition the second time, and from then on as a digest with its
//! [`Bindings`]. Whoever receives it makes the window again.
//!
//! TEMPLATE-1: `template.bind(bindings)?.window()` is the window that [`TemplateHasher::run`] saw, except that payloads which travel apart
//! are missing.
//! TEMPLATE-2: two windows have one digest only if they have one template: ops, operands, scopes, sites, what is freed.
//! TEMPLATE-3: a template from outside is checked when it is decoded; bindings when they are bound. Neither can make a window
//! that names a value before it is defined.

use std::sync::Arc;

use gt_ir::codec::{Reader, put_payloads, put_varint};
use gt_ir::{Digest, Op, OpError, Payload, Scalar, SiteId, StreamHasher, TensorId, Window};

use crate::input_index::InputIndex;

/// What one occurrence of a template brings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bindings {
    /// The id of the first value the window defines; the others follow it.
    pub first: TensorId,
    /// The values from outside, in order of first use.
    pub inputs: Vec<TensorId>,
    /// All scalars of all instructions, in order.
    pub scalars: Vec<Scalar>,
    /// Freed values that the window does not use.
    pub older_frees: Vec<TensorId>,
    /// Payloads that travel along.
    pub uploads: Vec<Payload>,
    /// [`Window::joined`].
    pub joined: bool,
}

/// A window with operands by number: input `k` is the id `2 * k`, definition `k` is `2 * k + 1`; scalars are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    window: Window,
    inputs: usize,
    defined: usize,
    scalars: usize,
}

/// A template with bindings that are ones of it (TEMPLATE-3).
#[derive(Clone, Debug)]
pub struct Occurrence {
    template: Arc<Template>,
    bindings: Bindings,
}

/// Looks at windows before they are sent, with memory that it keeps between them.
pub struct TemplateHasher {
    index: InputIndex,
    bindings: Bindings,
}

impl Default for TemplateHasher {
    fn default() -> Self {
        TemplateHasher { index: InputIndex::new(), bindings: Bindings::default() }
    }
}

/// How a template names a value.
enum Name {
    Input(u32),
    Defined(u64),
}

impl Name {
    fn id(self) -> TensorId {
        match self {
            Name::Input(k) => TensorId(2 * k as u64),
            Name::Defined(k) => TensorId(2 * k + 1),
        }
    }
}

impl TemplateHasher {
    /// The digest of a window's template, and the bindings of this occurrence. Uploads over `most_bytes` are left out.
    pub fn run(&mut self, window: &Window, most_bytes: usize) -> (Digest, &Bindings) {
        self.index.reset();
        let out = &mut self.bindings;
        out.inputs.clear();
        out.scalars.clear();
        out.older_frees.clear();
        out.uploads.clear();
        out.joined = window.joined;
        out.first = window.instrs.first().and_then(|i| i.outs.first()).copied().unwrap_or_default();
        let first = out.first.0;
        let mut hasher = StreamHasher::default();
        let mut defined = 0u64;
        for instr in &window.instrs {
            instr.op.feed(&mut hasher);
            hasher.word((instr.ins.len() as u64) << 40 | (instr.outs.len() as u64) << 20 | instr.scalars.len() as u64);
            hasher.word((instr.scope.0 as u64) << 32 | instr.site.0 as u64);
            for &id in &instr.ins {
                let offset = id.0.wrapping_sub(first);
                hasher.word(if offset < defined {
                    offset << 1 | 1
                } else {
                    let next = out.inputs.len() as u32;
                    let index = self.index.get_or_insert(id, next);
                    if index == next {
                        out.inputs.push(id);
                    }
                    (index as u64) << 1
                });
            }
            out.scalars.extend_from_slice(&instr.scalars);
            defined += instr.outs.len() as u64;
        }
        // What is freed is a set: of the definitions and inputs a sum over them that any order gives.
        let mut freed = [0u64; 2];
        for &id in &window.frees {
            let offset = id.0.wrapping_sub(first);
            let name = match self.index.get(id) {
                _ if offset < defined => offset << 1 | 1,
                Some(k) => (k as u64) << 1,
                None => {
                    out.older_frees.push(id);
                    continue;
                }
            };
            let spread = (name + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            freed[0] = freed[0].wrapping_add(spread ^ spread >> 29);
            freed[1] = freed[1].wrapping_add((spread ^ spread >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93));
        }
        freed.into_iter().for_each(|word| hasher.word(word));
        out.uploads.extend(window.uploads.iter().filter(|p| p.bytes.len() <= most_bytes).cloned());
        (hasher.finish().exact, &self.bindings)
    }

    /// The template of the window that was looked at last.
    pub fn template(&self, window: &Window) -> Template {
        let first = self.bindings.first.0;
        let defined: usize = window.instrs.iter().map(|i| i.outs.len()).sum();
        let name = |id: TensorId| {
            let offset = id.0.wrapping_sub(first);
            let known =
                if offset < defined as u64 { Some(Name::Defined(offset)) } else { self.index.get(id).map(Name::Input) };
            known.map(Name::id)
        };
        let mut plain = Window { instrs: window.instrs.clone(), ..Window::default() };
        let mut next = 0;
        for instr in &mut plain.instrs {
            instr.ins.iter_mut().for_each(|id| *id = name(*id).unwrap_or(*id));
            for id in &mut instr.outs {
                *id = Name::Defined(next).id();
                next += 1;
            }
            instr.scalars.fill(Scalar::Bool(false));
        }
        // A set: sorted, so that one template has one form.
        plain.frees = window.frees.iter().filter_map(|&id| name(id)).collect();
        plain.frees.sort_unstable();
        Template { window: plain, inputs: self.bindings.inputs.len(), defined, scalars: self.bindings.scalars.len() }
    }
}

impl Template {
    /// Appends the binary form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.window.encode(out);
    }

    /// Reads the binary form of a template from outside.
    ///
    /// # Errors
    /// When it is not one (TEMPLATE-3).
    pub fn decode(r: &mut Reader<'_>) -> Result<Template, OpError> {
        let window = Window::decode(r)?;
        let (mut inputs, mut defined, mut scalars) = (0u64, 0u64, 0usize);
        let wrong = |what: &str| Err(OpError::malformed(format!("a template {what}")));
        for instr in &window.instrs {
            for id in &instr.ins {
                let k = id.0 >> 1;
                if id.0 & 1 == 1 {
                    if k >= defined {
                        return wrong("uses a value before it is defined");
                    }
                } else if k > inputs {
                    return wrong("skips an input");
                } else if k == inputs {
                    inputs += 1;
                }
            }
            if instr.outs.is_empty() {
                return wrong("has an instruction that defines nothing");
            }
            for id in &instr.outs {
                if *id != Name::Defined(defined).id() {
                    return wrong("does not count its values");
                }
                defined += 1;
            }
            scalars += instr.scalars.len();
        }
        if window.frees.iter().any(|id| id.0 >> 1 >= if id.0 & 1 == 1 { defined } else { inputs }) {
            return wrong("frees what it does not know");
        }
        if !window.uploads.is_empty() {
            return wrong("has payloads");
        }
        Ok(Template { window, inputs: inputs as usize, defined: defined as usize, scalars })
    }

    /// How many instructions it has.
    pub fn len(&self) -> usize {
        self.window.instrs.len()
    }

    /// What it takes in memory.
    pub fn held_bytes(&self) -> usize {
        self.window.held_bytes()
    }

    /// Whether it has no instructions.
    pub fn is_empty(&self) -> bool {
        self.window.instrs.is_empty()
    }

    /// The source lines of its instructions.
    pub fn sites(&self) -> impl Iterator<Item = SiteId> {
        self.window.instrs.iter().map(|instr| instr.site)
    }

    /// The places of its uploads, and how many bytes each takes.
    pub fn payloads(&self) -> impl Iterator<Item = (u32, usize)> {
        let upload = |(at, instr): (usize, &gt_ir::Instr)| match &instr.op {
            Op::Upload(upload) => Some((at as u32, upload.shape.numel().saturating_mul(upload.dtype.size()))),
            _ => None,
        };
        self.window.instrs.iter().enumerate().filter_map(upload)
    }

    /// One occurrence.
    ///
    /// # Errors
    /// When the bindings are not ones of this template.
    pub fn bind(self: &Arc<Self>, bindings: Bindings) -> Result<Occurrence, OpError> {
        let Bindings { first, inputs, scalars, .. } = &bindings;
        if inputs.len() != self.inputs || scalars.len() != self.scalars {
            return Err(OpError::malformed(format!(
                "a template of {} inputs and {} scalars cannot be bound to {} and {}",
                self.inputs,
                self.scalars,
                inputs.len(),
                scalars.len()
            )));
        }
        if first.n() + self.defined as u64 > TensorId::MOST {
            return Err(OpError::malformed("a window defines more values than its lane has names"));
        }
        Ok(Occurrence { template: self.clone(), bindings })
    }
}

impl Occurrence {
    /// What it is one of.
    pub fn template(&self) -> &Arc<Template> {
        &self.template
    }

    /// What it brings.
    pub fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// What the window takes in memory, payloads left out.
    pub fn held_bytes(&self) -> usize {
        let Bindings { inputs, scalars, older_frees, .. } = &self.bindings;
        let ids = inputs.len() + older_frees.len();
        self.template.held_bytes() + ids * size_of::<TensorId>() + scalars.len() * size_of::<Scalar>()
    }

    /// The window, spelled out.
    pub fn window(&self) -> Window {
        let Bindings { first, inputs, scalars, older_frees, uploads, joined } = &self.bindings;
        let bound = |id: TensorId| match (id.0 & 1, id.0 >> 1) {
            (1, k) => TensorId(first.0 + k),
            (_, k) => inputs[k as usize],
        };
        let mut rest = &scalars[..];
        let mut window = self.template.window.clone();
        for instr in &mut window.instrs {
            instr.ins.iter_mut().chain(&mut instr.outs).for_each(|id| *id = bound(*id));
            let (mine, others) = rest.split_at(instr.scalars.len());
            instr.scalars.copy_from_slice(mine);
            rest = others;
        }
        window.frees.iter_mut().for_each(|id| *id = bound(*id));
        window.frees.extend_from_slice(older_frees);
        window.uploads.clone_from(uploads);
        window.joined = *joined;
        window
    }
}

impl Bindings {
    /// Appends the binary form. Ids are near each other, so they go as differences.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.first.0);
        put_near(out, self.first, &self.inputs);
        put_varint(out, self.scalars.len() as u64);
        self.scalars.iter().for_each(|s| s.encode(out));
        put_near(out, self.first, &self.older_frees);
        put_payloads(out, &self.uploads);
        out.push(self.joined as u8);
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// When the bytes are not one.
    pub fn decode(r: &mut Reader<'_>) -> Result<Bindings, OpError> {
        let first = TensorId(r.varint()?);
        let inputs = near(r, first)?;
        let n = r.list(1, size_of::<Scalar>())?;
        let scalars = (0..n).map(|_| r.scalar()).collect::<Result<_, _>>()?;
        let older_frees = near(r, first)?;
        let uploads = r.payloads()?;
        let joined = r.byte()? != 0;
        Ok(Bindings { first, inputs, scalars, older_frees, uploads, joined })
    }
}

/// Appends ids as differences from the one before.
fn put_near(out: &mut Vec<u8>, first: TensorId, ids: &[TensorId]) {
    put_varint(out, ids.len() as u64);
    let mut last = first.0;
    for id in ids {
        gt_ir::codec::put_signed(out, id.0.wrapping_sub(last) as i64);
        last = id.0;
    }
}

fn near(r: &mut Reader<'_>, first: TensorId) -> Result<Vec<TensorId>, OpError> {
    let n = r.list(1, size_of::<TensorId>())?;
    let mut last = first.0;
    (0..n)
        .map(|_| {
            last = last.wrapping_add(r.signed()? as u64);
            Ok(TensorId(last))
        })
        .collect()
}
