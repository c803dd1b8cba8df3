//! What observers see.

use serde::{Deserialize, Serialize};

use crate::core::Core;
use crate::session::{Link, Session};

/// Everything that `gt status` shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The server.
    pub server: ServerStatus,
    /// Its workers, by index.
    pub workers: Vec<WorkerStatus>,
    /// Its sessions, the oldest first.
    pub sessions: Vec<SessionStatus>,
}

/// The server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its version.
    pub version: String,
    /// Where it listens.
    pub addresses: Vec<String>,
    /// For how long it has run.
    pub uptime_s: f64,
    /// How often workers have joined and gone.
    pub generation: u64,
    /// How many sessions there may be.
    pub max_sessions: u64,
    /// Bytes of messages that wait or are kept, of all sessions.
    pub held_bytes: u64,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its name.
    pub id: String,
    /// Its place.
    pub index: u32,
    /// `connected`, or `away` while its lease lasts.
    pub state: String,
    /// What runs there.
    pub engine: String,
    /// With how many threads.
    pub threads: u32,
    /// How much it may allocate.
    pub memory_limit: u64,
    /// How much it holds.
    pub live_bytes: u64,
    /// The share of the time that it works, from 0 to 1.
    pub busy: f64,
    /// Instructions so far.
    pub instructions: u64,
    /// How many sessions live there.
    pub sessions: u64,
    /// Its host.
    pub host: String,
    /// For how long it has been here.
    pub age_s: f64,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Its number.
    pub id: u64,
    /// Who its client is.
    pub name: String,
    /// `connected`, or `away` while its lease lasts.
    pub state: String,
    /// The worker it lives on.
    pub home: Option<String>,
    /// All workers that it uses, its home included.
    pub workers: Vec<String>,
    /// For how long it has been there.
    pub age_s: f64,
    /// Instructions that have come.
    pub instructions_received: u64,
    /// Instructions that have run.
    pub instructions_executed: u64,
    /// Bytes of its messages that wait or are kept.
    pub held_bytes: u64,
}

impl Status {
    /// As one line of JSON.
    pub fn to_json(&self) -> String {
        // Plain fields of plain types cannot fail; if they did, an observer would see that nothing is known.
        serde_json::to_string(self).unwrap_or_else(|_| "{}".to_string())
    }

    /// Reads what [`Status::to_json`] wrote.
    ///
    /// # Errors
    /// When it is not that.
    pub fn from_json(json: &str) -> Result<Status, serde_json::Error> {
        serde_json::from_str(json)
    }
}

fn state(link: &Link) -> String {
    if link.is_up() { "connected" } else { "away" }.to_string()
}

impl Core {
    pub(crate) fn status(&self) -> Status {
        let now = self.clock.now();
        let age = |since| now.saturating_duration_since(since).as_secs_f64();
        Status {
            server: ServerStatus {
                version: env!("CARGO_PKG_VERSION").to_string(),
                addresses: self.addresses.clone(),
                uptime_s: age(self.started),
                generation: self.generation,
                max_sessions: self.config.max_sessions as u64,
                held_bytes: self.sessions.values().map(|session| session.backlog.held_bytes()).sum(),
            },
            workers: self
                .workers
                .values()
                .map(|worker| WorkerStatus {
                    id: worker.info.id.clone(),
                    index: worker.info.index,
                    state: state(&worker.link),
                    engine: worker.info.engine.clone(),
                    threads: worker.info.threads,
                    memory_limit: worker.info.memory_limit,
                    live_bytes: worker.load.live_bytes,
                    busy: worker.load.busy_permille as f64 / 1000.0,
                    instructions: worker.load.instructions,
                    sessions: worker.sessions.len() as u64,
                    host: worker.info.host.clone(),
                    age_s: age(worker.since),
                })
                .collect(),
            sessions: self
                .sessions
                .iter()
                .filter(|(_, session)| session.pinned.is_none())
                .map(|(id, session)| self.session_status(*id, session, age(session.since)))
                .collect(),
        }
    }

    /// A session with those that belong to it: one client, one line.
    fn session_status(&self, id: u64, session: &Session, age_s: f64) -> SessionStatus {
        let home_of = |session: &Session| {
            session.home.and_then(|index| self.workers.get(&index)).map(|home| (home.info.index, home.info.id.clone()))
        };
        let pinned = self.pinned_of(id);
        let all: Vec<&Session> =
            std::iter::once(session).chain(pinned.iter().filter_map(|id| self.sessions.get(id))).collect();
        let mut workers: Vec<(u32, String)> = all.iter().filter_map(|session| home_of(session)).collect();
        workers.sort();
        workers.dedup();
        SessionStatus {
            id,
            name: session.name.clone(),
            state: state(&session.link),
            home: home_of(session).map(|(_, name)| name),
            workers: workers.into_iter().map(|(_, name)| name).collect(),
            age_s,
            instructions_received: all.iter().map(|session| session.instrs_received).sum(),
            instructions_executed: all.iter().map(|session| session.instrs_executed).sum(),
            held_bytes: all.iter().map(|session| session.backlog.held_bytes()).sum(),
        }
    }
}
