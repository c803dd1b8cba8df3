//! The sessions of a group: one on each worker that takes part, and what they know of each other.
//!
//! MEMBER-1: a number is a worker's place among those that the session saw when its first window was placed; whoever joins later
//! comes behind them. It stays that of the session which is opened there, whatever becomes of the worker.
//! MEMBER-2: every member is told of all others, in its stream, before the first window that needs them.
//! MEMBER-3: what a lost worker was to send is given up in every stream before anything that was placed without it.
//! MEMBER-4: a lost worker's session is closed, unless it is home: what was on its way there must not reach another worker.
//! Where it was, another session waits for a worker of that place as soon as a signal names it.
//! MEMBER-5: of two workers where one cannot reach the other, one is given up: the one that is out of reach, unless it is home. It
//! is not asked again as long as it is the same process at the same addresses.

use std::collections::BTreeSet;
use std::sync::Arc;

use gt_ir::Failure;
use gt_net::protocol::{Peer, Pin, StreamMessage, WorkerInfo};
use gt_net::{Secret, SessionKeys};
use gt_shard::{Layout, Mesh};
use parking_lot::Mutex;

use super::state::OutOfReach;
use super::{Dialer, Options, Remote};
use gt_client::link::WaitError;

/// All sessions that are open, home included: for those who need no more of a group.
pub(super) type Links = Arc<Mutex<Vec<Arc<Remote>>>>;

/// A worker of the group.
struct Member {
    name: String,
    /// Its place among the server's workers.
    index: u32,
    remote: Option<Arc<Remote>>,
    /// Where its session lives, while it does.
    at: Option<WorkerInfo>,
    epoch: u64,
    /// Whom it was told of.
    told: BTreeSet<u32>,
    /// Its session was ended, or could not be opened: it is not tried again.
    given_up: bool,
    /// The worker that was given up as it and another one are out of each other's reach (MEMBER-5).
    out_of_reach: Option<WorkerInfo>,
}

impl Member {
    fn new(worker: &WorkerInfo) -> Member {
        Member {
            name: worker.id.clone(),
            index: worker.index,
            remote: None,
            at: None,
            epoch: 0,
            told: BTreeSet::new(),
            given_up: false,
            out_of_reach: None,
        }
    }

    fn is_there(&self) -> bool {
        self.remote.is_some() && self.at.is_some()
    }
}

/// What has happened to a member.
pub(super) struct Loss {
    pub(super) number: u32,
    pub(super) worker: String,
    pub(super) reason: String,
}

/// A session that a worker needs, and how it is opened.
pub(super) struct Opening {
    number: u32,
    dialer: Arc<dyn Dialer>,
    options: Options,
}

/// That session, if it could be opened.
pub(super) struct Opened {
    number: u32,
    remote: Option<Remote>,
}

impl Opening {
    /// Opens it, which may take as long as opening a session may. No lock may be held meanwhile.
    ///
    /// # Errors
    /// When `cancel` says so.
    pub(super) fn open(self, cancel: &dyn Fn() -> bool) -> Result<Opened, WaitError> {
        match Remote::open_by(self.dialer, self.options, cancel) {
            Ok(remote) => Ok(Opened { number: self.number, remote: Some(remote) }),
            Err(WaitError::Failed(_)) => Ok(Opened { number: self.number, remote: None }),
            Err(WaitError::Interrupted) => Err(WaitError::Interrupted),
        }
    }
}

pub(super) struct Members {
    list: Vec<Member>,
    home: u32,
    dialer: Arc<dyn Dialer>,
    options: Options,
    on_news: Arc<dyn Fn() + Send + Sync>,
    epochs: u64,
    links: Links,
}

impl Members {
    /// Those of a session that has a home.
    pub(super) fn new(
        home: &Arc<Remote>,
        workers: &[WorkerInfo],
        links: Links,
        on_news: Arc<dyn Fn() + Send + Sync>,
    ) -> Option<Members> {
        let at = home.home()?;
        let number = workers.iter().position(|worker| worker.index == at.index)? as u32;
        let mut list: Vec<Member> = workers.iter().map(Member::new).collect();
        let member = list.get_mut(number as usize)?;
        (member.remote, member.at) = (Some(home.clone()), Some(at));
        let (dialer, options) = home.way();
        Some(Members { list, home: number, dialer, options, on_news, epochs: 0, links })
    }

    /// The number of the worker where everything is that no signal speaks of.
    pub(super) fn home(&self) -> u32 {
        self.home
    }

    /// A member's session, if it has a worker.
    pub(super) fn remote(&self, number: u32) -> Option<&Arc<Remote>> {
        let member = self.list.get(number as usize)?;
        member.remote.as_ref().filter(|_| member.is_there())
    }

    /// The names of all, by number.
    pub(super) fn names(&self) -> Vec<String> {
        self.list.iter().map(|member| member.name.clone()).collect()
    }

    /// What a layout is on the workers that are there.
    pub(super) fn present(&self, layout: Layout) -> Option<Layout> {
        let is_there = |number: &u32| self.list.get(*number as usize).is_some_and(Member::is_there);
        if layout.mesh.workers().iter().all(is_there) {
            return Some(layout);
        }
        let there: Vec<u32> = layout.mesh.workers().iter().copied().filter(is_there).collect();
        // A grid with a hole is none.
        let is_row = layout.mesh.extents().len() == 1 && !there.is_empty();
        is_row.then(|| Layout { mesh: Mesh::row(&there), ..layout })
    }

    /// Workers that the session has been told of: those that are new come last (MEMBER-1).
    fn grow(&mut self) {
        let Some(home) = self.list.get(self.home as usize).and_then(|home| home.remote.clone()) else { return };
        for worker in home.known_workers() {
            if self.list.iter().all(|member| member.index != worker.index) {
                self.list.push(Member::new(&worker));
            }
        }
    }

    /// Whether there is a session for every worker that can have one.
    pub(super) fn is_complete(&self) -> bool {
        self.list.iter().all(|member| !self.needs_session(member))
    }

    fn needs_session(&self, member: &Member) -> bool {
        member.remote.is_none() && !member.given_up && !self.is_out_of_reach(member)
    }

    /// The sessions that these workers need and do not have. Each is to be opened without the lock that these members are under,
    /// and [admitted](Members::admit) then.
    pub(super) fn missing(&self, numbers: impl IntoIterator<Item = u32>) -> Vec<Opening> {
        let home = self.list.get(self.home as usize).and_then(|home| home.remote.as_ref());
        let Some((home, secret)) = home.and_then(|home| home.session()) else { return Vec::new() };
        let mut missing: Vec<Opening> = Vec::new();
        for number in numbers {
            let Some(member) = self.list.get(number as usize) else { continue };
            if self.needs_session(member) && missing.iter().all(|other| other.number != number) {
                let pin = Some(Pin { worker: member.index, home, secret: secret.clone() });
                let options = Options { workers: 1, pin, idle: Arc::new(|| false), ..self.options.clone() };
                missing.push(Opening { number, dialer: self.dialer.clone(), options });
            }
        }
        missing
    }

    /// Takes in sessions that were opened, and tells all of them of the others (MEMBER-2).
    pub(super) fn admit(&mut self, opened: Vec<Opened>) {
        for Opened { number, remote } in opened {
            self.epochs += 1;
            let Some(member) = self.list.get_mut(number as usize) else { continue };
            match remote {
                // Another thread was quicker; this one is closed when it is dropped.
                Some(_) if member.remote.is_some() => {}
                Some(remote) => {
                    let on_news = self.on_news.clone();
                    remote.on_news(Box::new(move || on_news()));
                    let remote = Arc::new(remote);
                    member.epoch = self.epochs;
                    member.at = remote.home();
                    member.told.clear();
                    member.remote = Some(remote);
                }
                None => member.given_up |= member.remote.is_none(),
            }
        }
        self.note_links();
        self.introduce();
    }

    /// MEMBER-5.
    fn is_out_of_reach(&self, member: &Member) -> bool {
        let home = self.list.get(self.home as usize).and_then(|home| home.remote.as_ref());
        member.out_of_reach.as_ref().is_some_and(|given_up| {
            home.is_some_and(|home| home.known_workers().iter().any(|worker| worker == given_up))
        })
    }

    fn note_links(&self) {
        *self.links.lock() = self.list.iter().filter_map(|member| member.remote.clone()).collect();
    }

    /// Tells every member of the others.
    fn introduce(&mut self) {
        let peer = |(number, member): (usize, &Member)| {
            let remote = member.remote.as_ref()?;
            let (session, secret) = remote.session()?;
            let key = SessionKeys::of_session(&Secret::from_bytes(&secret)).peer.as_bytes().into();
            Some(Peer { number: number as u32, epoch: member.epoch, worker: member.at.clone()?, session, key })
        };
        let all: Vec<Peer> = self.list.iter().enumerate().filter_map(peer).collect();
        for (own, member) in (0u32..).zip(&mut self.list) {
            let Some(remote) = member.remote.as_ref().filter(|_| member.at.is_some()) else { continue };
            let peers: Vec<Peer> = all.iter().filter(|peer| peer.number != own).cloned().collect();
            member.told = peers.iter().map(|peer| peer.number).collect();
            remote.say(&StreamMessage::Peers { own, epoch: member.epoch, peers });
        }
    }

    /// What members have lost since this was last asked.
    pub(super) fn losses(&mut self) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (number, member) in (0u32..).zip(&mut self.list) {
            let Some(remote) = &member.remote else { continue };
            let lost = remote.take_losses();
            if let (true, Some(why)) = (lost.is_empty() && number != self.home, remote.ended()) {
                member.given_up = true;
                losses.push(Loss { number, worker: member.name.clone(), reason: why.message });
            }
            losses.extend(lost.into_iter().map(|(worker, reason)| Loss { number, worker, reason }));
        }
        self.lose_those_out_of_reach(&mut losses);
        losses
    }

    /// MEMBER-5.
    fn lose_those_out_of_reach(&mut self, losses: &mut Vec<Loss>) {
        let mut reports: Vec<(u32, OutOfReach)> = Vec::new();
        for (from, member) in (0u32..).zip(&self.list) {
            let told = member.remote.iter().flat_map(|remote| remote.take_out_of_reach());
            reports.extend(told.map(|report| (from, report)));
        }
        for (from, OutOfReach { number, epoch, reason }) in reports {
            let is_lost = |which: u32| losses.iter().any(|loss| loss.number == which);
            let is_known = self.list.get(number as usize).is_some_and(|to| to.epoch == epoch && to.is_there());
            if !is_known || is_lost(from) || is_lost(number) {
                continue;
            }
            let lost = if number == self.home { from } else { number };
            let reporter = self.list[from as usize].name.clone();
            let Some(member) = self.list.get_mut(lost as usize) else { continue };
            member.out_of_reach.clone_from(&member.at);
            let reason = format!("{reporter} reports: {reason}");
            losses.push(Loss { number: lost, worker: member.name.clone(), reason });
        }
    }

    /// Gives a member up, and says so to the others (MEMBER-3, MEMBER-4).
    pub(super) fn lose(&mut self, number: u32, failure: &Failure) {
        self.epochs += 1;
        for member in &mut self.list {
            if let Some(remote) = member.remote.as_ref().filter(|_| member.told.remove(&number)) {
                remote.say(&StreamMessage::Abandon { from: number, failure: failure.clone() });
            }
        }
        let (epoch, is_home) = (self.epochs, number == self.home);
        let Some(member) = self.list.get_mut(number as usize) else { return };
        member.at = None;
        member.epoch = epoch;
        member.told.clear();
        if !is_home && let Some(remote) = member.remote.take() {
            remote.close();
        }
        self.note_links();
    }

    /// Looks where the members live now, and tells them if that has changed; whether it has.
    pub(super) fn refresh(&mut self) -> bool {
        self.grow();
        let mut changed = false;
        for member in &mut self.list {
            let at = member.remote.as_ref().and_then(|remote| remote.home());
            if at != member.at {
                member.at = at;
                changed = true;
            }
        }
        if changed {
            self.introduce();
        }
        changed
    }
}
