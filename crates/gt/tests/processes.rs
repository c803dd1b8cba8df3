//! A server and workers over real sockets, with this process as their client.
//!
//! One test function: the session is the process's own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gt::{Backend, ConnectOptions, Device, ServedData, Tensor};
use gt_dispatcher::{Dispatcher, DispatcherConfig};
use gt_net::{Address, Io};
use gt_serve::{ServeConfig, Service};

fn worker(server: &Address) -> Service {
    let device = Device {
        backend: Backend::named("cpu").unwrap(),
        threads: Some(1),
        memory_limit: Some("1GiB".into()),
        debug: false,
        data: ServedData::default(),
    };
    let mut config = ServeConfig::new(server.clone(), Arc::new(gt::session_config));
    config.listen_host = Some("127.0.0.1".into());
    gt::serve(&device, config).unwrap()
}

fn until(what: &str, ready: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !ready() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn value(t: &Tensor) -> f64 {
    t.item().unwrap().as_f64()
}

#[test]
fn a_program_runs_on_a_server_loses_its_worker_and_goes_on() {
    gt::install();
    // Before there is a server, in this process.
    let kept = Tensor::full(&[3, 4], 2.0, None).unwrap();
    let io = Io::start("server").unwrap();
    let dispatcher = Dispatcher::new(DispatcherConfig::default()).unwrap();
    let listener = dispatcher.listen(&io, &"127.0.0.1:0".parse().unwrap(), None).unwrap();
    // Workers prove themselves by coming through the socket of their user.
    let folder = tempfile::tempdir().unwrap();
    let socket = dispatcher.listen(&io, &Address::Unix(folder.path().join("server.sock")), None).unwrap();
    let _timer = dispatcher.start_timer().unwrap();
    let first = worker(socket.address());
    until("the worker joins", || first.is_joined());

    gt::connect(&listener.address().to_string(), &ConnectOptions::default()).unwrap();
    assert_eq!(value(&kept.sum(&[], false, None).unwrap()), 24.0, "tensors are carried over");

    // A loop long enough for templates and joined windows, with a large upload and a large read.
    let w = Tensor::full(&[64, 64], 0.01, None).unwrap();
    let mut x = Tensor::full(&[64, 64], 1.0, None).unwrap();
    for turn in 0..40 {
        x = x.matmul(&w).unwrap().add(&Tensor::full(&[64, 64], 0.5, None).unwrap()).unwrap();
        if turn % 4 == 3 {
            assert!(value(&x.sum(&[], false, None).unwrap()).is_finite());
        }
    }
    let large = Tensor::full(&[512, 512], 3.0, None).unwrap();
    let host = large.read().unwrap();
    assert_eq!(host.bytes.len(), 512 * 512 * 4);
    let back = Tensor::from_bytes(host.ty, host.bytes.into()).unwrap();
    assert_eq!(value(&back.sum(&[], false, None).unwrap()), 512.0 * 512.0 * 3.0);
    let stats = gt::stats().unwrap();
    assert!(stats[0].total_instructions > 80 && stats[0].round_trips >= 12, "{stats:?}");

    // The worker goes, another comes: what was there is lost, and named.
    let second = worker(socket.address());
    until("the second joins", || second.is_joined());
    drop(first);
    let error = loop {
        match x.sum(&[], false, None).and_then(|s| s.item()) {
            Ok(_) => std::thread::sleep(Duration::from_millis(20)),
            Err(e) => break e.to_string(),
        }
    };
    assert!(error.contains("worker_0") && error.contains("processes.rs:"), "{error}");
    let fresh = Tensor::full(&[2], 4.0, None).unwrap();
    assert_eq!(value(&fresh.sum(&[], false, None).unwrap()), 8.0);

    gt::disconnect().unwrap();
    let here = Tensor::full(&[2], 5.0, None).unwrap();
    assert_eq!(value(&here.sum(&[], false, None).unwrap()), 10.0);
}
