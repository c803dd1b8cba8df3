//! A process that may open nothing more has no memory files to share: its bodies go through the socket. One test alone in
//! its process, whose limit it lowers.

mod support;

use gt_ir::Bytes;
use gt_net::Limits;
use support::*;

#[test]
fn bodies_arrive_when_no_memory_file_can_be_had() {
    let ends = connect(Transport::Unix, Limits::default());
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is there to be written.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    let before = limit;
    limit.rlim_cur = 0;
    // SAFETY: only makes further descriptors fail.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let body = pattern(3 << 20, 1);
    ends.a.send_with_body(b"held", Bytes::from(&body[..])).unwrap();
    ends.b.write_body(b"lent", &body, &no).unwrap();
    assert!(ends.at_b.message().1.unwrap()[..] == body[..]);
    assert!(ends.at_a.message().1.unwrap()[..] == body[..]);
    assert_eq!((ends.a.shared_segments(), ends.b.shared_segments()), (0, 0));
    // SAFETY: puts back what was.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &before) }, 0);
}
