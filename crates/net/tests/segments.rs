//! Shared memory on Unix sockets: what a peer may pass, and what happens without it.

mod support;

use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use gt_ir::Bytes;
use gt_net::{Address, Connection, Decoder, Frame, Io, Limits, Listener, Receiver};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use support::*;

struct Server {
    _io: Io,
    listener: Listener,
    kept: Kept,
    _dir: tempfile::TempDir,
}

fn server() -> Server {
    let dir = tempfile::tempdir().unwrap();
    let io = Io::start("segments").unwrap();
    let (put, take) = std::sync::mpsc::channel();
    let accept = move |_: &gt_net::Peer| Some(Box::new(Keeper(put.clone())) as Box<dyn Receiver>);
    let listener = io.listen(&Address::Unix(dir.path().join("s")), None, Limits::default(), accept).unwrap();
    Server { _io: io, listener, kept: Kept(take), _dir: dir }
}

impl Server {
    /// A peer that is played by the test, introduced with these features.
    fn peer(&self, features: u32) -> (UnixStream, Connection) {
        let Address::Unix(path) = self.listener.address() else { panic!("not a Unix socket") };
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut hello = Vec::new();
        Frame::Greeting { features }.encode(&mut hello);
        Frame::Challenge { nonce: [1; 32] }.encode(&mut hello);
        Frame::Allow { head: 1 << 20, body: 1 << 30 }.encode(&mut hello);
        stream.write_all(&hello).unwrap();
        (stream, self.kept.opened())
    }
}

fn pass(stream: &UnixStream, frames: &[Frame<'_>], fds: &[&OwnedFd]) {
    let mut bytes = Vec::new();
    frames.iter().for_each(|f| f.encode(&mut bytes));
    let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let sent = rustix::net::sendmsg(stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
    assert_eq!(sent, bytes.len());
}

fn memory_file(seals: SealFlags, len: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("gt-segment", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, len).unwrap();
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

#[test]
fn segments_that_could_kill_this_process_are_refused() {
    let server = server();
    let sealed = || memory_file(SealFlags::SHRINK, 4096);
    let open = Frame::Open { stream: 0, len: 1 << 20, head: b"" };
    let share = |len| Frame::Share { segment: 0, len };
    let cases: Vec<(&str, OwnedFd, Vec<Frame<'_>>)> = vec![
        ("not sealed", memory_file(SealFlags::GROW, 4096), vec![share(4096)]),
        ("announced as 8192", sealed(), vec![share(8192)]),
        ("are allowed", sealed(), vec![share(1 << 30)]),
        ("not a memory file", std::fs::File::open("/dev/zero").unwrap().into(), vec![share(4096)]),
        ("already shared or out of range", sealed(), vec![Frame::Share { segment: 8, len: 4096 }]),
        ("without its descriptor", sealed(), vec![share(4096), Frame::Share { segment: 1, len: 4096 }]),
        ("in a segment of 4096", sealed(), vec![open, share(4096), Frame::Filled { stream: 0, segment: 0, len: 4097 }]),
    ];
    for (expected, fd, frames) in cases {
        let (stream, _) = server.peer(1);
        pass(&stream, &frames, &[&fd]);
        let why = server.kept.closed().to_string();
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

#[test]
fn descriptors_that_nobody_asked_for_end_the_connection() {
    let server = server();
    let fd = memory_file(SealFlags::SHRINK, 4096);
    let (stream, _) = server.peer(1);
    // Two at a time with no frame that wants them: more than there can be segments.
    for _ in 0..8 {
        let mut ping = Vec::new();
        Frame::Ping(1).encode(&mut ping);
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd.as_fd(), fd.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        // The other side may have closed by now.
        let _ = rustix::net::sendmsg(&stream, &[IoSlice::new(&ping)], &mut control, SendFlags::NOSIGNAL);
    }
    let why = server.kept.closed().to_string();
    assert!(why.contains("too many descriptors"), "{why}");
}

/// A peer in whose system there are no memory files, or that cannot be passed descriptors.
#[test]
fn without_shared_memory_bodies_go_through_the_socket() {
    let server = server();
    let (mut stream, connection) = server.peer(0);
    let body = pattern(300_000, 2);
    connection.send_with_body(b"held", Bytes::from(&body[..])).unwrap();
    let lent = body.clone();
    let writer = std::thread::spawn(move || connection.write_body(b"lent", &lent, &no).map(|()| connection));
    let mut decoder = Decoder::new(1 << 20);
    let mut bodies = std::collections::BTreeMap::new();
    while bodies.values().map(Vec::len).sum::<usize>() < 2 * body.len() {
        let n = stream.read(decoder.space()).unwrap();
        assert!(n > 0, "closed");
        decoder.advance(n);
        while let Some(frame) = decoder.next().unwrap() {
            match frame {
                Frame::Open { stream, .. } => assert!(bodies.insert(stream, Vec::new()).is_none()),
                Frame::Part { stream, bytes } => bodies.get_mut(&stream).unwrap().extend_from_slice(bytes),
                Frame::Greeting { .. } | Frame::Challenge { .. } | Frame::Allow { .. } => {}
                other => panic!("{other:?} to a peer that takes no segments"),
            }
        }
    }
    assert!(bodies.into_values().all(|got| got == body));
    assert_eq!(writer.join().unwrap().unwrap().shared_segments(), 0);
}
