//! Functions that see a gradient on its way and may replace it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::error::Result;
use crate::tensor::Tensor;

/// A function of a gradient that may replace it.
pub type Hook = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;

/// Names a registered hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookId(u64);

/// Hooks in the order they were registered.
#[derive(Default)]
pub(crate) struct Hooks(Mutex<Vec<(HookId, u32, Hook)>>);

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Hooks {
    pub fn add(&self, index: u32, hook: Hook) -> HookId {
        let id = HookId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        self.0.lock().push((id, index, hook));
        id
    }

    pub fn remove(&self, id: HookId) {
        let gone: Vec<_> = {
            let mut hooks = self.0.lock();
            let (keep, gone) = hooks.drain(..).partition(|h| h.0 != id);
            *hooks = keep;
            gone
        };
        drop(gone);
    }

    /// Runs the hooks of output `index` with no lock held.
    pub fn run(&self, index: u32, mut grad: Tensor) -> Result<Tensor> {
        let hooks: SmallVec<[Hook; 1]> = {
            let all = self.0.lock();
            if all.is_empty() {
                return Ok(grad);
            }
            all.iter().filter(|h| h.1 == index).map(|h| h.2.clone()).collect()
        };
        for hook in hooks {
            if let Some(new) = hook(&grad)? {
                grad = new;
            }
        }
        Ok(grad)
    }
}
