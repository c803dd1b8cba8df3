//! Server and workers as processes, with this process as their client.
//!
//! One test function: the session is the process's own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use gt::{ConnectOptions, Tensor};
use rustix::process::{Pid, Signal, kill_process};

/// No test waits longer for one thing.
const PATIENCE: Duration = Duration::from_secs(60);

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(args: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gt"));
    command
        .args(args)
        .env_remove("GT_TOKEN")
        .env_remove("GT_WORKER_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Process(command.spawn().unwrap())
}

fn first_line(stream: impl Read + Send + 'static) -> String {
    let (put, take) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let mut stream = BufReader::new(stream);
        let _ = stream.read_line(&mut line);
        let _ = put.send(line);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    take.recv_timeout(PATIENCE).expect("not ready in time")
}

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn status(port: &str) -> serde_json::Value {
    let out = Command::new(env!("CARGO_BIN_EXE_gt")).args(["status", "-p", port, "--json"]).output().unwrap();
    serde_json::from_slice(&out.stdout).unwrap()
}

fn workers(port: &str) -> Vec<String> {
    let status = status(port);
    let name = |worker: &serde_json::Value| worker["id"].as_str().unwrap().to_string();
    status["workers"].as_array().unwrap().iter().map(name).collect()
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

fn children_of(parent: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Whether it runs; one that has ended may wait for whoever is to hear of it.
fn runs(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

fn value(t: &Tensor) -> gt::Result<f64> {
    Ok(t.sum(&[], false, None)?.item()?.as_f64())
}

#[test]
fn a_program_runs_in_processes_that_are_killed_and_come_back() {
    let mut server = start(&["server", "-p", "0", "--workers", "1"]);
    std::mem::drop(server.0.stderr.take().map(|err| std::thread::spawn(|| std::io::read_to_string(err))));
    let ready = first_line(server.0.stdout.take().unwrap());
    let port = ready.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap().to_string();
    until("its worker joins", || workers(&port) == ["worker_0"]);
    let own = children_of(server.0.id());
    assert_eq!(own.len(), 1);

    gt::install();
    gt::connect(&format!("127.0.0.1:{port}"), &ConnectOptions::default()).unwrap();
    let x = Tensor::full(&[300, 300], 2.0, None).unwrap();
    assert_eq!(value(&x).unwrap(), 180_000.0);
    assert_eq!(status(&port)["sessions"][0]["home"], "worker_0");

    // A window of many payloads, each too small to travel apart, is one long message.
    let ty = Tensor::full(&[12_000], 1.0, None).unwrap().read().unwrap().ty;
    let parts: Vec<Tensor> = (0..250).map(|_| Tensor::from_bytes(ty, vec![0u8; 48_000].into()).unwrap()).collect();
    let sum = parts.iter().try_fold(Tensor::full(&[12_000], 1.0, None).unwrap(), |sum, part| sum.add(part)).unwrap();
    assert_eq!(value(&sum).unwrap(), 12_000.0);

    // Another joins; the first is killed; the session goes on with the second, and the server starts the first again.
    let mut second = start(&["worker", "-p", &port, "--id", "second", "--threads", "1", "--memory-limit", "1GiB"]);
    let ready = first_line(second.0.stderr.take().unwrap());
    assert!(ready.contains("cpu, 1 thread, 1.0 GiB"), "{ready}");
    until("the second joins", || workers(&port).len() == 2);
    signal(own[0], Signal::KILL);
    until("the first is started again", || {
        let now = children_of(server.0.id());
        now.len() == 1 && now != own && workers(&port) == ["worker_0", "second"]
    });
    let error = value(&x).unwrap_err().to_string();
    assert!(error.contains("worker_0") && error.contains("processes.rs"), "{error}");
    let y = Tensor::full(&[3], 4.0, None).unwrap();
    assert_eq!(value(&y).unwrap(), 12.0);

    gt::disconnect().unwrap();
    // A worker that is asked to end says goodbye and ends well.
    signal(second.0.id(), Signal::TERM);
    assert_eq!(second.0.wait().unwrap().code(), Some(0));
    until("it has left", || workers(&port) == ["worker_0"]);

    signal(server.0.id(), Signal::TERM);
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    drop(server);

    // A server that is killed takes the workers that it started with it.
    let mut server = start(&["server", "-p", "0", "--workers", "2"]);
    std::mem::drop(server.0.stderr.take().map(|err| std::thread::spawn(|| std::io::read_to_string(err))));
    let ready = first_line(server.0.stdout.take().unwrap());
    let port = ready.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap().to_string();
    until("its workers join", || workers(&port).len() == 2);
    let own = children_of(server.0.id());
    signal(server.0.id(), Signal::KILL);
    server.0.wait().unwrap();
    until("its workers end", || own.iter().all(|pid| !runs(*pid)));
    // What a killed server leaves; the next one at its port would replace it.
    std::fs::remove_file(gt_net::server_socket(port.parse().unwrap()).unwrap()).unwrap();
}
