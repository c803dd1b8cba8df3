//! Which blocks are in memory, and how long they stay.
//!
//! RESIDENT-1: a block is dropped as soon as the epoch has no more use for any of its samples.
//! RESIDENT-2: under pressure blocks that no planned group needs are dropped, the longest unused first; they are read again
//!             when their turn comes.

use std::collections::VecDeque;
use std::num::NonZeroU32;
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
    block: u32,
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
    slots: Vec<Slot>,
    /// For each block of the data set its slot, if it has one: every batch looks up a hundred of them.
    at: Vec<Option<NonZeroU32>>,
    queue: VecDeque<u32>,
    /// Samples of each block that are still to come.
    left: Vec<u32>,
    /// Bytes of everything in memory or on its way.
    pub(super) bytes: u64,
    clock: u64,
}

impl Residents {
    pub(super) fn new(left: Vec<u32>) -> Residents {
        let at = vec![None; left.len()];
        Residents { slots: Vec::new(), at, queue: VecDeque::new(), left, bytes: 0, clock: 0 }
    }

    /// Notes that a group needs a block. True where it has to wait for it.
    pub(super) fn need(&mut self, block: u32, group: u64, info: &BlockInfo) -> bool {
        self.clock += 1;
        if self.at[block as usize].is_none() {
            self.queue.push_back(block);
            self.bytes += info.memory_bytes;
            let bytes = info.memory_bytes;
            self.slots.push(Slot { block, content: None, uses: 0, waiting: Vec::new(), bytes, last_use: 0 });
            self.at[block as usize] = NonZeroU32::new(self.slots.len() as u32);
        }
        let clock = self.clock;
        let Some(slot) = self.slot(block) else { return true };
        slot.uses += 1;
        slot.last_use = clock;
        if slot.content.is_none() {
            slot.waiting.push(group);
        }
        slot.content.is_none()
    }

    /// How many bytes blocks will take that are not there yet.
    pub(super) fn lacking(&self, blocks: &[u32], infos: &[BlockInfo]) -> u64 {
        let lacking = blocks.iter().filter(|&&block| self.number(block).is_none());
        lacking.filter_map(|&block| infos.get(block as usize)).map(|info| info.memory_bytes).sum()
    }

    /// The number of a block's slot.
    fn number(&self, block: u32) -> Option<usize> {
        self.at.get(block as usize).copied().flatten().map(|n| n.get() as usize - 1)
    }

    fn slot(&mut self, block: u32) -> Option<&mut Slot> {
        let number = self.number(block)?;
        self.slots.get_mut(number)
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
        let bytes = match &content {
            Content::Ready(b) => b.memory_bytes() as u64,
            Content::Failed(_) => 0,
        };
        let Some(slot) = self.slot(block) else { return Vec::new() };
        let before = std::mem::replace(&mut slot.bytes, bytes);
        slot.content = Some(content);
        let waiting = std::mem::take(&mut slot.waiting);
        self.bytes = self.bytes - before + bytes;
        waiting
    }

    /// What became of a block that is there.
    pub(super) fn get(&self, block: u32) -> Option<&Content> {
        self.slots[self.number(block)?].content.as_ref()
    }

    /// Notes that samples of a block have been given, here or elsewhere.
    pub(super) fn given(&mut self, block: u32, samples: u32) {
        let left = &mut self.left[block as usize];
        *left = left.saturating_sub(samples);
    }

    /// Notes that a group needs a block no more.
    pub(super) fn release(&mut self, block: u32) -> Option<Content> {
        let slot = self.slot(block)?;
        slot.uses = slot.uses.saturating_sub(1);
        self.drop_if_done(block)
    }

    /// Drops a block that no planned group needs, and none will (RESIDENT-1).
    pub(super) fn drop_if_done(&mut self, block: u32) -> Option<Content> {
        let done = self.left[block as usize] == 0 && self.slot(block)?.uses == 0;
        if done { self.remove(block) } else { None }
    }

    fn remove(&mut self, block: u32) -> Option<Content> {
        let number = self.number(block)?;
        let slot = self.slots.swap_remove(number);
        self.at[block as usize] = None;
        if let Some(moved) = self.slots.get(number) {
            self.at[moved.block as usize] = NonZeroU32::new(number as u32 + 1);
        }
        self.bytes -= slot.bytes;
        slot.content
    }

    /// Makes room until no more than `limit` bytes are taken, as far as that goes (RESIDENT-2).
    pub(super) fn shrink(&mut self, limit: u64) -> Vec<Content> {
        let mut dropped = Vec::new();
        while self.bytes > limit {
            let idle = self.slots.iter().filter(|s| s.uses == 0 && matches!(s.content, Some(Content::Ready(_))));
            let Some(oldest) = idle.min_by_key(|s| s.last_use) else { break };
            dropped.extend(self.remove(oldest.block));
        }
        dropped
    }
}
