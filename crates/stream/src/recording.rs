//! A window while it is recorded.
//!
//! EXPECT-2: what [`Recording::take`] gives depends on what was pushed, not on what was expected.
//!
//! While the instructions are those of the expected recipe, nothing is stored of them but what they add to it. The first
//! one that differs copies what was recorded so far.

use std::mem::take;
use std::sync::Arc;

use gt_ir::{Ins, Instr, Op, Outs, Payload, Scalar, Scalars, ScopeId, SiteId, TensorId};

use crate::input_index::InputIndex;
use crate::recipe::{Body, PLACEHOLDER};
use crate::{Bindings, Occurrence, Operand, Recipe, Template};

/// A window that is being recorded.
#[derive(Default)]
pub struct Recording {
    /// The template that this window is one of so far.
    expected: Option<Template>,
    /// How many instructions there are.
    len: usize,
    /// The instructions, unless they are those of the expected recipe.
    instrs: Vec<Instr>,
    /// The source lines, unless they are those that are expected.
    sites: Option<Vec<SiteId>>,
    /// How many values are defined.
    defined: u32,
    index: InputIndex,
    bindings: Bindings,
    frees: Vec<TensorId>,
}

impl Recording {
    /// The window is expected to be one of this template. To be called before the first instruction.
    pub fn expect(&mut self, expected: Option<Template>) {
        debug_assert_eq!(self.len, 0, "what was recorded is not known to be as expected");
        if let Some(Template { recipe, .. }) = &expected {
            self.bindings.inputs.reserve(recipe.inputs());
            self.bindings.scalars.reserve(recipe.scalars());
        }
        self.sites = expected.is_none().then(Vec::new);
        self.expected = expected;
    }

    /// How many instructions it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no instructions.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many payloads it has.
    pub fn payloads(&self) -> usize {
        self.bindings.uploads.len()
    }

    /// How many values it frees.
    pub fn frees(&self) -> usize {
        self.frees.len()
    }

    /// The operand that a value is. The first use of a value from outside makes it an input.
    #[inline]
    fn operand(&mut self, id: TensorId) -> TensorId {
        let offset = id.0.wrapping_sub(self.bindings.first.0);
        if offset < self.defined as u64 {
            return Operand::Defined(offset as u32).id();
        }
        let next = self.bindings.inputs.len() as u32;
        let k = self.index.get_or_insert(id, next);
        if k == next {
            self.bindings.inputs.push(id);
        }
        Operand::Input(k).id()
    }

    /// Appends an instruction whose first result is `out`; the others follow it.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub fn push(
        &mut self,
        op: Op,
        ins: &[TensorId],
        out: TensorId,
        outs: usize,
        scalars: &[Scalar],
        scope: ScopeId,
        site: SiteId,
    ) {
        if self.len == 0 {
            self.bindings.first = out;
        }
        // Pushed one by one: copying a slice is a call, and most instructions have few.
        scalars.iter().for_each(|&scalar| self.bindings.scalars.push(scalar));
        if let Some(expected) = self.expected.take() {
            if self.is_next(&expected.recipe, &op, ins, outs, scalars.len(), scope) {
                match &mut self.sites {
                    None if expected.sites[self.len] == site => {}
                    None => self.sites = Some([&expected.sites[..self.len], &[site]].concat()),
                    Some(own) => own.push(site),
                }
                self.expected = Some(expected);
                self.len += 1;
                self.defined += outs as u32;
                return;
            }
            self.diverge(&expected);
        }
        let mut operands = Ins::new();
        ins.iter().for_each(|&id| operands.push(self.operand(id)));
        let defined = self.defined;
        let outs: Outs = (0..outs as u32).map(|k| Operand::Defined(defined + k).id()).collect();
        self.defined += outs.len() as u32;
        self.len += 1;
        self.sites.get_or_insert_default().push(site);
        let mut placeholders = Scalars::new();
        placeholders.resize(scalars.len(), PLACEHOLDER);
        self.instrs.push(Instr { op, outs, ins: operands, scalars: placeholders, scope, site: SiteId(0) });
    }

    /// Whether this is the next instruction of a recipe.
    #[inline]
    fn is_next(
        &mut self,
        recipe: &Recipe,
        op: &Op,
        ins: &[TensorId],
        outs: usize,
        scalars: usize,
        scope: ScopeId,
    ) -> bool {
        let Some(expected) = recipe.instrs().get(self.len) else { return false };
        expected.scope == scope
            && expected.ins.len() == ins.len()
            && expected.outs.len() == outs
            && expected.scalars.len() == scalars
            && expected.op == *op
            && ins.iter().zip(&expected.ins).all(|(&id, &operand)| self.is_operand(id, operand))
    }

    /// Whether a value is this operand. Only the first use of an input is looked up.
    #[inline]
    fn is_operand(&mut self, id: TensorId, operand: TensorId) -> bool {
        match Operand::of(operand) {
            Operand::Defined(k) => id.0 == self.bindings.first.0.wrapping_add(k as u64),
            Operand::Input(k) => match self.bindings.inputs.get(k as usize) {
                Some(&known) => known == id,
                None => self.operand(id) == operand,
            },
        }
    }

    /// The window is not the expected one: copies what was recorded.
    #[cold]
    fn diverge(&mut self, expected: &Template) {
        self.instrs.clear();
        self.instrs.extend_from_slice(&expected.recipe.instrs()[..self.len]);
        self.sites.get_or_insert_with(|| expected.sites[..self.len].to_vec());
    }

    /// Adds the payload of an upload.
    pub fn add_payload(&mut self, payload: Payload) {
        self.bindings.uploads.push(payload);
    }

    /// Nobody can name this value after the window.
    #[inline]
    pub fn free(&mut self, id: TensorId) {
        self.frees.push(id);
    }

    /// Frees several values, as [`Recording::free`].
    pub fn free_all(&mut self, ids: impl IntoIterator<Item = TensorId>) {
        self.frees.extend(ids);
    }

    /// The window, unless nothing was recorded or freed. What is recorded next is another window.
    pub fn take(&mut self, eager: bool, joined: bool) -> Option<Occurrence> {
        if self.len == 0 && self.frees.is_empty() {
            return None;
        }
        let freed = self.sort_frees();
        let is_expected = |recipe: &Recipe| {
            recipe.len() == self.len
                && freed.iter().all(|id| match Operand::of(*id) {
                    Operand::Input(k) => recipe.dying()[k as usize],
                    Operand::Defined(k) => recipe.dead()[k as usize],
                })
                && recipe.dying().iter().chain(recipe.dead()).filter(|&&freed| freed).count() == freed.len()
        };
        let template = match self.expected.take() {
            Some(expected) if is_expected(&expected.recipe) => {
                Template { sites: self.sites.take().map_or(expected.sites, Arc::from), ..expected }
            }
            expected => {
                expected.iter().for_each(|expected| self.diverge(expected));
                let sites = self.sites.take().unwrap_or_default().into();
                Template { recipe: self.recipe(&freed, eager), sites }
            }
        };
        let bindings = Bindings { eager, joined, ..take(&mut self.bindings) };
        self.instrs.clear();
        self.frees.clear();
        (self.len, self.defined) = (0, 0);
        self.index.reset();
        Some(Occurrence::new(template, bindings))
    }

    /// The freed values that the window uses or makes, as operands; the others become bindings.
    fn sort_frees(&mut self) -> Vec<TensorId> {
        let Bindings { first, older_frees, .. } = &mut self.bindings;
        let mut freed = Vec::with_capacity(self.frees.len());
        for id in self.frees.drain(..) {
            let offset = id.0.wrapping_sub(first.0);
            if offset < self.defined as u64 {
                freed.push(Operand::Defined(offset as u32).id());
            } else if let Some(k) = self.index.get(id) {
                freed.push(Operand::Input(k).id());
            } else {
                older_frees.push(id);
            }
        }
        freed
    }

    fn recipe(&mut self, freed: &[TensorId], eager: bool) -> Arc<Recipe> {
        let (mut dying, mut dead) = (vec![false; self.bindings.inputs.len()], vec![false; self.defined as usize]);
        for id in freed {
            match Operand::of(*id) {
                Operand::Input(k) => dying[k as usize] = true,
                Operand::Defined(k) => dead[k as usize] = true,
            }
        }
        let body = Body { instrs: take(&mut self.instrs), dying, dead };
        match eager {
            true => Recipe::once(body),
            false => Recipe::interned(body),
        }
    }
}
