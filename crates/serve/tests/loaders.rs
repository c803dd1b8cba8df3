//! Loaders of a worker that serves: batches ahead as they are asked for, bound to values, gone with whoever wanted them.

mod serving;
#[path = "../../worker/tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use gt_ir::{DType, FailureKind, TensorId, TensorType};
use gt_net::protocol::StreamMessage;
use gt_serve::{BatchMaker, Loading, MadeBatch};
use serving::*;
use support::*;

/// What the makers of a test have done.
#[derive(Default)]
struct Seen {
    /// Those that open their files until they are told to go on, how many there are and the most there were.
    opening: AtomicUsize,
    most_opening: AtomicUsize,
    goes_on: AtomicBool,
    open: AtomicUsize,
    made: AtomicUsize,
}

/// Batch k has `[k, k]` and `[-k]`. The description says what goes wrong.
struct Maker {
    seen: Arc<Seen>,
    wrong: Vec<u8>,
    next: usize,
}

impl Drop for Maker {
    fn drop(&mut self) {
        self.seen.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl BatchMaker for Maker {
    fn next(&mut self, ended: &dyn Fn() -> bool) -> MadeBatch {
        match self.wrong.as_slice() {
            b"panics" => panic!("a batch cannot be made"),
            b"never" => {
                while !ended() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            _ => {}
        }
        let k = self.next as f32;
        self.next += 1;
        self.seen.made.fetch_add(1, Ordering::SeqCst);
        let tensor = |values: &[f32]| (TensorType::new(DType::F32, &[values.len()]), bytes_of(values));
        let note = if self.wrong == b"long" { vec![7; 100_000] } else { vec![self.next as u8] };
        MadeBatch { tensors: vec![tensor(&[k, k]), tensor(&[-k])], note: note.into() }
    }
}

/// The loaders of a session.
struct Makers(Arc<Seen>);

impl Loading for Makers {
    fn open(&self, description: &[u8]) -> Box<dyn BatchMaker> {
        if description == b"slow" {
            let now = self.0.opening.fetch_add(1, Ordering::SeqCst) + 1;
            self.0.most_opening.fetch_max(now, Ordering::SeqCst);
            while !self.0.goes_on.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.0.opening.fetch_sub(1, Ordering::SeqCst);
        }
        self.0.open.fetch_add(1, Ordering::SeqCst);
        Box::new(Maker { seen: self.0.clone(), wrong: description.to_vec(), next: 0 })
    }
}

fn stage() -> (Stage, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let of_sessions = seen.clone();
    let stage = Stage::with(reference_worker(), |config| {
        config.loading = Some(Arc::new(move |_, _| Arc::new(Makers(of_sessions.clone()))));
    });
    (stage, seen)
}

fn open(control: &Line, seq: u64, description: &[u8]) {
    control.stream(1, seq, &StreamMessage::OpenLoader { loader: 5, description });
}

fn announce(control: &Line, seq: u64, request: u64) {
    control.stream(1, seq, &StreamMessage::Announce { loader: 5, request });
}

/// Uploads whose payloads are elsewhere: two numbers as `%first`, one as the next.
fn uploads(first: u64) -> gt_ir::Window {
    let pair = format!("%{first} = upload() dtype=f32 shape=[2]");
    let one = format!("%{} = upload() dtype=f32 shape=[1]", first + 1);
    spelled(&[&pair, &one], &[], &[])
}

fn bind(control: &Line, seq: u64, batch: u64, first: u64) {
    let values = vec![(1, TensorId(first + 1)), (0, TensorId(first))];
    control.stream(1, seq, &StreamMessage::Bind { loader: 5, batch, values });
}

#[test]
fn no_more_batches_are_made_than_are_asked_for_and_bound_ones_are_values() {
    within_time(|| {
        let (stage, seen) = stage();
        let control = &stage.control;
        control.open(1);
        let client = stage.attach(1);
        open(control, 0, b"");
        announce(control, 1, 70);
        announce(control, 2, 71);
        let types = vec![TensorType::new(DType::F32, &[2]), TensorType::new(DType::F32, &[1])];
        assert_eq!(client.answer(), (70, Answer::Batch(types.clone(), vec![1])));
        assert_eq!(client.answer(), (71, Answer::Batch(types, vec![2])));
        assert!(client.line.is_silent());
        assert_eq!(seen.made.load(Ordering::SeqCst), 2);
        // The second before the first: each is bound to what it is said to be.
        control.send(1, 3, &uploads(10));
        bind(control, 4, 1, 10);
        control.read(1, 5, 80, 10);
        assert_eq!(client.floats(80), [1.0, 1.0]);
        control.send(1, 6, &uploads(20));
        bind(control, 7, 0, 20);
        control.read(1, 8, 81, 21);
        assert_eq!(client.floats(81), [-0.0]);
        control.stream(1, 9, &StreamMessage::Stats { request: 82 });
        let (82, Answer::Stats(stats)) = client.answer() else { panic!("statistics") };
        assert_eq!((stats.bytes_in, stats.loaded_bytes), (0, 24));
    });
}

#[test]
fn batches_wait_for_room_behind_windows_that_wait_for_them() {
    within_time(|| {
        let (stage, _) = stage();
        let control = &stage.control;
        // One window takes all credits: those behind it are held, and what they wait for comes early.
        control.open_from(1, 0, &[("CREDITS_BYTES", "12")], None);
        let client = stage.attach(1);
        open(control, 0, b"");
        (0..8).for_each(|k| announce(control, 1 + k, 70 + k));
        (0..8).for_each(|k| assert_eq!(client.answer().0, 70 + k));
        (0..8).for_each(|k| control.send(1, 9 + k, &uploads(10 + 10 * k)));
        (0..8).for_each(|k| bind(control, 17 + k, k, 10 + 10 * k));
        control.read(1, 25, 90, 80);
        assert_eq!(client.floats(90), [7.0, 7.0]);
    });
}

#[test]
fn what_is_asked_of_a_loader_on_a_lost_worker_fails_and_nothing_waits() {
    within_time(|| {
        let (stage, _) = stage();
        let control = &stage.control;
        control.open(1);
        let client = stage.attach(1);
        announce(control, 0, 70);
        assert_eq!(client.failure(70).kind, FailureKind::WorkerLost);
        control.send(1, 1, &uploads(10));
        bind(control, 2, 3, 10);
        control.read(1, 3, 71, 10);
        assert_eq!(client.failure(71).kind, FailureKind::WorkerLost);
        // The session goes on.
        control.send(1, 4, &spelled(&["%30 = fill() dtype=f32 shape=[2] $ 3.0"], &[], &[]));
        control.read(1, 5, 72, 30);
        assert_eq!(client.floats(72), [3.0, 3.0]);
    });
}

#[test]
fn a_closed_loader_gives_what_was_taken_and_ends() {
    within_time(|| {
        let (stage, seen) = stage();
        let control = &stage.control;
        control.open(1);
        let client = stage.attach(1);
        open(control, 0, b"long");
        announce(control, 1, 70);
        announce(control, 2, 71);
        let (70, Answer::Batch(_, note)) = client.answer() else { panic!("a batch") };
        assert_eq!(note.len(), 100_000);
        client.answer();
        control.stream(1, 3, &StreamMessage::CloseLoader { loader: 5, taken: 1 });
        wait_until(|| seen.open.load(Ordering::SeqCst) == 0);
        control.send(1, 4, &uploads(10));
        bind(control, 5, 0, 10);
        control.read(1, 6, 72, 10);
        assert_eq!(client.floats(72), [0.0, 0.0]);
        control.send(1, 7, &uploads(20));
        bind(control, 8, 1, 20);
        control.read(1, 9, 73, 20);
        assert_eq!(client.failure(73).kind, FailureKind::WorkerLost);
    });
}

#[test]
fn a_loader_that_makes_nothing_ends_with_its_session() {
    within_time(|| {
        let (stage, seen) = stage();
        let control = &stage.control;
        control.open(1);
        let _client = stage.attach(1);
        open(control, 0, b"never");
        announce(control, 1, 70);
        wait_until(|| seen.open.load(Ordering::SeqCst) == 1);
        control.tell(&gt_net::protocol::ToWorker::Close { session: 1 });
        wait_until(|| seen.open.load(Ordering::SeqCst) == 0);
    });
}

#[test]
fn a_loader_that_panics_or_is_one_too_many_fails_alone() {
    within_time(|| {
        let (stage, _) = stage();
        let control = &stage.control;
        control.open(1);
        let client = stage.attach(1);
        open(control, 0, b"panics");
        announce(control, 1, 70);
        assert_eq!(client.failure(70).kind, FailureKind::Internal);
        announce(control, 2, 71);
        assert_eq!(client.failure(71).kind, FailureKind::Internal);
        for loader in 10..80 {
            control.stream(1, loader - 7, &StreamMessage::OpenLoader { loader, description: b"" });
        }
        control.stream(1, 73, &StreamMessage::Announce { loader: 79, request: 72 });
        assert_eq!(client.failure(72).kind, FailureKind::Value);
    });
}

#[test]
fn loaders_that_are_closed_while_they_open_files_count_until_their_threads_end() {
    within_time(|| {
        let (stage, seen) = stage();
        let control = &stage.control;
        control.open(1);
        let client = stage.attach(1);
        let mut seq = 0;
        let mut send = |message: &StreamMessage<'_>| {
            control.stream(1, seq, message);
            seq += 1;
        };
        for loader in 0..100 {
            send(&StreamMessage::OpenLoader { loader, description: b"slow" });
            send(&StreamMessage::CloseLoader { loader, taken: 0 });
        }
        send(&StreamMessage::OpenLoader { loader: 100, description: b"" });
        send(&StreamMessage::Announce { loader: 100, request: 70 });
        assert_eq!(client.failure(70).kind, FailureKind::Value);
        wait_until(|| seen.opening.load(Ordering::SeqCst) == 64);
        assert_eq!(seen.most_opening.load(Ordering::SeqCst), 64);
        // Their threads end, and others may be opened.
        seen.goes_on.store(true, Ordering::SeqCst);
        for loader in 101.. {
            send(&StreamMessage::OpenLoader { loader, description: b"" });
            send(&StreamMessage::Announce { loader, request: loader });
            match client.answer() {
                (_, Answer::Batch(..)) => break,
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    });
}
