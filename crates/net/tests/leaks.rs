//! What connections took from the system comes back. One test alone in its process: nothing else may open descriptors.

mod support;

use std::sync::mpsc::channel;

use gt_ir::Bytes;
use gt_net::{Address, Connection, Io, Limits, NetError};
use support::*;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().filter(|l| l.contains("gt-segment")).count()
}

#[test]
fn descriptors_mappings_and_segments_are_reused_and_given_back() {
    let body = Bytes::from(pattern(5 << 20, 1));
    let round = || {
        for transport in [Transport::Unix, Transport::Tcp, Transport::Tls] {
            let ends = connect(transport, Limits::default());
            for _ in 0..8 {
                ends.a.send_with_body(b"", body.clone()).unwrap();
                ends.b.write_body(b"", &body, &no).unwrap();
                ends.at_b.message();
                ends.at_a.message();
            }
            let made = (ends.a.shared_segments(), ends.b.shared_segments());
            match transport {
                Transport::Unix => {
                    assert!((1..=8).contains(&made.0) && (1..=8).contains(&made.1), "{made:?}");
                    assert!(mappings() <= 32, "{} mappings for two directions of at most 8 segments", mappings());
                }
                _ => assert_eq!(made, (0, 0)),
            }
            // Some are closed, some are left to the end of their threads.
            if transport != Transport::Tls {
                ends.a.close();
                ends.at_b.closed();
            }
        }
    };
    round();
    let (fds, maps) = (descriptors(), mappings());
    for _ in 0..3 {
        round();
    }
    assert_eq!((descriptors(), mappings()), (fds, maps), "descriptors and mappings after three more rounds");

    many_connections_cost_no_threads();
    eventually("as many descriptors as before", || descriptors() == fds);
    a_connection_that_is_held_after_its_end_holds_no_socket(fds);
}

fn many_connections_cost_no_threads() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = (Io::start("many-b").unwrap(), Io::start("many-a").unwrap());
    let listener = server.listen(&Address::Unix(dir.path().join("s")), None, Limits::default(), echo).unwrap();
    let before = threads();
    let (put, take) = channel();
    let connections: Vec<Connection> = (0..200)
        .map(|_| {
            let to = Box::new(Keeper(put.clone()));
            client.connect(listener.address(), None, Limits::default(), to, PATIENCE, &no).unwrap()
        })
        .collect();
    for (i, c) in connections.iter().enumerate() {
        c.send(&[i as u8]).unwrap();
    }
    let kept = Kept(take);
    let mut heads: Vec<u8> = (0..200).map(|_| kept.message().0[0]).collect();
    heads.sort_unstable();
    assert_eq!(heads, (0..200).collect::<Vec<u8>>());
    assert_eq!(threads(), before);
}

fn a_connection_that_is_held_after_its_end_holds_no_socket(fds: usize) {
    let ends = connect(Transport::Unix, Limits::default());
    let held = (ends.a.clone(), ends.b.clone());
    ends.a.write_body(b"", &vec![0; 1 << 20], &no).unwrap();
    drop(ends);
    // What remains is what wakes the two threads, once for all of their connections.
    let rest = descriptors() - fds;
    assert!(rest <= 4, "{rest} descriptors are left");
    for end in [held.0, held.1] {
        let late = end.send(b"late").unwrap_err();
        assert!(matches!(late, NetError::Closed | NetError::ClosedHere), "{late}");
    }
}
