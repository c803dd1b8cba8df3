//! What the threads of a run share, and what each may do next.
//!
//! RUN-1: batches are made and given in order, and only so many ahead of the consumer, so that those made ahead can never
//!        keep the next one from being made.
//! RUN-2: groups are planned ahead while what they need fits the budget; a group that is planned is loaded whatever it
//!        takes, so that a run always goes on.
//! RUN-3: what a batch holds depends on its group alone: not on who makes it, when, or what else is in memory.
//! RUN-4: an error is met at its place in the order, after every batch that does not need what failed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::account::Charged;
use super::cut::Grouping;
use super::residents::{Content, Residents};
use super::{Position, RunSpec, Stats};
use crate::batch::Batch;
use crate::block::Block;
use crate::error::{DataError, Result};
use crate::order::{EpochOrder, Place, Shuffle, Walk};
use crate::source::Source;

/// Planning waits until this share of the horizon is to be planned.
const PLAN_SHARE: usize = 8;

/// Consecutive positions that are cut into batches together.
struct Group {
    start: u64,
    end: u64,
    last: bool,
    places: Vec<Place>,
    /// What others make of its batch, if it is made in parts.
    others: Arc<[Place]>,
    /// The blocks of its places, each once, as they are met.
    blocks: Vec<u32>,
    /// For each place the number of its block among them.
    at: Vec<u32>,
    /// How many of them are still on their way.
    missing: usize,
    cut: Stage,
    /// Batches taken, made, and given.
    taken: u32,
    made: u32,
}

enum Stage {
    Whole,
    /// A thread is at it.
    Cutting,
    /// Numbers of its places, for each batch.
    Cut(Vec<Vec<u32>>),
    Failed(DataError),
}

/// What a thread may do next.
pub(super) enum Task {
    Load(u32),
    Cut { group: u64, blocks: Vec<Arc<Block>>, places: Vec<(u32, Place)>, how: Grouping },
    Gather { group: u64, batch: u32, blocks: Vec<Arc<Block>>, places: Vec<(u32, Place)>, others: Arc<[Place]> },
}

/// What the consumer finds.
pub(super) enum Next {
    Batch(Batch, Position),
    Failed(DataError),
    End,
    Wait,
}

pub(super) struct State {
    charged: Charged,
    /// A group for which there was no room yet (ACCOUNT-2).
    pending: Option<Group>,
    walk: Walk,
    total: u64,
    groups: VecDeque<Group>,
    /// The number of `groups[0]`.
    first: u64,
    planned_places: usize,
    /// How many places are planned ahead.
    horizon: usize,
    residents: Residents,
    /// For each block of the data set one more than the group that met it last, and its number there.
    met: Vec<(u64, u32)>,
    made: BTreeMap<(u64, u32), Result<Batch>>,
    made_bytes: u64,
    last_batch_bytes: u64,
    /// Batches that are being made.
    making: usize,
    /// The number in its group of the batch the consumer gets next.
    next_batch: u32,
    ended: bool,
    pub(super) stop: bool,
    pub(super) stats: Stats,
}

impl State {
    pub(super) fn new(source: &dyn Source, spec: &RunSpec, charged: Charged) -> State {
        let lens: Vec<u32> = source.blocks().iter().map(|b| b.samples).collect();
        let order = EpochOrder::new(spec.order, spec.epoch, &lens);
        let (total, blocks) = (order.len(), lens.len().max(1) as u64);
        let pool = match spec.order.shuffle {
            Shuffle::Off => 0,
            Shuffle::Pool { blocks: pool, .. } => pool as u64,
            Shuffle::Full => blocks,
        };
        // Far enough to hide the loading of a window behind what is being given; not so far that memory holds two pools.
        let samples = (total / blocks) * (pool / 8).max(4);
        let horizon = (samples as usize).max(4 * spec.cut.group_size());
        State {
            charged,
            pending: None,
            walk: order.from(spec.start.position),
            total,
            groups: VecDeque::new(),
            first: 0,
            planned_places: 0,
            horizon,
            residents: Residents::new(order.left_from(spec.start.position)),
            met: vec![(0, 0); lens.len()],
            made: BTreeMap::new(),
            made_bytes: 0,
            last_batch_bytes: 0,
            making: 0,
            next_batch: spec.start.batch,
            ended: false,
            stop: false,
            stats: Stats::default(),
        }
    }

    /// Plans ahead (RUN-2).
    fn plan(&mut self, source: &dyn Source, spec: &RunSpec) {
        // Several groups in one go: what is looked up for one is in the cache for the next.
        if !self.groups.is_empty() && self.planned_places + self.horizon / PLAN_SHARE > self.horizon {
            return;
        }
        while self.groups.is_empty() || self.planned_places < self.horizon {
            if self.residents.bytes + self.made_bytes >= spec.memory_budget && !self.groups.is_empty() {
                drop(self.residents.shrink(spec.memory_budget * 3 / 4));
                if self.residents.bytes + self.made_bytes >= spec.memory_budget {
                    return;
                }
            }
            let Some(mut group) = self.pending.take().or_else(|| self.draft(spec)) else {
                self.ended = true;
                return;
            };
            let number = self.first + self.groups.len() as u64;
            let infos = source.blocks();
            match self.make_room(self.residents.lacking(&group.blocks, infos)) {
                Ok(()) => {
                    let needed = group.blocks.iter();
                    group.missing = needed.filter(|&&b| self.residents.need(b, number, &infos[b as usize])).count();
                }
                // What is planned will give way.
                Err(_) if !self.groups.is_empty() => {
                    self.pending = Some(group);
                    return;
                }
                Err(error) => {
                    group.cut = Stage::Failed(error);
                    self.ended = true;
                }
            }
            self.planned_places += (group.end - group.start) as usize;
            self.groups.push_back(group);
            self.note_peak();
            if self.ended {
                return;
            }
        }
    }

    /// The next group; none where the epoch has no more.
    fn draft(&mut self, spec: &RunSpec) -> Option<Group> {
        let start = self.walk.position();
        let size = spec.cut.group_size();
        let mut places: Vec<Place> = match spec.cut.is_plain() {
            true => self.walk.batch(size),
            false => self.walk.by_ref().take(size).collect(),
        };
        let end = self.walk.position();
        let short = places.len() < size && spec.cut.is_plain() && spec.cut.drop_last;
        if places.is_empty() || short {
            return None;
        }
        let own = spec.part.rows(places.len());
        let mut others = places.split_off(own.end);
        others.extend(places.drain(..own.start));
        let number = self.first + self.groups.len() as u64;
        // Whether a block was met is any of the two for every place: written without a branch, which would be mispredicted.
        let (mut blocks, mut count) = (vec![0; places.len()], 0);
        let met = places.iter().map(|p| {
            let (group, at) = &mut self.met[p.block as usize];
            let new = *group != number + 1;
            (*group, *at) = (number + 1, if new { count } else { *at });
            blocks[*at as usize] = p.block;
            count += u32::from(new);
            *at
        });
        let at = met.collect();
        blocks.truncate(count as usize);
        let taken = if number == 0 { spec.start.batch } else { 0 };
        let (others, last, cut) = (others.into(), end >= self.total, Stage::Whole);
        Some(Group { start, end, last, places, others, blocks, at, missing: 0, cut, taken, made: taken })
    }

    /// What blocks and finished batches take.
    fn held_bytes(&self) -> u64 {
        self.residents.bytes + self.made_bytes
    }

    /// Has so many bytes more counted; blocks that nobody needs now are dropped for it (ACCOUNT-2).
    fn make_room(&mut self, more: u64) -> Result<()> {
        if self.charged.settle(self.held_bytes() + more).is_ok() {
            return Ok(());
        }
        drop(self.residents.shrink(0));
        self.charged.settle(self.held_bytes() + more)
    }

    fn note_peak(&mut self) {
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.held_bytes());
    }

    /// The next thing to do, the most urgent first. `loads` says whether loading is for this thread.
    pub(super) fn task(&mut self, source: &dyn Source, spec: &RunSpec, loads: bool) -> Option<Task> {
        if self.stop {
            return None;
        }
        if !self.ended {
            self.plan(source, spec);
        }
        let ahead = self.made.len() + self.making;
        if ahead < spec.prefetch.max(1)
            && (ahead == 0 || self.make_room(self.last_batch_bytes).is_ok())
            && let Some(task) = self.batch_task(spec)
        {
            return Some(task);
        }
        if !loads {
            return None;
        }
        self.residents.next_load().map(Task::Load)
    }

    /// The next batch that can be made, or the group that has to be cut for it (RUN-1).
    fn batch_task(&mut self, spec: &RunSpec) -> Option<Task> {
        for (i, group) in self.groups.iter_mut().enumerate() {
            let number = self.first + i as u64;
            if group.missing > 0 {
                return None;
            }
            match &group.cut {
                Stage::Cutting | Stage::Failed(_) => return None,
                Stage::Cut(batches) if group.taken as usize >= batches.len() => continue,
                Stage::Whole | Stage::Cut(_) => {}
            }
            let mut blocks = Vec::with_capacity(group.blocks.len());
            // For each block of the group its number among those that are there.
            let mut numbers = Vec::with_capacity(group.blocks.len());
            for &block in &group.blocks {
                match self.residents.get(block) {
                    Some(Content::Ready(b)) => {
                        numbers.push(Some(blocks.len() as u32));
                        blocks.push(b.clone());
                    }
                    Some(Content::Failed(e)) if spec.skip_errors && e.is_of_one_file() => numbers.push(None),
                    Some(Content::Failed(e)) => {
                        group.cut = Stage::Failed(e.clone());
                        return None;
                    }
                    None => {
                        group.cut = Stage::Failed(DataError::Internal("a block was dropped too early".into()));
                        return None;
                    }
                }
            }
            let located = |i: usize| numbers[group.at[i] as usize].map(|n| (n, group.places[i]));
            return Some(match &group.cut {
                Stage::Cut(batches) => {
                    let batch = group.taken;
                    let places = batches[batch as usize].iter().filter_map(|&i| located(i as usize));
                    let places = places.collect();
                    group.taken += 1;
                    self.making += 1;
                    Task::Gather { group: number, batch, blocks, places, others: group.others.clone() }
                }
                _ => {
                    let before = group.places.len();
                    let kept: Vec<(u32, Place)> = (0..before).filter_map(located).collect();
                    if kept.len() < before {
                        // What is left keeps its places among the group's blocks.
                        let stays = group.at.iter().map(|&at| numbers[at as usize].is_some()).collect::<Vec<_>>();
                        let mut stay = stays.iter();
                        group.places.retain(|_| stay.next() == Some(&true));
                        let mut stay = stays.iter();
                        group.at.retain(|_| stay.next() == Some(&true));
                    }
                    self.stats.skipped_samples += (before - group.places.len()) as u64;
                    group.cut = Stage::Cutting;
                    let padded = spec.batch.collate == crate::batch::Collate::Padded;
                    let shuffled = spec.order.shuffle != Shuffle::Off;
                    let how = Grouping::new(spec.order.seed, spec.epoch, group.start, shuffled, padded, group.last);
                    if spec.cut.is_plain() {
                        // The whole group is the batch, or nothing is: no lengths have to be looked at for that.
                        let batches = spec.cut.batches_of(&vec![1; kept.len() + group.others.len()], &how);
                        let whole = !batches.is_empty();
                        group.cut = Stage::Cut(batches);
                        if !whole || group.taken > 0 {
                            continue;
                        }
                        group.taken = 1;
                        self.making += 1;
                        let others = group.others.clone();
                        return Some(Task::Gather { group: number, batch: 0, blocks, places: kept, others });
                    }
                    Task::Cut { group: number, blocks, places: kept, how }
                }
            });
        }
        None
    }

    fn group(&mut self, number: u64) -> Option<&mut Group> {
        self.groups.get_mut(number.checked_sub(self.first)? as usize)
    }

    /// Takes a loaded block.
    pub(super) fn loaded(&mut self, block: u32, content: Content) {
        for number in self.residents.loaded(block, content) {
            if let Some(group) = self.group(number) {
                group.missing -= 1;
            }
        }
        // It was counted by what its index says, closely.
        let _ = self.charged.settle(self.held_bytes());
        self.note_peak();
    }

    /// Takes the batches of a group.
    pub(super) fn cut(&mut self, number: u64, batches: Vec<Vec<u32>>) {
        if let Some(group) = self.group(number) {
            group.cut = Stage::Cut(batches);
        }
        self.retire();
    }

    /// Takes a batch that was made.
    pub(super) fn gathered(&mut self, number: u64, batch: u32, made: Result<Batch>) {
        self.making -= 1;
        let len_bytes = made.as_ref().map_or(0, |b| b.bytes() as u64);
        (self.made_bytes, self.last_batch_bytes) = (self.made_bytes + len_bytes, len_bytes);
        self.made.insert((number, batch), made);
        if let Some(group) = self.group(number) {
            group.made += 1;
        }
        // It is there; where there is no room the next one waits (ACCOUNT-2).
        let _ = self.make_room(0);
        self.note_peak();
    }

    /// Lets go of groups that have been given.
    fn retire(&mut self) {
        while let Some(group) = self.groups.front() {
            let Stage::Cut(batches) = &group.cut else { return };
            if (self.next_batch as usize) < batches.len() || (group.made as usize) < batches.len() {
                return;
            }
            let Some(group) = self.groups.pop_front() else { return };
            self.first += 1;
            self.next_batch = 0;
            self.planned_places -= (group.end - group.start) as usize;
            let mut counts = vec![0; group.blocks.len()];
            group.at.iter().for_each(|&at| counts[at as usize] += 1);
            for (block, count) in group.blocks.into_iter().zip(counts) {
                self.residents.given(block, count);
                self.residents.release(block);
            }
            for place in group.others.iter() {
                self.residents.given(place.block, 1);
                self.residents.drop_if_done(place.block);
            }
            let _ = self.charged.settle(self.held_bytes());
        }
    }

    /// Whether the consumer's next batch waits for blocks.
    pub(super) fn next_waits_for_blocks(&self) -> bool {
        self.groups.front().is_none_or(|g| g.missing > 0) && self.residents.has_loads()
    }

    /// What the consumer gets next.
    pub(super) fn next(&mut self) -> Next {
        loop {
            self.retire();
            let Some(group) = self.groups.front() else {
                return if self.ended { Next::End } else { Next::Wait };
            };
            let batches = match &group.cut {
                Stage::Failed(e) => return Next::Failed(e.clone()),
                Stage::Cut(batches) => batches.len(),
                Stage::Whole | Stage::Cutting => return Next::Wait,
            };
            let (start, end) = (group.start, group.end);
            let Some(made) = self.made.remove(&(self.first, self.next_batch)) else { return Next::Wait };
            let batch = match made {
                Ok(batch) => batch,
                Err(e) => {
                    if let Some(group) = self.groups.front_mut() {
                        group.cut = Stage::Failed(e.clone());
                    }
                    return Next::Failed(e);
                }
            };
            self.made_bytes -= batch.bytes() as u64;
            let _ = self.charged.settle(self.held_bytes());
            self.next_batch += 1;
            let position = match self.next_batch as usize >= batches {
                true => Position { position: end, batch: 0 },
                false => Position { position: start, batch: self.next_batch },
            };
            self.retire();
            if batch.samples == 0 {
                continue;
            }
            self.stats.batches += 1;
            self.stats.samples += batch.samples as u64;
            self.stats.bytes += batch.bytes() as u64;
            return Next::Batch(batch, position);
        }
    }
}
