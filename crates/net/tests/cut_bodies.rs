//! Bodies that a connection does not live to bring: what has come is told, and the rest can be sent by another one.

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::{Sender, channel};

use gt_ir::Bytes;
use gt_net::{Address, Connection, Frame, Io, Limits, NetError, Receiver};
use support::*;

#[derive(Debug, PartialEq)]
enum Told {
    Message(Vec<u8>),
    CutShort(Vec<u8>, Vec<u8>),
    Closed,
}

struct Teller(Sender<Told>);

impl Receiver for Teller {
    fn message(&mut self, _: &Connection, head: &[u8], _: Option<Bytes>) {
        let _ = self.0.send(Told::Message(head.to_vec()));
    }
    fn cut_short(&mut self, _: &Connection, head: &[u8], arrived: &[u8]) {
        let _ = self.0.send(Told::CutShort(head.to_vec(), arrived.to_vec()));
    }
    fn closed(&mut self, _: &Connection, _: &NetError) {
        let _ = self.0.send(Told::Closed);
    }
}

#[test]
fn what_has_come_of_a_body_is_told_when_its_connection_ends() {
    let io = Io::start("cut").unwrap();
    let (put, told) = channel();
    let accept = move |_: &gt_net::Peer| Some(Box::new(Teller(put.clone())) as Box<dyn Receiver>);
    let listener = io.listen(&"127.0.0.1:0".parse().unwrap(), None, Limits::default(), accept).unwrap();
    let Address::Tcp { host, port } = listener.address() else { panic!("it listens at a port") };
    let mut raw = TcpStream::connect((host.as_str(), *port)).unwrap();
    let mut bytes = Vec::new();
    Frame::Greeting { features: 0 }.encode(&mut bytes);
    Frame::Challenge { nonce: [1; 32] }.encode(&mut bytes);
    Frame::Allow { head: 1000, body: 1000 }.encode(&mut bytes);
    Frame::Open { stream: 1, len: 4, head: b"whole" }.encode(&mut bytes);
    Frame::Open { stream: 2, len: 1000, head: b"second" }.encode(&mut bytes);
    Frame::Open { stream: 3, len: 1000, head: b"given up" }.encode(&mut bytes);
    Frame::Open { stream: 4, len: 1000, head: b"fourth" }.encode(&mut bytes);
    Frame::Part { stream: 2, bytes: b"some " }.encode(&mut bytes);
    Frame::Part { stream: 1, bytes: b"all." }.encode(&mut bytes);
    Frame::Part { stream: 3, bytes: b"no" }.encode(&mut bytes);
    Frame::Abort { stream: 3 }.encode(&mut bytes);
    let mut last = Vec::new();
    Frame::Part { stream: 2, bytes: b"bytes and others" }.encode(&mut last);
    bytes.extend_from_slice(&last[..last.len() - 11]);
    raw.write_all(&bytes).unwrap();
    drop(raw);
    let next = || told.recv_timeout(PATIENCE).expect("nothing was told in time");
    assert_eq!(next(), Told::Message(b"whole".to_vec()));
    assert_eq!(next(), Told::CutShort(b"second".to_vec(), b"some bytes".to_vec()));
    assert_eq!(next(), Told::CutShort(b"fourth".to_vec(), Vec::new()));
    assert_eq!(next(), Told::Closed);
}

#[test]
fn the_rest_of_a_body_is_sent_from_where_it_lies() {
    for transport in [Transport::Pair, Transport::Unix, Transport::Tcp, Transport::Tls] {
        let ends = connect(transport, Limits::default());
        let body: Bytes = (0..3_000_000u32).map(|n| (n * 31 / 7) as u8).collect::<Vec<_>>().into();
        let froms = [0, 1, 70_000, body.len() - 65_536, body.len() - 9, body.len(), body.len() + 1];
        // More than may begin at once, so that some wait.
        for round in 0..10u8 {
            for (n, &from) in froms.iter().enumerate() {
                ends.a.send_with_rest(&[round, n as u8], body.clone(), from).unwrap();
            }
        }
        for _ in 0..10 * froms.len() {
            let (head, rest) = ends.at_b.message();
            let from = froms[head[1] as usize].min(body.len());
            assert!(rest.is_some_and(|rest| rest[..] == body[from..]), "{transport:?}, from {from}");
        }
        eventually("nothing waits", || ends.a.queued_bytes() == 0);
    }
}
