//! Readers that wait: they watch for some microseconds, then sleep until their own value is there.

use std::sync::atomic::Ordering::Acquire;
use std::time::Instant;

use gt_engine::Buffer;
use gt_engine::presence::Waiting;
use gt_ir::TensorId;

use crate::queue::{CANCEL_POLL, SPIN};
use crate::table::{Table, TableState};
use crate::{Interrupted, ReadError};

/// What a reader waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// A value, or so many finished messages, after which it will never come.
    Value(TensorId, u64),
    /// So many finished messages.
    Done(u64),
}

/// A change that readers wait for.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    /// This value has come, or is no longer pending.
    Value(TensorId),
    /// So many messages are finished.
    Done(u64),
    /// Nothing will come any more.
    Stopped,
}

impl Change {
    /// Whether it may be what a reader waits for.
    pub(crate) fn wakes(self, awaited: Awaited) -> bool {
        match (self, awaited) {
            (Change::Value(id), Awaited::Value(wanted, _)) => id == wanted,
            (Change::Value(_), Awaited::Done(_)) => false,
            (Change::Done(done), Awaited::Value(_, sent) | Awaited::Done(sent)) => done >= sent,
            (Change::Stopped, _) => true,
        }
    }
}

/// A reader that sleeps.
pub(crate) struct Sleeper {
    pub(crate) awaited: Awaited,
    /// Until it is woken: from then on it needs its core.
    pub(crate) waiting: Option<Waiting>,
}

impl<B: Buffer> Table<B> {
    /// Waits for the value of `id`; `sent` messages were sent before.
    pub(crate) fn wait_for(&self, id: TensorId, sent: u64, cancel: &dyn Fn() -> bool) -> Result<B, ReadError> {
        let mut held = None;
        self.wait(Awaited::Value(id, sent), cancel, |state| state.look_for(id, sent, true, &mut held, self.worker()))
    }

    /// Waits until `sent` messages are finished.
    pub(crate) fn wait_done(&self, sent: u64, cancel: &dyn Fn() -> bool) -> Result<(), ReadError> {
        self.wait(Awaited::Done(sent), cancel, |state| state.look_if_done(sent))
    }

    /// As [`Table::wait_done`], without a look at what failed.
    pub(crate) fn wait_passed(&self, sent: u64, cancel: &dyn Fn() -> bool) -> Result<(), Interrupted> {
        let passed = |state: &mut TableState<B>| (state.stopped || state.done >= sent).then_some(Ok(()));
        self.wait(Awaited::Done(sent), cancel, passed).map_err(|_| Interrupted)
    }

    /// Waits until `look` sees something or the caller gives up.
    fn wait<R>(
        &self,
        awaited: Awaited,
        cancel: &dyn Fn() -> bool,
        mut look: impl FnMut(&mut TableState<B>) -> Option<Result<R, ReadError>>,
    ) -> Result<R, ReadError> {
        let mut version = self.version.load(Acquire);
        let mut state = self.state.lock();
        let mut spin_until = None;
        loop {
            if let Some(result) = look(&mut state) {
                return result;
            }
            // A value that is nearly there is worth a few microseconds: waking a thread costs more.
            let until = *spin_until.get_or_insert_with(|| Instant::now() + SPIN);
            if Instant::now() < until {
                drop(state);
                while self.version.load(Acquire) == version && Instant::now() < until {
                    std::hint::spin_loop();
                }
                version = self.version.load(Acquire);
                state = self.state.lock();
                continue;
            }
            state.waiting.push(Sleeper { awaited, waiting: Some(Waiting::begin()) });
            let timed_out = self.changed.wait_for(&mut state, CANCEL_POLL).timed_out();
            if let Some(at) = state.waiting.iter().position(|sleeper| sleeper.awaited == awaited) {
                state.waiting.swap_remove(at);
            }
            if timed_out {
                drop(state);
                if cancel() {
                    return Err(ReadError::Interrupted);
                }
                state = self.state.lock();
            }
        }
    }
}
