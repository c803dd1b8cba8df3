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
    /// What each finds in its environment: other users can read command lines.
    variables: Vec<(&'static str, String)>,
    workers: Vec<Worker>,
}

impl Children {
    /// Starts `count` workers; `command` comes before the arguments of each.
    pub(crate) fn start(
        command: &[OsString],
        count: usize,
        args: &[OsString],
        variables: &[(&'static str, String)],
    ) -> anyhow::Result<Children> {
        let command = [command, args].concat();
        let mut children = Children { command, variables: variables.to_vec(), workers: Vec::with_capacity(count) };
        for number in 0..count {
            let child = spawn(&children.command, &children.variables)
                .with_context(|| format!("cannot start worker {number}"))?;
            children.workers.push(Worker { state: State::Runs(child, Instant::now()), pause: FIRST_PAUSE });
        }
        Ok(children)
    }

    /// Starts those again that have died, when their time has come; what there is to say of it goes to `say`.
    pub(crate) fn look_after(&mut self, now: Instant, say: &mut dyn FnMut(&str)) {
        let Children { command, variables, workers } = self;
        for worker in workers {
            let how = match &mut worker.state {
                State::Runs(child, since) => {
                    // Workers are named in the order in which they join, which may be another than that of their start.
                    let process = child.id();
                    let how = match child.try_wait() {
                        Ok(None) => continue,
                        Ok(Some(status)) if status.success() => {
                            say(&format!("worker process {process} of this server exited"));
                            worker.state = State::Ended;
                            continue;
                        }
                        Ok(Some(status)) => status.to_string(),
                        Err(error) => error.to_string(),
                    };
                    let how = format!("worker process {process} of this server exited: {how}");
                    if now.duration_since(*since) >= WELL_AFTER {
                        worker.pause = FIRST_PAUSE;
                    }
                    how
                }
                State::Rests(until) if now >= *until => match spawn(command, variables) {
                    Ok(child) => {
                        say(&format!("a worker of this server restarted as process {}", child.id()));
                        worker.state = State::Runs(child, now);
                        continue;
                    }
                    Err(error) => format!("cannot start a worker of this server: {error:#}"),
                },
                State::Rests(_) | State::Ended => continue,
            };
            let pause = worker.pause;
            say(&format!("{how}; starting another in {pause:?}"));
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

/// Keeps a process of this command from warning again of what it was warned of.
pub(crate) fn without_warnings(command: &mut Command) {
    for (name, _) in gt::variable_warnings() {
        command.env_remove(name);
    }
}

fn spawn(command: &[OsString], variables: &[(&'static str, String)]) -> anyhow::Result<Child> {
    let (program, args) = command.split_first().context("internal error: the command that starts workers is empty")?;
    let mut command = Command::new(program);
    command.args(args).envs(variables.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
    without_warnings(&mut command);
    let child = command.spawn();
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
        let mut children = Children::start(&sh("exec sleep 100"), 2, &[], &[]).unwrap();
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
        let mut children = Children::start(&sh("exit 3"), 1, &[], &[]).unwrap();
        let mut now = Instant::now();
        let mut starts = 0;
        let began = now;
        while now < began + Duration::from_secs(60) {
            let said = said_after(&mut children, now);
            assert!(said[0].contains("worker process") && said[0].contains('3'), "{said:?}");
            children.look_after(now, &mut |line| panic!("too early: {line}"));
            let State::Rests(until) = children.workers[0].state else { panic!("it does not rest") };
            assert!(until > now);
            now = until;
            let mut said = Vec::new();
            children.look_after(now, &mut |line| said.push(line.to_string()));
            assert!(matches!(&said[..], [line] if line.contains("restarted")), "{said:?}");
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
        let mut children = Children::start(&sh("exit 0"), 1, &[], &[]).unwrap();
        let now = Instant::now();
        let said = said_after(&mut children, now);
        assert!(matches!(&said[..], [line] if line.ends_with("exited")), "{said:?}");
        children.look_after(now + Duration::from_secs(3600), &mut |line| panic!("{line}"));
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let error = Children::start(&["/nowhere/gt".into()], 1, &[], &[]).err().expect("it started");
        assert!(format!("{error:#}").contains("/nowhere/gt"));
    }
}
