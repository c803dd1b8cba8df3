//! The templates of one session: a bounded number, the least recently used go first.
//!
//! TEMPLATES-1: what was put in last is there, however large it is: a session that asked for a template can use it.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_worker::Repeating;

struct Kept {
    template: Arc<Repeating>,
    last_used: u64,
}

/// Templates by digest.
pub(super) struct Templates {
    kept: BTreeMap<u128, Kept>,
    /// Digests by last use.
    by_use: BTreeMap<u64, u128>,
    uses: u64,
    held_bytes: usize,
    most: usize,
    most_bytes: usize,
}

impl Templates {
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Templates { kept: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0, held_bytes: 0, most, most_bytes }
    }

    /// The template of a digest, if it is still there.
    pub(super) fn get(&mut self, digest: u128) -> Option<Arc<Repeating>> {
        let kept = self.kept.get_mut(&digest)?;
        self.uses += 1;
        self.by_use.remove(&kept.last_used);
        self.by_use.insert(self.uses, digest);
        kept.last_used = self.uses;
        Some(kept.template.clone())
    }

    /// Keeps a template, and forgets others where there are too many.
    pub(super) fn put(&mut self, digest: u128, template: Arc<Repeating>) {
        self.forget(digest);
        self.uses += 1;
        self.held_bytes += template.held_bytes();
        self.by_use.insert(self.uses, digest);
        self.kept.insert(digest, Kept { template, last_used: self.uses });
        while self.kept.len() > 1
            && (self.kept.len() > self.most || self.held_bytes > self.most_bytes)
            && let Some((_, &oldest)) = self.by_use.first_key_value()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, digest: u128) {
        if let Some(kept) = self.kept.remove(&digest) {
            self.by_use.remove(&kept.last_used);
            self.held_bytes -= kept.template.held_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::{Instr, Window};
    use gt_plan::TemplateHasher;
    use proptest::prelude::*;

    use super::*;

    fn template(instrs: usize) -> Arc<Repeating> {
        let line = |id: usize| -> Instr { format!("%{} = fill() dtype=f32 shape=[2] $ 3.0", id + 1).parse().unwrap() };
        let window = Window { instrs: (0..instrs).map(line).collect(), ..Window::default() };
        let mut hasher = TemplateHasher::default();
        hasher.run(&window, 0);
        Repeating::new(hasher.template(&window))
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
        fn counts_stay_right(steps in prop::collection::vec((0u128..8, 1usize..5, any::<bool>()), 0..100)) {
            let most = 10 * template(1).held_bytes();
            let mut templates = Templates::new(4, most);
            for (digest, instrs, put) in steps {
                if put {
                    templates.put(digest, template(instrs));
                    prop_assert_eq!(templates.get(digest).map(|t| t.instrs()), Some(instrs));
                } else {
                    templates.get(digest);
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
