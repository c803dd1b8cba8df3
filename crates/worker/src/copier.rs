//! A thread that copies large values for readers that do not wait, so that neither the device nor the network stands
//! still meanwhile. It starts with the first such value: a worker whose readers wait for themselves never has it.

use std::sync::mpsc::{Sender, channel};

use parking_lot::Mutex;

/// Values up to this size are copied where they are found: handing them on would take longer.
pub(crate) const SMALL_BYTES: usize = 4096;

type Job = Box<dyn FnOnce() + Send>;

enum State {
    NotStarted,
    Running(Sender<Job>),
    Stopped,
}

/// Runs jobs one after another on its own thread.
pub(crate) struct Copier {
    name: String,
    state: Mutex<State>,
}

impl Copier {
    pub(crate) fn new(worker: &str) -> Self {
        Copier { name: format!("{worker}-copy"), state: Mutex::new(State::NotStarted) }
    }

    /// Runs the job there, or here if there is no such thread (any more).
    pub(crate) fn run(&self, job: Job) {
        let mut state = self.state.lock();
        if let State::NotStarted = &*state {
            let (sender, jobs) = channel::<Job>();
            let body = move || jobs.into_iter().for_each(|job| job());
            if std::thread::Builder::new().name(self.name.clone()).spawn(body).is_ok() {
                *state = State::Running(sender);
            }
        }
        let refused = match &*state {
            State::Running(sender) => sender.send(job).err().map(|refused| refused.0),
            State::NotStarted | State::Stopped => Some(job),
        };
        drop(state);
        if let Some(job) = refused {
            job();
        }
    }

    /// Ends the thread after the jobs it has.
    pub(crate) fn stop(&self) {
        *self.state.lock() = State::Stopped;
    }
}
