//! A placed window that repeats, apart from the names and numbers of one occurrence.
//!
//! PLACED-REPEAT-1: `template.window(bindings)` is the window that was placed, whichever occurrence the bindings are of.
//! PLACED-REPEAT-2: templates are numbered by whoever places. Both ends forget the oldest when there are too many, by one rule, so that
//! whatever is still known where windows are placed is known where they are lowered.
//! PLACED-REPEAT-3: a template from outside is checked when it is bound: bindings can make a window that makes no sense, which is refused
//! as any other, and nothing worse.

use std::collections::VecDeque;

use gt_ir::codec::{Reader, put_payloads, put_signed, put_varint};
use gt_ir::{OpError, Payload, Scalar, Scalars, TensorId};

use super::{PlacedStep, PlacedWindow};

/// The lane of a placer's names; in a template they count from the first that the window takes.
pub(super) const PLACED: u16 = u16::MAX - 1;
/// In a template: what the window defines.
pub(super) const DEFINED: u16 = u16::MAX - 2;
/// In a template: names from outside.
pub(super) const INPUT: u16 = u16::MAX - 3;

/// The most templates that are remembered, and the most steps that they may have together.
const MOST: usize = 64;
const MOST_STEPS: usize = 1 << 16;

/// What one occurrence of a placed window brings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacedBindings {
    /// The first value that the window defines; the others follow it.
    pub first: TensorId,
    /// The first of the placer's names that it takes.
    pub fresh: TensorId,
    /// Names from outside.
    pub inputs: Vec<TensorId>,
    /// The scalars of steps where they are not those of the template, ascending.
    pub scalars: Vec<(u32, Scalars)>,
    /// Payloads, by step.
    pub uploads: Vec<Payload>,
}

impl PlacedBindings {
    /// Appends the binary form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.first.0);
        put_varint(out, self.fresh.0);
        put_varint(out, self.inputs.len() as u64);
        let mut last = self.first.0;
        for id in &self.inputs {
            put_signed(out, id.0.wrapping_sub(last) as i64);
            last = id.0;
        }
        put_varint(out, self.scalars.len() as u64);
        for (step, scalars) in &self.scalars {
            put_varint(out, *step as u64);
            put_varint(out, scalars.len() as u64);
            scalars.iter().for_each(|scalar| scalar.encode(out));
        }
        put_payloads(out, &self.uploads);
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// When the bytes are not one.
    pub fn decode(r: &mut Reader<'_>) -> Result<PlacedBindings, OpError> {
        let (first, fresh) = (TensorId(r.varint()?), TensorId(r.varint()?));
        let n = r.list(1, size_of::<TensorId>())?;
        let mut last = first.0;
        let mut inputs = Vec::with_capacity(n);
        for _ in 0..n {
            last = last.wrapping_add(r.signed()? as u64);
            inputs.push(TensorId(last));
        }
        let n = r.list(2, size_of::<(u32, Scalars)>())?;
        let mut scalars = Vec::with_capacity(n);
        for _ in 0..n {
            let step = r.small()?;
            let each = r.list(1, size_of::<Scalar>())?;
            scalars.push((step, (0..each).map(|_| r.scalar()).collect::<Result<Scalars, _>>()?));
        }
        let uploads = r.payloads()?;
        Ok(PlacedBindings { first, fresh, inputs, scalars, uploads })
    }

    /// The name that a template's name stands for.
    pub(super) fn name(&self, id: TensorId) -> Result<TensorId, OpError> {
        let counted = |first: TensorId| match first.n().checked_add(id.n()) {
            Some(n) if n < TensorId::MOST => Ok(TensorId::new(first.lane(), n)),
            _ => Err(OpError::malformed("a window takes more names than there are")),
        };
        match id.lane() {
            PLACED => counted(self.fresh),
            DEFINED => counted(self.first),
            INPUT => match self.inputs.get(id.n() as usize) {
                Some(&input) => Ok(input),
                None => Err(OpError::malformed("a template needs more names than it was given")),
            },
            _ => Err(OpError::malformed(format!("{id} is not a name of the template"))),
        }
    }
}

/// A placed window with names of its own: see `PlacedBindings::name`.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedTemplate {
    pub(super) window: PlacedWindow,
}

impl PlacedTemplate {
    /// Appends the binary form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.window.encode(out);
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// When the bytes are not one.
    pub fn decode(r: &mut Reader<'_>) -> Result<PlacedTemplate, OpError> {
        let window = PlacedWindow::decode(r)?;
        match window.uploads.is_empty() {
            true => Ok(PlacedTemplate { window }),
            false => Err(OpError::malformed("a template has payloads")),
        }
    }

    /// What it takes in memory.
    pub(super) fn held_bytes(&self) -> usize {
        self.window.held_bytes()
    }

    /// How many steps it has.
    pub fn steps(&self) -> usize {
        self.window.steps.len()
    }

    /// The window of one occurrence.
    ///
    /// # Errors
    /// When the bindings are not ones of this template.
    pub fn window(&self, bindings: &PlacedBindings) -> Result<PlacedWindow, OpError> {
        let mut window = self.window.clone();
        rename(&mut window, &mut |id| bindings.name(id))?;
        for (step, scalars) in &bindings.scalars {
            match window.steps.get_mut(*step as usize) {
                Some(PlacedStep::Run { instr, .. }) if instr.scalars.len() == scalars.len() => {
                    instr.scalars.clone_from(scalars);
                }
                _ => return Err(OpError::malformed("scalars of a step that has none, or others")),
            }
        }
        window.uploads.clone_from(&bindings.uploads);
        Ok(window)
    }
}

/// Gives every name in a window another one.
pub(super) fn rename(
    window: &mut PlacedWindow,
    name: &mut dyn FnMut(TensorId) -> Result<TensorId, OpError>,
) -> Result<(), OpError> {
    for step in &mut window.steps {
        match step {
            PlacedStep::Run { instr, .. } => {
                for id in instr.ins.iter_mut().chain(&mut instr.outs) {
                    *id = name(*id)?;
                }
            }
            PlacedStep::Convert { values, first, .. } | PlacedStep::Reduce { values, first, .. } => {
                for value in values {
                    (value.from, value.to) = (name(value.from)?, name(value.to)?);
                }
                *first = name(*first)?;
            }
        }
    }
    for (id, _) in &mut window.frees {
        *id = name(*id)?;
    }
    Ok(())
}

/// What is remembered of templates, by number (PLACED-REPEAT-2).
#[derive(Debug)]
pub(super) struct Remembered<T> {
    entries: VecDeque<(u64, usize, T)>,
    steps: usize,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Remembered { entries: VecDeque::new(), steps: 0 }
    }
}

impl<T> Remembered<T> {
    /// Whether a template of so many steps is remembered at all.
    pub(super) fn takes(steps: usize) -> bool {
        steps <= MOST_STEPS
    }

    /// Remembers something of a template of so many steps, under a number higher than all before it.
    pub(super) fn put(&mut self, number: u64, steps: usize, entry: T) -> Result<(), OpError> {
        if !Self::takes(steps) || self.entries.back().is_some_and(|(last, ..)| *last >= number) {
            return Err(OpError::malformed("a template is too large, or comes twice"));
        }
        self.steps += steps;
        self.entries.push_back((number, steps, entry));
        while self.entries.len() > MOST || self.steps > MOST_STEPS {
            let Some((_, steps, _)) = self.entries.pop_front() else { break };
            self.steps -= steps;
        }
        Ok(())
    }

    /// All that is remembered.
    pub(super) fn entries(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|(.., entry)| entry)
    }

    /// What is remembered under a number.
    pub(super) fn get(&self, number: u64) -> Option<&T> {
        let at = self.entries.binary_search_by_key(&number, |(number, ..)| *number).ok()?;
        self.entries.get(at).map(|(.., entry)| entry)
    }
}
