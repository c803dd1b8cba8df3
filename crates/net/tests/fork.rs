//! A forked child has no I/O thread: what it drops must not disturb its parent (IO-3).

mod support;

use std::time::Duration;

use gt_net::Limits;
use support::*;

#[test]
fn a_forked_child_that_drops_everything_leaves_its_parents_connections_alone() {
    for transport in [Transport::Unix, Transport::Tcp, Transport::Tls] {
        let mut ends = connect(transport, Limits::default());
        // SAFETY: the child does nothing but drop what it inherited and end, at the latest by its alarm.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
        if child == 0 {
            // SAFETY: both are allowed in a forked child.
            unsafe { libc::alarm(10) };
            std::mem::forget(ends.dir.take()); // the directory is the parent's, and knows nothing of forks
            drop(ends);
            // SAFETY: as above; nothing that belongs to the parent is run on the way out.
            unsafe { libc::_exit(0) };
        }
        let mut status = -1;
        // SAFETY: `child` is this process's own, and `status` is there to be written.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "{transport:?}: the child hung or crashed");
        std::thread::sleep(Duration::from_millis(20));
        ends.a.send(b"still there?").unwrap();
        assert_eq!(ends.at_b.message().0, b"still there?", "{transport:?}");
        ends.b.write_body(b"body", &vec![1; 3 << 20], &no).unwrap();
        assert_eq!(ends.at_a.message().1.unwrap().len(), 3 << 20);
        let listener = ends.listener.as_ref().unwrap();
        if let gt_net::Address::Unix(path) = listener.address() {
            assert!(path.exists(), "the child removed the socket file");
        }
    }
}
