//! Which payloads have come, and of which a part has: whoever's connection broke sends again what it has no word of, and of what came in
//! part the rest.
//!
//! UPLOADS-1: a payload is new once, however it came.
//! UPLOADS-2: what is kept of payloads that are not whole is bounded, and counts on the session's account; of one that is forgotten
//! everything is sent again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gt_ir::{Bytes, Failure, FailureKind, TensorId};
use gt_net::protocol::WHOLE;

use gt_worker::{Charge, SessionMemory};

/// How many are remembered.
const REMEMBERED_UPLOADS: usize = 1 << 14;

/// The beginning of a payload.
struct Part {
    bytes: Vec<u8>,
    charge: Charge,
}

/// The names of payloads that came, and the beginnings of those that are coming.
pub(super) struct Uploaded {
    ids: BTreeSet<TensorId>,
    order: VecDeque<TensorId>,
    parts: BTreeMap<TensorId, Part>,
    part_bytes: usize,
    most_part_bytes: usize,
    memory: SessionMemory,
}

impl Uploaded {
    /// Parts of so many bytes may be kept together; one alone may be longer.
    pub(super) fn new(most_part_bytes: usize, memory: SessionMemory) -> Self {
        let (ids, order, parts) = (BTreeSet::new(), VecDeque::new(), BTreeMap::new());
        Uploaded { ids, order, parts, part_bytes: 0, most_part_bytes, memory }
    }

    /// Whether the name is new.
    pub(super) fn note(&mut self, id: TensorId) -> bool {
        self.forget_part(id);
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

    /// A payload has been cut short: `before` bytes of it had come earlier, and these.
    pub(super) fn keep(&mut self, id: TensorId, before: u64, arrived: &[u8]) {
        let Ok(before) = usize::try_from(before) else { return };
        let had = self.part(id).unwrap_or(0);
        // A connection that was lost earlier may say so later.
        if self.ids.contains(&id) || before > had || before.saturating_add(arrived.len()) <= had {
            return;
        }
        let mut bytes = self.take_part(id).map_or_else(Vec::new, |part| part.bytes);
        bytes.truncate(before);
        // Where there is no room it is forgotten, and sent again.
        let Ok(charge) = self.memory.hold(before + arrived.len()) else { return };
        if bytes.try_reserve_exact(arrived.len()).is_err() {
            return;
        }
        bytes.extend_from_slice(arrived);
        self.part_bytes += bytes.len();
        self.parts.insert(id, Part { bytes, charge });
        while self.part_bytes > self.most_part_bytes
            && let Some(&other) = self.parts.keys().find(|&&other| other != id)
        {
            self.forget_part(other);
        }
    }

    /// The rest of a payload has come: all of it, if it is new, or why it cannot be put together. Nothing when what came before is not
    /// here.
    pub(super) fn complete(
        &mut self,
        id: TensorId,
        before: u64,
        rest: &[u8],
    ) -> Option<Option<Result<Bytes, Failure>>> {
        if self.ids.contains(&id) {
            return Some(None);
        }
        let before = usize::try_from(before).ok().filter(|&before| self.part(id).is_some_and(|had| before <= had))?;
        let Part { bytes: mut whole, charge } = self.take_part(id)?;
        whole.truncate(before);
        self.note(id);
        drop(charge);
        Some(Some(self.memory.hold(before.saturating_add(rest.len())).and_then(|charge| {
            let refused =
                |_| Failure::new(FailureKind::Memory, "out of memory: cannot allocate an upload that arrived in parts");
            whole.try_reserve_exact(rest.len()).map_err(refused)?;
            whole.extend_from_slice(rest);
            Ok(Bytes::from(whole).accompanied_by(Box::new(charge)))
        })))
    }

    /// How much has come of these, as far as something has.
    pub(super) fn have(&self, ids: &[TensorId]) -> Vec<(TensorId, u64)> {
        let had = |&id: &TensorId| match self.ids.contains(&id) {
            true => Some((id, WHOLE)),
            false => self.part(id).map(|len| (id, len as u64)),
        };
        ids.iter().filter_map(had).collect()
    }

    fn part(&self, id: TensorId) -> Option<usize> {
        self.parts.get(&id).map(|part| part.bytes.len())
    }

    fn take_part(&mut self, id: TensorId) -> Option<Part> {
        let part = self.parts.remove(&id)?;
        self.part_bytes -= part.bytes.len();
        Some(part)
    }

    fn forget_part(&mut self, id: TensorId) {
        drop(self.take_part(id));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_youngest_are_remembered() {
        let mut uploaded = Uploaded::new(0, SessionMemory::unlimited());
        let most = REMEMBERED_UPLOADS as u64;
        assert!((0..most + 10).all(|id| uploaded.note(TensorId(id))));
        assert!(!uploaded.note(TensorId(most + 9)) && !uploaded.note(TensorId(10)));
        assert!(uploaded.note(TensorId(9)));
        assert_eq!((uploaded.ids.len(), uploaded.order.len()), (REMEMBERED_UPLOADS, REMEMBERED_UPLOADS));
    }

    #[test]
    fn parts_are_kept_up_to_a_limit() {
        let mut uploaded = Uploaded::new(100, SessionMemory::unlimited());
        uploaded.keep(TensorId(1), 0, &[1; 60]);
        uploaded.keep(TensorId(2), 0, &[2; 60]);
        assert_eq!(uploaded.have(&[TensorId(1), TensorId(2)]), [(TensorId(2), 60)]);
        uploaded.keep(TensorId(2), 60, &[2; 900]);
        assert_eq!(uploaded.have(&[TensorId(2)]), [(TensorId(2), 960)], "one alone may be longer");
        assert_eq!(uploaded.complete(TensorId(1), 60, &[1]), None, "its beginning was forgotten");
        assert!(uploaded.note(TensorId(2)), "it may come whole too");
        assert_eq!((uploaded.part_bytes, uploaded.parts.len()), (0, 0));
    }

    proptest! {
        /// However it is cut, and whatever is told late or twice, what comes of it is the payload, once (UPLOADS-1).
        #[test]
        fn pieces_become_the_payload(
            len in 1usize..200,
            cuts in prop::collection::vec((0usize..50, 0usize..80, any::<bool>()), 0..30),
        ) {
            let payload: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let (mut uploaded, id) = (Uploaded::new(1000, SessionMemory::unlimited()), TensorId(7));
            let held = |uploaded: &Uploaded| uploaded.have(&[id]).first().map_or(0, |(_, len)| *len as usize);
            for (back, more, late) in cuts {
                // Who sends goes on where the other side said; a connection that is told of late went on elsewhere.
                let before = held(&uploaded);
                let from = if late { before.saturating_sub(back) } else { before };
                let end = (from + more).min(len - 1).max(from);
                uploaded.keep(id, from as u64, &payload[from..end]);
                prop_assert!(held(&uploaded) >= before, "nothing is lost");
            }
            let from = held(&uploaded);
            let whole = match from {
                0 => uploaded.note(id).then(|| Bytes::from(payload.clone())),
                _ => uploaded.complete(id, from as u64, &payload[from..]).flatten().and_then(Result::ok),
            };
            prop_assert_eq!(whole.as_deref(), Some(&payload[..]));
            prop_assert_eq!(uploaded.complete(id, 0, &payload), Some(None));
            prop_assert!(!uploaded.note(id));
            prop_assert_eq!(uploaded.have(&[id]), vec![(id, WHOLE)]);
        }
    }
}
