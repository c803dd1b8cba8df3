//! The client's side of the stream's other end, whatever that is: a worker in this process or a server.

use std::time::Duration;

use gt_ir::{Failure, FailureKind, HostTensor, TensorId, TensorType};
use gt_stream::Occurrence;

/// Why a wait ended without an answer.
#[derive(Debug)]
pub enum WaitError {
    /// The value is poisoned, or a write was skipped earlier.
    Failed(Failure),
    /// The cancel function said so.
    Interrupted,
}

/// A batch that a worker has made, before it is given.
#[derive(Clone, Debug)]
pub struct AnnouncedBatch {
    /// Its number.
    pub batch: u64,
    /// Its tensors. None where those who made its parts do not agree: then one of them says why.
    pub types: Vec<TensorType>,
    /// What those who made it say of it, part by part.
    pub notes: Vec<Vec<u8>>,
}

/// A loader that somebody wants.
pub struct WantedLoader<'a> {
    /// Describes it to the one of several workers that makes this part of its batches, of so many.
    pub describe: &'a dyn Fn(usize, usize) -> Vec<u8>,
    /// In how many parts its batches can be made.
    pub most_parts: usize,
    /// How many batches are made ahead.
    pub ahead: usize,
}

/// A loader on a worker, or on several of which each makes a part. Dropping it ends it.
pub trait WorkerLoader: Send + Sync {
    /// Waits for the next batch; another one is asked for in its place.
    fn next(&self, cancel: &dyn Fn() -> bool) -> Result<AnnouncedBatch, WaitError>;
    /// The tensors of a batch will be these values, once uploads without a payload define them.
    fn bind(&self, batch: &AnnouncedBatch, values: &[TensorId]);
    /// These values were not defined after all.
    fn unbind(&self, values: &[TensorId]);
    /// Nobody wants a batch.
    fn drop_batch(&self, batch: u64);
    /// The name of the worker that makes a part.
    fn worker(&self, part: usize) -> String;
}

/// How far a link has come, in a count of its own: of windows, or of messages that hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many were handed over.
    pub sent: u64,
    /// How many of them have run, in order. If no worker can run them, this is the number that were sent.
    pub executed: u64,
}

/// Where windows go and values come from. All methods may be called from any thread.
pub trait Link: Send + Sync {
    /// Takes a window, in order. Waits while credits are spent; when `cancel` says so it stops waiting and reports
    /// it, but the window is taken all the same.
    fn send(&self, window: Occurrence, cancel: &dyn Fn() -> bool) -> Result<(), WaitError>;
    /// Waits for one value.
    fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, WaitError>;
    /// Waits for everything sent.
    fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError>;
    /// The other side may have gone to sleep; there is something recorded now that it should ask for.
    fn wake(&self);
    /// Whether a send would have to wait for credits.
    fn is_full(&self) -> bool;
    /// How far it has come. A link that cannot tell lets recording run ahead as far as it has room.
    fn progress(&self) -> Progress {
        Progress::default()
    }
    /// Waits a moment for what was handed over to run: nothing is recorded meanwhile.
    fn pause(&self, moment: Duration) {
        std::thread::sleep(moment);
    }
    /// Ends the session: nothing more is sent, waits end.
    fn close(&self);
    /// The names of the workers behind it, in the order that signals number them.
    fn workers(&self) -> Vec<String> {
        vec!["worker_0".into()]
    }
    /// Whether [`Link::lend`] spares a copy. False where there is none to be spared.
    fn lends(&self) -> bool {
        false
    }
    /// Takes the payload of an upload that was sent without one; the bytes are needed until it returns. When `cancel` says so
    /// it stops waiting and reports it, but the payload is taken all the same.
    fn lend(&self, id: TensorId, bytes: &[u8], cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        let _ = (id, bytes, cancel);
        Err(WaitError::Failed(Failure::new(FailureKind::Internal, "this link does not support lend()")))
    }
    /// Opens a loader on the workers where its batches would be made if they were created here and now, or on the one that the
    /// session lives on. None where that has no process of its own.
    fn open_loader(
        &self,
        wanted: &WantedLoader<'_>,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Option<Box<dyn WorkerLoader>>, WaitError> {
        let _ = (wanted, cancel);
        Ok(None)
    }
}

impl<L: Link + ?Sized> Link for std::sync::Arc<L> {
    fn send(&self, window: Occurrence, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        (**self).send(window, cancel)
    }
    fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        (**self).read(id, cancel)
    }
    fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        (**self).synchronize(cancel)
    }
    fn wake(&self) {
        (**self).wake();
    }
    fn is_full(&self) -> bool {
        (**self).is_full()
    }
    fn progress(&self) -> Progress {
        (**self).progress()
    }
    fn pause(&self, moment: Duration) {
        (**self).pause(moment);
    }
    fn close(&self) {
        (**self).close();
    }
    fn workers(&self) -> Vec<String> {
        (**self).workers()
    }
    fn lends(&self) -> bool {
        (**self).lends()
    }
    fn lend(&self, id: TensorId, bytes: &[u8], cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        (**self).lend(id, bytes, cancel)
    }
    fn open_loader(
        &self,
        wanted: &WantedLoader<'_>,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Option<Box<dyn WorkerLoader>>, WaitError> {
        (**self).open_loader(wanted, cancel)
    }
}
