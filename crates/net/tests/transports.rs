//! One suite, run over every transport.

mod support;

use std::time::Duration;

use gt_ir::Bytes;
use gt_net::{Limits, NetError};
use support::*;

fn heads_arrive_in_order(transport: Transport) {
    let ends = connect(transport, Limits::default());
    for i in 0..5000u32 {
        ends.a.send(&i.to_le_bytes()).unwrap();
        if i % 7 == 0 {
            ends.b.send(&[i as u8; 300]).unwrap();
        }
    }
    for i in 0..5000u32 {
        assert_eq!(ends.at_b.message(), (i.to_le_bytes().to_vec(), None));
        if i % 7 == 0 {
            assert_eq!(ends.at_a.message(), (vec![i as u8; 300], None));
        }
    }
}

fn bodies_of_every_length_arrive_whole(transport: Transport) {
    let ends = connect(transport, Limits::default());
    for (i, len) in [0, 1, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1, 9_999_999].into_iter().enumerate() {
        let body = pattern(len, i as u64);
        ends.a.send_with_body(&[i as u8], Bytes::from(&body[..])).unwrap();
        assert_eq!(ends.at_b.message(), (vec![i as u8], Some(Bytes::from(&body[..]))), "{len}");
        ends.b.write_body(&[i as u8], &body, &no).unwrap();
        assert_eq!(ends.at_a.message(), (vec![i as u8], Some(Bytes::from(body))), "{len}");
    }
}

fn a_body_that_is_held_stays_as_it_came(transport: Transport) {
    let ends = connect(transport, Limits::default());
    let mut held: Vec<(u64, Bytes)> = Vec::new();
    for seed in 0..40 {
        let body = pattern(200_000, seed);
        ends.a.write_body(b"", &body, &no).unwrap();
        held.push((seed, ends.at_b.message().1.unwrap()));
        // Others of the same length come while some are held and some are not.
        if seed % 3 == 0 {
            held.swap_remove(seed as usize % held.len());
        }
    }
    for (seed, body) in held {
        assert_eq!(body[..], pattern(200_000, seed)[..], "{seed}");
    }
}

fn large_bodies_go_both_ways_at_once(transport: Transport) {
    let ends = connect(transport, Limits::default());
    let body = pattern(24 << 20, 3);
    std::thread::scope(|scope| {
        for (end, key) in [(&ends.a, 0u8), (&ends.a, 1), (&ends.b, 2), (&ends.b, 3)] {
            let body = &body;
            scope.spawn(move || match key % 2 {
                0 => end.write_body(&[key], body, &no).unwrap(),
                _ => end.send_with_body(&[key], Bytes::from(&body[..])).unwrap(),
            });
        }
        for kept in [&ends.at_a, &ends.at_b] {
            let mut keys = Vec::new();
            for _ in 0..2 {
                let (head, got) = kept.message();
                assert!(got.unwrap()[..] == body[..], "a body arrived changed");
                keys.push(head[0] % 2);
            }
            keys.sort_unstable();
            assert_eq!(keys, [0, 1]);
        }
    });
}

/// A head sent while a large body is on its way arrives before it.
fn a_head_overtakes_a_large_body(transport: Transport) {
    let ends = connect(transport, Limits::default());
    let body: Bytes = Bytes::from(vec![7u8; 256 << 20]);
    ends.a.send_with_body(b"large", body.clone()).unwrap();
    ends.a.send(b"small").unwrap();
    if transport == Transport::Pair {
        // Passed on at once: there is nothing to overtake.
        assert_eq!(ends.at_b.message().0, b"large");
        assert_eq!(ends.at_b.message().0, b"small");
        return;
    }
    assert_eq!(ends.at_b.message(), (b"small".to_vec(), None));
    std::thread::scope(|scope| {
        // The same with a body that is lent, and with answers to a head in the other direction.
        scope.spawn(|| ends.a.write_body(b"lent", &body[..128 << 20], &no).unwrap());
        let mut overtaken = 0;
        let mut bodies = 0;
        while bodies < 2 {
            ends.a.send(b"again").unwrap();
            match ends.at_b.message() {
                (_, Some(_)) => bodies += 1,
                (head, None) => {
                    assert_eq!(head, b"again");
                    overtaken += 1;
                }
            }
        }
        assert!(overtaken > 10, "only {overtaken} heads arrived while bodies of 384 MiB were on their way");
    });
}

fn closing_sends_what_was_taken_first(transport: Transport) {
    let ends = connect(transport, Limits::default());
    let body = pattern(3 << 20, 9);
    ends.a.send_with_body(b"body", Bytes::from(&body[..])).unwrap();
    for i in 0..100u8 {
        ends.a.send(&[i]).unwrap();
    }
    ends.a.close();
    ends.a.close();
    assert_eq!(ends.a.send(b"late"), Err(NetError::ClosedHere));
    let mut heads = 0;
    let mut bodies = 0;
    let why = loop {
        match ends.at_b.next() {
            Event::Message(_, Some(got)) => {
                assert!(got[..] == body[..]);
                bodies += 1;
            }
            Event::Message(head, None) => {
                assert_eq!(head, [heads]);
                heads += 1;
            }
            Event::Closed(why) => break why,
            Event::Opened(_) => panic!("opened twice"),
        }
    };
    assert_eq!((heads, bodies, why), (100, 1, NetError::Closed));
    assert_eq!(ends.at_a.closed(), NetError::ClosedHere);
    assert_eq!(ends.b.send(b"to nobody"), Err(NetError::Closed));
    assert!(!ends.a.is_open() && !ends.b.is_open());
    assert!(ends.at_a.is_silent() && ends.at_b.is_silent(), "something came after the end");
}

fn what_is_over_the_limit_is_refused_where_it_is_sent(transport: Transport) {
    let limits = Limits { max_head_bytes: 100, max_body_bytes: 1000, ..Limits::default() };
    let ends = connect(transport, limits);
    assert_eq!(ends.a.send(&[0; 101]), Err(NetError::TooLarge { what: "head", bytes: 101, limit: 100 }));
    let long = ends.a.send_with_body(b"", Bytes::from([0; 1001]));
    assert_eq!(long, Err(NetError::TooLarge { what: "body", bytes: 1001, limit: 1000 }));
    assert_eq!(ends.a.write_body(b"", &[0; 1001], &no), long);
    ends.a.send(&[1; 100]).unwrap();
    assert_eq!(ends.at_b.message().0, [1; 100]);
    // Once allowed, it is taken.
    ends.b.set_limits(Limits::default());
    ends.b.send(b"allowed").unwrap();
    assert_eq!(ends.at_a.message().0, b"allowed");
    ends.a.send_with_body(&[0; 101], Bytes::from([0; 1001])).unwrap();
    assert_eq!(ends.at_b.message().1.unwrap().len(), 1001);
}

fn pings_are_answered(transport: Transport) {
    let ends = connect(transport, Limits::default());
    ends.a.ping().unwrap();
    eventually("a round trip", || ends.a.rtt().is_some());
    assert!(ends.a.rtt().unwrap() < Duration::from_secs(5));
    assert!(ends.a.silent_for() < Duration::from_secs(5));
}

macro_rules! suite {
    ($($test:ident),* $(,)?) => {
        mod pair { $(#[test] fn $test() { super::$test(super::Transport::Pair); })* }
        mod unix { $(#[test] fn $test() { super::$test(super::Transport::Unix); })* }
        mod tcp { $(#[test] fn $test() { super::$test(super::Transport::Tcp); })* }
        mod tls { $(#[test] fn $test() { super::$test(super::Transport::Tls); })* }
    };
}

suite! {
    heads_arrive_in_order,
    bodies_of_every_length_arrive_whole,
    a_body_that_is_held_stays_as_it_came,
    large_bodies_go_both_ways_at_once,
    a_head_overtakes_a_large_body,
    closing_sends_what_was_taken_first,
    what_is_over_the_limit_is_refused_where_it_is_sent,
    pings_are_answered,
}
