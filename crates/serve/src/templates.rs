//! The templates of one session: a bounded number, the least recently used go first.
//!
//! TEMPLATES-1: what was put in last is there, however large it is: a session that asked for a template can use it.

use std::collections::BTreeMap;

use gt_stream::Template;

struct Kept {
    template: Template,
    last_used: u64,
}

/// Templates by number.
pub(super) struct Templates {
    kept: BTreeMap<u64, Kept>,
    /// Numbers by last use.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
    held_bytes: usize,
    most: usize,
    most_bytes: usize,
}

impl Templates {
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Templates { kept: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0, held_bytes: 0, most, most_bytes }
    }

    /// The template of a number, if it is still there.
    pub(super) fn get(&mut self, number: u64) -> Option<Template> {
        let kept = self.kept.get_mut(&number)?;
        self.uses += 1;
        self.by_use.remove(&kept.last_used);
        self.by_use.insert(self.uses, number);
        kept.last_used = self.uses;
        Some(kept.template.clone())
    }

    /// Keeps a template, and forgets others where there are too many.
    pub(super) fn put(&mut self, number: u64, template: Template) {
        self.forget(number);
        self.uses += 1;
        self.held_bytes += template.held_bytes();
        self.by_use.insert(self.uses, number);
        self.kept.insert(number, Kept { template, last_used: self.uses });
        while self.kept.len() > 1
            && (self.kept.len() > self.most || self.held_bytes > self.most_bytes)
            && let Some((_, &oldest)) = self.by_use.first_key_value()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, number: u64) {
        if let Some(kept) = self.kept.remove(&number) {
            self.by_use.remove(&kept.last_used);
            self.held_bytes -= kept.template.held_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::{Instr, Window};
    use gt_stream::Occurrence;
    use proptest::prelude::*;

    use super::*;

    fn template(instrs: usize) -> Template {
        let line = |id: usize| -> Instr { format!("%{} = fill() dtype=f32 shape=[2] $ 3.0", id + 1).parse().unwrap() };
        let window = Window { instrs: (0..instrs).map(line).collect(), ..Window::default() };
        Occurrence::of(window).unwrap().template().clone()
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let mut templates = Templates::new(2, 100 * template(1).held_bytes());
        templates.put(1, template(1));
        templates.put(2, template(1));
        assert!(templates.get(1).is_some());
        templates.put(3, template(1));
        assert!(templates.get(2).is_none() && templates.get(1).is_some() && templates.get(3).is_some());
        templates.put(4, template(150));
        assert!(templates.get(4).is_some(), "TEMPLATES-1");
        assert_eq!(templates.kept.len(), 1);
    }

    proptest! {
        #[test]
        fn counts_stay_right(steps in prop::collection::vec((0u64..8, 1usize..5, any::<bool>()), 0..100)) {
            let most = 10 * template(1).held_bytes();
            let mut templates = Templates::new(4, most);
            for (number, instrs, put) in steps {
                if put {
                    templates.put(number, template(instrs));
                    prop_assert_eq!(templates.get(number).map(|t| t.recipe.len()), Some(instrs));
                } else {
                    templates.get(number);
                }
                prop_assert!(templates.kept.len() <= 4);
                prop_assert_eq!(templates.by_use.len(), templates.kept.len());
                let held: usize = templates.kept.values().map(|k| k.template.held_bytes()).sum();
                prop_assert_eq!(templates.held_bytes, held);
                prop_assert!(held <= most || templates.kept.len() == 1);
            }
        }
    }
}
