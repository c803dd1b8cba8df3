//! A session with a server, and what the instruction log says of it.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gt_client::link::{Link, Progress, WaitError, WantedLoader, WorkerLoader};
use gt_client::{Error, Result};
use gt_ir::{FailureKind, HostTensor, TensorId};
use gt_observe::{Event, InstructionLog, output};
use gt_remote::ShardedSession;
use gt_stream::Occurrence;
use gt_worker::{Journal, SessionConfig};
use parking_lot::Mutex;

use crate::config::Config;
use crate::server::ConnectOptions;

/// The log of this process, if it has one: sessions that follow each other write to the same. None under `gt plan`.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn instruction_log(config: &Config) -> Result<Option<Arc<InstructionLog>>> {
    static LOG: Mutex<Option<(PathBuf, Arc<InstructionLog>)>> = Mutex::new(None);
    let Some(path) = config.instruction_log.as_ref().filter(|path| output::may_write(path)) else { return Ok(None) };
    let mut log = LOG.lock();
    if let Some((_, log)) = log.as_ref().filter(|(at, _)| at == path) {
        return Ok(Some(log.clone()));
    }
    let created = InstructionLog::create(path)
        .map_err(|e| Error::Value(format!("cannot write GT_INSTRUCTION_LOG={:?}: {e}", path.display().to_string())))?;
    let created = Arc::new(created);
    *log = Some((path.clone(), created.clone()));
    Ok(Some(created))
}

/// A session with a server.
pub(crate) struct Connected {
    group: ShardedSession,
    /// How its server was reached.
    pub(crate) reached: (String, ConnectOptions),
    log: Option<Lines>,
    /// Somebody heard that a worker or the server is gone, or gave up waiting for one.
    has_told_loss: AtomicBool,
}

/// What is logged.
struct Lines {
    log: Arc<InstructionLog>,
    journal: Journal,
    server: String,
    has_left: AtomicBool,
}

impl Connected {
    /// One that has just been opened with the server at `server`.
    pub(crate) fn new(
        group: ShardedSession,
        server: &str,
        reached: (String, ConnectOptions),
        log: Option<Arc<InstructionLog>>,
    ) -> Connected {
        let log = log.map(|log| {
            let name = format!("process-{}", std::process::id());
            let site_names = Some(Arc::new(|id| gt_client::site::name(id).unwrap_or_default()) as _);
            let config = SessionConfig { name, site_names, ..SessionConfig::default() };
            let workers = Link::workers(&group).join(",");
            log.write(Event::Connect, &format!("SERVER:{server}"), "Hello", 0, format_args!("workers={workers}"));
            let journal = Journal::new(log.clone(), &home(&group), &config);
            Lines { log, journal, server: server.to_string(), has_left: AtomicBool::new(false) }
        });
        Connected { group, reached, log, has_told_loss: AtomicBool::new(false) }
    }

    /// Ends the session.
    pub(crate) fn close(&self) {
        self.group.close();
        if let Some(lines) = self.log.as_ref().filter(|lines| !lines.has_left.swap(true, Ordering::AcqRel)) {
            lines.log.write(Event::Disconnect, &format!("SERVER:{}", lines.server), "Goodbye", 0, "");
            lines.journal.flush();
        }
    }

    /// Whether the program knows that there is nobody who runs what it records.
    pub(crate) fn has_told_loss(&self) -> bool {
        self.has_told_loss.load(Ordering::Acquire)
    }

    /// Waits are where a program may be stopped, and a log should tell what came before.
    fn waited<T>(&self, result: Result<T, WaitError>) -> Result<T, WaitError> {
        let tells_loss = match &result {
            Err(WaitError::Failed(failure)) => failure.kind == FailureKind::WorkerLost,
            Err(WaitError::Interrupted) => !self.group.has_worker(),
            Ok(_) => false,
        };
        if tells_loss {
            self.has_told_loss.store(true, Ordering::Release);
        }
        if let Some(lines) = &self.log {
            if let Err(WaitError::Failed(failure)) = &result {
                lines.journal.error(failure);
            }
            lines.journal.flush();
        }
        result
    }
}

/// One word, whether there is a worker or not.
fn home(group: &ShardedSession) -> String {
    group.home_name().unwrap_or_else(|| "none".to_string())
}

impl Deref for Connected {
    type Target = ShardedSession;
    fn deref(&self) -> &ShardedSession {
        &self.group
    }
}

impl Link for Connected {
    fn send(&self, window: Occurrence, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        if let Some(lines) = &self.log {
            let spelled = window.window();
            lines.journal.received(&spelled);
            lines.journal.passed_on(&spelled, &home(&self.group));
        }
        self.group.send(window, cancel)
    }

    fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        let read = self.group.read(id, cancel);
        if let (Some(lines), Ok(value)) = (&self.log, &read) {
            lines.journal.came_back(id, value.bytes.len(), &home(&self.group));
            lines.journal.sent(id, value.bytes.len());
        }
        self.waited(read)
    }

    fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        self.waited(self.group.synchronize(cancel))
    }

    fn wake(&self) {
        self.group.wake();
    }

    fn close(&self) {
        Connected::close(self);
    }

    fn is_full(&self) -> bool {
        self.group.is_full()
    }

    fn progress(&self) -> Progress {
        self.group.progress()
    }

    fn workers(&self) -> Vec<String> {
        Link::workers(&self.group)
    }

    fn lends(&self) -> bool {
        self.group.lends()
    }

    fn lend(&self, id: TensorId, bytes: &[u8], cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        self.group.lend(id, bytes, cancel)
    }

    fn open_loader(
        &self,
        wanted: &WantedLoader<'_>,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Option<Box<dyn WorkerLoader>>, WaitError> {
        self.group.open_loader(wanted, cancel)
    }
}
