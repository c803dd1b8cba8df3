//! How far a group has come: each worker counts messages of its own stream, the group counts windows.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::Remote;
use gt_client::link::{Link, Progress};

/// Windows of a group's stream that were handed over.
#[derive(Default)]
pub(super) struct Windows {
    sent: u64,
    /// For each window that may not have run: what each session must have run by then.
    running: VecDeque<Vec<(Weak<Remote>, u64)>>,
}

impl Windows {
    /// A window has just gone into the streams of these sessions, or of some of them.
    pub(super) fn sent(&mut self, links: &[Arc<Remote>]) {
        let mark = |link: &Arc<Remote>| {
            let Progress { sent, executed } = link.progress();
            (executed < sent).then(|| (Arc::downgrade(link), sent))
        };
        self.sent += 1;
        self.running.push_back(links.iter().filter_map(mark).collect());
    }

    /// How many there were, and how many have run. A session that is gone runs nothing any more.
    pub(super) fn progress(&mut self) -> Progress {
        let has_run =
            |(link, until): &(Weak<Remote>, u64)| link.upgrade().is_none_or(|link| link.progress().executed >= *until);
        while self.running.pop_front_if(|window| window.iter().all(has_run)).is_some() {}
        Progress { sent: self.sent, executed: self.sent - self.running.len() as u64 }
    }
}
