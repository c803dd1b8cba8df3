//! Where each value of a stream lies, and which strategy each instruction takes.

use gt_ir::shard::Split;
use gt_ir::{OpError, ScopeId, TensorId, Window};
use smallvec::SmallVec;

use super::{Mesh, PlacedWindow};

/// What a signal says about what happens inside.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The workers.
    pub mesh: Mesh,
    /// How what is created inside is split, along each axis of the mesh: `Replicate` or `Shard`.
    pub splits: SmallVec<[Split; 2]>,
}

/// How a value is read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadPlan {
    /// What has to be sent before, if anything.
    pub before: Option<PlacedWindow>,
    /// Which worker has it then.
    pub worker: u32,
    /// And under which name.
    pub id: TensorId,
}

/// Places a session's windows.
pub struct Placer {
    home: u32,
}

impl Placer {
    /// A placer for a session whose unplaced values are on worker `home`.
    pub fn new(home: u32) -> Placer {
        Placer { home }
    }

    /// Places a window. `layouts` says what a scope means.
    ///
    /// # Errors
    /// When the window makes no sense: a value that was never met, an instruction that does not infer.
    pub fn window(
        &mut self,
        window: &Window,
        layouts: &dyn Fn(ScopeId) -> Option<Layout>,
    ) -> Result<PlacedWindow, OpError> {
        let _ = (window, layouts, self.home);
        Err(OpError::argument("not yet"))
    }

    /// How to read a value; a value that was never placed is at home, as it is.
    pub fn read(&mut self, id: TensorId) -> ReadPlan {
        ReadPlan { before: None, worker: self.home, id }
    }

    /// A worker is gone: the values that nobody else has whole, ascending. They are not placed any more.
    pub fn lose(&mut self, worker: u32) -> Vec<TensorId> {
        let _ = worker;
        Vec::new()
    }
}
