//! Dropping tensors never waits, whatever becomes of what was recorded with them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use gt_client::link::{Link, WaitError};
use gt_client::session::{Cuts, Session, WaitHooks, set_starter, set_wait_hooks};
use gt_client::{Error, HostTensor, RunAhead, Tensor};
use gt_ir::{TensorId, Window};
use gt_stream::Occurrence;

static FULL: AtomicBool = AtomicBool::new(false);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static SENT: Mutex<Vec<Window>> = Mutex::new(Vec::new());

/// A link that has no room while `FULL` is set.
struct Stuck;

impl Link for Stuck {
    fn send(&self, window: Occurrence, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        let window = window.window();
        while FULL.load(SeqCst) && !cancel() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let gave_up = FULL.load(SeqCst);
        SENT.lock().unwrap().push(window);
        if gave_up { Err(WaitError::Interrupted) } else { Ok(()) }
    }
    fn read(&self, _: TensorId, _: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        Err(WaitError::Interrupted)
    }
    fn synchronize(&self, _: &dyn Fn() -> bool) -> Result<(), WaitError> {
        Ok(())
    }
    fn wake(&self) {}
    fn close(&self) {}
    fn is_full(&self) -> bool {
        FULL.load(SeqCst)
    }
}

#[test]
fn dropping_a_shared_tensor_waited_for_room_and_lost_the_error() {
    set_wait_hooks(WaitHooks { around: |wait| wait(), interrupted: || INTERRUPTED.load(SeqCst) });
    set_starter(|| {
        Ok(Session {
            link: Box::new(Stuck),
            owner: Box::new(()),
            name: "a test".into(),
            seat: Default::default(),
            batch_size: None,
            cuts: Cuts::NEAR,
            join_after: None,
            loops: None,
            waits: false,
            debug: None,
            ahead: RunAhead::default(),
        })
    });
    let x = Tensor::zeros(&[4], None).unwrap();
    let id = x.id().unwrap();
    // Another thread records with it, and does not send that.
    let (recorded, is_recorded) = channel();
    let (end, ends) = channel::<()>();
    let of_thread = x.clone();
    let other = std::thread::spawn(move || {
        let twice = of_thread.add(&of_thread).unwrap();
        drop(of_thread);
        recorded.send(twice.id().unwrap()).unwrap();
        let _ = ends.recv();
        drop(twice);
    });
    let twice = is_recorded.recv().unwrap();
    FULL.store(true, SeqCst);
    let (dropped, is_dropped) = channel();
    std::thread::spawn(move || {
        drop(x);
        dropped.send(()).unwrap();
    });
    is_dropped.recv_timeout(Duration::from_secs(5)).expect("the drop waits for room");
    // The next call that sends something raises what the drop would have met.
    INTERRUPTED.store(true, SeqCst);
    let _y = Tensor::zeros(&[4], None).unwrap();
    let cut = gt_client::cut();
    assert!(matches!(cut, Err(Error::Interrupted)), "{cut:?}");
    INTERRUPTED.store(false, SeqCst);
    FULL.store(false, SeqCst);
    let _z = Tensor::zeros(&[4], None).unwrap();
    gt_client::cut().unwrap();
    let sent = SENT.lock().unwrap();
    let used = sent.iter().position(|window| window.instrs.iter().any(|instr| instr.outs.contains(&twice)));
    let freed = sent.iter().position(|window| window.frees.contains(&id));
    assert!(used.is_some() && used < freed, "it is freed by window {freed:?}, and last used by {used:?}: {sent:?}");
    drop(sent);
    drop(end);
    other.join().unwrap();
}
