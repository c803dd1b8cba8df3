//! How far apart two threads run: whether what one of them wrote reaches the other within a core's own caches.
//!
//! Cores of one chip may share their last cache or not, and a virtual machine's may change places while it runs. Where they do
//! not, a line that the other core wrote takes several times as long to come as one from memory nearby, and short work is done
//! sooner by one thread than by two that pass its data back and forth.
//!
//! DISTANCE-1: every wait has an end, as the other thread may not come, or may be taken off its core meanwhile.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How often a ball goes there and back.
const ROUNDS: u32 = 8;
/// How long either side waits for it.
const WAIT: Duration = Duration::from_micros(10);
/// How long the other one may take to come: it may be asleep.
const COMING: Duration = Duration::from_micros(100);
/// A round trip that takes longer goes by another way than a common cache: those take about a hundred nanoseconds, the
/// others three to four hundred.
const FAR: Duration = Duration::from_nanos(200);

/// Given up by the one who serves.
const OVER: u32 = u32::MAX;

/// A ball that two threads throw. On a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
pub struct Ball(AtomicU32);

impl Ball {
    /// Throws it to a thread that calls [`Ball::throw_back`], and says whether that one is far away, if it was there.
    pub fn is_far(&self) -> Option<bool> {
        let mut shortest = None;
        // It begins with the other one: the first throw says that it is there.
        for round in 0..=ROUNDS {
            let thrown = Instant::now();
            if round > 0 {
                self.0.store(2 * round, Ordering::Release);
            }
            if !self.comes(2 * round + 1, if round == 0 { COMING } else { WAIT }) {
                self.0.store(OVER, Ordering::Release);
                return None;
            }
            let took = thrown.elapsed();
            if round > 0 {
                shortest = Some(shortest.map_or(took, |shortest: Duration| shortest.min(took)));
            }
        }
        self.0.store(OVER, Ordering::Release);
        shortest.map(|shortest| shortest > FAR)
    }

    /// The other side of [`Ball::is_far`].
    pub fn throw_back(&self) {
        for round in 0..=ROUNDS {
            if round > 0 && !self.comes(2 * round, WAIT) {
                return;
            }
            if self.0.compare_exchange(2 * round, 2 * round + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                return;
            }
        }
    }

    fn comes(&self, number: u32, wait: Duration) -> bool {
        let start = Instant::now();
        loop {
            for _ in 0..16 {
                match self.0.load(Ordering::Acquire) {
                    at if at == number => return true,
                    OVER => return false,
                    _ => std::hint::spin_loop(),
                }
            }
            if start.elapsed() > wait {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_thread_that_does_not_come() {
        let ball = Ball::default();
        assert_eq!(ball.is_far(), None);
        ball.throw_back();
        let ball = Ball::default();
        ball.throw_back();
        assert_eq!(ball.is_far(), None, "the other one has left");
    }

    #[test]
    fn a_thread_that_is_there_is_near_or_far() {
        let found = (0..200).any(|_| {
            let ball = Ball::default();
            let is_there = AtomicU32::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    is_there.store(1, Ordering::Release);
                    ball.throw_back();
                });
                while is_there.load(Ordering::Acquire) == 0 {
                    std::hint::spin_loop();
                }
                ball.is_far().is_some()
            })
        });
        assert!(found, "two threads met at least once");
    }
}
