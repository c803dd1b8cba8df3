//! Workers as children of a server: started with it, ended with it.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

/// How long a worker may take to finish what it runs.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Started workers. Dropping ends those that are left.
pub(crate) struct Children(Vec<(usize, Child)>);

impl Children {
    /// Starts `count` workers; `command` comes before the arguments of each.
    pub(crate) fn start(command: &[OsString], count: usize, args: &[OsString]) -> anyhow::Result<Children> {
        let (program, first) = command.split_first().context("no command to start a worker with")?;
        let mut children = Children(Vec::with_capacity(count));
        for number in 0..count {
            let child = Command::new(program).args(first).args(args).stdin(Stdio::null()).spawn();
            let child = child.with_context(|| format!("cannot start worker {number} ({})", program.display()))?;
            children.0.push((number, child));
        }
        Ok(children)
    }

    /// Those that have ended by themselves since the last call: which, and how.
    pub(crate) fn ended(&mut self) -> Vec<(usize, String)> {
        let mut ended = Vec::new();
        self.0.retain_mut(|(number, child)| match child.try_wait() {
            Ok(Some(status)) => {
                ended.push((*number, status.to_string()));
                false
            }
            Ok(None) => true,
            Err(error) => {
                ended.push((*number, error.to_string()));
                false
            }
        });
        ended
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for (_, child) in &self.0 {
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let deadline = Instant::now() + PATIENCE;
        while !self.0.is_empty() && Instant::now() < deadline {
            self.ended();
            std::thread::sleep(LOOK_INTERVAL);
        }
        for (_, child) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Vec<OsString> {
        ["/bin/sh", "-c", script].map(OsString::from).to_vec()
    }

    #[test]
    fn children_end_with_their_server() {
        let children = Children::start(&sh("exec sleep 100"), 2, &[]).unwrap();
        let pids: Vec<u32> = children.0.iter().map(|(_, child)| child.id()).collect();
        let started = Instant::now();
        drop(children);
        assert!(started.elapsed() < PATIENCE, "they were killed, not asked");
        for pid in pids {
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} still runs");
        }
    }

    #[test]
    fn children_that_end_by_themselves_are_named_once() {
        let mut children = Children::start(&sh("exit 3"), 1, &[]).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let ended = loop {
            let ended = children.ended();
            if !ended.is_empty() || Instant::now() > deadline {
                break ended;
            }
            std::thread::sleep(LOOK_INTERVAL);
        };
        assert!(matches!(&ended[..], [(0, how)] if how.contains('3')), "{ended:?}");
        assert!(children.ended().is_empty());
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let error = Children::start(&["/nowhere/gt".into()], 1, &[]).err().expect("it started");
        assert!(format!("{error:#}").contains("/nowhere/gt"));
    }
}
