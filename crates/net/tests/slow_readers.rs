//! The other side reads nothing: this one must neither grow nor hang, and go on when it reads again.

mod support;

use std::time::{Duration, Instant};

use gt_ir::Bytes;
use gt_net::{Limits, NetError};
use support::*;

const SOCKETS: [Transport; 3] = [Transport::Unix, Transport::Tcp, Transport::Tls];

#[test]
fn heads_are_refused_when_the_queue_is_full() {
    for transport in SOCKETS {
        let limits = Limits { max_queued_bytes: 1 << 20, ..Limits::default() };
        let (ends, open) = connect_to_slow_reader(transport, limits);
        let mut sent = 0u32;
        let refused = loop {
            let head = [&sent.to_le_bytes()[..], &[0; 10_000]].concat();
            match ends.a.send(&head) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
            assert!(sent < 100_000, "{transport:?}: a gigabyte was taken for a side that reads nothing");
        };
        assert!(matches!(refused, NetError::Full { queued_bytes: 900_000..=1_100_000 }), "{transport:?}: {refused:?}");
        assert!(ends.a.queued_bytes() <= 1 << 20);
        open.send(()).unwrap();
        assert_eq!(ends.at_b.message().0, b"stop");
        for i in 0..sent {
            assert_eq!(ends.at_b.message().0[..4], i.to_le_bytes(), "{transport:?}");
        }
        eventually("an empty queue", || ends.a.queued_bytes() == 0);
        ends.a.send(b"and on").unwrap();
        assert_eq!(ends.at_b.message().0, b"and on");
    }
}

#[test]
fn bodies_are_refused_when_the_queue_is_full() {
    for transport in SOCKETS {
        let limits = Limits { max_queued_body_bytes: 40 << 20, ..Limits::default() };
        let (ends, open) = connect_to_slow_reader(transport, limits);
        let body = Bytes::from(pattern(16 << 20, 1));
        let mut sent = 0;
        while ends.a.send_with_body(b"body", body.clone()).is_ok() {
            sent += 1;
            assert!(sent < 10, "{transport:?}: bodies are held without bound");
        }
        assert!(sent >= 2, "{transport:?}");
        open.send(()).unwrap();
        assert_eq!(ends.at_b.message().0, b"stop");
        for _ in 0..sent {
            assert!(ends.at_b.message().1.unwrap() == body, "{transport:?}: a body arrived changed");
        }
        eventually("an empty queue", || ends.a.queued_bytes() == 0);
    }
}

#[test]
fn more_bodies_than_may_be_open_wait_for_their_turn() {
    for transport in SOCKETS {
        let (ends, open) = connect_to_slow_reader(transport, Limits::default());
        let bodies: Vec<Bytes> = (0..80).map(|i| Bytes::from(pattern(100_000, i))).collect();
        for (i, body) in bodies.iter().enumerate() {
            ends.a.send_with_body(&[i as u8], body.clone()).unwrap();
        }
        open.send(()).unwrap();
        assert_eq!(ends.at_b.message().0, b"stop");
        let mut seen = [false; 80];
        for _ in 0..80 {
            let (head, body) = ends.at_b.message();
            assert!(body.unwrap() == bodies[head[0] as usize]);
            assert!(!std::mem::replace(&mut seen[head[0] as usize], true), "{} came twice", head[0]);
        }
    }
}

#[test]
fn a_lent_body_is_given_up_when_its_sender_says_so() {
    for transport in SOCKETS {
        let (ends, open) = connect_to_slow_reader(transport, Limits::default());
        let body = pattern(64 << 20, 5);
        let started = Instant::now();
        let given_up = ends.a.write_body(b"never whole", &body, &|| started.elapsed() > Duration::from_millis(40));
        assert_eq!(given_up, Err(NetError::Interrupted), "{transport:?}");
        assert!(started.elapsed() < Duration::from_secs(15));
        open.send(()).unwrap();
        // The connection goes on, and the message that was given up does not come.
        ends.a.write_body(b"whole", &body, &no).unwrap();
        assert_eq!(ends.at_b.message().0, b"stop");
        let (head, got) = ends.at_b.message();
        assert_eq!(head, b"whole");
        assert!(got.unwrap()[..] == body[..]);
    }
}

#[test]
fn a_lent_body_ends_with_its_connection() {
    for transport in SOCKETS {
        let (ends, open) = connect_to_slow_reader(transport, Limits::default());
        let a = ends.a.clone();
        let writer = std::thread::spawn(move || a.write_body(b"", &vec![0; 64 << 20], &no));
        std::thread::sleep(Duration::from_millis(20));
        ends.a.close();
        assert_eq!(writer.join().unwrap(), Err(NetError::ClosedHere), "{transport:?}");
        open.send(()).unwrap();
    }
}

#[test]
fn a_side_that_never_reads_does_not_hold_the_process() {
    for transport in SOCKETS {
        let (mut ends, open) = connect_to_slow_reader(transport, Limits::default());
        ends.a.send_with_body(b"", Bytes::from(vec![0; 64 << 20])).unwrap();
        let (reader, writer) = ends.io.take().unwrap();
        let started = Instant::now();
        drop(writer);
        assert!(started.elapsed() < Duration::from_secs(15), "{transport:?}: {:?}", started.elapsed());
        assert_eq!(ends.at_a.closed(), NetError::ClosedHere);
        open.send(()).unwrap();
        drop(reader);
    }
}

#[test]
fn a_silent_side_is_noticed() {
    for transport in SOCKETS {
        let (ends, open) = connect_to_slow_reader(transport, Limits::default());
        let limits = Limits { idle_timeout: Some(Duration::from_millis(400)), ..Limits::default() };
        ends.a.set_limits(limits);
        assert!(matches!(ends.at_a.closed(), NetError::Silent { .. }), "{transport:?}");
        open.send(()).unwrap();
        // A side that only has nothing to say answers pings, and stays.
        let idle = connect(transport, limits);
        std::thread::sleep(Duration::from_millis(1000));
        idle.a.send(b"still here").unwrap();
        assert_eq!(idle.at_b.message().0, b"still here", "{transport:?}");
    }
}
