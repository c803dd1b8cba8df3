//! How windows flow: credits, idle cuts, the log.

mod support;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use gt_engine_check::Reference;
use gt_ir::TensorId;
use gt_observe::InstructionLog;
use gt_worker::{Interrupted, SessionConfig, SessionHandle, WorkerConfig, WorkerHandle};
use parking_lot::Mutex;
use support::*;

/// The worker sleeps: it has stopped asking. (One more question may be under way.)
fn assert_stays(asked: &AtomicUsize) {
    std::thread::sleep(Duration::from_millis(20));
    let before = asked.load(SeqCst);
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(asked.load(SeqCst), before, "the worker should sleep");
}

fn gated(config: SessionConfig) -> (SessionHandle, Arc<Gate>) {
    let (engine, gate) = Gated::new();
    (session(move || engine, config), gate)
}

#[test]
fn senders_wait_for_credits() {
    within_time(|| {
        let (worker, gate) = gated(SessionConfig { credits_instrs: 4, ..SessionConfig::default() });
        worker.send(two(1), &never).unwrap();
        worker.send(two(3), &never).unwrap();
        let sent = Arc::new(AtomicUsize::new(0));
        let sender = std::thread::spawn({
            let (worker, sent) = (worker.clone(), sent.clone());
            move || {
                worker.send(two(5), &never).unwrap();
                sent.store(1, SeqCst);
            }
        });
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(sent.load(SeqCst), 0, "the sender should wait");
        gate.open();
        sender.join().unwrap();
        assert_eq!(read(&worker, 6), [3.0, 3.0]);
    });
}

#[test]
fn a_sender_that_gives_up_loses_nothing() {
    within_time(|| {
        let (worker, gate) = gated(SessionConfig { credits_bytes: 8, ..SessionConfig::default() });
        let upload = |id: u64| window(&[&format!("%{id} = upload() dtype=f32 shape=[2]")], &[], &[&[id as f32, 0.0]]);
        worker.send(two(1), &never).unwrap();
        worker.send(upload(3), &never).unwrap();
        assert_eq!(worker.send(upload(4), &|| true), Err(Interrupted));
        gate.open();
        assert_eq!(read(&worker, 4), [4.0, 0.0]);
    });
}

#[test]
fn a_window_larger_than_all_credits_passes() {
    within_time(|| {
        let worker = reference(SessionConfig { credits_instrs: 1, credits_bytes: 1, ..SessionConfig::default() });
        for first in [1, 3, 5] {
            worker.send(two(first), &never).unwrap();
        }
        assert_eq!(read(&worker, 6), [3.0, 3.0]);
    });
}

#[test]
fn a_dry_worker_asks_for_what_was_not_sent_and_sleeps_when_there_is_none() {
    within_time(|| {
        let worker = reference(SessionConfig { credits_instrs: 1, ..SessionConfig::default() });
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let asked = Arc::new(AtomicUsize::new(0));
        let weak = Arc::new(Mutex::new(None::<SessionHandle>));
        *weak.lock() = Some(worker.clone());
        let hook = {
            let (recorded, asked, sender) = (recorded.clone(), asked.clone(), weak.clone());
            move || {
                asked.fetch_add(1, SeqCst);
                let mut windows: Vec<gt_stream::Occurrence> = std::mem::take(&mut *recorded.lock());
                for window in windows.drain(..) {
                    let window = of(gt_ir::Window { eager: true, ..window.window() });
                    let sender = sender.lock().clone();
                    sender.expect("a handle").send(window, &never).unwrap();
                }
                false
            }
        };
        worker.set_idle_hook(Box::new(hook));
        wait_until(|| asked.load(SeqCst) >= 2);
        assert_stays(&asked);
        for first in [1, 3] {
            recorded.lock().push(two(first));
            worker.wake_if_sleeping();
            wait_until(|| worker.stats().idle_cuts > first / 2);
        }
        assert_eq!(read(&worker, 4), [3.0, 3.0]);
        worker.synchronize(&never).unwrap();
        let stats = worker.stats();
        assert_eq!((stats.idle_cuts, stats.windows, stats.cached_plans), (2, 2, 0));
        assert_eq!((stats.plan_hits, stats.plan_misses, stats.unique_sequences), (0, 0, 0));
        *weak.lock() = None;
    });
}

#[test]
fn a_hook_that_says_pending_is_asked_again() {
    within_time(|| {
        let worker = reference(SessionConfig::default());
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        worker.set_idle_hook(Box::new(move || count.fetch_add(1, SeqCst) < 10));
        wait_until(|| asked.load(SeqCst) >= 12);
        assert_stays(&asked);
        assert!(worker.is_idle());
    });
}

#[test]
fn the_last_handle_ends_the_thread() {
    within_time(|| {
        struct Bell(std::sync::mpsc::Sender<()>);
        impl Drop for Bell {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let (bell, rung) = std::sync::mpsc::channel();
        let worker = reference(SessionConfig::default());
        let held = Bell(bell);
        worker.set_idle_hook(Box::new(move || {
            let _ = &held;
            false
        }));
        let other = worker.clone();
        drop(worker);
        other.send(two(1), &never).unwrap();
        assert_eq!(read(&other, 1), [3.0, 3.0]);
        drop(other);
        rung.recv_timeout(Duration::from_secs(5)).expect("the thread ends and drops the hook");
    });
}

#[derive(Clone, Default)]
struct Sheet(Arc<Mutex<Vec<u8>>>);

impl Write for Sheet {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_log_has_a_line_for_every_instruction_free_run_and_read() {
    within_time(|| {
        let sheet = Sheet::default();
        let log = Some(Arc::new(InstructionLog::to(Box::new(sheet.clone()))));
        let site_names: Option<gt_worker::SiteNames> = Some(Arc::new(|site| format!("train.py:{}", site.0)));
        let worker = WorkerHandle::spawn(Reference::new, WorkerConfig { log, ..WorkerConfig::default() });
        let worker = worker.open(SessionConfig { site_names, ..SessionConfig::default() });
        let lines = ["%1 = upload() dtype=f32 shape=[2] #7", "%2 = binary(%1, %1) kind=add scalar=none"];
        worker.send(window(&lines, &[1], &[&[1.0, 2.0]]), &never).unwrap();
        assert_eq!(floats(&worker.read(TensorId(2), &never).unwrap()), [2.0, 4.0]);
        worker.synchronize(&never).unwrap();
        let text = String::from_utf8(sheet.0.lock().clone()).unwrap();
        let column = |event: &str| -> Vec<Vec<&str>> {
            let rows = text.lines().map(|l| l.split('|').map(str::trim).collect::<Vec<_>>());
            rows.filter(|row| row[2] == event).map(|row| row[3..].to_vec()).collect()
        };
        let received = column("RECV");
        assert_eq!(received.len(), 3, "{text}");
        assert_eq!(received[0][..2], ["CLIENT:embedded", "CreateTensor"]);
        assert_eq!(received[0][3], "result=1 op=upload type=f32[2]");
        assert_eq!(received[1], ["CLIENT:embedded", "BinaryOp", received[1][2], "result=2 op=add left=1 right=1"]);
        assert_eq!(received[2], ["CLIENT:embedded", "FreeTensor", "1B", "id=1"]);
        let executed = column("EXEC");
        assert_eq!(executed.len(), 1);
        assert_eq!(executed[0][0], "WORKER:worker_0");
        assert!(executed[0][3].contains("dur_us=") && executed[0][3].contains("instrs=2"), "{text}");
        assert!(executed[0][3].ends_with("site=train.py:7"), "{text}");
        assert_eq!(column("SEND")[0], ["CLIENT:embedded", "TensorData", "8B", "id=2"]);
    });
}
