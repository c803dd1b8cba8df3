//! Batches that workers make: what a program sees of a loader that runs elsewhere.

use gt_ir::{Failure, FailureKind, ops};

use crate::error::Result;
use crate::lane;
use crate::link::{AnnouncedBatch, WantedLoader, WorkerLoader};
use crate::session::{Session, blocking, failed, interrupted, running, session, wait_error};
use crate::tensor::Tensor;

/// A loader on a worker, or on several. Dropping it ends it; values that were taken from it stay.
pub struct Loader {
    remote: Box<dyn WorkerLoader>,
    session: &'static Session,
}

impl Loader {
    /// Opens a loader where its batches would be created now: on each of the workers that the scope splits rows over, or on the
    /// worker of this process's session. None where the session is in this process anyway.
    ///
    /// # Errors
    /// When there is no session, or it has ended, or the wait for a worker was interrupted.
    pub fn open(wanted: &WantedLoader<'_>) -> Result<Option<Loader>> {
        let session = session()?;
        let opened = blocking(|| session.link.open_loader(wanted, &interrupted)).map_err(wait_error)?;
        Ok(opened.map(|remote| Loader { remote, session }))
    }

    /// Whether the session it belongs to is still the process's own: otherwise it is to be opened again.
    pub fn is_current(&self) -> bool {
        running().is_some_and(|now| std::ptr::eq(now, self.session))
    }

    /// The name of the worker that makes a part.
    pub fn worker(&self, part: usize) -> String {
        self.remote.worker(part)
    }

    /// What is said of the next batch. Waits only while the worker is behind.
    ///
    /// # Errors
    /// When the worker is gone, or the wait was interrupted.
    pub fn next(&self) -> Result<AnnouncedBatch> {
        blocking(|| self.remote.next(&interrupted)).map_err(wait_error)
    }

    /// The tensors of a batch. They are recorded as uploads whose payloads the worker has.
    ///
    /// # Errors
    /// When a wait for credits was interrupted.
    #[track_caller]
    pub fn tensors(&self, batch: &AnnouncedBatch) -> Result<Vec<Tensor>> {
        let ids = lane::upcoming(batch.types.len());
        // Before they are recorded: a window may be cut, and sent, with any of them.
        self.remote.bind(batch, &ids);
        let (mut tensors, mut done) = (Vec::with_capacity(ids.len()), Ok(()));
        for (number, (ty, &expected)) in batch.types.iter().zip(&ids).enumerate() {
            let op = ops::Upload { dtype: ty.dtype, shape: ty.shape };
            let recorded = lane::recorded(op.into(), &[], &[], 1, None, 0);
            let (id, sent) = recorded.inspect_err(|_| self.remote.unbind(&ids[number..]))?;
            if id != expected {
                self.remote.unbind(&ids[number..]);
                return Err(failed(Failure::new(
                    FailureKind::Internal,
                    format!("a loader's tensor was named {id:?} instead of {expected:?}"),
                )));
            }
            tensors.push(Tensor::made(id, ty));
            // Also where a wait for credits was interrupted: the rest of the batch belongs to it.
            done = done.and(sent);
        }
        done.map(|()| tensors)
    }

    /// Lets go of a batch that nobody wants.
    pub fn skip(&self, batch: &AnnouncedBatch) {
        self.remote.drop_batch(batch.batch);
    }
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("worker", &self.worker(0)).finish_non_exhaustive()
    }
}
