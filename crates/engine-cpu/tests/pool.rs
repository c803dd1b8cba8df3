//! The pool: all chunks once, panics raised, helpers that help.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use gt_engine_cpu::pool::Pool;

#[test]
fn every_chunk_runs_once() {
    for threads in 1..=4 {
        let pool = Pool::new(threads);
        for round in 0..2000 {
            let chunks = round % 23;
            let hits: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
            pool.run(chunks, 1_000_000, &|i| {
                hits[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1), "{threads} threads, {chunks} chunks");
        }
    }
}

#[test]
fn helpers_help() {
    let pool = Pool::new(2);
    let seen: Mutex<HashSet<ThreadId>> = Mutex::default();
    let begin = Instant::now();
    // However busy the machine is, the helper gets a turn some time.
    while seen.lock().unwrap().len() < 2 && begin.elapsed() < Duration::from_secs(20) {
        pool.run(8, 1_000_000, &|_| {
            seen.lock().unwrap().insert(std::thread::current().id());
            std::thread::sleep(Duration::from_millis(1));
        });
    }
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    let pool = Pool::new(3);
    for _ in 0..50 {
        let outcome = catch_unwind(AssertUnwindSafe(|| pool.run(16, 1_000_000, &|i| assert!(i != 7, "seven"))));
        assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"seven"));
        let sum = AtomicUsize::new(0);
        pool.run(16, 1_000_000, &|i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 120);
    }
}

#[test]
fn a_run_inside_a_run_works() {
    let pool = Pool::new(2);
    let count = AtomicUsize::new(0);
    pool.run(4, 1_000_000, &|_| {
        pool.run(5, 1_000_000, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(count.into_inner(), 20);
}

#[test]
fn every_chunk_runs_once_whoever_records() {
    let pool = Pool::new(2);
    gt_engine::presence::recorder_is_here();
    let mut reader = None;
    for round in 0..4000 {
        // While somebody records, in the middle of a run too, and while everybody waits.
        reader = if round % 3 == 0 { Some(gt_engine::presence::Waiting::begin()) } else { None };
        let hits: Vec<AtomicUsize> = (0..round % 9).map(|_| AtomicUsize::new(0)).collect();
        pool.run(hits.len(), round % 2 * 100_000, &|i| {
            hits[i].fetch_add(1, Ordering::Relaxed);
        });
        assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1), "round {round}");
    }
    drop(reader);
}
