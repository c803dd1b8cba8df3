//! What the threads of a run share, and what each may do next.
//!
//! LOADER-RUN-1: batches are made and given in order, and only so many ahead of the consumer, so that those made ahead can never
//!        keep the next one from being made.
//! LOADER-RUN-2: groups are planned ahead while what they need fits the budget; a group that is planned is loaded whatever it
//!        takes, so that a run always goes on.
//! LOADER-RUN-3: what a batch holds depends on its group alone: not on who makes it, when, or what else is in memory.
//! LOADER-RUN-4: an error is met at its place in the order, after every batch that does not need what failed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::account::{BatchMemory, Charged, Reserved};
use super::cut::Grouping;
use super::residents::{Content, Residents};
use super::{Position, RunSpec, Stats};
use crate::batch::Batch;
use crate::block::Block;
use crate::error::{DataError, Result};
use crate::order::{EpochOrder, Place, Shuffle, Walk};
use crate::source::{BlockInfo, Source};

/// Planning waits until this share of the horizon is to be planned.
const PLAN_SHARE: usize = 8;
/// What a position takes that is planned: its place, the number of its block, and its number in a batch.
const PLACE_BYTES: u64 = 24;
/// How long the next batch waits for room: what the session computes meanwhile may free some. It waits longer if its client has
/// batches of this run that are not values yet.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
const BATCHES_PATIENCE: Duration = Duration::from_secs(60);

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

/// Blocks that are there, and for each block of a group its number among them; none where it is left out.
type Contents = (Vec<Arc<Block>>, Vec<Option<u32>>);

impl Group {
    /// One that gives only an error.
    fn failed(at: u64, error: DataError) -> Group {
        Group {
            start: at,
            end: at,
            last: true,
            places: Vec::new(),
            others: Arc::new([]),
            blocks: Vec::new(),
            at: Vec::new(),
            missing: 0,
            cut: Stage::Failed(error),
            taken: 0,
            made: 0,
        }
    }

    /// Its blocks, all of which have come.
    fn contents(&self, residents: &Residents, skip_errors: bool) -> Result<Contents> {
        let mut blocks = Vec::with_capacity(self.blocks.len());
        let mut numbers = Vec::with_capacity(self.blocks.len());
        for &block in &self.blocks {
            match residents.get(block) {
                Some(Content::Ready(ready)) => {
                    numbers.push(Some(blocks.len() as u32));
                    blocks.push(ready.clone());
                }
                Some(Content::Failed(e)) if skip_errors && e.is_of_one_file() => numbers.push(None),
                Some(Content::Failed(e)) => return Err(e.clone()),
                None => return Err(DataError::Internal("a block was dropped too early".into())),
            }
        }
        Ok((blocks, numbers))
    }

    /// A place with the number of its block among those that are there.
    fn located(&self, numbers: &[Option<u32>], i: usize) -> Option<(u32, Place)> {
        numbers[self.at[i] as usize].map(|n| (n, self.places[i]))
    }
}

/// What a thread may do next.
pub(super) enum Task {
    Load(u32),
    Cut {
        group: u64,
        blocks: Vec<Arc<Block>>,
        places: Vec<(u32, Place)>,
        how: Grouping,
    },
    Gather {
        group: u64,
        batch: u32,
        blocks: Vec<Arc<Block>>,
        places: Vec<(u32, Place)>,
        others: Arc<[Place]>,
        reserved: Reserved,
    },
}

/// A batch for which there was no room.
struct Refused {
    needed_bytes: u64,
    error: DataError,
    since: Instant,
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
    batches: BatchMemory,
    /// What the order of the epoch takes.
    order_bytes: u64,
    /// Groups for which there was no room yet, or is none any more (ACCOUNT-2).
    pending: VecDeque<Group>,
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
    /// What the largest batch so far needed while it was made.
    most_batch_bytes: u64,
    /// Batches that are being made.
    making: usize,
    /// Those that wait for room.
    refused: BTreeMap<(u64, u32), Refused>,
    /// The number in its group of the batch the consumer gets next.
    next_batch: u32,
    ended: bool,
    pub(super) stop: bool,
    pub(super) stats: Stats,
}

impl State {
    /// # Errors
    /// When the epoch has no such position, or its order takes more memory than there may be.
    pub(super) fn new(
        source: &dyn Source,
        spec: &RunSpec,
        mut charged: Charged,
        batches: BatchMemory,
    ) -> Result<State> {
        let lens: Vec<u32> = source.blocks().iter().map(|b| b.samples).collect();
        let order = EpochOrder::new(spec.order, spec.epoch, &lens);
        let (total, blocks) = (order.len(), lens.len().max(1) as u64);
        if spec.start.position > total {
            return Err(DataError::Argument(format!(
                "position {} lies behind the end of the epoch, which has {total} samples",
                spec.start.position
            )));
        }
        let order_bytes = order.held_bytes();
        charged.settle(order_bytes)?;
        let pool = match spec.order.shuffle {
            Shuffle::Off => 0,
            Shuffle::Pool { blocks: pool, .. } => pool as u64,
            Shuffle::Full => blocks,
        };
        // Far enough to hide the loading of a window behind what is being given; not so far that memory holds two pools.
        let samples = (total / blocks).saturating_mul((pool / 8).max(4));
        let horizon = (samples as usize).max(spec.cut.group_size().saturating_mul(4));
        Ok(State {
            charged,
            batches,
            order_bytes,
            pending: VecDeque::new(),
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
            most_batch_bytes: 0,
            making: 0,
            refused: BTreeMap::new(),
            next_batch: spec.start.batch,
            ended: false,
            stop: false,
            stats: Stats::default(),
        })
    }

    /// Plans ahead (LOADER-RUN-2).
    fn plan(&mut self, source: &dyn Source, spec: &RunSpec) {
        // Several groups in one go: what is looked up for one is in the cache for the next.
        if !self.groups.is_empty() && self.planned_places.saturating_add(self.horizon / PLAN_SHARE) > self.horizon {
            return;
        }
        while self.groups.is_empty() || self.planned_places < self.horizon {
            if self.residents.bytes + self.made_bytes >= spec.memory_budget && !self.groups.is_empty() {
                drop(self.residents.shrink(spec.memory_budget * 3 / 4));
                if self.residents.bytes + self.made_bytes >= spec.memory_budget {
                    return;
                }
            }
            // Before it is drafted: a group may be the whole epoch.
            let size = (spec.cut.group_size() as u64).min(self.total.saturating_sub(self.walk.position()));
            if self.pending.is_empty()
                && let Err(error) = self.make_room(size.saturating_mul(PLACE_BYTES))
            {
                if self.groups.is_empty() {
                    self.groups.push_back(Group::failed(self.walk.position(), error));
                    self.ended = true;
                }
                return;
            }
            let Some(mut group) = self.pending.pop_front().or_else(|| self.draft(spec)) else {
                self.ended = true;
                return;
            };
            self.planned_places += (group.end - group.start) as usize;
            let number = self.first + self.groups.len() as u64;
            let infos = source.blocks();
            // Blocks that are read ahead leave room for a batch.
            let batch = match (self.groups.is_empty(), self.most_batch_bytes) {
                (true, _) => 0,
                // It is not known yet: as much as what it is made of.
                (false, 0) => self.residents.bytes,
                (false, most) => most,
            };
            match self.make_room_for(&group.blocks, infos, batch) {
                Ok(()) => {
                    let needed = group.blocks.iter();
                    group.missing = needed.filter(|&&b| self.residents.need(b, number, &infos[b as usize])).count();
                }
                // What is planned will give way.
                Err(_) if !self.groups.is_empty() => {
                    self.planned_places -= (group.end - group.start) as usize;
                    self.pending.push_front(group);
                    return;
                }
                Err(error) => {
                    group.cut = Stage::Failed(error);
                    self.ended = true;
                }
            }
            self.groups.push_back(group);
            let _ = self.charged.settle(self.counted_bytes());
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

    /// What is counted of it: batches are counted each by itself (ACCOUNT-3).
    fn counted_bytes(&self) -> u64 {
        let pending: u64 = self.pending.iter().map(|group| group.end - group.start).sum();
        let places = (self.planned_places as u64).saturating_add(pending).saturating_mul(PLACE_BYTES);
        self.order_bytes.saturating_add(self.residents.bytes).saturating_add(places)
    }

    /// Has so many bytes more counted; blocks that nobody needs now are dropped for it (ACCOUNT-2).
    fn make_room(&mut self, more: u64) -> Result<()> {
        if self.charged.settle(self.counted_bytes().saturating_add(more)).is_ok() {
            return Ok(());
        }
        drop(self.residents.shrink(0));
        self.charged.settle(self.counted_bytes().saturating_add(more))
    }

    /// The same for blocks of a group, and a batch of it. Idle blocks that are dropped may be among them.
    fn make_room_for(&mut self, blocks: &[u32], infos: &[BlockInfo], batch_bytes: u64) -> Result<()> {
        let wanted = |state: &State| {
            let lacking = state.residents.lacking(blocks, infos).saturating_add(batch_bytes);
            state.counted_bytes().saturating_add(lacking)
        };
        let now = wanted(self);
        if self.charged.settle(now).is_ok() {
            return Ok(());
        }
        drop(self.residents.shrink(0));
        let then = wanted(self);
        self.charged.settle(then)
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
        if let Some(task) = self.retry(spec) {
            return Some(task);
        }
        let ahead = self.made.len() + self.making;
        if ahead < spec.prefetch.max(1)
            && self.refused.is_empty()
            && let Some(task) = self.batch_task(spec)
        {
            return Some(task);
        }
        if !loads {
            return None;
        }
        self.residents.next_load().map(Task::Load)
    }

    /// The next batch that can be made, or the group that has to be cut for it (LOADER-RUN-1).
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
            let (blocks, numbers) = match group.contents(&self.residents, spec.skip_errors) {
                Ok(found) => found,
                Err(error) => {
                    group.cut = Stage::Failed(error);
                    return None;
                }
            };
            let located = |i: usize| group.located(&numbers, i);
            return Some(match &group.cut {
                Stage::Cut(batches) => {
                    let batch = group.taken;
                    let places = batches[batch as usize].iter().filter_map(|&i| located(i as usize));
                    let places = places.collect();
                    group.taken += 1;
                    self.making += 1;
                    let (others, reserved) = (group.others.clone(), self.batches.reserve());
                    Task::Gather { group: number, batch, blocks, places, others, reserved }
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
                        let (others, reserved) = (group.others.clone(), self.batches.reserve());
                        return Some(Task::Gather { group: number, batch: 0, blocks, places: kept, others, reserved });
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
        let _ = self.charged.settle(self.counted_bytes());
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
    pub(super) fn gathered(&mut self, number: u64, batch: u32, needed_bytes: u64, made: Result<Batch>) {
        self.making -= 1;
        let len_bytes = made.as_ref().map_or(0, |b| b.bytes() as u64);
        self.made_bytes += len_bytes;
        self.most_batch_bytes = self.most_batch_bytes.max(needed_bytes);
        self.made.insert((number, batch), made);
        if let Some(group) = self.group(number) {
            group.made += 1;
        }
        self.note_peak();
    }

    /// Takes a batch that found no room: it is made later, or is an error (ACCOUNT-2).
    pub(super) fn refused(&mut self, number: u64, batch: u32, needed_bytes: u64, error: DataError) {
        self.making -= 1;
        self.most_batch_bytes = self.most_batch_bytes.max(needed_bytes);
        self.refused.insert((number, batch), Refused { needed_bytes, error, since: Instant::now() });
    }

    /// The first batch that found no room, if there is room now. Blocks that nobody needs now and batches behind it give way.
    fn retry(&mut self, spec: &RunSpec) -> Option<Task> {
        let (&key, Refused { needed_bytes, .. }) = self.refused.first_key_value()?;
        let (needed_bytes, reserved) = (*needed_bytes, self.batches.reserve());
        while reserved.grow_to(needed_bytes).is_err() {
            if !self.residents.shrink(0).is_empty() {
                let _ = self.charged.settle(self.counted_bytes());
                continue;
            }
            let behind = self.made.last_key_value().filter(|(last, made)| **last > key && made.is_ok());
            if let Some(behind) = behind.map(|(&last, _)| last) {
                self.unmake(behind);
            } else if !self.unplan(key.0) {
                self.give_up(key);
                return None;
            }
        }
        self.refused.remove(&key);
        let (number, batch) = key;
        let residents = &self.residents;
        let group = self.groups.get_mut(number.checked_sub(self.first)? as usize)?;
        match group.contents(residents, spec.skip_errors) {
            Ok((blocks, numbers)) => {
                let Stage::Cut(batches) = &group.cut else { return None };
                let chosen = batches.get(batch as usize)?.iter();
                let places = chosen.filter_map(|&i| group.located(&numbers, i as usize)).collect();
                self.making += 1;
                Some(Task::Gather { group: number, batch, blocks, places, others: group.others.clone(), reserved })
            }
            Err(error) => {
                group.cut = Stage::Failed(error);
                None
            }
        }
    }

    /// Drops a batch that was made, to be made again.
    fn unmake(&mut self, key: (u64, u32)) {
        let Some(made) = self.made.remove(&key) else { return };
        let len_bytes = made.as_ref().map_or(0, |batch| batch.bytes() as u64);
        self.made_bytes -= len_bytes;
        if let Some(group) = self.group(key.0) {
            group.made -= 1;
        }
        let error = DataError::Memory(format!("a batch of {len_bytes} bytes found no room"));
        self.refused.insert(key, Refused { needed_bytes: len_bytes, error, since: Instant::now() });
    }

    /// Takes back the plan of the last group, if it is behind this one and nothing was begun of it. It is planned again later.
    fn unplan(&mut self, number: u64) -> bool {
        let is_behind = self.first + self.groups.len() as u64 > number + 1;
        let last = self.first + (self.groups.len() as u64).saturating_sub(1);
        let refused: Vec<(u64, u32)> = self.refused.range((last, 0)..=(last, u32::MAX)).map(|(key, _)| *key).collect();
        let begun = |group: &Group| {
            let is_busy = matches!(group.cut, Stage::Cutting | Stage::Failed(_));
            is_busy || group.missing > 0 || group.made > 0 || group.taken as usize > refused.len()
        };
        if !is_behind || self.groups.back().is_none_or(begun) {
            return false;
        }
        let Some(mut group) = self.groups.pop_back() else { return false };
        refused.iter().for_each(|key| _ = self.refused.remove(key));
        (group.cut, group.taken) = (Stage::Whole, 0);
        self.planned_places -= (group.end - group.start) as usize;
        group.blocks.iter().for_each(|&block| drop(self.residents.release(block)));
        self.pending.push_front(group);
        // There is something to plan again.
        self.ended = false;
        let _ = self.charged.settle(self.counted_bytes());
        true
    }

    /// Has a batch fail that is next and has waited long enough.
    fn give_up(&mut self, key: (u64, u32)) {
        let loads = self.groups.iter().any(|group| group.missing > 0);
        let is_next = self.making == 0 && !loads && self.made.first_key_value().is_none_or(|(first, _)| *first > key);
        let patience = if self.batches.is_held() { BATCHES_PATIENCE } else { ROOM_PATIENCE };
        let Some(refused) = self.refused.get_mut(&key) else { return };
        if !is_next {
            refused.since = Instant::now();
        } else if refused.since.elapsed() >= patience
            && let Some(refused) = self.refused.remove(&key)
        {
            self.made.insert(key, Err(refused.error));
            if let Some(group) = self.group(key.0) {
                group.made += 1;
            }
        }
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
            let _ = self.charged.settle(self.counted_bytes());
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
