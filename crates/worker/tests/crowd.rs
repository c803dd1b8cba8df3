//! Many threads, each with its own sessions, on one worker: every one gets the results it would have alone.

mod support;

use std::sync::mpsc::channel;

use gt_engine::Engine;
use gt_engine_check::{Late, Reference};
use gt_ir::{Bytes, TensorId};
use gt_stream::Occurrence;
use gt_worker::{ReadError, SessionConfig, SessionHandle, WorkerConfig, WorkerHandle};
use support::*;

/// Small numbers that look random, from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

fn step(id: u64) -> Occurrence {
    let line = format!("%{id} = binary(%{}) kind=add scalar=right $ 1.0", id - 1);
    window(&[&line], &[id - 1], &[])
}

/// A session that counts up in steps, some of which wait for a payload or a value from elsewhere.
fn count_up(session: &SessionHandle, dice: &mut Dice) {
    let payload = |value: f32| -> Bytes { value.to_le_bytes().to_vec().into() };
    session.send(window(&["%1 = upload() dtype=f32 shape=[1]"], &[], &[&[1.0]]), &never).unwrap();
    let mut last = 1u64;
    for _ in 0..dice.below(30) {
        let id = last + 1;
        match dice.below(5) {
            0 => {
                let line = format!("%{id} = upload() dtype=f32 shape=[1]");
                let upload = window(&[&line], &[last], &[]);
                let early = dice.below(2) == 0;
                if early {
                    session.supply(TensorId(id), payload(id as f32)).unwrap();
                }
                session.send_waiting(upload, vec![(0, TensorId(id))], &never).unwrap();
                if !early {
                    session.supply(TensorId(id), payload(id as f32)).unwrap();
                }
            }
            1 => {
                session.send(step(id), &never).unwrap();
                assert_eq!(read(session, id), [id as f32]);
            }
            2 => {
                session.send(step(id), &never).unwrap();
                let (said, heard) = channel();
                let then = move |result: Result<gt_worker::Copied, ReadError>| {
                    said.send(result.map(|copied| copied.tensor)).unwrap()
                };
                session.read_then(TensorId(id), session.sent(), Box::new(then));
                assert_eq!(floats(&heard.recv().unwrap().unwrap()), [id as f32]);
            }
            _ => session.send(step(id), &never).unwrap(),
        }
        last = id;
    }
    match dice.below(3) {
        0 => session.close(),
        _ => assert_eq!(read(session, last), [last as f32]),
    }
}

fn crowd<E: Engine>(make: impl FnOnce() -> E + Send + 'static, seed: u64) {
    let worker = WorkerHandle::spawn(make, WorkerConfig { cached_plans: 4, ..WorkerConfig::default() });
    let threads: Vec<_> = (0..6)
        .map(|n| {
            let worker = worker.clone();
            std::thread::spawn(move || {
                let mut dice = Dice(seed + n);
                for _ in 0..15 {
                    let credits_instrs = 1 + dice.below(8) as usize;
                    let memory_limit_bytes = (dice.below(2) == 0).then_some(1 << 16);
                    let config = SessionConfig { credits_instrs, memory_limit_bytes, ..SessionConfig::default() };
                    count_up(&worker.open(config), &mut dice);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    wait_until(|| worker.stats().sessions == 0);
    let stats = worker.stats();
    assert_eq!((stats.live_tensors, stats.live_bytes, stats.failures), (0, 0, 0));
    assert!(stats.cached_plans <= 4);
    assert!(worker.shutdown_and_wait(std::time::Duration::from_secs(5)));
}

#[test]
fn a_crowd_of_sessions_gets_what_each_would_have_alone() {
    within_time(|| {
        crowd(Reference::new, 7);
        crowd(|| Late::new(Reference::new(), 3), 70);
    });
}
