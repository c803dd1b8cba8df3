//! One suite, run over every transport.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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

fn a_body_is_given_up_when_its_sender_says_so(transport: Transport) {
    if transport == Transport::Pair {
        return; // nothing to wait for, so nothing to give up
    }
    let ends = connect(transport, Limits::default());
    let body = vec![1u8; 64 << 20];
    let stop = Arc::new(AtomicBool::new(false));
    // The other side takes nothing while its receiver is busy.
    let (entered, wait) = std::sync::mpsc::channel();
    let busy = stop.clone();
    let (to_c, at_c) = keeper();
    struct Busy(Box<dyn gt_net::Receiver>, std::sync::mpsc::Sender<()>, Arc<AtomicBool>);
    impl gt_net::Receiver for Busy {
        fn message(&mut self, from: &gt_net::Connection, head: &[u8], body: Option<Bytes>) {
            if head == b"be busy" {
                let _ = self.1.send(());
                while !self.2.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            self.0.message(from, head, body);
        }
        fn closed(&mut self, from: &gt_net::Connection, why: &NetError) {
            self.0.closed(from, why);
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let address = match transport {
        Transport::Unix => gt_net::Address::Unix(dir.path().join("s")),
        _ => "127.0.0.1:0".parse().unwrap(),
    };
    let io = ends.io.as_ref().unwrap();
    let busy_receiver = std::sync::Mutex::new(Some(Box::new(Busy(to_c, entered, busy)) as Box<dyn gt_net::Receiver>));
    let listener =
        io.0.listen(&address, None, Limits::default(), move |_| busy_receiver.lock().unwrap().take()).unwrap();
    let (to_d, _at_d) = keeper();
    let d = io.1.connect(listener.address(), None, Limits::default(), to_d, PATIENCE, &no).unwrap();
    d.send(b"be busy").unwrap();
    wait.recv_timeout(PATIENCE).unwrap();
    let started = Instant::now();
    let given_up = d.write_body(b"never whole", &body, &|| started.elapsed() > Duration::from_millis(60));
    assert_eq!(given_up, Err(NetError::Interrupted));
    stop.store(true, Ordering::Relaxed);
    d.send_with_body(b"whole", Bytes::from(&body[..])).unwrap();
    assert_eq!(at_c.message().0, b"be busy");
    assert_eq!(at_c.message().0, b"whole");
}

fn a_slow_reader_makes_the_sender_full_not_large(transport: Transport) {
    let limits = Limits { max_queued_bytes: 1 << 20, max_queued_body_bytes: 4 << 20, ..Limits::default() };
    let ends = connect(transport, limits);
    if transport == Transport::Pair {
        return; // whoever sends delivers: the reader is never slower
    }
    let ends2 = &ends;
    // The reader's thread is kept busy by a receiver of the same thread: see `slow_readers.rs` for one that never reads.
    let head = [0u8; 60_000];
    let mut full = 0;
    for _ in 0..20_000 {
        match ends2.a.send(&head) {
            Ok(()) => {}
            Err(NetError::Full { queued_bytes }) => {
                assert!(queued_bytes <= 1 << 20, "{queued_bytes}");
                full += 1;
                std::thread::sleep(Duration::from_millis(1));
                if full > 20 {
                    break;
                }
            }
            Err(other) => panic!("{other}"),
        }
        assert!(ends2.a.queued_bytes() <= 1 << 20);
    }
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
    large_bodies_go_both_ways_at_once,
    a_head_overtakes_a_large_body,
    closing_sends_what_was_taken_first,
    what_is_over_the_limit_is_refused_where_it_is_sent,
    a_body_is_given_up_when_its_sender_says_so,
    a_slow_reader_makes_the_sender_full_not_large,
    pings_are_answered,
}
