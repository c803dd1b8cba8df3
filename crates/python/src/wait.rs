//! How this process waits: with the interpreter's lock released, looking for signals. And what a fork does.

use gt_client::session::{WaitHooks, mark_forked, set_wait_hooks};
use pyo3::prelude::*;

fn around(f: &mut dyn FnMut()) {
    /// Handing the closure over is sound: `detach` runs it on this thread before it returns.
    struct Carry<'a>(&'a mut dyn FnMut());
    // SAFETY: see above; the closure never leaves this thread.
    unsafe impl Send for Carry<'_> {}
    impl Carry<'_> {
        fn run(&mut self) {
            (self.0)();
        }
    }
    let mut carry = Carry(f);
    // A drop may wait for credits while the interpreter is going down; then there is no lock to release.
    if Python::try_attach(|py| py.detach(|| carry.run())).is_none() {
        f();
    }
}

fn interrupted() -> bool {
    Python::try_attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(e) => {
            // Kept as the thread's current exception; the error that ends the wait picks it up.
            e.restore(py);
            true
        }
    })
    .unwrap_or(true)
}

extern "C" fn in_forked_child() {
    mark_forked();
}

/// Tells the client how to wait and what to do after a fork.
pub fn install(_py: Python<'_>) -> PyResult<()> {
    set_wait_hooks(WaitHooks { around, interrupted });
    gt::on_start(watch_forks);
    gt::install();
    Ok(())
}

/// Marks children of this process from now on: called once a session runs, since a fork before that is harmless.
fn watch_forks() {
    // SAFETY: the handler only stores to an atomic.
    unsafe {
        libc::pthread_atfork(None, None, Some(in_forked_child));
    }
}
