//! Loops that run many times without a read, found in what is recorded.
//!
//! Cuts by count fall anywhere in a short loop, so that no two windows of it are alike. Once a loop is found, its windows end
//! where an iteration ends, and stop growing: then they repeat. After they have repeated often enough, several of them are
//! recorded as one.
//!
//! LOOP-1: what is found depends on the stream alone.
//! LOOP-2: a loop is a sequence of ops and source lines that came four times in a row with no read in between.

/// The longest iteration that is found.
const LONGEST: usize = 256;
/// Ops that are remembered by where they came last. Two that share a place only hide a loop for a while.
const PLACES: usize = 256;

/// Where an op is remembered. Keys are lines and small numbers: the product's high bits differ.
#[inline]
fn place(key: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b1) >> 24) as usize % PLACES
}

/// Which loops count, and what is done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopOptions {
    /// The shortest iteration, in instructions.
    pub shortest: usize,
    /// How many windows of a loop must have come before they are joined.
    pub join_after: u64,
    /// How many of them are recorded as one from then on.
    pub joined: usize,
}

/// Finds the loop that is running.
pub(super) struct Loops {
    /// What was recorded last, oldest overwritten first.
    keys: Box<[u32; LONGEST]>,
    /// Where each op came last.
    last: Box<[(u32, u64); PLACES]>,
    recorded: u64,
    /// The length of an iteration, if one seems to repeat.
    period: usize,
    /// How many instructions in a row were those of one iteration before.
    matched: usize,
    /// Windows of this loop so far.
    windows: u64,
    /// The window being recorded began with an iteration.
    is_aligned: bool,
}

impl Default for Loops {
    fn default() -> Self {
        Loops {
            keys: Box::new([0; LONGEST]),
            last: Box::new([(0, 0); PLACES]),
            recorded: 0,
            period: 0,
            matched: 0,
            windows: 0,
            is_aligned: false,
        }
    }
}

impl Loops {
    /// An instruction was recorded; `key` stands for its op and source line.
    #[inline]
    pub(super) fn record(&mut self, key: u32) {
        let at = self.recorded as usize;
        self.recorded += 1;
        if self.period > 0 && self.keys[at.wrapping_sub(self.period) % LONGEST] == key {
            self.matched += 1;
        } else {
            self.restart(key);
        }
        self.last[place(key)] = (key, self.recorded);
        self.keys[at % LONGEST] = key;
    }

    /// Another loop may begin with this instruction.
    fn restart(&mut self, key: u32) {
        let (known, came) = self.last[place(key)];
        let period = (self.recorded - came) as usize;
        let repeats = known == key && came > 0 && period <= LONGEST;
        (self.period, self.matched) = if repeats { (period, 1) } else { (0, 0) };
        (self.windows, self.is_aligned) = (0, false);
    }

    /// A read ends every loop (LOOP-2).
    pub(super) fn read(&mut self) {
        (self.period, self.matched, self.windows, self.is_aligned) = (0, 0, 0, false);
    }

    /// Whether a loop is running (LOOP-2).
    #[inline]
    pub(super) fn is_found(&self, options: &LoopOptions) -> bool {
        self.matched >= 3 * self.period && self.period >= options.shortest.max(1)
    }

    /// Whether the windows of the loop are joined.
    fn is_hot(&self, options: &LoopOptions) -> bool {
        self.windows > options.join_after
    }

    /// Whether a window of `len` instructions ends here, where it may have `limit` instructions: at the end of an iteration, if
    /// the next one would not fit.
    #[inline]
    pub(super) fn ends(&self, options: &LoopOptions, len: usize, limit: usize) -> bool {
        if !self.is_found(options) || !self.matched.is_multiple_of(self.period) || self.period > limit {
            return false;
        }
        let limit = if self.is_hot(options) { limit.saturating_mul(options.joined) } else { limit };
        len + self.period > limit
    }

    /// How many instructions a window may have.
    #[inline]
    pub(super) fn limit(&self, options: &LoopOptions, limit: usize) -> usize {
        match self.is_aligned && self.is_hot(options) {
            true => limit.saturating_mul(options.joined),
            false => limit,
        }
    }

    /// A window was cut; `ended` says whether because an iteration has ended. Whether it joins several that have repeated.
    pub(super) fn cut(&mut self, options: &LoopOptions, ended: bool) -> bool {
        let joins = ended && self.is_aligned && self.is_hot(options);
        self.is_aligned = ended;
        self.windows += ended as u64;
        joins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: LoopOptions = LoopOptions { shortest: 3, join_after: 5, joined: 4 };

    /// The lengths of the windows of these instructions, and which of them are joined.
    fn windows(keys: impl IntoIterator<Item = u32>) -> (Vec<usize>, Vec<usize>) {
        let (mut loops, mut lengths, mut joined, mut len, mut cut_at) = (Loops::default(), vec![], vec![], 0, 32);
        for key in keys {
            loops.record(key);
            len += 1;
            let ends = loops.ends(&OPTIONS, len, cut_at);
            if ends || len >= loops.limit(&OPTIONS, cut_at) {
                if loops.cut(&OPTIONS, ends) {
                    joined.push(lengths.len());
                }
                if !loops.is_found(&OPTIONS) {
                    cut_at = (2 * cut_at).min(256);
                }
                lengths.push(len);
                len = 0;
            }
        }
        (lengths, joined)
    }

    #[test]
    fn a_loop_is_cut_into_windows_of_whole_iterations() {
        let (lengths, joined) = windows([90, 91, 92].into_iter().chain((0..1000).map(|i| i % 5)));
        // Iterations are counted from where the first one is known to repeat.
        assert_eq!(lengths[1..6], [30; 5], "{lengths:?}");
        assert!(lengths[6..].iter().all(|&len| len == 125), "{lengths:?}");
        assert!(joined.iter().copied().eq(6..lengths.len()), "{joined:?}");
    }

    #[test]
    fn ops_that_repeat_inside_an_iteration_do_not_hide_it() {
        let (lengths, _) = windows((0..2000).map(|i| [7, 7, 8, 7, 9, 9, 1][i % 7]));
        assert!(lengths.iter().rev().take(5).all(|&len| len % 7 == 0), "{lengths:?}");
    }

    #[test]
    fn lines_that_differ_in_few_bits_are_told_apart() {
        for shift in [0, 4, 7, 8, 12] {
            let (lengths, _) = windows((0..400u32).map(|i| (20 + i % 4) << shift ^ 11));
            assert!(lengths.iter().filter(|&&len| len == 32).count() > 4, "shift {shift}: {lengths:?}");
        }
    }

    #[test]
    fn what_does_not_repeat_is_cut_by_count() {
        let (lengths, joined) = windows((0..2000u32).map(|i| i.wrapping_mul(2_654_435_761) >> 7));
        assert_eq!((&lengths[..4], joined.len()), (&[32, 64, 128, 256][..], 0));
    }

    #[test]
    fn a_loop_that_ends_is_forgotten() {
        let body = |n: u32| (0..400).map(move |i| n + i % 4);
        let (lengths, _) = windows(body(0).chain(10_000..10_300).chain(body(50)));
        assert!(lengths.contains(&64) || lengths.contains(&128), "{lengths:?}");
        assert!(lengths.iter().filter(|&&len| len % 4 == 0).count() > 4, "{lengths:?}");
    }

    #[test]
    fn a_read_ends_a_loop() {
        let mut loops = Loops::default();
        for turn in 0..20u32 {
            (0..5).for_each(|key| loops.record(key));
            assert!(!loops.is_found(&OPTIONS), "turn {turn}");
            loops.read();
        }
    }
}
