//! Many threads, heads and bodies of all lengths, both ways, over every transport: nothing is lost, changed or reordered.

mod support;

use gt_ir::Bytes;
use gt_net::{Connection, Limits, NetError};
use support::*;

const THREADS: u8 = 4;
const MESSAGES: u32 = 100;

/// The length of a message's body, if it has one, and whether it is lent.
fn plan(random: u64) -> (Option<usize>, bool) {
    let len = match random % 8 {
        0 => Some(0),
        1 => Some(random as usize / 8 % 1000),
        2 => Some(64 * 1024 - 2 + random as usize / 8 % 5),
        3 => Some(random as usize / 8 % 3_000_000),
        _ => None,
    };
    (len, (random / 1024).is_multiple_of(2))
}

fn seed_of(thread: u8, n: u32) -> u64 {
    thread as u64 * 1_000_003 + n as u64
}

fn send_all(end: &Connection, thread: u8, randoms: &[u64]) {
    for (n, &random) in randoms.iter().enumerate() {
        let head = [&[thread][..], &(n as u32).to_le_bytes()].concat();
        let (len, lent) = plan(random);
        loop {
            let sent = match len.map(|len| pattern(len, seed_of(thread, n as u32))) {
                None => end.send(&head),
                Some(body) if lent => end.write_body(&head, &body, &no),
                Some(body) => end.send_with_body(&head, Bytes::from(body)),
            };
            match sent {
                Ok(()) => break,
                Err(NetError::Full { .. }) => std::thread::sleep(std::time::Duration::from_millis(1)),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

fn receive_all(kept: &Kept, randoms: &[Vec<u64>]) {
    let mut next_head = [0u32; THREADS as usize];
    let mut seen = vec![vec![false; MESSAGES as usize]; THREADS as usize];
    for _ in 0..THREADS as u32 * MESSAGES {
        let (head, body) = kept.message();
        let thread = head[0];
        let n = u32::from_le_bytes(head[1..].try_into().unwrap());
        let (len, _) = plan(randoms[thread as usize][n as usize]);
        assert_eq!(body.as_ref().map(|b| b.len()), len);
        assert!(!std::mem::replace(&mut seen[thread as usize][n as usize], true), "{n} of {thread} came twice");
        match body {
            Some(body) => assert!(body[..] == pattern(body.len(), seed_of(thread, n)), "a body arrived changed"),
            None => {
                // RECEIVE-1.
                assert!(n >= next_head[thread as usize], "{n} of {thread} came late");
                next_head[thread as usize] = n + 1;
            }
        }
    }
}

#[test]
fn nothing_is_lost_changed_or_reordered() {
    for transport in [Transport::Pair, Transport::Unix, Transport::Tcp, Transport::Tls] {
        let limits = Limits { max_queued_bytes: 64 << 10, max_queued_body_bytes: 8 << 20, ..Limits::default() };
        let ends = connect(transport, limits);
        let randoms: Vec<Vec<u64>> = (0..THREADS)
            .map(|thread| {
                let bytes = pattern(8 * MESSAGES as usize, thread as u64 + 10);
                bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect()
            })
            .collect();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                for end in [&ends.a, &ends.b] {
                    let randoms = &randoms[thread as usize];
                    scope.spawn(move || send_all(end, thread, randoms));
                }
            }
            let (at_a, randoms_a) = (ends.at_a, &randoms);
            scope.spawn(move || receive_all(&at_a, randoms_a));
            receive_all(&ends.at_b, &randoms);
        });
    }
}
