//! Where the time of an engine's steps goes, by family of ops.
//!
//! One run in sixteen is measured, and counts sixteen times: reading a clock around each step of every run would cost a tiny
//! training step about two percent. [`set_exact`] measures every run.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use gt_ir::Op;

/// One run in so many is measured.
const SAMPLED: u32 = 16;

/// What a step mostly does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Family {
    /// Products of matrices.
    Matmul,
    /// Attention and its gradient.
    Attention,
    /// Elementwise chains and their reductions.
    Elementwise,
    /// Losses that are one instruction.
    Loss,
    /// Optimizer steps.
    Optimizer,
    /// Copies, gathers, scatters, uploads and everything else that moves elements.
    Movement,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 6] =
        [Family::Matmul, Family::Attention, Family::Elementwise, Family::Loss, Family::Optimizer, Family::Movement];

    /// The family's name.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Matmul => "matmul",
            Family::Attention => "attention",
            Family::Elementwise => "elementwise",
            Family::Loss => "loss",
            Family::Optimizer => "optimizer",
            Family::Movement => "movement",
        }
    }

    /// The family of a step that runs this op alone.
    pub fn of(op: &Op) -> Family {
        match op {
            Op::Matmul(_) => Family::Matmul,
            Op::Attention(_) | Op::AttentionGrad(_) => Family::Attention,
            Op::CrossEntropy(_) | Op::CrossEntropyGrad(_) => Family::Loss,
            Op::Update(_) => Family::Optimizer,
            _ => Family::Movement,
        }
    }
}

static EXACT: AtomicBool = AtomicBool::new(false);

/// Whether every run of this process's engines is measured from now on.
pub fn set_exact(on: bool) {
    EXACT.store(on, Relaxed);
}

/// The time of one engine's steps.
///
/// ```
/// use gt_engine::{Family, FamilyTimes};
///
/// let times = FamilyTimes::default();
/// if let Some(run) = times.measure() {
///     let start = std::time::Instant::now();
///     run.count(Family::Matmul, start);
/// }
/// assert_eq!(times.nanos().len(), Family::ALL.len());
/// ```
#[derive(Default)]
pub struct FamilyTimes {
    nanos: [AtomicU64; 6],
    runs: AtomicU32,
}

/// A run that is measured.
pub struct MeasuredRun<'a> {
    times: &'a FamilyTimes,
    /// How many runs it stands for.
    weight: u64,
}

impl FamilyTimes {
    /// A run begins: whether it is one of those that are measured.
    #[inline]
    pub fn measure(&self) -> Option<MeasuredRun<'_>> {
        let run = self.runs.fetch_add(1, Relaxed);
        if EXACT.load(Relaxed) {
            return Some(MeasuredRun { times: self, weight: 1 });
        }
        run.is_multiple_of(SAMPLED).then_some(MeasuredRun { times: self, weight: SAMPLED as u64 })
    }

    /// Nanoseconds of each family so far.
    pub fn nanos(&self) -> [(Family, u64); 6] {
        Family::ALL.map(|family| (family, self.nanos[family as usize].load(Relaxed)))
    }
}

impl MeasuredRun<'_> {
    /// Counts a step that began at `start`.
    pub fn count(&self, family: Family, start: Instant) {
        let nanos = start.elapsed().as_nanos() as u64;
        self.times.nanos[family as usize].fetch_add(nanos * self.weight, Relaxed);
    }
}
