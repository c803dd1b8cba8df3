//! What a tensor shows: a value, the version of the cell it was derived from, and where gradients go.
//!
//! Every op looks at its operands, so a look takes no lock and counts no reference.
//!
//! SHOWN-1: `id`, `version` and `tracks` say what the state says; they change with it, under its lock.
//! SHOWN-2: a value that nobody has asked for is the tensor's alone, which frees it. The first who asks makes it a
//!          [`Value`], of which there are as many holders as there need be.
//! SHOWN-3: a name that was looked up is good for as long as the lane it belongs to is locked: what was shown before is let
//!          go of once `id` names something else, and a free takes that lock.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use gt_ir::{TensorId, TensorType};
use parking_lot::{Mutex, MutexGuard};

use crate::autograd::{Edge, GradSlot};
use crate::lane;
use crate::value::Value;

/// Where gradients of a tensor go.
#[derive(Clone, Default)]
pub(crate) enum History {
    /// Nowhere.
    #[default]
    None,
    /// Into its own `.grad`.
    Leaf(Arc<GradSlot>),
    /// To the instruction that made it; the slot is there once `retain_grad` was asked for.
    Node(Edge, Option<Arc<GradSlot>>),
}

/// What a tensor shows.
pub(crate) struct Shown {
    id: AtomicU64,
    version: AtomicU32,
    tracks: AtomicBool,
    /// Whether writes through the tensor escape autograd's version check, as those through `.data` do. Here it takes no room.
    pub quiet_writes: bool,
    state: Mutex<State>,
}

struct State {
    /// None while the value is the tensor's alone (SHOWN-2).
    value: Option<Value>,
    history: History,
}

impl Shown {
    /// The result of an instruction that was just recorded, derived from the cell's `version`.
    #[inline]
    pub fn made(id: TensorId, version: u32) -> Self {
        Shown::new(id, None, version, History::None)
    }

    /// A value that others may hold too, derived from the cell's `version`.
    #[inline]
    pub fn of(value: Value, version: u32, history: History) -> Self {
        Shown::new(value.id(), Some(value), version, history)
    }

    #[inline]
    fn new(id: TensorId, value: Option<Value>, version: u32, history: History) -> Self {
        Shown {
            id: AtomicU64::new(id.0),
            version: AtomicU32::new(version),
            tracks: AtomicBool::new(!matches!(history, History::None)),
            quiet_writes: false,
            state: Mutex::new(State { value, history }),
        }
    }

    /// The name of the value; see SHOWN-3 for how long it is good.
    #[inline]
    pub fn id(&self) -> TensorId {
        TensorId(self.id.load(Ordering::Acquire))
    }

    /// The version of the cell that the value was derived from.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether gradients flow to or through the tensor.
    #[inline]
    pub fn tracks(&self) -> bool {
        self.tracks.load(Ordering::Acquire)
    }

    /// The value, of type `ty`, and the version of the cell it was derived from.
    pub fn value(&self, ty: &TensorType) -> (Value, u32) {
        let mut state = self.state.lock();
        let value = state.value.get_or_insert_with(|| Value::new(self.id(), *ty)).clone();
        (value, self.version())
    }

    /// Shows another value from now on, and has another history if there is one given; a leaf stays the leaf it is.
    pub fn show(&self, value: Value, version: u32, history: Option<History>) {
        let mut state = self.state.lock();
        let id = TensorId(self.id.swap(value.id().0, Ordering::AcqRel));
        self.version.store(version, Ordering::Release);
        let old = state.value.replace(value);
        let old_history = match history {
            Some(new) if !matches!(state.history, History::Leaf(_)) => {
                self.tracks.store(!matches!(new, History::None), Ordering::Release);
                Some(std::mem::replace(&mut state.history, new))
            }
            _ => None,
        };
        drop(state);
        if old.is_none() {
            lane::free(id, false);
        }
        drop((old, old_history));
    }

    /// Says that the value is that of another version of the cell.
    pub fn set_version(&self, version: u32) {
        let _state = self.state.lock();
        self.version.store(version, Ordering::Release);
    }

    /// Where gradients go. Nothing may be recorded, and no tensor dropped, while it is looked at.
    #[inline]
    pub fn history(&self) -> impl Deref<Target = History> + '_ {
        MutexGuard::map(self.state.lock(), |state| &mut state.history)
    }

    /// Changes where gradients go. What `change` takes out it should return: it is dropped with no lock held.
    pub fn change_history<T>(&self, change: impl FnOnce(&mut History) -> T) -> T {
        let mut state = self.state.lock();
        let out = change(&mut state.history);
        self.tracks.store(!matches!(state.history, History::None), Ordering::Release);
        out
    }
}

impl Drop for Shown {
    #[inline]
    fn drop(&mut self) {
        if self.state.get_mut().value.is_none() {
            lane::free(TensorId(*self.id.get_mut()), false);
        }
    }
}
