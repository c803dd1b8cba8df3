//! How large the steps of a plan may be. Each engine states its own limits; the planner has none.

/// What an engine can hold in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EngineLimits {
    /// The most instructions that a fused step may have.
    pub max_step_instrs: usize,
    /// The most values that a fused step may write.
    pub max_step_outs: usize,
    /// The longest row whose folds a fused step may read.
    pub max_row_len: usize,
    /// The most parts that concatenations in a fused step may have together; at most 256.
    pub max_parts: usize,
    /// The most elements of results that share a step without depending on each other. It spares small results the cost of a
    /// step, but all results of a step exist at once.
    pub side_by_side_elements: usize,
    /// Products of at most so many multiplications are brought next to each other, to run side by side.
    pub max_paired_product: usize,
}

impl EngineLimits {
    /// Moderate limits, for engines that have no reason for others, and for tests.
    pub const MODERATE: EngineLimits = EngineLimits {
        max_step_instrs: 48,
        max_step_outs: 24,
        max_row_len: 1024,
        max_parts: 16,
        side_by_side_elements: 1 << 16,
        max_paired_product: 4 << 20,
    };
}

impl Default for EngineLimits {
    fn default() -> Self {
        EngineLimits::MODERATE
    }
}
