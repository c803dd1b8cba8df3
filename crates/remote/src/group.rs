//! A session on several workers. To those who record it is one link; on the wire it is an ordinary session on each worker.
//!
//! GROUP-1: until a window carries a signal that means more than the home worker, everything goes there as it does without a
//! group. From then on every window is placed.
//! GROUP-2: the link's own threads report losses, so that nobody has to make a call first.
//! GROUP-3: the lock of the stream is never held while somebody waits for an answer, for room, or for Python.
//! GROUP-4: a failure is raised once, though every worker that skipped a write because of it tells of it, one at a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use gt_ir::{Failure, FailureKind, HostTensor, ScopeId, SiteId, TensorId};
use gt_net::protocol::{StreamMessage, WorkerInfo};
use gt_shard::Traffic;
use gt_stream::Occurrence;
use parking_lot::{Mutex, MutexGuard};

use super::members::{Links, Members, Opened};
use super::placing::PlacedStream;
use super::progress::Windows;
use super::spread::{Spread, SpreadLoader};
use super::{Dialer, Options, Remote};
use gt_client::link::{Link, Progress, WaitError, WantedLoader, WorkerLoader};
use gt_client::{session, signal};

/// A failure as one worker tells it.
#[derive(Clone, PartialEq)]
struct FailureReport {
    kind: FailureKind,
    site: SiteId,
    worker: String,
    message: String,
    cause: Option<TensorId>,
}

impl FailureReport {
    fn of(failure: &Failure) -> FailureReport {
        let Failure { kind, site, worker, message, .. } = failure;
        FailureReport {
            kind: *kind,
            site: *site,
            worker: worker.clone(),
            message: message.clone(),
            cause: failure.bad_value(),
        }
    }

    /// Whether both are of one line and in the same words. Workers name their parts of a value differently, so causes say nothing. Each
    /// has its own account of its memory.
    fn sounds_like(&self, other: &FailureReport) -> bool {
        let same_words = self.message == other.message || self.kind == FailureKind::Memory;
        (self.kind, self.site) == (other.kind, other.site) && same_words
    }

    fn has_cause_of(&self, other: &FailureReport) -> bool {
        self.worker == other.worker && self.cause.is_some() && self.cause == other.cause
    }
}

/// Failures of skipped writes: each worker has its own copy of one (GROUP-4).
#[derive(Default)]
struct FailureLog {
    /// What was raised, or is owed, since everything was last waited for: the first report, then those of other workers. A loss is met at many
    /// lines, and has the same message at all of them.
    known: Vec<Vec<FailureReport>>,
    /// What workers have reported, and nobody has been told yet.
    owed: VecDeque<Failure>,
}

impl FailureLog {
    /// Whether a failure is new: neither this worker nor another has reported it. It is known from now on. A worker that fails at
    /// one line because of two values has two failures.
    fn is_new(&mut self, failure: &Failure) -> bool {
        let tale = FailureReport::of(failure);
        let is_known = |tales: &Vec<FailureReport>| match tale.kind {
            FailureKind::WorkerLost => tales.iter().any(|t| t.kind == tale.kind && t.message == tale.message),
            _ if tale.cause.is_none() => tales.iter().any(|t| t.sounds_like(&tale)),
            _ => tales.iter().any(|t| t.has_cause_of(&tale)),
        };
        if self.known.iter().any(is_known) {
            return false;
        }
        let is_copied = |tales: &&mut Vec<FailureReport>| {
            tales[0].sounds_like(&tale) && tales.iter().all(|t| t.worker != tale.worker)
        };
        match self.known.iter_mut().find(is_copied) {
            Some(tales) => {
                tales.push(tale);
                false
            }
            None => {
                self.known.push(vec![tale]);
                true
            }
        }
    }

    fn owe(&mut self, failure: Failure) {
        if self.is_new(&failure) {
            self.owed.push_back(failure);
        }
    }
}

/// A session on the workers of a server.
pub struct ShardedSession {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) home: Arc<Remote>,
    /// Whether windows are placed (GROUP-1). Never taken back.
    is_placing: AtomicBool,
    placing: Mutex<Option<PlacedStream>>,
    links: Links,
    /// Taken before the links and their states.
    windows: Mutex<Windows>,
    failure_log: Mutex<FailureLog>,
    /// Batches that several workers have, part by part.
    pub(super) spread: Arc<Spread>,
}

impl ShardedSession {
    /// Opens a session and waits until the server has taken it.
    ///
    /// # Errors
    /// When nothing answers in time, or the server refuses.
    pub fn open(
        dialer: Box<dyn Dialer>,
        options: Options,
        cancel: &dyn Fn() -> bool,
    ) -> Result<ShardedSession, WaitError> {
        let home = Arc::new(Remote::open(dialer, options, cancel)?);
        let inner = Arc::new(Inner {
            links: Arc::new(Mutex::new(vec![home.clone()])),
            home,
            is_placing: AtomicBool::new(false),
            placing: Mutex::new(None),
            windows: Mutex::default(),
            failure_log: Mutex::default(),
            spread: Arc::default(),
        });
        inner.home.on_news(Box::new(Inner::on_news(&inner)));
        let of_home = Arc::downgrade(&inner);
        inner.home.set_busy_check(Box::new(move || of_home.upgrade().is_some_and(|inner| inner.others_busy())));
        Ok(ShardedSession { inner })
    }

    /// The name of the worker where everything is that no signal speaks of.
    pub fn home_name(&self) -> Option<String> {
        self.inner.home.home().map(|worker| worker.id)
    }

    /// That worker, if there is one yet.
    pub fn home_worker(&self) -> Option<WorkerInfo> {
        self.inner.home.home()
    }

    /// Whether something that was handed over has not run, be it because the session has ended.
    pub fn has_unrun(&self) -> bool {
        self.inner.links().iter().any(|link| link.has_unrun())
    }

    /// Whether it has ended by itself.
    pub fn is_lost(&self) -> bool {
        self.inner.home.is_lost()
    }

    /// Why it has ended by itself, if it has, and the values that are gone with it.
    pub fn loss(&self) -> Option<(Vec<TensorId>, Failure)> {
        match &mut *self.inner.placing.lock() {
            Some(placing) => self.inner.home.loss_of(&mut placing.live),
            None => self.inner.home.loss(),
        }
    }

    /// These values were in a session that ended before this one began: whoever uses them learns why they are gone.
    pub fn lost_before(&self, ids: &[TensorId], why: Failure) {
        self.inner.home.lost_before(ids, why);
    }

    /// The values that it has not, though their tensors may still be there, by why.
    pub fn all_lost(&self) -> Vec<(Vec<TensorId>, Failure)> {
        match &*self.inner.placing.lock() {
            Some(placing) => placing.live.all_lost(),
            None => self.inner.home.all_lost(),
        }
    }

    /// Whether there is a worker that runs what is sent.
    pub fn has_worker(&self) -> bool {
        self.inner.home.has_worker()
    }

    /// The names of the values it holds, ascending.
    pub fn values(&self) -> Vec<TensorId> {
        let mut values = self.inner.home.values();
        if let Some(placing) = &*self.inner.placing.lock() {
            values.extend(placing.live.values());
            values.sort_unstable();
            values.dedup();
        }
        values
    }

    /// Waits until everything sent has been executed, and raises nothing of what failed.
    ///
    /// # Errors
    /// When `cancel` says so, or the session has ended.
    pub fn wait_executed(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        self.inner.links().iter().try_for_each(|link| link.wait_executed(cancel))
    }

    /// What each worker has done for this session, as it tells it, by its name at the server.
    ///
    /// # Errors
    /// When one does not answer.
    pub fn stats(&self, cancel: &dyn Fn() -> bool) -> Result<Vec<(String, String)>, WaitError> {
        let links = self.inner.links();
        let ask = |link: &'_ Arc<Remote>| Some((link.home()?.id, link.clone()));
        let there: Vec<(String, Arc<Remote>)> = links.iter().filter_map(ask).collect();
        let asked: Vec<_> =
            there.iter().map(|(name, link)| (name, link.ask(|request| StreamMessage::Stats { request }))).collect();
        asked.into_iter().map(|(name, question)| Ok((name.clone(), question.stats(cancel)?))).collect()
    }

    /// What has travelled between workers so far.
    pub fn traffic(&self) -> Traffic {
        self.inner.placing.lock().as_ref().map_or_else(Traffic::default, |placing| placing.placer.traffic().clone())
    }

    /// What the program does under its signals, as text, if that is kept; see [`Options::reports`].
    pub fn report(&self, explain: bool) -> Option<String> {
        let placing = self.inner.placing.lock();
        let report = placing.as_ref()?.placer.report()?;
        Some(report.text(&gt_client::site::name, explain))
    }

    /// Gives cached memory back to the workers' systems.
    pub fn trim(&self) {
        self.inner.links().iter().for_each(|link| link.say(&StreamMessage::Trim {}));
    }

    /// Ends the session: nothing more is sent, waits end, the server forgets it.
    pub fn close(&self) {
        // The others end with home at the server; here they should not take that for a loss.
        let links = self.inner.links();
        self.inner.home.close();
        links.iter().for_each(|link| link.close());
    }
}

impl Drop for ShardedSession {
    fn drop(&mut self) {
        self.close();
    }
}

impl Inner {
    fn links(&self) -> Vec<Arc<Remote>> {
        self.links.lock().clone()
    }

    /// Called by the links' threads (GROUP-2).
    fn on_news(inner: &Arc<Inner>) -> impl Fn() + Send + Sync + use<> {
        let inner: Weak<Inner> = Arc::downgrade(inner);
        move || {
            let Some(inner) = inner.upgrade() else { return };
            if inner.home.ended().is_none()
                && let Some(placing) = &mut *inner.placing.lock()
            {
                placing.catch_up();
            }
        }
    }

    fn others_busy(&self) -> bool {
        self.links.lock().iter().any(|link| !Arc::ptr_eq(link, &self.home) && !link.is_dry())
    }

    /// The workers that signals can name, by number.
    fn workers(&self) -> Vec<WorkerInfo> {
        self.home.known_workers()
    }

    pub(super) fn names(&self) -> Vec<String> {
        match &*self.placing.lock() {
            Some(placing) => placing.members.names(),
            None => self.workers().into_iter().map(|worker| worker.id).collect(),
        }
    }

    /// Whether a window has to be placed (GROUP-1).
    fn needs_placing(&self, window: &Occurrence) -> bool {
        let workers = self.workers();
        if workers.len() < 2 {
            return false;
        }
        let names: Vec<String> = workers.iter().map(|worker| worker.id.clone()).collect();
        let home = self.home.home().and_then(|home| workers.iter().position(|worker| worker.index == home.index));
        window.recipe().scopes().iter().filter(|scope| **scope != ScopeId(0)).any(|&scope| {
            let layout = signal::layout(scope, &names);
            layout.is_some_and(|layout| layout.mesh.workers().iter().any(|&number| Some(number as usize) != home))
        })
    }

    /// The stream, from its first placed window on.
    pub(super) fn placing(self: &Arc<Self>) -> Option<MutexGuard<'_, Option<PlacedStream>>> {
        let mut placing = self.placing.lock();
        if placing.is_none() {
            let on_news = Arc::new(Inner::on_news(self));
            let members = Members::new(&self.home, &self.workers(), self.links.clone(), on_news)?;
            let (live, reports) = (self.home.take_live(), self.home.options().reports);
            *placing = Some(PlacedStream::new(members, live, self.spread.clone(), reports));
            self.is_placing.store(true, Ordering::Release);
        }
        Some(placing)
    }

    fn is_placing(&self) -> bool {
        self.is_placing.load(Ordering::Acquire)
    }

    /// Opens the sessions of the workers that `wanted` names, where they are missing. Each may take until the server answers, so no
    /// lock is held meanwhile (GROUP-3), nor Python's.
    ///
    /// # Errors
    /// When `cancel` says so.
    pub(super) fn ensure(
        self: &Arc<Self>,
        wanted: impl Fn(&PlacedStream) -> Vec<u32>,
        cancel: &dyn Fn() -> bool,
    ) -> Result<(), WaitError> {
        let missing = {
            let Some(mut placing) = self.placing() else { return Ok(()) };
            let Some(stream) = &mut *placing else { return Ok(()) };
            stream.catch_up();
            if stream.members.is_complete() {
                return Ok(());
            }
            let workers = wanted(stream);
            stream.members.missing(workers)
        };
        if missing.is_empty() {
            return Ok(());
        }
        let open = || missing.into_iter().map(|opening| opening.open(cancel)).collect::<Result<Vec<Opened>, _>>();
        let opened = session::blocking(open)?;
        if let Some(stream) = self.placing().as_deref_mut().and_then(Option::as_mut) {
            stream.members.admit(opened);
        }
        Ok(())
    }

    fn send(self: &Arc<Self>, window: Occurrence, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        // Not under the lock (GROUP-3). Who gives up waiting has the window sent all the same.
        let mut room = self.home.wait_for_worker(cancel);
        for link in self.links() {
            if room.is_ok() {
                room = link.wait_for_room(cancel);
            }
        }
        if room.is_ok() {
            room = self.ensure(|stream| stream.workers_of(&window), cancel);
        }
        // Without a home there is nothing to place on: it waits for one as it would without a group.
        let Some(mut placing) = self.placing() else { return self.home.send(window, cancel) };
        if let Some(stream) = &mut *placing {
            stream.send(window);
        }
        drop(placing);
        match room {
            Err(WaitError::Interrupted) => room,
            // Nobody will run it. Recording goes on; the next read says why.
            Err(WaitError::Failed(_)) | Ok(()) => Ok(()),
        }
    }

    fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        if let Some(stream) = &mut *self.placing.lock()
            && let Some(failure) = stream.live.refuses(id)
        {
            self.failure_log.lock().is_new(&failure);
            return Err(WaitError::Failed(failure));
        }
        let mut heard: Vec<FailureReport> = Vec::new();
        loop {
            let failure = match self.read_or_fail(id, cancel) {
                Err(WaitError::Failed(failure)) => failure,
                read => return read,
            };
            let tale = FailureReport::of(&failure);
            // A worker that has the value says first, once, what it skipped a write for (GROUP-4).
            if self.failure_log.lock().is_new(&failure) || heard.contains(&tale) {
                return Err(WaitError::Failed(failure));
            }
            heard.push(tale);
        }
    }

    fn read_or_fail(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        let mut placing = self.placing.lock();
        let Some(stream) = &mut *placing else { return Err(WaitError::Failed(nowhere())) };
        if let Some(failure) = self.home.ended() {
            return Err(WaitError::Failed(failure));
        }
        stream.catch_up();
        if let Some(failure) = stream.live.lost(id) {
            stream.live.heard(&failure);
            return Err(WaitError::Failed(failure));
        }
        let plan = stream.placer.read(id);
        if let Some(before) = plan.before {
            stream.dispatch(before);
        }
        let Some(remote) = stream.members.remote(plan.worker).cloned() else {
            return Err(WaitError::Failed(stream.live.last_loss().cloned().unwrap_or_else(nowhere)));
        };
        // Asked before others can send: what frees the value comes later in its stream.
        let question = remote.ask(|request| StreamMessage::Read { request, id: plan.id });
        drop(placing);
        question.value(cancel).map_err(|error| match error {
            WaitError::Failed(failure) => WaitError::Failed(self.explain(Some(id), failure)),
            WaitError::Interrupted => WaitError::Interrupted,
        })
    }

    /// A failure with what is known here of a lost worker.
    pub(super) fn explain(&self, id: Option<TensorId>, failure: Failure) -> Failure {
        if failure.kind != FailureKind::WorkerLost || self.home.ended().is_some() {
            return failure;
        }
        let mut placing = self.placing.lock();
        let Some(placing) = &mut *placing else { return failure };
        placing.catch_up();
        // The loss that a value was given up for names itself.
        let lost = id.and_then(|id| placing.live.lost(id));
        let known = lost.or_else(|| (!placing.live.has_said(&failure)).then(|| placing.live.last_loss().cloned())?);
        let failure =
            Failure { message: known.map_or_else(|| failure.message.clone(), |loss| loss.message), ..failure };
        placing.live.heard(&failure);
        failure
    }

    fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        let links = self.links();
        let asked: Vec<_> =
            links.iter().map(|link| link.ask(|request| StreamMessage::Synchronize { request })).collect();
        for (link, mut question) in links.iter().zip(asked) {
            let mut heard: Vec<FailureReport> = Vec::new();
            loop {
                match question.done(cancel) {
                    Ok(()) => break,
                    Err(WaitError::Interrupted) => return Err(WaitError::Interrupted),
                    Err(WaitError::Failed(failure)) => {
                        let failure = self.explain(None, failure);
                        let tale = FailureReport::of(&failure);
                        self.failure_log.lock().owe(failure);
                        // One that says the same again is lost.
                        if heard.contains(&tale) {
                            break;
                        }
                        heard.push(tale);
                        question = link.ask(|request| StreamMessage::Synchronize { request });
                    }
                }
            }
        }
        let skipped = self.placing.lock().as_mut().and_then(|placing| placing.live.take_owed());
        let mut failure_log = self.failure_log.lock();
        // Every worker has reported all it knows.
        failure_log.known.clear();
        skipped.into_iter().for_each(|failure| failure_log.owe(failure));
        failure_log.owed.pop_front().map_or(Ok(()), |failure| Err(WaitError::Failed(failure)))
    }

    fn lend(&self, id: TensorId, bytes: &[u8], cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        let remote = {
            let mut placing = self.placing.lock();
            let stream = placing.as_mut();
            let worker =
                stream.and_then(|stream| stream.lent.remove(&id).map(|worker| stream.members.remote(worker).cloned()));
            match worker {
                Some(Some(remote)) => remote,
                // It went with its worker, and so does the payload.
                Some(None) => return Ok(()),
                None => self.home.clone(),
            }
        };
        remote.lend(id, bytes, cancel)
    }
}

pub(super) fn nowhere() -> Failure {
    Failure::new(FailureKind::WorkerLost, "the worker that held this tensor is lost")
}

impl Link for ShardedSession {
    fn send(&self, window: Occurrence, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        let inner = &self.inner;
        let sent = match inner.is_placing() || signal::in_use() && inner.needs_placing(&window) {
            true => inner.send(window, cancel),
            false => inner.home.send(window, cancel),
        };
        inner.windows.lock().sent(&inner.links());
        sent
    }

    fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        match self.inner.is_placing() {
            true => self.inner.read(id, cancel),
            false => self.inner.home.read(id, cancel),
        }
    }

    fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        match self.inner.is_placing() {
            true => self.inner.synchronize(cancel),
            false => self.inner.home.synchronize(cancel),
        }
    }

    fn wake(&self) {
        self.inner.home.wake();
    }

    fn progress(&self) -> Progress {
        self.inner.windows.lock().progress()
    }

    fn close(&self) {
        ShardedSession::close(self);
    }

    fn is_full(&self) -> bool {
        match self.inner.is_placing() {
            true => !self.inner.home.has_worker() || self.inner.links.lock().iter().any(|link| link.is_full()),
            false => self.inner.home.is_full(),
        }
    }

    fn workers(&self) -> Vec<String> {
        self.inner.names()
    }

    fn lends(&self) -> bool {
        self.inner.links.lock().iter().all(|link| link.lends())
    }

    fn lend(&self, id: TensorId, bytes: &[u8], cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        self.inner.lend(id, bytes, cancel)
    }

    fn open_loader(
        &self,
        wanted: &WantedLoader<'_>,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Option<Box<dyn WorkerLoader>>, WaitError> {
        match SpreadLoader::open(&self.inner, wanted, cancel)? {
            Some(loader) => Ok(Some(Box::new(loader))),
            None => Link::open_loader(&*self.inner.home, wanted, cancel),
        }
    }
}
