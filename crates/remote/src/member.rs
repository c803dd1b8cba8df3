//! What a group needs of one of its sessions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gt_ir::{Bytes, Failure, HostTensor, TensorId};
use gt_net::protocol::{DataRequest, StreamMessage, WorkerInfo, encode};
use gt_stream::Occurrence;

use super::live::Live;
use super::state::{Answer, OutOfReach};
use super::{Dialer, Options, Remote, Shared};
use gt_client::link::WaitError;

/// A message for one worker, and what it takes.
pub(super) struct Load<'a> {
    pub(super) message: &'a [u8],
    pub(super) instrs: u32,
    pub(super) payload_bytes: u64,
    /// Payloads that travel apart.
    pub(super) apart: &'a [(TensorId, Bytes)],
}

impl Remote {
    /// Its number, and what shows that it is the client's.
    pub(super) fn session(&self) -> Option<(u64, Box<[u8]>)> {
        self.shared.state.lock().session.clone()
    }

    /// How others like it are opened.
    pub(super) fn way(&self) -> (Arc<dyn Dialer>, Options) {
        (self.shared.dialer.clone(), self.shared.options.clone())
    }

    /// The worker that it lives on now.
    pub(super) fn home(&self) -> Option<WorkerInfo> {
        self.shared.state.lock().home.clone()
    }

    /// The workers it has been told of.
    pub(super) fn known_workers(&self) -> Vec<WorkerInfo> {
        let mut workers = self.shared.state.lock().workers.clone();
        workers.sort_by_key(|worker| worker.index);
        workers
    }

    /// Why it has ended, if it has.
    pub(super) fn ended(&self) -> Option<Failure> {
        self.shared.state.lock().ended()
    }

    /// The workers it has lost since this was last asked, and how.
    pub(super) fn take_losses(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.shared.state.lock().lost_workers)
    }

    /// The workers that its own has found to be out of reach since this was last asked.
    pub(super) fn take_out_of_reach(&self) -> Vec<OutOfReach> {
        std::mem::take(&mut self.shared.state.lock().out_of_reach)
    }

    /// Says what is to be called when a worker was lost or found, or the session has ended.
    pub(super) fn on_news(&self, news: Box<dyn Fn() + Send + Sync>) {
        let _ = self.shared.news.set(news);
    }

    /// Says what tells whether other sessions of the client have something to run.
    pub(super) fn set_busy_check(&self, others_busy: Box<dyn Fn() -> bool + Send + Sync>) {
        let _ = self.shared.others_busy.set(others_busy);
    }

    /// Whether everything sent has been executed.
    pub(super) fn is_dry(&self) -> bool {
        self.shared.state.lock().is_dry()
    }

    /// The values it has taken note of: from now on somebody else does.
    pub(super) fn take_live(&self) -> Live {
        std::mem::take(&mut self.shared.state.lock().live)
    }

    /// Whether something that was handed over has not run, be it because the session has ended.
    pub(super) fn has_unrun(&self) -> bool {
        self.shared.state.lock().has_unrun()
    }

    /// Whether it has ended by itself.
    pub(super) fn is_lost(&self) -> bool {
        self.ended().is_some_and(|why| why != super::state::closed())
    }

    /// Why it has ended by itself, if it has, and the values that are gone with it.
    pub(super) fn loss(&self) -> Option<(Vec<TensorId>, Failure)> {
        let mut live = std::mem::take(&mut self.shared.state.lock().live);
        let loss = self.loss_of(&mut live);
        self.shared.state.lock().live = live;
        loss
    }

    /// The same, where somebody else has taken note of its values.
    pub(super) fn loss_of(&self, live: &mut Live) -> Option<(Vec<TensorId>, Failure)> {
        let why = self.ended().filter(|_| self.is_lost())?;
        let ids = live.values_and_lost();
        let failure =
            live.lose(&format!("the session with the server at {}", self.shared.dialer.server()), &why.message);
        Some((ids, failure))
    }

    /// Values of another session, which cannot be had here.
    pub(super) fn lost_before(&self, ids: &[TensorId], why: Failure) {
        self.shared.is_bereft.store(true, Ordering::Release);
        self.shared.state.lock().live.fail(ids.iter().copied(), why);
    }

    /// The values that it has not, though their tensors may still be there, by why.
    pub(super) fn all_lost(&self) -> Vec<(Vec<TensorId>, Failure)> {
        self.shared.state.lock().live.all_lost()
    }

    /// Waits until there is room for another window.
    pub(super) fn wait_for_room(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        self.shared.wait(cancel, |state| state.has_room().then_some(Ok(())))
    }

    /// Waits until everything sent has been executed, or there is nobody who would.
    pub(super) fn wait_executed(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        self.shared.wait(cancel, |state| (state.is_dry() || state.home.is_none()).then_some(Ok(())))
    }

    /// Waits until there is a worker.
    pub(super) fn wait_for_worker(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        self.shared.wait(cancel, |state| state.home.is_some().then_some(Ok(())))
    }

    /// Sends a message that carries a window, without waiting for room. One to a session that has ended goes nowhere.
    pub(super) fn load(&self, load: &Load<'_>) {
        let shared = &*self.shared;
        let data = {
            let _in_order = shared.sending.lock();
            let mut state = shared.state.lock();
            let Some((head, connection)) = state.push(load.message, load.instrs, load.payload_bytes) else { return };
            state.keep_uploads(load.apart);
            let data = state.data.clone();
            drop(state);
            if let Some(connection) = connection {
                shared.dispatch(&connection, &head);
            }
            data
        };
        // The workers of a group are as many as there are cores, or more: none of them is to be kept off one.
        shared.recorder.clear_affinity(data.as_ref());
        if let Some(data) = data {
            for (id, bytes) in load.apart {
                let _ = data.send_with_body(&encode(&DataRequest::Upload { id: *id }), bytes.clone());
            }
        }
    }

    /// The values of a window that loaders of this session give.
    pub(super) fn loaded_in(&self, window: &Occurrence) -> Vec<TensorId> {
        self.shared.loaded_in(window)
    }

    /// The window that defines them is in the streams.
    pub(super) fn bind(&self, loaded: Vec<TensorId>) {
        self.shared.bind(loaded);
    }

    /// It is not, and will not be.
    pub(super) fn unbind(&self, loaded: &[TensorId]) {
        self.shared.unbind(loaded);
    }

    /// Says something that takes no credits.
    pub(super) fn say(&self, message: &StreamMessage<'_>) {
        // A session that has ended says so to whoever waits for it.
        let _ = self.shared.post(message);
    }

    /// Asks something; the answer is waited for by [`Question::wait`].
    pub(super) fn ask(&self, question: impl FnOnce(u64) -> StreamMessage<'static>) -> Question<'_> {
        let request = self.shared.state.lock().expect_answer();
        let asked = self.shared.post(&question(request));
        Question { shared: &self.shared, request, asked }
    }
}

/// A question whose answer is on its way.
pub(super) struct Question<'a> {
    shared: &'a Shared,
    request: u64,
    asked: Result<(), WaitError>,
}

impl Question<'_> {
    fn answer(mut self, cancel: &dyn Fn() -> bool) -> Result<Answer, WaitError> {
        std::mem::replace(&mut self.asked, Ok(()))?;
        self.shared.wait(cancel, |state| match state.take_answer(self.request)? {
            Answer::Failed(failure) => Some(Err(WaitError::Failed(failure))),
            answer => Some(Ok(answer)),
        })
    }

    pub(super) fn value(self, cancel: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        match self.answer(cancel)? {
            Answer::Value(value) => Ok(value),
            other => Err(other.unexpected()),
        }
    }

    pub(super) fn done(self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        match self.answer(cancel)? {
            Answer::Done => Ok(()),
            other => Err(other.unexpected()),
        }
    }

    pub(super) fn stats(self, cancel: &dyn Fn() -> bool) -> Result<String, WaitError> {
        match self.answer(cancel)? {
            Answer::Stats(json) => Ok(json),
            other => Err(other.unexpected()),
        }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.shared.state.lock().forget_answer(self.request);
    }
}
