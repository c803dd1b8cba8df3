//! What a peer can do wrong. Its connection ends, with a clear error; nothing else does.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gt_net::{Address, ClientTls, Frame, Io, Limits, Listener, NetError, Receiver, ServerTls, VERSION};
use proptest::prelude::*;
use support::*;

/// A listener whose every connection is kept in one place, and a well-behaved one beside those that are tried.
struct Victim {
    _io: Io,
    listener: Listener,
    kept: Kept,
    good: gt_net::Connection,
    at_good: Kept,
    _dir: tempfile::TempDir,
}

fn victim(unix: bool) -> Victim {
    let dir = tempfile::tempdir().unwrap();
    let io = Io::start("victim").unwrap();
    let (put, take) = std::sync::mpsc::channel();
    let address = if unix { Address::Unix(dir.path().join("s")) } else { "127.0.0.1:0".parse().unwrap() };
    let limits = Limits {
        max_head_bytes: 1000,
        max_body_bytes: 10_000_000,
        handshake_timeout: Duration::from_secs(1),
        ..Limits::default()
    };
    let listener =
        io.listen(&address, None, limits, move |_| Some(Box::new(Keeper(put.clone())) as Box<dyn Receiver>)).unwrap();
    let kept = Kept(take);
    let (to_good, at_good) = keeper();
    let good = io.connect(listener.address(), None, limits, to_good, PATIENCE, &no).unwrap();
    kept.opened();
    Victim { _io: io, listener, kept, good, at_good, _dir: dir }
}

impl Victim {
    fn raw(&self) -> Raw {
        let stream: Box<dyn ReadWrite> = match self.listener.address() {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(stream)
            }
            Address::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(stream)
            }
        };
        Raw(stream)
    }

    /// The victim's other connection still works.
    fn is_well(&self) {
        self.good.send(b"well?").unwrap();
        assert_eq!(self.kept.message().0, b"well?");
        assert!(self.at_good.0.try_iter().all(|event| matches!(event, Event::Opened(_))));
    }
}

trait ReadWrite: Read + Write {
    fn shut(&self);
}
impl ReadWrite for UnixStream {
    fn shut(&self) {
        let _ = self.shutdown(std::net::Shutdown::Write);
    }
}
impl ReadWrite for TcpStream {
    fn shut(&self) {
        let _ = self.shutdown(std::net::Shutdown::Write);
    }
}

struct Raw(Box<dyn ReadWrite>);

impl Raw {
    fn say(&mut self, bytes: &[u8]) {
        // The victim may have closed already: that is what is tested.
        let _ = self.0.write_all(bytes);
    }
    /// Everything the victim said until it closed.
    fn hear(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let _ = self.0.read_to_end(&mut out);
        out
    }
}

fn introduction() -> Vec<u8> {
    let mut out = Vec::new();
    Frame::Greeting { features: 1 }.encode(&mut out);
    Frame::Challenge { nonce: [1; 32] }.encode(&mut out);
    Frame::Allow { head: 1000, body: 1000 }.encode(&mut out);
    out
}

fn frames(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut out = introduction();
    frames.iter().for_each(|f| f.encode(&mut out));
    out
}

#[test]
fn broken_rules_end_the_connection_with_a_reason_on_both_sides() {
    let open = Frame::Open { stream: 1, len: 100, head: b"" };
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("no such kind", [introduction(), vec![77, 0, 0, 0, 0]].concat(), "unknown frame kind 77"),
        ("head over the limit", frames(&[Frame::Head(&[0; 1001])]), "announces 1001 bytes"),
        (
            "body over the limit",
            frames(&[Frame::Open { stream: 0, len: 1 << 60, head: b"" }]),
            "exceeds the limit of 10000000",
        ),
        ("a second challenge", frames(&[Frame::Challenge { nonce: [2; 32] }]), "unexpected second challenge"),
        ("no challenge", [introduction()[..16].to_vec(), introduction()[53..].to_vec()].concat(), "has no challenge"),
        ("part of no body", frames(&[Frame::Part { stream: 5, bytes: b"x" }]), "body 5 was never opened"),
        ("body longer than announced", frames(&[open, Frame::Part { stream: 1, bytes: &[0; 101] }]), "longer than"),
        (
            "a body twice",
            frames(&[Frame::Open { stream: 1, len: 1, head: b"" }, Frame::Open { stream: 1, len: 1, head: b"" }]),
            "twice",
        ),
        (
            "segment that was not shared",
            frames(&[Frame::Filled { stream: 1, segment: 0, len: 1 }]),
            "segment 0 was never shared",
        ),
        ("segment without descriptor", frames(&[Frame::Share { segment: 0, len: 4096 }]), "without its descriptor"),
        ("release of nothing", frames(&[Frame::Release { segment: 0 }]), "released"),
        ("reason that is no text", [introduction(), vec![11, 1, 0, 0, 0, 0xff]].concat(), "not UTF-8 text"),
    ];
    for unix in [true, false] {
        let victim = victim(unix);
        for (name, bytes, expected) in &cases {
            let mut raw = victim.raw();
            raw.say(bytes);
            let why = victim.kept.closed().to_string();
            assert!(why.contains(expected), "{name}: {why}");
            let heard = String::from_utf8_lossy(&raw.hear()).into_owned();
            assert!(heard.contains(expected), "{name}: the other side heard {heard:?}");
            victim.is_well();
        }
        let many: Vec<Frame<'_>> = (0..33).map(|stream| Frame::Open { stream, len: 1, head: b"" }).collect();
        victim.raw().say(&frames(&many));
        assert!(victim.kept.closed().to_string().contains("too many open bodies"));
        victim.is_well();
    }
}

#[test]
fn strangers_and_other_versions_are_told_apart() {
    for unix in [true, false] {
        let victim = victim(unix);
        let mut raw = victim.raw();
        raw.say(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(matches!(victim.kept.closed(), NetError::NotGt { .. }));
        let mut raw = victim.raw();
        let mut later = introduction();
        later[8..10].copy_from_slice(&(VERSION + 1).to_le_bytes());
        raw.say(&later);
        assert_eq!(victim.kept.closed(), NetError::Version { ours: VERSION, theirs: VERSION + 1 });
        // The other side sees this side's version in its greeting, and can say the same.
        let heard = raw.hear();
        assert_eq!(heard[..8], later[..8]);
        assert_eq!(heard[8..10], VERSION.to_le_bytes());
        // One that says nothing does not keep its place.
        let silent = victim.raw();
        assert!(matches!(victim.kept.closed(), NetError::TimedOut { .. }));
        drop(silent);
        victim.is_well();
    }
}

/// A process that is killed leaves its last frame cut wherever it was.
#[test]
fn a_frame_cut_anywhere_is_a_lost_connection() {
    let victim = victim(true);
    let whole = frames(&[
        Frame::Head(b"hello"),
        Frame::Open { stream: 0, len: 10, head: b"head" },
        Frame::Part { stream: 0, bytes: b"01234" },
        Frame::Ping(7),
    ]);
    for cut in 0..whole.len() {
        let mut raw = victim.raw();
        raw.say(&whole[..cut]);
        raw.0.shut();
        let why = victim.kept.closed();
        assert!(matches!(why, NetError::Lost { .. }), "cut at {cut}: {why}");
    }
    victim.is_well();
}

#[test]
fn a_server_of_another_version_or_none_at_all_is_a_clear_error() {
    let answer = |bytes: Vec<u8>| {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address: Address = server.local_addr().unwrap().to_string().parse().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            stream.write_all(&bytes).unwrap();
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        });
        let io = Io::start("client").unwrap();
        let (to, _at) = keeper();
        let error = io.connect(&address, None, Limits::default(), to, PATIENCE, &no).unwrap_err();
        drop(io);
        thread.join().unwrap();
        error
    };
    let mut later = introduction();
    later[8] = 200;
    assert_eq!(answer(later), NetError::Version { ours: VERSION, theirs: 200 });
    assert!(matches!(answer(b"SSH-2.0-OpenSSH\r\n".to_vec()), NetError::NotGt { .. }));
    assert!(matches!(answer(Vec::new()), NetError::Lost { .. }));
    // A reason given before the introduction is over.
    let mut refusal = Vec::new();
    Frame::Greeting { features: 0 }.encode(&mut refusal);
    Frame::Close { reason: "no room" }.encode(&mut refusal);
    let error = answer(refusal);
    assert_eq!(error, NetError::Refused { reason: "no room".into() });
}

#[test]
fn tls_is_refused_clearly() {
    let io = Io::start("tls").unwrap();
    let identity = identity();
    let (put, _take) = std::sync::mpsc::channel();
    let accept = move |_: &gt_net::Peer| Some(Box::new(Keeper(put.clone())) as Box<dyn Receiver>);
    let tls = Some(ServerTls::new(&identity).unwrap());
    let listener = io.listen(&"127.0.0.1:0".parse().unwrap(), tls, Limits::default(), accept).unwrap();
    let connect = |tls: Option<&ClientTls>| {
        io.connect(listener.address(), tls, Limits::default(), keeper().0, PATIENCE, &no).map(|c| c.close())
    };
    // By fingerprint and by file: welcome.
    connect(Some(&ClientTls::pinned(identity.fingerprint().unwrap()).unwrap())).unwrap();
    let text = identity.fingerprint().unwrap().to_string().to_uppercase();
    connect(Some(&ClientTls::pinned(text.parse().unwrap()).unwrap())).unwrap();
    connect(Some(&ClientTls::trusting(&identity.certificate_pem, None).unwrap())).unwrap();
    // Another's certificate, either way; another's name; no TLS at all.
    let other = support::identity();
    let error = connect(Some(&ClientTls::pinned(other.fingerprint().unwrap()).unwrap())).unwrap_err().to_string();
    assert!(error.contains("fingerprint"), "{error}");
    let error = connect(Some(&ClientTls::trusting(&other.certificate_pem, None).unwrap())).unwrap_err();
    assert!(matches!(error, NetError::Tls { .. }), "{error}");
    let error = connect(Some(&ClientTls::trusting(&identity.certificate_pem, Some("elsewhere".into())).unwrap()));
    assert!(matches!(error, Err(NetError::Tls { .. })), "{error:?}");
    let error = connect(None).unwrap_err();
    assert!(matches!(error, NetError::NotGt { .. } | NetError::Lost { .. }), "{error}");
    assert!("abc".parse::<gt_net::Fingerprint>().is_err());
    assert!(ClientTls::trusting("nothing here", None).is_err());
}

#[test]
fn a_receiver_that_panics_loses_its_own_connection_only() {
    struct Panics;
    impl Receiver for Panics {
        fn message(&mut self, _: &gt_net::Connection, _: &[u8], _: Option<gt_ir::Bytes>) {
            panic!("a test of what happens then");
        }
        fn closed(&mut self, _: &gt_net::Connection, _: &NetError) {}
    }
    let io = Io::start("panics").unwrap();
    let accept = |_: &gt_net::Peer| Some(Box::new(Panics) as Box<dyn Receiver>);
    let listener = io.listen(&"127.0.0.1:0".parse().unwrap(), None, Limits::default(), accept).unwrap();
    for _ in 0..2 {
        let (to, at) = keeper();
        let c = io.connect(listener.address(), None, Limits::default(), to, PATIENCE, &no).unwrap();
        c.send(b"hello").unwrap();
        assert_eq!(at.closed(), NetError::Refused { reason: "internal error".into() });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_end_nothing_else(bytes in prop::collection::vec(any::<u8>(), 1..3000), greeted in any::<bool>()) {
        let victim = victim(true);
        let mut raw = victim.raw();
        raw.say(&if greeted { [introduction(), bytes].concat() } else { bytes });
        raw.0.shut();
        victim.kept.closed();
        victim.is_well();
    }
}
