//! Where the time of steps goes, by family of ops. Off unless asked for: a clock is read before and after each step then.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use gt_ir::Op;

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
    pub(crate) fn of(op: &Op) -> Family {
        match op {
            Op::Matmul(_) => Family::Matmul,
            Op::Attention(_) | Op::AttentionGrad(_) => Family::Attention,
            Op::CrossEntropy(_) | Op::CrossEntropyGrad(_) => Family::Loss,
            Op::Update(_) => Family::Optimizer,
            _ => Family::Movement,
        }
    }
}

static ON: AtomicBool = AtomicBool::new(false);
static NANOS: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

/// Starts or stops counting, from zero.
pub fn set_enabled(on: bool) {
    ON.store(on, Relaxed);
    NANOS.iter().for_each(|n| n.store(0, Relaxed));
}

/// Whether time is counted.
#[inline]
pub(crate) fn is_enabled() -> bool {
    ON.load(Relaxed)
}

/// Nanoseconds of each family since counting began.
pub fn nanos() -> [(Family, u64); 6] {
    Family::ALL.map(|family| (family, NANOS[family as usize].load(Relaxed)))
}

/// Counts a step that began at `start`.
pub(crate) fn count(family: Family, start: Instant) {
    NANOS[family as usize].fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
}
