//! Readers that wait: they watch for some microseconds, then sleep until their own value is there.

use std::sync::atomic::Ordering::Acquire;
use std::time::Instant;

use gt_engine::Buffer;
use gt_engine::presence::Waiting;
use gt_ir::TensorId;

use crate::ReadError;
use crate::queue::{CANCEL_POLL, SPIN};
use crate::table::{Table, TableState};

/// What a reader waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// A value, or so many finished messages, after which it will never come.
    Value(TensorId, u64),
    /// So many finished messages.
    Done(u64),
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
        self.wait(Awaited::Value(id, sent), cancel, |state| state.look_for(id, sent, true, self.worker()))
    }

    /// Waits until `sent` messages are finished.
    pub(crate) fn wait_done(&self, sent: u64, cancel: &dyn Fn() -> bool) -> Result<(), ReadError> {
        self.wait(Awaited::Done(sent), cancel, |state| state.look_if_done(sent))
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
