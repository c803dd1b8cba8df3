//! The data commands, as users run them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// No test waits longer for one thing.
const PATIENCE: Duration = Duration::from_secs(20);

fn gt(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gt"));
    command.arg("data").args(args).current_dir(dir).env("GT_CACHE_DIR", dir.join(".cache")).stdin(Stdio::null());
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    gt(dir, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What lies in a folder, hidden files aside.
fn names(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|n| !n.starts_with('.')).collect();
    names.sort();
    names
}

/// Files of lines, each with the same samples, in a folder `in`.
fn data_set(dir: &Path, files: usize, lines: usize) -> PathBuf {
    std::fs::create_dir(dir.join("in")).unwrap();
    let line = |i: usize| format!("{{\"x\": {i}, \"name\": \"sample {i}\"}}\n");
    let content: String = (0..lines).map(line).collect();
    let first = dir.join("in/0.jsonl");
    std::fs::write(&first, content).unwrap();
    (1..files).for_each(|n| std::fs::hard_link(&first, dir.join(format!("in/{n}.jsonl"))).unwrap());
    first
}

struct Running(Child);

impl Running {
    fn exit_code(&mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "the command did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_signal_ends_every_command_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), 400, 20_000);
    assert!(run(dir.path(), &["index", "in"]).status.success());
    let commands: [&[&str]; 3] = [
        &["shuffle", "in", "out"],
        &["cache", "in", "out"],
        &["bench", "in", "--seconds", "60", "--num-workers", "0", "--shuffle", "pool"],
    ];
    for command in commands {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let child = gt(dir.path(), command).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let mut child = Running(child);
            let until = Instant::now() + PATIENCE;
            while command[0] != "bench" && names(dir.path()).len() == 1 {
                assert!(Instant::now() < until, "{command:?} writes nothing");
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(500));
            kill_process(Pid::from_raw(child.0.id() as i32).unwrap(), signal).unwrap();
            let asked = Instant::now();
            assert_eq!(child.exit_code(), Some(code), "{command:?}");
            assert!(asked.elapsed() < Duration::from_secs(5), "{command:?} took {:?}", asked.elapsed());
            assert_eq!(names(dir.path()), ["in"], "{command:?}");
            let mut said = String::new();
            std::io::Read::read_to_string(&mut child.0.stderr.take().unwrap(), &mut said).unwrap();
            assert_eq!(said, "", "{command:?}");
        }
    }
}

#[test]
fn a_killed_shuffle_leaves_nothing_under_its_final_name() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), 100, 20_000);
    let command = ["shuffle", "in", "out", "--rows-per-file", "1000"];
    let child = gt(dir.path(), &command).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut child = Running(child);
    let until = Instant::now() + PATIENCE;
    let is_begun = || names(dir.path()).iter().any(|n| n.ends_with(".part") && !names(&dir.path().join(n)).is_empty());
    while !is_begun() {
        assert!(Instant::now() < until, "nothing is written");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.0.kill().unwrap();
    assert_eq!(child.exit_code(), None);
    assert!(!dir.path().join("out").exists());
    // What it has left is no data set, and in nobody's way.
    assert!(text(&run(dir.path(), &["index", "."]).stdout).starts_with("2000000 samples in 100 files"));
}

#[test]
fn a_shuffle_into_its_own_input_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), 2, 10);
    for command in ["shuffle", "cache"] {
        let refused = run(dir.path(), &[command, "in/*.jsonl", "in"]);
        assert_eq!(refused.status.code(), Some(1), "{command}");
        assert!(
            text(&refused.stderr).contains("in is there already and is not an empty folder"),
            "{}",
            text(&refused.stderr)
        );
        assert_eq!(names(&dir.path().join("in")), ["0.jsonl", "1.jsonl"]);
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        let done = run(dir.path(), &[command, "in", "empty/"]);
        assert_eq!(text(&done.stderr), "");
        assert_eq!(names(dir.path()), ["empty", "in"]);
        std::fs::remove_dir_all(dir.path().join("empty")).unwrap();
    }
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), 1, 10);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = gt(dir.path(), &["index", "in"]).stdout(writer).output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(141), String::new()));
}

#[test]
fn options_are_taken_as_the_pages_print_them() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), 2, 100);
    let cached = run(dir.path(), &["cache", "in", "as_it_is", "--after-transforms"]);
    assert!(cached.status.success(), "{}", text(&cached.stderr));
    let changes = ["cache", "in", "changed", "--after-transforms", "x:log1p", "--dtype", "float32"];
    assert!(run(dir.path(), &changes).status.success());
    let bench = run(dir.path(), &["bench", "in", "--batch-size", "64,128", "--num-workers", "0", "--shuffle", "off"]);
    let rows: Vec<String> = text(&bench.stdout).lines().map(str::to_owned).collect();
    assert!(rows.len() == 3 && rows[1].contains(" 64 ") && rows[2].contains(" 128 "), "{rows:?}");
    for wrong in [["--files", "0"], ["--rows-per-file", "0"], ["--rows-per-group", "0"]] {
        assert_eq!(
            run(dir.path(), &[&["shuffle", "in", "out"], &wrong[..]].concat()).status.code(),
            Some(2),
            "{wrong:?}"
        );
    }
}
