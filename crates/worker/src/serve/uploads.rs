//! Which payloads have come: whoever's connection broke sends again what it has no word of.

use std::collections::{BTreeSet, VecDeque};

use gt_ir::TensorId;

/// How many are remembered.
const REMEMBERED_UPLOADS: usize = 1 << 14;

/// The names of payloads that came.
#[derive(Default)]
pub(super) struct Uploaded {
    ids: BTreeSet<TensorId>,
    order: VecDeque<TensorId>,
}

impl Uploaded {
    /// Whether the name is new.
    pub(super) fn note(&mut self, id: TensorId) -> bool {
        if !self.ids.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED_UPLOADS
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_youngest_are_remembered() {
        let mut uploaded = Uploaded::default();
        let most = REMEMBERED_UPLOADS as u64;
        assert!((0..most + 10).all(|id| uploaded.note(TensorId(id))));
        assert!(!uploaded.note(TensorId(most + 9)) && !uploaded.note(TensorId(10)));
        assert!(uploaded.note(TensorId(9)));
        assert_eq!((uploaded.ids.len(), uploaded.order.len()), (REMEMBERED_UPLOADS, REMEMBERED_UPLOADS));
    }
}
