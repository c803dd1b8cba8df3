//! Which window a lane is expected to record next.
//!
//! EXPECT-1: expectations depend on the stream alone. A wrong one costs time and nothing else.

use std::collections::HashMap;

use crate::{Occurrence, Template};

/// The windows that are remembered, and the instructions that they may have together.
const MOST_WINDOWS: usize = 256;
const MOST_INSTRS: usize = 1 << 16;

/// What followed each pair of windows the last time.
#[derive(Default)]
pub struct Expectations {
    /// The numbers of the last two recipes.
    last: [u64; 2],
    followers: HashMap<[u64; 2], Template>,
    instrs: usize,
}

impl Expectations {
    /// The window that followed the last two windows before.
    pub fn next(&self) -> Option<Template> {
        self.followers.get(&self.last).cloned()
    }

    /// A window was recorded. Windows that time has cut are left out: they do not repeat.
    pub fn recorded(&mut self, occurrence: &Occurrence) {
        if occurrence.bindings().eager || occurrence.is_empty() {
            return;
        }
        let template = occurrence.template();
        if !self.followers.get(&self.last).is_some_and(|known| known.is(template)) {
            // A loop is known again after one turn, so nothing is picked out.
            if self.followers.len() >= MOST_WINDOWS || self.instrs + occurrence.len() > MOST_INSTRS {
                self.followers.clear();
                self.instrs = 0;
            }
            self.instrs += occurrence.len();
            self.followers.insert(self.last, template.clone());
        }
        self.last = [self.last[1], template.recipe.number()];
    }
}
