//! The recipes of this process, so that equal ones are one.
//!
//! INTERN-1: recipes are compared whole. A digest only finds candidates.
//! INTERN-2: the table keeps no recipe alive: lanes, caches and sessions do, within their own limits.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use gt_ir::Digest;
use parking_lot::Mutex;

use crate::Recipe;
use crate::recipe::Body;

/// Dead entries are removed when the table has this many entries, and then whenever it has doubled.
const FIRST_SWEEP: usize = 1024;

struct Interned {
    recipes: HashMap<Digest, Vec<Weak<Recipe>>>,
    entries: usize,
    sweep_at: usize,
}

static INTERNED: LazyLock<Mutex<Interned>> =
    LazyLock::new(|| Mutex::new(Interned { recipes: HashMap::new(), entries: 0, sweep_at: FIRST_SWEEP }));

/// The recipe with this body.
pub(crate) fn intern(body: Body) -> Arc<Recipe> {
    let digest = body.digest();
    let mut interned = INTERNED.lock();
    let known = interned.recipes.get(&digest).into_iter().flatten().filter_map(Weak::upgrade);
    if let Some(known) = known.into_iter().find(|known| *known.body() == body) {
        return known;
    }
    let recipe = Arc::new(Recipe::new(body, digest));
    if interned.entries >= interned.sweep_at {
        interned.sweep();
    }
    interned.entries += 1;
    interned.recipes.entry(digest).or_default().push(Arc::downgrade(&recipe));
    recipe
}

impl Interned {
    fn sweep(&mut self) {
        self.recipes.retain(|_, recipes| {
            recipes.retain(|recipe| recipe.strong_count() > 0);
            !recipes.is_empty()
        });
        self.entries = self.recipes.values().map(Vec::len).sum();
        self.sweep_at = (2 * self.entries).max(FIRST_SWEEP);
    }
}
