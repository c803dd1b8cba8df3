//! Workers as children of a server: started with it, started again when they die, ended with it.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

/// How long a worker may take to finish what it runs.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The pause before a worker that died is started again; it doubles each time, up to the longest: at most a few starts a minute.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// One that has run for so long was well: the next pause is the first again.
const WELL_AFTER: Duration = Duration::from_secs(60);

/// What has become of a worker.
enum State {
    Runs(Child, Instant),
    /// It died, and is started again then.
    Rests(Instant),
    /// It was told to end, by somebody else.
    Ended,
}

struct Worker {
    state: State,
    pause: Duration,
}

/// Started workers. Dropping ends those that are left.
pub(crate) struct Children {
    /// What starts one.
    command: Vec<OsString>,
    workers: Vec<Worker>,
}

impl Children {
    /// Starts `count` workers; `command` comes before the arguments of each.
    pub(crate) fn start(command: &[OsString], count: usize, args: &[OsString]) -> anyhow::Result<Children> {
        let mut children = Children { command: [command, args].concat(), workers: Vec::with_capacity(count) };
        for number in 0..count {
            let child = spawn(&children.command).with_context(|| format!("cannot start worker {number}"))?;
            children.workers.push(Worker { state: State::Runs(child, Instant::now()), pause: FIRST_PAUSE });
        }
        Ok(children)
    }

    /// Starts those again that have died, when their time has come; what there is to say of it goes to `say`.
    pub(crate) fn look_after(&mut self, now: Instant, say: &mut dyn FnMut(&str)) {
        let Children { command, workers } = self;
        for (number, worker) in workers.iter_mut().enumerate() {
            let how = match &mut worker.state {
                State::Runs(child, since) => {
                    let how = match child.try_wait() {
                        Ok(None) => continue,
                        Ok(Some(status)) if status.success() => {
                            say(&format!("worker {number} of this server has ended"));
                            worker.state = State::Ended;
                            continue;
                        }
                        Ok(Some(status)) => status.to_string(),
                        Err(error) => error.to_string(),
                    };
                    if now.duration_since(*since) >= WELL_AFTER {
                        worker.pause = FIRST_PAUSE;
                    }
                    how
                }
                State::Rests(until) if now >= *until => match spawn(command) {
                    Ok(child) => {
                        say(&format!("worker {number} of this server is started again"));
                        worker.state = State::Runs(child, now);
                        continue;
                    }
                    Err(error) => format!("{error:#}"),
                },
                State::Rests(_) | State::Ended => continue,
            };
            let pause = worker.pause;
            say(&format!("worker {number} of this server has ended: {how}; it is started again in {pause:?}"));
            worker.state = State::Rests(now + pause);
            worker.pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn running(&mut self) -> Vec<&mut Child> {
        let running = self.workers.iter_mut().filter_map(|worker| match &mut worker.state {
            State::Runs(child, _) => matches!(child.try_wait(), Ok(None)).then_some(child),
            State::Rests(_) | State::Ended => None,
        });
        running.collect()
    }
}

fn spawn(command: &[OsString]) -> anyhow::Result<Child> {
    let (program, args) = command.split_first().context("no command to start a worker with")?;
    let child = Command::new(program).args(args).stdin(Stdio::null()).spawn();
    child.with_context(|| program.display().to_string())
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in self.running() {
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let deadline = Instant::now() + PATIENCE;
        while !self.running().is_empty() && Instant::now() < deadline {
            std::thread::sleep(LOOK_INTERVAL);
        }
        for child in self.running() {
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

    /// Lets so much time pass, and waits until something was said.
    fn said_after(children: &mut Children, now: Instant) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        let mut said = Vec::new();
        while said.is_empty() && Instant::now() < deadline {
            children.look_after(now, &mut |line| said.push(line.to_string()));
            std::thread::sleep(LOOK_INTERVAL);
        }
        said
    }

    #[test]
    fn children_end_with_their_server() {
        let mut children = Children::start(&sh("exec sleep 100"), 2, &[]).unwrap();
        let pids: Vec<u32> = children.running().iter().map(|child| child.id()).collect();
        let started = Instant::now();
        drop(children);
        assert!(started.elapsed() < PATIENCE, "they were killed, not asked");
        assert_eq!(pids.len(), 2);
        for pid in pids {
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} still runs");
        }
    }

    #[test]
    fn children_that_die_are_started_again_ever_later() {
        let mut children = Children::start(&sh("exit 3"), 1, &[]).unwrap();
        let mut now = Instant::now();
        let mut starts = 0;
        let began = now;
        while now < began + Duration::from_secs(60) {
            let said = said_after(&mut children, now);
            assert!(said[0].contains("worker 0") && said[0].contains('3'), "{said:?}");
            children.look_after(now, &mut |line| panic!("too early: {line}"));
            let State::Rests(until) = children.workers[0].state else { panic!("it does not rest") };
            assert!(until > now);
            now = until;
            let mut said = Vec::new();
            children.look_after(now, &mut |line| said.push(line.to_string()));
            assert!(matches!(&said[..], [line] if line.contains("started again")), "{said:?}");
            starts += 1;
        }
        assert!((2..=6).contains(&starts), "{starts} starts in a minute");
        // One that was well for a while is not made to wait for what was before.
        now += WELL_AFTER;
        said_after(&mut children, now);
        let State::Rests(until) = children.workers[0].state else { panic!("it does not rest") };
        assert_eq!(until, now + FIRST_PAUSE);
    }

    #[test]
    fn children_that_were_told_to_end_stay_away() {
        let mut children = Children::start(&sh("exit 0"), 1, &[]).unwrap();
        let now = Instant::now();
        let said = said_after(&mut children, now);
        assert!(matches!(&said[..], [line] if line.contains("has ended")), "{said:?}");
        children.look_after(now + Duration::from_secs(3600), &mut |line| panic!("{line}"));
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let error = Children::start(&["/nowhere/gt".into()], 1, &[]).err().expect("it started");
        assert!(format!("{error:#}").contains("/nowhere/gt"));
    }
}
