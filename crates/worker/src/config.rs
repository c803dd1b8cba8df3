//! How a worker and its sessions behave.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gt_ir::{Failure, SiteId};
use gt_observe::InstructionLog;

/// When a plan is compiled: made again with everything left out that nobody can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompilePolicy {
    /// Never.
    Never,
    /// At first sight.
    Always,
    /// Once a window has come again this often.
    AfterRepeats(u64),
}

/// Turns an interned source line into `file:line`.
pub type SiteNames = Arc<dyn Fn(SiteId) -> String + Send + Sync>;

/// The settings of one worker, fixed when it starts.
#[derive(Clone)]
pub struct WorkerConfig {
    /// Its name in failures, logs and statistics: `worker_0`.
    pub name: String,
    /// How many plans are kept, for all sessions together.
    pub cached_plans: usize,
    /// The instruction log, if there is one.
    pub log: Option<Arc<InstructionLog>>,
    /// Whether `[WORKER]` lines are printed.
    pub debug: bool,
    /// Whether `[COMPILE]` lines are printed.
    pub debug_compile: bool,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        let name = "worker_0".to_string();
        WorkerConfig { name, cached_plans: 512, log: None, debug: false, debug_compile: false }
    }
}

impl fmt::Debug for WorkerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerConfig").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The settings of one session, fixed when it is opened. They hold for it alone.
#[derive(Clone)]
pub struct SessionConfig {
    /// Whose it is, as logs say it.
    pub name: String,
    /// Whether instructions are grouped into fused steps.
    pub fusion: bool,
    /// When plans are compiled.
    pub compile: CompilePolicy,
    /// Windows that came more often than this count as hot.
    pub hotpath_threshold: u64,
    /// Instructions that may be sent and not yet run before a sender waits.
    pub credits_instrs: usize,
    /// Upload bytes that may be sent and not yet run before a sender waits.
    pub credits_bytes: usize,
    /// The most instructions of one plan; longer windows are split.
    pub batch_limit: Option<usize>,
    /// The most bytes its values and running plans may take; what would go over it fails. Without one, its memory is
    /// not counted apart from the worker's.
    pub memory_limit_bytes: Option<u64>,
    /// Names for source lines in the log.
    pub site_names: Option<SiteNames>,
    /// Whether denormal numbers are zeros. It may change while the session lives, and holds for the windows that run then.
    pub flush_denormal: Arc<AtomicBool>,
    /// Set when the session had values elsewhere that are gone: what a value is that is not here.
    pub lost: Option<Arc<Failure>>,
}

impl Default for SessionConfig {
    fn default() -> Self {
        SessionConfig {
            name: "embedded".to_string(),
            fusion: true,
            compile: CompilePolicy::AfterRepeats(5),
            hotpath_threshold: 5,
            credits_instrs: 65_536,
            credits_bytes: 256 << 20,
            batch_limit: None,
            memory_limit_bytes: None,
            flush_denormal: Arc::default(),
            site_names: None,
            lost: None,
        }
    }
}

impl SessionConfig {
    /// A number that differs where plans do: sessions that agree in it share them.
    pub(crate) fn plan_variant(&self) -> u128 {
        let compile = match self.compile {
            CompilePolicy::Never => 0,
            CompilePolicy::Always => 1,
            CompilePolicy::AfterRepeats(n) => n as u128 + 2,
        };
        compile << 1 | self.fusion as u128
    }
}

impl fmt::Debug for SessionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("SessionConfig");
        fields.field("name", &self.name).field("compile", &self.compile).finish_non_exhaustive()
    }
}
