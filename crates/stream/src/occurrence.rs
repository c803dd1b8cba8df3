//! Occurrences: templates with their bindings.
//!
//! WINDOW-1: the ids a window defines are consecutive numbers of one lane, in recorded order. So the position of a
//! definition is its id less the first one, and only values from outside need a map.
//! OCCURRENCE-1: the bindings fit the recipe: as many inputs and scalars; every input is from outside, and no two inputs
//! are one value; older frees are from outside and no inputs; every payload has the size of its upload. Whatever comes
//! from another process is checked ([`Checker::bind`]).

use std::sync::Arc;

use gt_ir::codec::Reader;
use gt_ir::{ExternalValue, Instr, OpError, Payload, SiteId, TensorId, Window};

use crate::input_index::InputIndex;
use crate::recipe::{Body, bound};
use crate::template::decode_sites;
use crate::{Bindings, Recipe, Recording, StreamError, Template, UploadPlace};

/// A window: its recipe, its source lines, and what this occurrence adds.
#[derive(Clone, Debug)]
pub struct Occurrence {
    template: Template,
    bindings: Bindings,
    /// [`Window::met`]. Stays in the process that recorded it.
    pub met: Vec<ExternalValue>,
}

impl Occurrence {
    /// For bindings that are known to fit (OCCURRENCE-1).
    pub(crate) fn new(template: Template, bindings: Bindings) -> Occurrence {
        debug_assert_eq!(template.recipe.inputs(), bindings.inputs.len());
        debug_assert_eq!(template.recipe.scalars(), bindings.scalars.len());
        debug_assert_eq!(template.recipe.len(), template.sites.len());
        Occurrence { template, bindings, met: Vec::new() }
    }

    /// The occurrence that is this window.
    ///
    /// # Errors
    /// When its instructions, frees or payloads do not belong together.
    pub fn of(window: Window) -> Result<Occurrence, StreamError> {
        check(&window)?;
        let Window { instrs, uploads, frees, eager, joined, met } = window;
        let mut recording = Recording::default();
        for Instr { op, outs, ins, scalars, scope, site } in instrs {
            recording.push(op, &ins, outs[0], outs.len(), &scalars, scope, site);
        }
        uploads.into_iter().for_each(|payload| recording.add_payload(payload));
        frees.into_iter().for_each(|id| recording.free(id));
        let occurrence = recording.take(eager, joined).unwrap_or_else(|| {
            let template = Template { recipe: Recipe::interned(Default::default()), sites: [].into() };
            Occurrence::new(template, Bindings { eager, ..Bindings::default() })
        });
        Ok(Occurrence { met, ..occurrence })
    }

    /// What it is an occurrence of.
    #[inline]
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// What it computes.
    #[inline]
    pub fn recipe(&self) -> &Arc<Recipe> {
        &self.template.recipe
    }

    /// The source line of each instruction.
    #[inline]
    pub fn sites(&self) -> &Arc<[SiteId]> {
        &self.template.sites
    }

    /// What it adds to its recipe.
    #[inline]
    pub fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// How many instructions it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.recipe().len()
    }

    /// Whether it has no instructions: then it only frees values.
    pub fn is_empty(&self) -> bool {
        self.recipe().is_empty()
    }

    /// The id of the `k`-th value that it defines.
    #[inline]
    pub fn defined(&self, k: usize) -> TensorId {
        TensorId(self.bindings.first.0 + k as u64)
    }

    /// The id of the value that a plan of its recipe calls `slot`: inputs come first, then definitions.
    pub fn id_of_slot(&self, slot: u32) -> TensorId {
        match self.bindings.inputs.get(slot as usize) {
            Some(&id) => id,
            None => self.defined(slot as usize - self.bindings.inputs.len()),
        }
    }

    /// The id that an operand of its recipe stands for.
    pub fn bound(&self, id: TensorId) -> TensorId {
        bound(id, self.bindings.first, &self.bindings.inputs)
    }

    /// Its uploads, and the values that they make.
    pub fn uploads(&self) -> impl Iterator<Item = (UploadPlace, TensorId)> {
        let value = |place: UploadPlace| self.bound(self.recipe().instrs()[place.instr as usize].outs[0]);
        self.recipe().uploads().iter().map(move |&place| (place, value(place)))
    }

    /// The uploads whose payloads are not in it.
    pub fn missing(&self) -> impl Iterator<Item = (UploadPlace, TensorId)> {
        let mut inside = self.bindings.uploads.iter().peekable();
        self.uploads().filter(move |(place, _)| inside.next_if(|payload| payload.instr == place.instr).is_none())
    }

    /// Adds a payload that travelled apart.
    ///
    /// # Errors
    /// When no upload takes a payload of this size there: the payload is left out.
    pub fn add_payload(&mut self, payload: Payload) -> Result<(), StreamError> {
        let place = self.template.recipe.uploads().iter().find(|place| place.instr == payload.instr);
        let message = match place {
            Some(place) if place.len_bytes == payload.bytes.len() => {
                let uploads = &mut self.bindings.uploads;
                if let Err(at) = uploads.binary_search_by_key(&payload.instr, |known| known.instr) {
                    uploads.insert(at, payload);
                }
                return Ok(());
            }
            Some(place) => format!("{} bytes, expected {}", payload.bytes.len(), place.len_bytes),
            None => "no upload uses it".to_string(),
        };
        Err(StreamError::Payload { instr: payload.instr, message })
    }

    /// Bytes of the payloads in it.
    pub fn payload_bytes(&self) -> usize {
        self.bindings.uploads.iter().map(|payload| payload.bytes.len()).sum()
    }

    /// The memory it takes, recipe included and payloads left out.
    pub fn held_bytes(&self) -> usize {
        self.recipe().held_bytes() + self.bindings.held_bytes()
    }

    /// Appends the binary form, with the payloads of at most `longest` bytes.
    pub fn encode(&self, longest: usize, out: &mut Vec<u8>) {
        self.template.encode(out);
        self.bindings.encode(longest, out);
    }

    /// All values that it frees.
    pub fn frees(&self) -> impl Iterator<Item = TensorId> {
        let of = |flags: &[bool]| flags.iter().enumerate().filter(|(_, freed)| **freed).map(|(k, _)| k).collect();
        let (dying, dead): (Vec<usize>, Vec<usize>) = (of(self.recipe().dying()), of(self.recipe().dead()));
        let inputs = dying.into_iter().map(|k| self.bindings.inputs[k]);
        let own = dead.into_iter().map(|k| self.defined(k));
        inputs.chain(own).chain(self.bindings.older_frees.iter().copied())
    }

    /// Its instructions, with the names and numbers of this occurrence.
    pub fn instrs(&self) -> Vec<Instr> {
        let mut rest = &self.bindings.scalars[..];
        let spell = |(instr, &site): (&Instr, &SiteId)| {
            let mut instr = instr.clone();
            instr.ins.iter_mut().chain(&mut instr.outs).for_each(|id| *id = self.bound(*id));
            let (own, others) = rest.split_at(instr.scalars.len());
            instr.scalars.copy_from_slice(own);
            rest = others;
            instr.site = site;
            instr
        };
        self.recipe().instrs().iter().zip(&self.sites()[..]).map(spell).collect()
    }

    /// The window, spelled out.
    pub fn window(&self) -> Window {
        let Bindings { uploads, eager, joined, .. } = &self.bindings;
        Window {
            instrs: self.instrs(),
            uploads: uploads.clone(),
            frees: self.frees().collect(),
            eager: *eager,
            joined: *joined,
            met: self.met.clone(),
        }
    }
}

/// Checks bindings from other processes, with memory that it keeps between them.
#[derive(Debug, Default)]
pub struct Checker {
    index: InputIndex,
}

impl Checker {
    /// An occurrence of a template.
    ///
    /// # Errors
    /// When the bindings do not fit it (OCCURRENCE-1).
    pub fn bind(&mut self, template: Template, bindings: Bindings) -> Result<Occurrence, OpError> {
        let recipe = &template.recipe;
        let Bindings { first, inputs, scalars, older_frees, uploads, .. } = &bindings;
        if (inputs.len(), scalars.len()) != (recipe.inputs(), recipe.scalars()) {
            return Err(OpError::malformed(format!(
                "a recipe of {} inputs and {} scalars cannot be bound to {} and {}",
                recipe.inputs(),
                recipe.scalars(),
                inputs.len(),
                scalars.len()
            )));
        }
        if first.n() + recipe.defined() as u64 > TensorId::MOST {
            return Err(OpError::malformed("a window defines more values than its lane has names"));
        }
        self.index.reset();
        let is_older = |id: TensorId| recipe.is_empty() || id.0 < first.0 || id.lane() != first.lane();
        for (next, &id) in (0u32..).zip(inputs) {
            if !is_older(id) || self.index.get_or_insert(id, next) != next {
                return Err(OpError::malformed(format!(
                    "input {id} of a window is named twice, or is not from outside"
                )));
            }
        }
        if older_frees.iter().any(|&id| !is_older(id) || self.index.get(id).is_some()) {
            return Err(OpError::malformed("a window frees a value both as an input and as another value"));
        }
        let mut places = recipe.uploads().iter();
        for payload in uploads {
            let place = places.find(|place| place.instr == payload.instr);
            if place.is_none_or(|place| place.len_bytes != payload.bytes.len()) {
                let len = payload.bytes.len();
                return Err(OpError::malformed(format!("no upload takes a payload of {len} bytes here")));
            }
        }
        Ok(Occurrence::new(template, bindings))
    }

    /// Reads what [`Occurrence::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not an occurrence.
    pub fn decode(&mut self, r: &mut Reader<'_>) -> Result<Occurrence, OpError> {
        let body = Body::decode(r)?;
        let sites = decode_sites(r, body.instrs.len())?;
        let bindings = Bindings::decode(r)?;
        // What time has cut does not come again.
        let recipe = if bindings.eager { Recipe::once(body) } else { Recipe::interned(body) };
        self.bind(Template { recipe, sites }, bindings)
    }
}

/// What a spelled-out window has to keep: WINDOW-1, and payloads that are those of its uploads.
fn check(window: &Window) -> Result<(), StreamError> {
    if window.instrs.len() > Recipe::MAX_INSTRS {
        return Err(StreamError::TooLong { instrs: window.instrs.len(), limit: Recipe::MAX_INSTRS });
    }
    let first = window.instrs.first().and_then(|instr| instr.outs.first()).copied().unwrap_or_default();
    let mut defined = 0u64;
    let is_own = |id: TensorId| id.0 >= first.0 && id.lane() == first.lane();
    let mut payloads = window.uploads.iter().peekable();
    for (at, instr) in (0u32..).zip(&window.instrs) {
        if instr.outs.is_empty() {
            return Err(StreamError::NoOuts { instr: at, op: instr.op.display_name() });
        }
        if let Some(&id) = instr.ins.iter().find(|id| id.0.wrapping_sub(first.0) >= defined && is_own(**id)) {
            return Err(StreamError::NotYetDefined { instr: at, id });
        }
        for &found in &instr.outs {
            let expected = TensorId(first.0.wrapping_add(defined));
            if found != expected || found.lane() != first.lane() {
                return Err(StreamError::NotConsecutive { instr: at, found, expected });
            }
            defined += 1;
        }
        if let gt_ir::Op::Upload(upload) = &instr.op
            && let Some(payload) = payloads.next_if(|payload| payload.instr == at)
        {
            let wanted = upload.shape.numel() * upload.dtype.size();
            if payload.bytes.len() != wanted {
                let message = format!("{} bytes, expected {wanted}", payload.bytes.len());
                return Err(StreamError::Payload { instr: at, message });
            }
        }
    }
    if let Some(extra) = payloads.next() {
        return Err(StreamError::Payload { instr: extra.instr, message: "no upload uses it".to_string() });
    }
    let undefined = |id: &&TensorId| defined > 0 && id.0.wrapping_sub(first.0) >= defined && is_own(**id);
    match window.frees.iter().find(undefined) {
        Some(&id) => Err(StreamError::FreedUndefined { id }),
        None => Ok(()),
    }
}
