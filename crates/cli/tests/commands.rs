//! The binary, as users run it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver as Queue, channel};
use std::time::{Duration, Instant};

use gt_ir::Bytes;
use gt_net::protocol::{FromServer, Refusal, ToServer, decode, encode};
use gt_net::{Address, Connection, Io, Limits, NetError, Receiver};
use rustix::process::{Pid, Signal, kill_process};

/// No test waits longer for one thing.
const PATIENCE: Duration = Duration::from_secs(20);

/// The command, with sockets in a directory of the test's own.
fn gt(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gt"));
    command
        .args(args)
        .env("XDG_RUNTIME_DIR", directory)
        .env_remove("GT_TOKEN")
        .env_remove("GT_WORKER_TOKEN")
        .stdin(Stdio::null());
    command
}

fn run(directory: &Path, args: &[&str]) -> Output {
    gt(directory, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Server {
    child: Child,
    ready: String,
}

impl Server {
    /// Starts one at a free port and waits until it is ready.
    fn start(directory: &Path, args: &[&str]) -> Server {
        let mut all = vec!["server", "-p", "0"];
        all.extend(args);
        Server::spawn(gt(directory, &all))
    }

    fn spawn(mut command: Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = child.stdout.take().unwrap();
        let (put, take) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(out).read_line(&mut line);
            let _ = put.send(line);
        });
        let ready = take.recv_timeout(PATIENCE).expect("the server was not ready in time");
        assert!(ready.starts_with("gt server ") && ready.contains(" ready at 127.0.0.1:"), "{ready:?}");
        Server { child, ready }
    }

    fn port(&self) -> String {
        let after = self.ready.split("127.0.0.1:").nth(1).unwrap();
        after.split(' ').next().unwrap().to_string()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    fn exit_code(&mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "the server did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Keeper(std::sync::mpsc::Sender<Vec<u8>>);

impl Receiver for Keeper {
    fn message(&mut self, _: &Connection, head: &[u8], _: Option<Bytes>) {
        let _ = self.0.send(head.to_vec());
    }
    fn closed(&mut self, _: &Connection, _: &NetError) {}
}

fn open_session(io: &Io, port: &str) -> (Connection, Queue<Vec<u8>>) {
    let (put, heard) = channel();
    let address: Address = format!("127.0.0.1:{port}").parse().unwrap();
    let receiver = Box::new(Keeper(put));
    let connection = io.connect(&address, None, Limits::default(), receiver, PATIENCE, &|| false).unwrap();
    let name = "train.py\u{1b}[2J".to_string();
    let hello = ToServer::Hello { proof: b"", name, variables: Vec::new(), workers: 0, resume: None, pin: None };
    connection.send(&encode(&hello)).unwrap();
    assert!(matches!(decode(&heard.recv_timeout(PATIENCE).unwrap()).unwrap(), FromServer::Welcome { .. }));
    (connection, heard)
}

#[test]
fn a_server_is_seen_by_status_and_ends_cleanly_at_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = Server::start(directory.path(), &["--log-file", log.to_str().unwrap()]);
        let port = server.port();
        let io = Io::start("test").unwrap();
        let (_client, heard) = open_session(&io, &port);

        let table = run(directory.path(), &["status", "-p", &port]);
        let shown = text(&table.stdout);
        assert!(table.status.success(), "{}", text(&table.stderr));
        for word in [&port, "no workers", "SESSION", "connected", "train.py[2J"] {
            assert!(shown.contains(word), "{word:?} is not in:\n{shown}");
        }
        let json = run(directory.path(), &["status", "-p", &port, "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["sessions"][0]["state"], "connected");

        server.signal(signal);
        let refused = FromServer::Refused { why: Refusal::Ending {} };
        assert_eq!(decode::<FromServer>(&heard.recv_timeout(PATIENCE).unwrap()).unwrap(), refused);
        assert_eq!(server.exit_code(), Some(0));
        let left = directory.path().join("gt").join(format!("server-{port}.sock"));
        assert!(!left.exists(), "the socket file is left behind");
    }
    let lines = std::fs::read_to_string(log).unwrap();
    assert!(lines.contains("session 1: opened by 127.0.0.1"), "{lines}");
}

#[test]
fn nothing_that_listens_is_a_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let out = run(directory.path(), &["status", "-p", &free]);
    assert_eq!(out.status.code(), Some(1));
    let error = text(&out.stderr);
    assert!(error.contains("no process listens") && error.contains(&format!("gt server -p {free}")), "{error}");
}

#[test]
fn a_port_is_served_once_and_what_a_killed_server_left_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = Server::start(directory.path(), &[]);
    let port = first.port();
    let second = run(directory.path(), &["server", "-p", &port]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("in use"), "{}", text(&second.stderr));
    first.signal(Signal::KILL);
    assert_eq!(first.exit_code(), None);
    assert!(directory.path().join("gt").join(format!("server-{port}.sock")).exists());
    let mut again = Server::spawn(gt(directory.path(), &["server", "-p", &port]));
    assert!(run(directory.path(), &["status", "-p", &port]).status.success());
    again.signal(Signal::INT);
    assert_eq!(again.exit_code(), Some(0));
}

#[test]
fn a_server_for_other_machines_needs_a_token_and_says_how_to_make_one() {
    let directory = tempfile::tempdir().unwrap();
    let out = run(directory.path(), &["server", "--host", "0.0.0.0", "-p", "0"]);
    assert_eq!(out.status.code(), Some(1));
    let error = text(&out.stderr);
    assert!(error.contains("--token-file") && error.contains("/dev/urandom"), "{error}");
    let missing = run(directory.path(), &["server", "--token-file", "/nowhere/token"]);
    assert!(text(&missing.stderr).contains("/nowhere/token"), "{}", text(&missing.stderr));
}

#[test]
fn tls_is_found_by_its_fingerprint_only() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap(); // no Unix socket there: status goes by TCP
    let server = Server::start(directory.path(), &["--tls"]);
    let port = server.port();
    let fingerprint = server.ready.trim().rsplit(' ').next().unwrap();
    let ask = |fingerprint: &str| run(elsewhere.path(), &["status", "-p", &port, "--fingerprint", fingerprint]);
    let seen = ask(fingerprint);
    assert!(seen.status.success(), "{}", text(&seen.stderr));
    assert_eq!(ask(&"0".repeat(64)).status.code(), Some(1));
    assert_eq!(ask("not hexadecimal").status.code(), Some(1));
    let plain = run(elsewhere.path(), &["status", "-p", &port]);
    assert_eq!(plain.status.code(), Some(1));
    assert!(text(&plain.stderr).contains("--fingerprint"), "{}", text(&plain.stderr));
}

#[test]
fn every_command_has_help_and_wrong_arguments_are_named() {
    let directory = tempfile::tempdir().unwrap();
    for command in [&["server"][..], &["worker"], &["status"], &["bench", "net"]] {
        let help = run(directory.path(), &[command, &["--help"]].concat());
        assert!(help.status.success() && text(&help.stdout).contains("--port"), "{command:?}");
        let wrong = run(directory.path(), &[command, &["--port", "many"]].concat());
        assert_eq!(wrong.status.code(), Some(2), "{command:?}");
        assert!(text(&wrong.stderr).contains("many"), "{command:?}");
    }
    let half = run(directory.path(), &["server", "--tls-cert", "c.pem"]);
    assert!(text(&half.stderr).contains("--tls-key"), "{}", text(&half.stderr));
    let size = run(directory.path(), &["server", "--max-session-memory", "lots"]);
    assert!(text(&size.stderr).contains("4GiB"), "{}", text(&size.stderr));
}

#[test]
fn bench_net_measures_every_worker_and_needs_one() {
    let directory = tempfile::tempdir().unwrap();
    let alone = Server::start(directory.path(), &[]);
    let refused = run(directory.path(), &["bench", "net", "-p", &alone.port()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("gt worker -p"), "{}", text(&refused.stderr));

    let server = Server::start(directory.path(), &["--workers", "2"]);
    let port = server.port();
    let until = Instant::now() + PATIENCE;
    while text(&run(directory.path(), &["status", "-p", &port]).stdout).matches("connected").count() < 2 {
        assert!(Instant::now() < until, "the workers did not join");
        std::thread::sleep(Duration::from_millis(20));
    }
    let args = ["bench", "net", "-p", &port, "--rounds", "20", "--size", "1MiB", "--json"];
    let measured = run(directory.path(), &args);
    assert!(measured.status.success(), "{}", text(&measured.stderr));
    let json: serde_json::Value = serde_json::from_slice(&measured.stdout).unwrap();
    let ways = json["ways"].as_array().unwrap();
    let names: Vec<&str> = ways.iter().map(|way| way["to"].as_str().unwrap()).collect();
    assert_eq!(names, ["server", "worker_0", "worker_1"]);
    for way in ways {
        let [p50, p99] = ["p50", "p99"].map(|part| way["latency_us"][part].as_f64().unwrap());
        assert!(0.0 < p50 && p50 <= p99, "{way}");
        assert_eq!(way["bytes_per_s"].is_null(), way["to"] == "server", "{way}");
    }
    let table = run(directory.path(), &args[..args.len() - 1]);
    assert!(text(&table.stdout).starts_with("TO"), "{}", text(&table.stdout));
}

#[test]
fn an_unknown_variable_is_warned_of_once_by_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let said = "gt: warning: unknown environment variable GT_MEMORY_LIMTI; did you mean GT_MEMORY_LIMIT?";
    let typo = |args: &[&str]| {
        let mut command = gt(directory.path(), args);
        command.env("GT_MEMORY_LIMTI", "2GiB");
        command
    };
    let count = |stderr: &[u8]| text(stderr).matches(said).count();
    std::fs::write(directory.path().join("train.py"), "").unwrap();
    let script = directory.path().join("train.py").display().to_string();
    let missing = directory.path().join("missing.jsonl").display().to_string();
    for args in [&["status", "-p", "1"][..], &["data", "index", &missing], &["plan", &script]] {
        let done = typo(args).output().unwrap();
        assert_eq!(count(&done.stderr), 1, "{args:?}: {}", text(&done.stderr));
    }
    let mut server = Server::spawn(typo(&["server", "-p", "0", "--workers", "2"]));
    let until = Instant::now() + PATIENCE;
    while !text(&run(directory.path(), &["status", "-p", &server.port()]).stdout).contains("worker_1") {
        assert!(Instant::now() < until, "the workers did not join");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    let mut stderr = Vec::new();
    std::io::Read::read_to_end(&mut server.child.stderr.take().unwrap(), &mut stderr).unwrap();
    assert_eq!(count(&stderr), 1, "{}", text(&stderr));
}
