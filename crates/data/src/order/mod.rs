//! The order in which an epoch gives its samples: a pure function of (seed, epoch, position).
//!
//! Blocks are put into random order and dealt to a fixed number of *lanes*. A lane cuts its blocks into *windows* and
//! shuffles the samples inside each; positions take from the lanes in turn. So at any time some `pool` blocks are being
//! mixed, each is read once, and a lane can be read without knowing the others.
//!
//! ORDER-1: every sample has exactly one position, and every position below `len` exactly one sample.
//! ORDER-2: nothing but the spec, the epoch and the lengths of blocks matters: not threads, prefetch or workers.
//! ORDER-3: a block's samples all lie in one window of one lane, so that it can be dropped when the window ends.
//! ORDER-4: the samples of a batch come lane by lane. So consecutive rows of every batch are those of the same lanes, and who
//!          makes only these reads only the blocks of these lanes, but for samples at the borders.
//! ORDER-5: lanes are so many that none is left alone at the end, which would mix little; and where the pool holds every block,
//!          each lane is one window.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

mod draw;
mod lanes;

pub(crate) use draw::{Draw, Purpose};
use lanes::Turns;

/// How samples are mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shuffle {
    /// As they are stored.
    Off,
    /// Windows over this many blocks in all, spread over this many lanes.
    Pool {
        /// Blocks that are mixed at a time.
        blocks: usize,
        /// Sequences the blocks are dealt to.
        lanes: usize,
    },
    /// One exact permutation of the whole epoch.
    Full,
}

impl Shuffle {
    /// How many sequences blocks of these lengths are dealt to (ORDER-5).
    pub fn lanes(self, lens: &[u32]) -> usize {
        match self {
            Shuffle::Off | Shuffle::Full => 1,
            Shuffle::Pool { blocks: pool, lanes } => lanes::that_mix(lens, lanes.min(pool).max(1)),
        }
    }
}

/// What determines an order, apart from the epoch and the lengths of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderSpec {
    /// Keys every random choice.
    pub seed: u64,
    /// How samples are mixed.
    pub shuffle: Shuffle,
}

/// Where a sample is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The block.
    pub block: u32,
    /// The sample's number inside it.
    pub row: u32,
}

/// Blocks whose samples are shuffled together.
#[derive(Debug)]
struct Window {
    /// Its blocks, as a range of `EpochOrder::dealt[lane]`.
    blocks: std::ops::Range<usize>,
    /// The number in the lane of its first sample.
    start: u64,
    samples: u64,
}

/// The order of one epoch.
#[derive(Debug)]
pub struct EpochOrder {
    spec: OrderSpec,
    epoch: u64,
    lens: Vec<u32>,
    /// Blocks of each lane, in the order they are read.
    dealt: Vec<Vec<u32>>,
    windows: Vec<Vec<Window>>,
    turns: Turns,
}

impl EpochOrder {
    /// The order of `epoch` over blocks of these lengths.
    pub fn new(spec: OrderSpec, epoch: u64, lens: &[u32]) -> Arc<EpochOrder> {
        let mut blocks: Vec<u32> = (0..lens.len() as u32).collect();
        if spec.shuffle != Shuffle::Off {
            Draw::new(spec.seed, epoch, Purpose::Blocks, 0).shuffle(&mut blocks);
        }
        let (pool, lanes) = match spec.shuffle {
            Shuffle::Off => (1, 1),
            Shuffle::Pool { blocks: pool, .. } => (pool.max(1), spec.shuffle.lanes(lens)),
            Shuffle::Full => (lens.len().max(1), 1),
        };
        let dealt = lanes::deal(&blocks, lens, lanes);
        let windows: Vec<Vec<Window>> = dealt
            .iter()
            .enumerate()
            .map(|(lane, dealt)| {
                let mut start = 0;
                let cut = lanes::cut(dealt.len(), lens.len(), pool, lane, lanes);
                cut.into_iter()
                    .map(|blocks| {
                        let samples = dealt[blocks.clone()].iter().map(|&b| lens[b as usize] as u64).sum();
                        start += samples;
                        Window { blocks, start: start - samples, samples }
                    })
                    .collect()
            })
            .collect();
        let totals: Vec<u64> = windows.iter().map(|w| w.last().map_or(0, |w| w.start + w.samples)).collect();
        Arc::new(EpochOrder { spec, epoch, lens: lens.to_vec(), dealt, windows, turns: Turns::new(&totals) })
    }

    /// How many samples the epoch has.
    pub fn len(&self) -> u64 {
        self.turns.len()
    }

    /// Whether the epoch has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many lanes the blocks are dealt to.
    pub fn lanes(&self) -> usize {
        self.dealt.len()
    }

    /// What the order takes, and whoever goes through it: each lane has a window at hand, and one may be gone through to see what is
    /// left of it.
    pub(crate) fn held_bytes(&self) -> u64 {
        let largest = |windows: &Vec<Window>| windows.iter().map(|w| w.samples).max().unwrap_or(0);
        let samples = self.windows.iter().map(largest).fold(0u64, u64::saturating_add);
        let alone = self.windows.iter().map(largest).max().unwrap_or(0);
        let places = samples.saturating_add(alone).saturating_mul(size_of::<Place>() as u64);
        let block_bytes = (3 * size_of::<u32>() + size_of::<Window>()) as u64;
        places.saturating_add((self.lens.len() as u64).saturating_mul(block_bytes))
    }

    /// The places of a window's samples, in the order they are given.
    fn shuffled(&self, lane: usize, window: usize) -> Vec<Place> {
        let w = &self.windows[lane][window];
        let mut places = Vec::with_capacity(w.samples as usize);
        for &block in &self.dealt[lane][w.blocks.clone()] {
            places.extend((0..self.lens[block as usize]).map(|row| Place { block, row }));
        }
        if self.spec.shuffle != Shuffle::Off {
            let ordinal = (lane as u64) << 40 | window as u64;
            Draw::new(self.spec.seed, self.epoch, Purpose::Window, ordinal).shuffle(&mut places);
        }
        places
    }

    /// How many samples of each block have a position of `position` or later.
    pub(crate) fn left_from(&self, position: u64) -> Vec<u32> {
        let mut left = self.lens.clone();
        for (lane, given) in self.turns.given(position).into_iter().enumerate() {
            for (number, window) in self.windows[lane].iter().enumerate().take_while(|(_, w)| w.start < given) {
                let gone = (given - window.start).min(window.samples) as usize;
                match gone as u64 == window.samples {
                    true => self.dealt[lane][window.blocks.clone()].iter().for_each(|&b| left[b as usize] = 0),
                    false => self.shuffled(lane, number)[..gone].iter().for_each(|p| left[p.block as usize] -= 1),
                }
            }
        }
        left
    }

    /// The places from `position` on.
    pub fn from(self: &Arc<Self>, position: u64) -> Walk {
        Walk { order: self.clone(), position, held: self.windows.iter().map(|_| None).collect() }
    }
}

/// Places in order, from some position to the end of the epoch.
#[derive(Debug)]
pub struct Walk {
    order: Arc<EpochOrder>,
    position: u64,
    /// For each lane the number of the window it is in, and its places.
    held: Vec<Option<(usize, Vec<Place>)>>,
}

impl Walk {
    /// The position of the next place.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The places of the next `size` positions, lane by lane (ORDER-4).
    pub fn batch(&mut self, size: usize) -> Vec<Place> {
        let order = self.order.clone();
        let end = self.position.saturating_add(size as u64).min(order.len());
        let (from, to) = (order.turns.given(self.position), order.turns.given(end));
        let mut places = Vec::with_capacity(end.saturating_sub(self.position) as usize);
        // What a lane gives to a batch is a run of its samples, as lanes give in turn.
        for (lane, (mut index, end)) in from.into_iter().zip(to).enumerate() {
            while index < end {
                let Some((start, window)) = self.window(lane, index) else { break };
                let run = (index - start) as usize..window.len().min((end - start) as usize);
                index += run.len() as u64;
                places.extend_from_slice(&window[run]);
            }
        }
        self.position = end;
        places
    }

    /// The window of a lane's sample: the number in the lane of its first, and its places.
    fn window(&mut self, lane: usize, index: u64) -> Option<(u64, &[Place])> {
        let windows = &self.order.windows[lane];
        let fits = |w: &Window| w.start <= index && index < w.start + w.samples;
        let held = &mut self.held[lane];
        if !held.as_ref().is_some_and(|(number, _)| fits(&windows[*number])) {
            let number = windows.partition_point(|w| w.start + w.samples <= index);
            *held = Some((number, self.order.shuffled(lane, number)));
        }
        held.as_ref().map(|(number, places)| (windows[*number].start, &places[..]))
    }
}

impl Iterator for Walk {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        let (lane, index) = self.order.turns.locate(self.position)?;
        self.position += 1;
        let (start, window) = self.window(lane, index)?;
        window.get((index - start) as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shuffles() -> impl Strategy<Value = Shuffle> {
        prop_oneof![
            Just(Shuffle::Off),
            Just(Shuffle::Full),
            (1usize..40, 1usize..20).prop_map(|(blocks, lanes)| Shuffle::Pool { blocks, lanes }),
        ]
    }

    proptest! {
        #[test]
        fn every_sample_comes_exactly_once(
            lens in prop::collection::vec(prop_oneof![Just(0u32), Just(1), 0u32..50, Just(700)], 0..60),
            shuffle in shuffles(), seed: u64, epoch in 0u64..5,
        ) {
            let order = EpochOrder::new(OrderSpec { seed, shuffle }, epoch, &lens);
            let mut seen: Vec<Place> = order.from(0).collect();
            prop_assert_eq!(seen.len() as u64, order.len());
            if shuffle == Shuffle::Off {
                prop_assert!(seen.is_sorted());
            }
            seen.sort();
            let all: Vec<Place> =
                (0..lens.len() as u32).flat_map(|block| (0..lens[block as usize]).map(move |row| Place { block, row })).collect();
            prop_assert_eq!(seen, all);
        }

        #[test]
        fn a_walk_from_anywhere_gives_the_rest(
            lens in prop::collection::vec(0u32..30, 0..40), shuffle in shuffles(), seed: u64, at in 0.0f64..1.0,
        ) {
            let order = EpochOrder::new(OrderSpec { seed, shuffle }, 3, &lens);
            let all: Vec<Place> = order.from(0).collect();
            let start = (all.len() as f64 * at) as usize;
            prop_assert_eq!(order.from(start as u64).collect::<Vec<_>>(), &all[start..]);
            let mut left = vec![0; lens.len()];
            all[start..].iter().for_each(|p| left[p.block as usize] += 1);
            prop_assert_eq!(order.left_from(start as u64), left);
        }

        #[test]
        fn a_batch_is_the_next_places_lane_by_lane(
            lens in prop::collection::vec(0u32..30, 0..40), shuffle in shuffles(), seed: u64, size in 1usize..100,
        ) {
            let order = EpochOrder::new(OrderSpec { seed, shuffle }, 1, &lens);
            let (mut batches, mut single) = (order.from(0), order.from(0));
            while single.position() < order.len() {
                let lanes = (single.position()..order.len()).filter_map(|p| order.turns.locate(p)).map(|(lane, _)| lane);
                let mut expected: Vec<(usize, Place)> = lanes.take(size).collect::<Vec<_>>().into_iter().zip(&mut single).collect();
                expected.sort_by_key(|(lane, _)| *lane);
                let expected: Vec<Place> = expected.into_iter().map(|(_, place)| place).collect();
                prop_assert_eq!(batches.batch(size), expected);
                prop_assert_eq!(batches.position(), single.position());
            }
            prop_assert_eq!(batches.batch(size), []);
        }
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let lens = vec![20; 30];
        let shuffle = Shuffle::Pool { blocks: 8, lanes: 4 };
        let places =
            |seed, epoch| EpochOrder::new(OrderSpec { seed, shuffle }, epoch, &lens).from(0).collect::<Vec<_>>();
        assert_eq!(places(0, 0), places(0, 0));
        assert_ne!(places(0, 0), places(0, 1));
        assert_ne!(places(0, 0), places(1, 0));
        assert_ne!(places(0, 1), places(1, 0));
    }

    #[test]
    fn a_pool_that_holds_every_block_mixes_as_a_full_shuffle_does() {
        for blocks in [2, 7, 20, 40, 64, 128] {
            let lens = vec![100; blocks];
            let effect = |shuffle: Shuffle| {
                let order = EpochOrder::new(OrderSpec { seed: 3, shuffle }, 0, &lens);
                let places: Vec<Place> = order.from(0).collect();
                // The label is where a sample is stored; how much batches differ in it, over what they would.
                let mean = (blocks as f64 - 1.0) / 2.0;
                let of = |batch: &[Place]| batch.iter().map(|p| p.block as f64).sum::<f64>() / 64.0 - mean;
                let batches = places.chunks_exact(64).map(|batch| of(batch).powi(2));
                let label = ((blocks * blocks) as f64 - 1.0) / 12.0;
                batches.sum::<f64>() / (places.len() / 64) as f64 * 64.0 / label
            };
            let pool = effect(Shuffle::Pool { blocks: 128, lanes: 16 });
            assert!(pool < 1.7, "{blocks} blocks: {pool:.2}, and {:.2} with a full shuffle", effect(Shuffle::Full));
        }
    }

    #[test]
    fn lanes_end_together_or_there_are_fewer() {
        let lanes = |pool, lanes, lens: &[u32]| Shuffle::Pool { blocks: pool, lanes }.lanes(lens);
        let of = |blocks: usize| lanes(128, 16, &vec![100; blocks]);
        assert_eq!([660, 128, 79, 64, 40, 20, 17, 16, 8, 2, 1, 0].map(of), [16, 16, 16, 16, 8, 4, 1, 16, 8, 2, 1, 1]);
        assert_eq!(lanes(128, 16, &[900, 500]), 1);
        assert_eq!((lanes(3, 16, &[9; 660]), lanes(128, 6, &[9; 24]), lanes(128, 6, &[9; 20])), (3, 6, 4));
    }

    #[test]
    fn the_order_of_an_epoch_is_the_same_in_every_release() {
        // States saved by one release resume in the next only while this holds.
        let order = EpochOrder::new(
            OrderSpec { seed: 7, shuffle: Shuffle::Pool { blocks: 3, lanes: 2 } },
            1,
            &[2, 1, 3, 1, 1, 2, 1, 1],
        );
        let places: Vec<(u32, u32)> = order.from(0).map(|p| (p.block, p.row)).collect();
        assert_eq!(places, PINNED);
    }

    const PINNED: [(u32, u32); 12] =
        [(2, 2), (0, 1), (2, 0), (0, 0), (2, 1), (4, 0), (3, 0), (5, 0), (6, 0), (7, 0), (1, 0), (5, 1)];
}
