//! Latency of heads and speed of bodies over each transport, beside a copy into fresh pages on the same machine.
//!
//! `cargo run --release -p gt-net --example net_speed [-- MiB]`

use std::sync::mpsc::{Receiver as Queue, Sender, channel};
use std::time::{Duration, Instant};

use gt_ir::Bytes;
use gt_net::{Address, ClientTls, Connection, Identity, Io, Limits, NetError, Receiver, ServerTls};

/// Sends heads back, keeps bodies.
struct Echo(Sender<Option<Bytes>>);

impl Receiver for Echo {
    fn message(&mut self, from: &Connection, head: &[u8], body: Option<Bytes>) {
        if body.is_none() {
            let _ = from.send(head);
        }
        let _ = self.0.send(body);
    }
    fn closed(&mut self, _: &Connection, why: &NetError) {
        eprintln!("closed: {why}");
    }
}

/// Keeps what comes.
struct Keep(Sender<Option<Bytes>>);

impl Receiver for Keep {
    fn message(&mut self, _: &Connection, _: &[u8], body: Option<Bytes>) {
        let _ = self.0.send(body);
    }
    fn closed(&mut self, _: &Connection, why: &NetError) {
        eprintln!("closed: {why}");
    }
}

fn best(times: usize, mut run: impl FnMut() -> Duration) -> f64 {
    (0..times).map(|_| run().as_secs_f64()).fold(f64::INFINITY, f64::min)
}

fn fresh_copy(body: &[u8]) -> Duration {
    let started = Instant::now();
    let copy: Vec<u8> = std::hint::black_box(body).to_vec();
    let took = started.elapsed();
    std::hint::black_box(&copy);
    took
}

fn measure(name: &str, address: &Address, tls: Option<&Identity>, body: &Bytes) -> Result<(), NetError> {
    let (server, client) = (Io::start("server")?, Io::start("client")?);
    let (put, bodies): (_, Queue<Option<Bytes>>) = channel();
    let (put_back, echoes) = channel();
    let server_tls = tls.map(ServerTls::new).transpose()?;
    let client_tls = tls.map(|i| ClientTls::pinned(i.fingerprint()?)).transpose()?;
    let limits = Limits::default();
    let listener = server.listen(address, server_tls, limits, move |_| Some(Box::new(Echo(put.clone()))))?;
    let patience = Duration::from_secs(5);
    let to_us = Box::new(Keep(put_back));
    let c = client.connect(listener.address(), client_tls.as_ref(), limits, to_us, patience, &|| false)?;
    let rounds = 5000;
    let trip = best(3, || {
        let started = Instant::now();
        for _ in 0..rounds {
            c.send(b"sixteen bytes...").expect("sent");
            echoes.recv().ok();
        }
        while bodies.try_recv().is_ok() {}
        started.elapsed() / rounds
    });
    let lent = best(3, || {
        let started = Instant::now();
        c.write_body(b"", body, &|| false).expect("sent");
        let got = bodies.recv();
        let took = started.elapsed();
        drop(got);
        took
    });
    let held = best(3, || {
        let started = Instant::now();
        c.send_with_body(b"", body.clone()).expect("sent");
        let got = bodies.recv();
        let took = started.elapsed();
        drop(got);
        took
    });
    let copy = best(3, || fresh_copy(body));
    let gib = body.len() as f64 / (1u64 << 30) as f64;
    println!(
        "{name:5} round trip {:6.1} µs   write_body {:5.2} GiB/s ({:3.0} % of a fresh copy at {:.2})   send_with_body {:5.2} GiB/s",
        trip * 1e6,
        gib / lent,
        copy / lent * 100.0,
        gib / copy,
        gib / held,
    );
    Ok(())
}

fn main() -> Result<(), NetError> {
    let mib = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(256usize);
    let body = Bytes::from(vec![1u8; mib << 20]);
    let socket = std::env::temp_dir().join(format!("gt-net-speed-{}", std::process::id()));
    let tcp: Address = "127.0.0.1:0".parse()?;
    let identity = Identity::generate(&["localhost".to_string()])?;
    measure("unix", &Address::Unix(socket), None, &body)?;
    measure("tcp", &tcp, None, &body)?;
    measure("tls", &tcp, Some(&identity), &body)
}
