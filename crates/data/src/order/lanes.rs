//! Lanes: who gets which block, where windows are cut, whose turn it is.

use std::ops::Range;

/// Samples at the end of an epoch that may come from a few lanes: one in so many.
const END_SHARE: u64 = 20;
/// As many blocks a lane, and the end is short whatever their lengths are.
const MANY_BLOCKS: usize = 64;

/// How many lanes blocks of these lengths are dealt to, of so many that are wanted. Lanes end within a block of each other. Where
/// blocks are few that is much of an epoch, which the last lanes then have for themselves: there are half as many lanes then, or
/// again half as many, as workers have whole ones where their number is a power of two.
pub(super) fn that_mix(lens: &[u32], wanted: usize) -> usize {
    let wanted = wanted.min(lens.iter().filter(|&&len| len > 0).count()).max(1);
    let fewer = (0..wanted.ilog2() + u32::from(!wanted.is_power_of_two())).rev().map(|power| 1 << power);
    let blocks: Vec<u32> = (0..lens.len() as u32).collect();
    let mixes = |&lanes: &usize| {
        if lanes == 1 || lens.len() >= lanes * MANY_BLOCKS {
            return true;
        }
        let samples = |dealt: &Vec<u32>| dealt.iter().map(|&b| u64::from(lens[b as usize])).sum::<u64>();
        let totals: Vec<u64> = deal(&blocks, lens, lanes).iter().map(samples).collect();
        let (all, least) = (totals.iter().sum::<u64>(), totals.iter().min().copied().unwrap_or(0));
        let last: u64 = totals.iter().filter(|&&total| total > least).sum();
        // The end is short, or most samples are in lanes that take part in it.
        (all - least * lanes as u64) * END_SHARE <= all || last * 4 >= all * 3
    };
    std::iter::once(wanted).chain(fewer).find(mixes).unwrap_or(1)
}

/// Deals blocks to lanes, in order, each to the lane that has the fewest samples so far. So lanes end within a block of
/// each other, also where blocks differ in size.
pub(super) fn deal(blocks: &[u32], lens: &[u32], lanes: usize) -> Vec<Vec<u32>> {
    let mut dealt = vec![Vec::with_capacity(blocks.len() / lanes + 1); lanes];
    let mut heap: std::collections::BinaryHeap<std::cmp::Reverse<(u64, usize)>> =
        (0..lanes).map(|lane| std::cmp::Reverse((0, lane))).collect();
    for &block in blocks {
        let Some(std::cmp::Reverse((samples, lane))) = heap.pop() else { break };
        dealt[lane].push(block);
        heap.push(std::cmp::Reverse((samples + lens[block as usize] as u64, lane)));
    }
    dealt
}

/// Cuts a lane of `blocks` blocks, of so many in `all`, into windows of its share of the pool, which is never larger than was asked
/// for. The first window of a lane is shorter, the more so the lower its number: lanes refill one after another instead of all
/// at once, so that the pool need not be held twice. A pool that holds all has nothing to refill.
pub(super) fn cut(blocks: usize, all: usize, pool: usize, lane: usize, lanes: usize) -> Vec<Range<usize>> {
    let size = if pool >= all { blocks } else { pool * (lane + 1) / lanes - pool * lane / lanes }.max(1);
    let mut cuts = Vec::with_capacity(blocks / size + 2);
    let mut at = 0;
    let mut next = if pool >= all { size } else { (size * (lane + 1)).div_ceil(lanes).max(1) };
    while at < blocks {
        let end = (at + next).min(blocks);
        cuts.push(at..end);
        at = end;
        next = size;
    }
    cuts
}

/// Whose turn it is: lanes give a sample each in turn, and one that has none left is passed over.
#[derive(Debug)]
pub(super) struct Turns {
    /// Stretches during which the same lanes take part, in order.
    phases: Vec<Phase>,
    len: u64,
    lanes: usize,
}

#[derive(Debug)]
struct Phase {
    /// The position of its first sample.
    start: u64,
    /// How many samples each of its lanes has given before.
    round: u64,
    lanes: Vec<u32>,
}

impl Turns {
    pub(super) fn new(totals: &[u64]) -> Turns {
        let mut ends: Vec<u64> = totals.iter().copied().filter(|&t| t > 0).collect();
        ends.sort_unstable();
        ends.dedup();
        let (mut start, mut round, mut phases) = (0, 0, Vec::with_capacity(ends.len()));
        for end in ends {
            let lanes: Vec<u32> = (0..totals.len() as u32).filter(|&lane| totals[lane as usize] > round).collect();
            let samples = (end - round) * lanes.len() as u64;
            phases.push(Phase { start, round, lanes });
            start += samples;
            round = end;
        }
        Turns { phases, len: start, lanes: totals.len() }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// How many samples each lane has given before a position.
    pub(super) fn given(&self, position: u64) -> Vec<u64> {
        let mut given = vec![0; self.lanes];
        for (i, phase) in self.phases.iter().enumerate().take_while(|(_, phase)| phase.start < position) {
            let end = self.phases.get(i + 1).map_or(self.len, |next| next.start);
            let at = position.clamp(phase.start, end) - phase.start;
            let (rounds, extra) = (at / phase.lanes.len() as u64, at % phase.lanes.len() as u64);
            for (turn, &lane) in phase.lanes.iter().enumerate() {
                given[lane as usize] += rounds + u64::from((turn as u64) < extra);
            }
        }
        given
    }

    /// The lane of a position, and the sample's number in it.
    pub(super) fn locate(&self, position: u64) -> Option<(usize, u64)> {
        if position >= self.len {
            return None;
        }
        let phase = &self.phases[self.phases.partition_point(|p| p.start <= position) - 1];
        let (at, lanes) = (position - phase.start, phase.lanes.len() as u64);
        Some((phase.lanes[(at % lanes) as usize] as usize, phase.round + at / lanes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_windows_of_all_lanes_hold_the_pool_and_no_more() {
        for (pool, lanes) in [(26, 16), (128, 16), (5, 2), (16, 16), (7, 7)] {
            let largest =
                (0..lanes).map(|lane| cut(100, 100 * lanes, pool, lane, lanes).iter().map(Range::len).max().unwrap());
            assert_eq!(largest.sum::<usize>(), pool, "{lanes} lanes");
        }
    }
}
