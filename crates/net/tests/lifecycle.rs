//! Connections and listeners come, go, and leave nothing behind.

mod support;

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use gt_ir::Bytes;
use gt_net::{Address, Connection, Io, Limits, NetError, Receiver};
use support::*;

#[test]
fn connecting_to_nothing_is_a_quick_and_clear_error() {
    let io = Io::start("alone").unwrap();
    let connect = |address: &str| {
        let started = Instant::now();
        let error =
            io.connect(&address.parse().unwrap(), None, Limits::default(), keeper().0, PATIENCE, &no).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(15), "{address}: {:?}", started.elapsed());
        assert!(matches!(error, NetError::Unreachable { .. } | NetError::NobodyListens { .. }), "{address}: {error:?}");
        error.to_string()
    };
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = connect(&free.to_string());
    assert!(error.contains("no process listens") && error.contains(&free.to_string()), "{error}");
    assert!(connect("unix:/nowhere/at/all").contains("no process listens"));
}

/// Something listens, but nobody takes the connection.
#[test]
fn connecting_obeys_its_timeout_and_its_cancel() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address: Address = silent.local_addr().unwrap().to_string().parse().unwrap();
    let io = Io::start("waits").unwrap();
    let started = Instant::now();
    let short = Duration::from_millis(50);
    let error = io.connect(&address, None, Limits::default(), keeper().0, short, &no).unwrap_err();
    assert!(matches!(error, NetError::TimedOut { .. }), "{error:?}");
    let cancel = || started.elapsed() > Duration::from_millis(100);
    let error = io.connect(&address, None, Limits::default(), keeper().0, PATIENCE, &cancel).unwrap_err();
    assert_eq!(error, NetError::Interrupted);
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_listener_can_come_back_at_once_and_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let address = Address::Unix(path.clone());
    // What a killed process leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let io = Io::start("back").unwrap();
    for _ in 0..3 {
        let listener = io.listen(&address, None, Limits::default(), echo).unwrap();
        let taken = io.listen(&address, None, Limits::default(), echo).err().expect("two listeners at one address");
        assert!(taken.to_string().contains("in use"), "{taken}");
        let (to, at) = keeper();
        let c = io.connect(&address, None, Limits::default(), to, PATIENCE, &no).unwrap();
        c.send(b"there?").unwrap();
        assert_eq!(at.message().0, b"there?");
        drop(listener);
        // Connections outlive their listener.
        c.send(b"still?").unwrap();
        assert_eq!(at.message().0, b"still?");
    }
    assert!(!path.exists(), "the socket file was left behind");
    let tcp: Address = "127.0.0.1:0".parse().unwrap();
    let listener = io.listen(&tcp, None, Limits::default(), echo).unwrap();
    let bound = listener.address().clone();
    assert_ne!(bound, tcp);
    drop(listener);
    eventually("the same port again", || io.listen(&bound, None, Limits::default(), echo).is_ok());
}

#[test]
fn only_this_user_may_use_a_socket_file() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let io = Io::start("mode").unwrap();
    let (put, take) = channel();
    let see = move |peer: &gt_net::Peer| {
        let _ = put.send(peer.clone());
        echo(peer)
    };
    let _listener = io.listen(&Address::Unix(path.clone()), None, Limits::default(), see).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let c = io.connect(&Address::Unix(path), None, Limits::default(), keeper().0, PATIENCE, &no).unwrap();
    assert!(c.is_same_host());
    let peer = take.recv_timeout(PATIENCE).unwrap();
    assert!(peer.user_id.is_some() && peer.same_host, "{peer:?}");
}

#[test]
fn waiting_in_a_receiver_is_refused_instead_of_hanging() {
    struct Waits(std::sync::mpsc::Sender<NetError>, Io);
    impl Receiver for Waits {
        fn message(&mut self, from: &Connection, _: &[u8], _: Option<Bytes>) {
            let _ = self.0.send(from.write_body(b"", &[0; 1 << 20], &no).unwrap_err());
            let address = "127.0.0.1:1".parse().unwrap();
            let connected = self.1.connect(&address, None, Limits::default(), keeper().0, PATIENCE, &no);
            let _ = self.0.send(connected.unwrap_err());
        }
        fn closed(&mut self, _: &Connection, _: &NetError) {}
    }
    let io = Io::start("refuses").unwrap();
    let (put, take) = channel();
    let inner = io.clone();
    let accept = move |_: &gt_net::Peer| Some(Box::new(Waits(put.clone(), inner.clone())) as Box<dyn Receiver>);
    let listener = io.listen(&"127.0.0.1:0".parse().unwrap(), None, Limits::default(), accept).unwrap();
    let other = Io::start("sender").unwrap();
    let c = other.connect(listener.address(), None, Limits::default(), keeper().0, PATIENCE, &no).unwrap();
    c.send(b"wait").unwrap();
    assert_eq!(take.recv_timeout(PATIENCE).unwrap(), NetError::OnIoThread);
    assert_eq!(take.recv_timeout(PATIENCE).unwrap(), NetError::OnIoThread);
}

#[test]
fn the_end_of_a_thread_is_told_to_everyone_and_sends_what_was_taken() {
    for transport in [Transport::Unix, Transport::Tcp, Transport::Tls] {
        let mut ends = connect(transport, Limits::default());
        let body = Bytes::from(pattern(2 << 20, 4));
        ends.a.send_with_body(b"last", body.clone()).unwrap();
        let (_b, a) = ends.io.take().unwrap();
        drop(a);
        assert!(ends.at_b.message().1.unwrap() == body);
        assert_eq!(ends.at_b.closed(), NetError::Closed);
        assert_eq!(ends.at_a.closed(), NetError::ClosedHere);
    }
}
