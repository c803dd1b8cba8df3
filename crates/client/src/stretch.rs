//! Stretches: what a lane records between two reads, and which one follows which.
//!
//! A training step is one stretch, cut into several windows so that a device starts early. Once the same stretch has
//! followed the same stretch often enough, the next one is expected to be it again and is sent as one window, so that
//! forward, backward and update are planned together; the device still has the end of the previous step to work on.
//!
//! STRETCH-1: what is expected depends on the stream alone.

use gt_ir::OpKind;

/// Stretches that are told apart: a loop with several reads has as many.
const REMEMBERED: usize = 8;

/// What a stretch looks like from afar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outline {
    hash: u64,
    instrs: usize,
}

/// What followed a stretch the last time, and how often in a row.
#[derive(Clone, Copy, Debug)]
struct Follows {
    after: Outline,
    then: Outline,
    times: u64,
}

/// The stretch being recorded, and what came before.
#[derive(Default)]
pub(crate) struct Stretches {
    now: Outline,
    before: Outline,
    known: Vec<Follows>,
    /// How long the stretch is that is expected.
    expected: Option<usize>,
}

impl Stretches {
    /// One more instruction. Longer than expected, it is another stretch.
    #[inline]
    pub fn record(&mut self, kind: OpKind) {
        self.now.hash = (self.now.hash.rotate_left(5) ^ kind as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.now.instrs += 1;
        if self.expected.is_some_and(|len| self.now.instrs > len) {
            self.expected = None;
        }
    }

    /// Whether the stretch is expected to be one that has repeated.
    #[inline]
    pub fn is_expected(&self) -> bool {
        self.expected.is_some()
    }

    /// Whether the stretch was expected, and is whole.
    pub fn is_complete(&self) -> bool {
        self.expected == Some(self.now.instrs)
    }

    /// A read ends the stretch; the next one is expected if it has followed this one `enough` times in a row.
    pub fn read(&mut self, enough: Option<u64>) {
        let (before, now) = (self.before, std::mem::take(&mut self.now));
        match self.known.iter_mut().find(|f| f.after == before) {
            Some(f) if f.then == now => f.times += 1,
            Some(f) => (f.then, f.times) = (now, 1),
            None => {
                if self.known.len() == REMEMBERED {
                    self.known.remove(0);
                }
                self.known.push(Follows { after: before, then: now, times: 1 });
            }
        }
        self.before = now;
        let next = self.known.iter().find(|f| f.after == now);
        self.expected = next.filter(|f| enough.is_some_and(|n| f.times >= n)).map(|f| f.then.instrs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(stretches: &mut Stretches, kinds: &[OpKind]) -> bool {
        let expected = stretches.is_expected();
        kinds.iter().for_each(|&k| stretches.record(k));
        let complete = expected && stretches.is_complete();
        stretches.read(Some(2));
        complete
    }

    #[test]
    fn a_loop_is_expected_after_it_has_repeated() {
        let mut stretches = Stretches::default();
        let body = [OpKind::Matmul, OpKind::Unary, OpKind::Reduce];
        let joined: Vec<bool> = (0..6).map(|_| step(&mut stretches, &body)).collect();
        assert_eq!(joined, [false, false, false, true, true, true]);
    }

    #[test]
    fn a_loop_with_two_reads_is_two_stretches() {
        let mut stretches = Stretches::default();
        let (a, b) = ([OpKind::Matmul, OpKind::Unary], [OpKind::Reduce]);
        let mut last = (false, false);
        for _ in 0..5 {
            last = (step(&mut stretches, &a), step(&mut stretches, &b));
        }
        assert_eq!(last, (true, true));
    }

    #[test]
    fn another_stretch_ends_it() {
        let mut stretches = Stretches::default();
        let body = [OpKind::Matmul, OpKind::Unary];
        for _ in 0..5 {
            step(&mut stretches, &body);
        }
        assert!(!step(&mut stretches, &[OpKind::Matmul, OpKind::Unary, OpKind::Unary]), "it is longer than expected");
        assert!(!step(&mut stretches, &body), "nothing is known of what follows the longer one");
    }
}
