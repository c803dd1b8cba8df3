//! A loader on several workers: each makes its own rows of every batch, where a tensor that is created here would have them.
//!
//! SPREAD-1: a batch is given when each of them has announced its part. What one says of a batch, all say, or it is none.
//! SPREAD-2: its values are uploads on all of these workers at once, each supplied with the part that it has made.
//! SPREAD-3: with one of the workers the loader is gone: its next batch says so, and what was not yet sent is lost.

use std::collections::HashMap;
use std::sync::Arc;

use gt_ir::shard::Split;
use gt_ir::{Failure, FailureKind, TensorId};
use gt_shard::{Layout, Placement};
use gt_stream::Occurrence;
use parking_lot::Mutex;

use super::Remote;
use super::group::{Inner, nowhere};
use super::loading::RemoteLoader;
use super::members::Members;
use gt_client::link::{AnnouncedBatch, WaitError, WantedLoader, WorkerLoader};
use gt_client::signal;

/// Who supplies a value.
#[derive(Clone)]
pub(super) struct Supplied {
    /// Where it lies.
    pub(super) placement: Placement,
    /// The sessions of these workers.
    remotes: Arc<[Arc<Remote>]>,
}

impl Supplied {
    /// Whether all of them are still members of the group (SPREAD-3).
    pub(super) fn is_there(&self, members: &Members) -> bool {
        are_there(self.placement.mesh.workers(), &self.remotes, members)
    }

    /// The value will not be defined.
    pub(super) fn unbind(&self, id: TensorId) {
        self.remotes.iter().for_each(|remote| remote.unbind(&[id]));
    }
}

fn are_there(workers: &[u32], remotes: &[Arc<Remote>], members: &Members) -> bool {
    let is_there = |(&number, remote): (&u32, &Arc<Remote>)| {
        members.remote(number).is_some_and(|member| Arc::ptr_eq(member, remote))
    };
    workers.iter().zip(remotes).all(is_there)
}

/// The windows that define these values are in the streams of all workers.
pub(super) fn bind(values: &[(TensorId, Supplied)]) {
    let mut rest = values;
    while let Some((_, by)) = rest.first() {
        // Those of one loader go together, a message for each worker.
        let own = rest.iter().take_while(|(_, other)| Arc::ptr_eq(&other.remotes, &by.remotes)).count();
        let ids: Vec<TensorId> = rest[..own].iter().map(|(id, _)| *id).collect();
        by.remotes.iter().for_each(|remote| remote.bind(ids.clone()));
        rest = &rest[own..];
    }
}

/// Values that will be defined by windows, and who supplies them.
#[derive(Default)]
pub(super) struct Spread {
    waiting: Mutex<HashMap<TensorId, Supplied>>,
}

impl Spread {
    /// Those of a window, in its order.
    pub(super) fn take(&self, window: &Occurrence) -> Vec<(TensorId, Supplied)> {
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() {
            return Vec::new();
        }
        window.uploads().filter_map(|(_, id)| waiting.remove_entry(&id)).collect()
    }
}

/// See the module.
pub(super) struct SpreadLoader {
    group: Arc<Inner>,
    layout: Layout,
    remotes: Arc<[Arc<Remote>]>,
    parts: Vec<RemoteLoader>,
    /// What has been announced of the next batch; it stays while somebody who waited for the rest was interrupted.
    announced: Mutex<Vec<Option<AnnouncedBatch>>>,
}

/// Whether rows of batches that are created under a layout lie on its workers, one stretch on each.
fn divides_rows(layout: &Layout, most_parts: usize) -> bool {
    let count = layout.mesh.count();
    count == 1 || (count <= most_parts && layout.splits[..] == [Split::shard(0)])
}

impl SpreadLoader {
    /// Opens a loader on the workers of the calling thread's scope. None where it is better made at home.
    pub(super) fn open(
        group: &Arc<Inner>,
        wanted: &WantedLoader<'_>,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Option<SpreadLoader>, WaitError> {
        if !signal::in_use() {
            return Ok(None);
        }
        group.home.wait_for_worker(cancel)?;
        let (names, home) = (group.names(), group.home.home().map(|worker| worker.id));
        let is_home = |number: &u32| names.get(*number as usize) == home.as_ref();
        let divides =
            |layout: &Layout| divides_rows(layout, wanted.most_parts) && !layout.mesh.workers().iter().all(is_home);
        let Some(layout) = signal::layout(signal::current(), &names).filter(divides) else { return Ok(None) };
        group.ensure(|_| layout.mesh.workers().to_vec(), cancel)?;
        let Some(mut placing) = group.placing() else { return Ok(None) };
        let Some(stream) = &mut *placing else { return Ok(None) };
        let Some(layout) = stream.members.present(layout).filter(divides) else { return Ok(None) };
        let remotes = layout.mesh.workers().iter().map(|&number| stream.members.remote(number).cloned());
        let Some(remotes) = remotes.collect::<Option<Arc<[Arc<Remote>]>>>() else { return Ok(None) };
        drop(placing);
        let open = |(number, remote): (usize, &Arc<Remote>)| {
            remote.load_here(&(wanted.describe)(number, remotes.len()), wanted.ahead)
        };
        let parts = remotes.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>()?;
        let announced = Mutex::new(vec![None; parts.len()]);
        Ok(Some(SpreadLoader { group: group.clone(), layout, remotes, parts, announced }))
    }

    /// SPREAD-3.
    fn check(&self) -> Result<(), WaitError> {
        let Some(mut placing) = self.group.placing() else { return Err(WaitError::Failed(nowhere())) };
        let Some(stream) = &mut *placing else { return Err(WaitError::Failed(nowhere())) };
        stream.catch_up();
        match are_there(self.layout.mesh.workers(), &self.remotes, &stream.members) {
            true => Ok(()),
            false => Err(WaitError::Failed(stream.live.last_loss().cloned().unwrap_or_else(nowhere))),
        }
    }

    fn explained(&self, error: WaitError) -> WaitError {
        match error {
            WaitError::Failed(failure) => WaitError::Failed(self.group.explain(None, failure)),
            WaitError::Interrupted => error,
        }
    }
}

impl WorkerLoader for SpreadLoader {
    fn next(&self, cancel: &dyn Fn() -> bool) -> Result<AnnouncedBatch, WaitError> {
        self.check()?;
        let mut announced = self.announced.lock();
        for (part, place) in self.parts.iter().zip(announced.iter_mut()) {
            if place.is_none() {
                *place = Some(part.next(cancel).map_err(|error| self.explained(error))?);
            }
        }
        let mut batches = announced.iter_mut().filter_map(Option::take);
        let Some(mut whole) = batches.next() else { return Err(WaitError::Failed(nowhere())) };
        for part in batches {
            if part.batch != whole.batch {
                let message = "the parts of a batch have different sample counts";
                return Err(WaitError::Failed(Failure::new(FailureKind::Internal, message)));
            }
            if part.types != whole.types {
                whole.types.clear();
            }
            whole.notes.extend(part.notes);
        }
        Ok(whole)
    }

    fn bind(&self, batch: &AnnouncedBatch, values: &[TensorId]) {
        self.parts.iter().for_each(|part| part.bind(batch, values));
        let mut waiting = self.group.spread.waiting.lock();
        for (&id, ty) in values.iter().zip(&batch.types) {
            let placement = self.layout.placement(ty, false);
            waiting.insert(id, Supplied { placement, remotes: self.remotes.clone() });
        }
    }

    fn unbind(&self, values: &[TensorId]) {
        let mut waiting = self.group.spread.waiting.lock();
        values.iter().for_each(|id| _ = waiting.remove(id));
        drop(waiting);
        self.parts.iter().for_each(|part| part.unbind(values));
    }

    fn drop_batch(&self, batch: u64) {
        self.parts.iter().for_each(|part| part.drop_batch(batch));
    }

    fn worker(&self, part: usize) -> String {
        self.parts.get(part).map_or_else(String::new, |loader| loader.worker(0))
    }
}
