//! What a worker opens for a client that names it: replays attacks through a server and a worker over real sockets.
//!
//! One test function: the session is the process's own.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gt::{Backend, ConnectOptions, Device, Loader, ServedData, WantedLoader};
use gt_data::{
    Announcement, BatchSpec, Cut, DataError, Elem, Field, FileAccess, Kind, LoaderSpec, OrderSpec, Outcome,
    ParquetOptions, Position, RowPart, RunSpec, Shuffle, SourceSpec, write_npy_header,
};
use gt_dispatcher::{Dispatcher, DispatcherConfig};
use gt_net::{Address, Io};
use gt_serve::ServeConfig;

/// Connects to a server with a worker that serves this data, does something, and leaves.
fn with_worker(by_unix: bool, listen: Option<&str>, data: ServedData, act: impl FnOnce()) {
    let folder = tempfile::tempdir().unwrap();
    let io = Io::start("server").unwrap();
    let dispatcher = Dispatcher::new(DispatcherConfig::default()).unwrap();
    let unix = dispatcher.listen(&io, &Address::Unix(folder.path().join("server.sock")), None).unwrap();
    let tcp = dispatcher.listen(&io, &"127.0.0.1:0".parse().unwrap(), None).unwrap();
    let _timer = dispatcher.start_timer().unwrap();
    let device = Device {
        backend: Backend::named("cpu").unwrap(),
        threads: Some(1),
        memory_limit: Some("1GiB".into()),
        debug: false,
        data,
    };
    let mut config = ServeConfig::new(unix.address().clone(), Arc::new(gt::session_config));
    config.listen_host = listen.map(str::to_string);
    let worker = gt::serve(&device, config).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !worker.is_joined() {
        assert!(Instant::now() < deadline, "the worker did not join");
        std::thread::sleep(Duration::from_millis(5));
    }
    let address = if by_unix { unix.address() } else { tcp.address() };
    gt::connect(&address.to_string(), &ConnectOptions::default()).unwrap();
    act();
    gt::disconnect().unwrap();
}

/// What the worker says when a client has it open this. An attacker does not open it itself, so its fingerprint is not known then.
fn asked(source: &SourceSpec, fingerprint: u64) -> Outcome {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = Field { name: "data".into(), elem: Elem::I64, kind: Kind::Fixed, item: Vec::new() };
    let run = RunSpec {
        order: OrderSpec { seed: 0, shuffle: Shuffle::Off },
        epoch: 0,
        start: Position::default(),
        cut: Cut::every(10),
        batch: BatchSpec::plain(&[number]),
        threads: 1,
        prefetch: 1,
        memory_budget: 1 << 20,
        skip_errors: false,
        part: RowPart::default(),
    };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let spec = LoaderSpec { source: source.clone(), number, fingerprint, run };
    let describe = |_, _| spec.encode().unwrap();
    let loader = Loader::open(&WantedLoader { describe: &describe, most_parts: 1, ahead: 1 }).unwrap().unwrap();
    let batch = loader.next().unwrap();
    Announcement::decode(&batch.notes[0]).unwrap().outcome
}

fn npy(path: &str) -> SourceSpec {
    SourceSpec::Npy { columns: vec![("data".into(), vec![path.into()])], skip_errors: true }
}

fn lines(path: &str) -> SourceSpec {
    let options = ParquetOptions { no_index_cache: true, ..ParquetOptions::default() };
    SourceSpec::Jsonl { patterns: vec![path.into()], options }
}

fn refused(source: &SourceSpec) {
    match asked(source, 0) {
        Outcome::Failed { error: DataError::NotServed { .. }, opening: true } => {}
        other => panic!("{source:?}: {other:?}"),
    }
}

fn served(source: &SourceSpec) {
    let fingerprint = source.open(&FileAccess::everything()).unwrap().fingerprint();
    match asked(source, fingerprint) {
        Outcome::Batch { samples: 10, .. } => {}
        other => panic!("{source:?}: {other:?}"),
    }
}

fn numbers(path: &Path) {
    let mut file = write_npy_header(Elem::I64, &[10]);
    (0..10i64).for_each(|i| file.extend(i.to_le_bytes()));
    std::fs::write(path, file).unwrap();
}

#[test]
fn a_worker_opens_only_what_its_user_allows() {
    gt::install();
    let folder = tempfile::tempdir().unwrap();
    let (root, secret) = (folder.path().join("data"), folder.path().join("secret.npy"));
    std::fs::create_dir(&root).unwrap();
    numbers(&secret);
    numbers(&root.join("x.npy"));
    symlink(&secret, root.join("out.npy")).unwrap();
    symlink(folder.path(), root.join("above")).unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    web.set_nonblocking(true).unwrap();
    let port = web.local_addr().unwrap().port();
    let addresses = [
        format!("http://127.0.0.1:{port}/x.npy"),
        format!("http://localhost:{port}/x.npy"),
        format!("http://[::1]:{port}/x.npy"),
        format!("http://[::ffff:127.0.0.1]:{port}/x.npy"),
        format!("http://0.0.0.0:{port}/x.npy"),
        format!("http://2130706433:{port}/x.npy"),
        "http://169.254.169.254/latest/meta-data/x.npy".to_string(),
        "s3://bucket/x.npy".to_string(),
    ];
    let attacks = |beyond: &[&str]| {
        for path in beyond {
            refused(&npy(path));
        }
        for path in ["/etc/passwd", "/proc/self/environ", "/dev/stdin", "/nowhere/at/all", "/etc/*"] {
            refused(&lines(path));
        }
        refused(&SourceSpec::Cached { folder: at(""), columns: None });
    };
    let of_everybody = at("secret.npy");

    // Somebody who came by TCP: nothing, whether it is there or not.
    with_worker(false, None, ServedData::default(), || {
        attacks(&[&of_everybody, &at("data/x.npy"), &at("data/*.npy"), &at("data")]);
        addresses.iter().for_each(|address| refused(&npy(address)));
    });

    // With a folder and addresses that are served: what lies below, and no way out of it.
    let data = ServedData { roots: vec![root.clone()], urls: vec!["http://*/*".into(), "http://*:*/*".into()] };
    with_worker(false, None, data, || {
        served(&npy(&at("data/x.npy")));
        served(&npy(&at("data/x*.npy")));
        attacks(&[
            &of_everybody,
            &at("data/out.npy"),
            &at("data/o*.npy"),
            &at("data/above/secret.npy"),
            &at("data/../secret.npy"),
        ]);
        addresses.iter().for_each(|address| refused(&npy(address)));
    });

    // The worker's own user on its own host, as the system vouches: what that user may read.
    with_worker(true, None, ServedData::default(), || served(&npy(&of_everybody)));
    // But not by a worker that listens to other hosts.
    with_worker(true, Some("0.0.0.0"), ServedData::default(), || refused(&npy(&of_everybody)));

    assert!(web.accept().is_err_and(|e| e.kind() == ErrorKind::WouldBlock), "an address of this host was asked");
}
