//! Which blocks are in memory, and how long they stay.
//!
//! RESIDENT-1: a block is dropped as soon as the epoch has no more use for any of its samples.
//! RESIDENT-2: under pressure blocks that no planned group needs are dropped, the longest unused first; they are read again
//!             when their turn comes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::block::Block;
use crate::error::DataError;
use crate::source::BlockInfo;

/// What became of a block.
#[derive(Clone)]
pub(super) enum Content {
    Ready(Arc<Block>),
    Failed(DataError),
}

struct Slot {
    /// None until it is loaded.
    content: Option<Content>,
    /// Planned groups that need it.
    uses: u32,
    /// Groups that wait for it.
    waiting: Vec<u64>,
    bytes: u64,
    last_use: u64,
}

/// Blocks in memory and on their way there.
pub(super) struct Residents {
    slots: BTreeMap<u32, Slot>,
    queue: VecDeque<u32>,
    /// Samples of each block that are still to come.
    left: Vec<u32>,
    /// Bytes of everything in memory or on its way.
    pub(super) bytes: u64,
    clock: u64,
}

impl Residents {
    pub(super) fn new(left: Vec<u32>) -> Residents {
        Residents { slots: BTreeMap::new(), queue: VecDeque::new(), left, bytes: 0, clock: 0 }
    }

    /// Notes that a group needs a block. True where it has to wait for it.
    pub(super) fn need(&mut self, block: u32, group: u64, info: &BlockInfo) -> bool {
        self.clock += 1;
        let slot = self.slots.entry(block).or_insert_with(|| {
            self.queue.push_back(block);
            self.bytes += info.memory_bytes;
            Slot { content: None, uses: 0, waiting: Vec::new(), bytes: info.memory_bytes, last_use: 0 }
        });
        slot.uses += 1;
        slot.last_use = self.clock;
        if slot.content.is_none() {
            slot.waiting.push(group);
        }
        slot.content.is_none()
    }

    /// The next block to load.
    pub(super) fn next_load(&mut self) -> Option<u32> {
        self.queue.pop_front()
    }

    pub(super) fn has_loads(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes what was loaded; the groups that waited for it.
    pub(super) fn loaded(&mut self, block: u32, content: Content) -> Vec<u64> {
        let Some(slot) = self.slots.get_mut(&block) else { return Vec::new() };
        let bytes = match &content {
            Content::Ready(b) => b.memory_bytes() as u64,
            Content::Failed(_) => 0,
        };
        self.bytes = self.bytes - slot.bytes + bytes;
        slot.bytes = bytes;
        slot.content = Some(content);
        std::mem::take(&mut slot.waiting)
    }

    /// What became of a block that is there.
    pub(super) fn get(&self, block: u32) -> Option<&Content> {
        self.slots.get(&block)?.content.as_ref()
    }

    /// Notes that samples of a block have been given; drops it after the last (RESIDENT-1).
    pub(super) fn given(&mut self, block: u32, samples: u32) {
        let left = &mut self.left[block as usize];
        *left = left.saturating_sub(samples);
    }

    /// Notes that a group needs a block no more.
    pub(super) fn release(&mut self, block: u32) -> Option<Content> {
        let slot = self.slots.get_mut(&block)?;
        slot.uses = slot.uses.saturating_sub(1);
        match slot.uses == 0 && self.left[block as usize] == 0 {
            true => self.remove(block),
            false => None,
        }
    }

    fn remove(&mut self, block: u32) -> Option<Content> {
        let slot = self.slots.remove(&block)?;
        self.bytes -= slot.bytes;
        slot.content
    }

    /// Makes room until no more than `limit` bytes are taken, as far as that goes (RESIDENT-2).
    pub(super) fn shrink(&mut self, limit: u64) -> Vec<Content> {
        let mut dropped = Vec::new();
        while self.bytes > limit {
            let idle = self.slots.iter().filter(|(_, s)| s.uses == 0 && matches!(s.content, Some(Content::Ready(_))));
            let Some((&oldest, _)) = idle.min_by_key(|(_, s)| s.last_use) else { break };
            dropped.extend(self.remove(oldest));
        }
        dropped
    }
}
