//! The same work on many files, with several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::remote_store::{interruptible, is_interrupted};
use crate::error::{DataError, Result};

/// How often the caller looks whether the others are done.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Runs `f` over every item with several threads, results in order. Once one is interrupted, no other is begun.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], f: impl Fn(usize, &T) -> Result<R> + Sync) -> Vec<Result<R>> {
    let stop = Arc::new(AtomicBool::new(false));
    let one = |i: usize, item: &T| {
        if stop.load(Ordering::Relaxed) || is_interrupted() {
            stop.store(true, Ordering::Relaxed);
            return Err(DataError::Interrupted);
        }
        let done = f(i, item);
        if matches!(done, Err(DataError::Interrupted)) {
            stop.store(true, Ordering::Relaxed);
        }
        done
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(16).min(items.len());
    if threads <= 1 {
        return items.iter().enumerate().map(|(i, item)| one(i, item)).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut out = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { return out };
            out.push((i, one(i, item)));
        }
    };
    let stopped = || {
        let stop = stop.clone();
        move || stop.load(Ordering::Relaxed)
    };
    let mut all: Vec<(usize, Result<R>)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| interruptible(stopped(), work))).collect();
        let mut all = work();
        for other in others {
            // The caller alone hears of interrupts; the others end when it says so.
            while !other.is_finished() {
                if is_interrupted() {
                    stop.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(LOOK_EVERY);
            }
            match other.join() {
                Ok(part) => all.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, r)| r).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        let items: Vec<usize> = (0..100).collect();
        let expected: Vec<_> = items.iter().map(|&x| Ok((x, x * x))).collect();
        assert_eq!(in_parallel(&items, |i, &x| Ok((i, x * x))), expected);
    }

    #[test]
    fn an_interrupt_ends_the_rest() {
        let (items, begun) = (vec![(); 1000], AtomicUsize::new(0));
        let done = in_parallel(&items, |_, ()| -> Result<()> {
            begun.fetch_add(1, Ordering::Relaxed);
            Err(DataError::Interrupted)
        });
        assert_eq!(done, vec![Err(DataError::Interrupted); 1000]);
        assert!(begun.into_inner() <= 16);
    }
}
