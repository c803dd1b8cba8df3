//! Values and cells: what a name stands for, and the place whose content changes.
//!
//! A *value* is one id of the stream; it never changes and is freed when nobody refers to it. A *cell* is what PyTorch
//! calls storage: it holds a value, and an in-place write gives it the next one and counts the write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use gt_ir::{TensorId, TensorType};
use parking_lot::Mutex;

use crate::lane;

/// One immutable value of the stream. The last reference frees it.
#[derive(Clone, Debug)]
pub(crate) struct Value(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: TensorId,
    ty: TensorType,
    /// A lane other than its own has recorded it.
    shared: AtomicBool,
    /// A parameter, a buffer or the like: what a group of workers keeps whole, while it splits data.
    state: AtomicBool,
}

impl Value {
    #[inline]
    pub fn new(id: TensorId, ty: TensorType) -> Self {
        Value(Arc::new(Inner { id, ty, shared: AtomicBool::new(false), state: AtomicBool::new(false) }))
    }

    #[inline]
    pub fn id(&self) -> TensorId {
        self.0.id
    }

    #[inline]
    pub fn ty(&self) -> &TensorType {
        &self.0.ty
    }

    /// A lane other than its own records or reads it.
    pub fn mark_shared(&self) {
        self.0.shared.store(true, Ordering::Relaxed);
    }

    /// Whether it is the content of a parameter, a buffer or the like.
    pub fn is_state(&self) -> bool {
        self.0.state.load(Ordering::Relaxed)
    }

    pub fn mark_state(&self, on: bool) {
        self.0.state.store(on, Ordering::Relaxed);
    }
}

impl Drop for Inner {
    #[inline]
    fn drop(&mut self) {
        lane::free(self.id, self.shared.load(Ordering::Relaxed));
    }
}

/// A place whose content is replaced by in-place writes.
#[derive(Debug)]
pub(crate) struct Cell {
    content: Mutex<Value>,
    version: AtomicU32,
    /// Writes that the version check of autograd does not count: those through `.data`.
    quiet: AtomicU32,
    /// What is written to it is state too.
    state: AtomicBool,
}

impl Cell {
    #[inline]
    pub fn new(value: Value) -> Arc<Self> {
        Arc::new(Cell {
            content: Mutex::new(value),
            version: AtomicU32::new(0),
            quiet: AtomicU32::new(0),
            state: AtomicBool::new(false),
        })
    }

    /// How many writes there were.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// The content and the number of writes that led to it.
    pub fn read(&self) -> (Value, u32) {
        let content = self.content.lock();
        (content.clone(), self.version())
    }

    /// How many writes there were that autograd's version check counts.
    pub fn seen(&self) -> u32 {
        self.version() - self.quiet.load(Ordering::Acquire)
    }

    /// Whether it holds a parameter, a buffer or the like.
    #[inline]
    pub fn is_state(&self) -> bool {
        self.state.load(Ordering::Relaxed)
    }

    /// Says whether it does, and whether what it holds now is state.
    pub fn mark_state(&self, on: bool) {
        self.state.store(on, Ordering::Relaxed);
        self.content.lock().mark_state(on);
    }

    /// Replaces the content; returns the new version.
    pub fn write(&self, value: Value, quiet: bool) -> u32 {
        if self.is_state() {
            value.mark_state(true);
        }
        let mut content = self.content.lock();
        self.quiet.fetch_add(quiet as u32, Ordering::AcqRel);
        let old = std::mem::replace(&mut *content, value);
        let version = self.version.fetch_add(1, Ordering::AcqRel) + 1;
        drop(content);
        drop(old);
        version
    }
}
