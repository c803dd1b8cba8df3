//! The variables a session is started with. Read once, at the first op; a value that does not parse is an error.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gt_client::{Error, LoopOptions, Result};
use gt_observe::output::PLAN_WORKERS;
use gt_observe::{Component, Debug, log_path};
use gt_worker::{CompilePolicy, SessionConfig};

use crate::backends::{AUTO, Backend};
use crate::variables::{self, Lookup, count, flag, memory, text};
use crate::{denormal, memory_limit};

/// What `gt plan` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// `GT_PLAN_WORKERS`: so many workers, whatever the program asks for.
    pub workers: usize,
    /// `GT_PLAN_EXPLAIN`: every instruction is told, not only what travels.
    pub explain: bool,
}

/// When plans are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compile {
    /// What repeats.
    Auto,
    /// Every window at first sight.
    Always,
    /// Nothing. Windows are fused all the same.
    Never,
    /// Op by op: no fusion, no templates.
    Off,
}

/// The settings of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `GT_BACKEND`.
    pub backend: &'static Backend,
    /// The user named the backend.
    pub backend_is_chosen: bool,
    /// `GT_COMPILE` and `GT_AUTO_COMPILE`.
    pub compile: Compile,
    /// `GT_CLIENT_BATCH_SIZE`.
    pub client_batch_size: Option<usize>,
    /// `GT_BLOCKING`.
    pub blocking: bool,
    /// `GT_WORKER_BATCH_SIZE`.
    pub worker_batch_size: Option<usize>,
    /// `GT_HOTPATH_THRESHOLD`.
    pub hotpath_threshold: u64,
    /// `GT_HOTPATH_MIN_SEQ`.
    pub hotpath_min_seq: usize,
    /// `GT_HOTPATH_MAX_EXPAND`.
    pub hotpath_max_expand: usize,
    /// `GT_NUM_THREADS`.
    pub threads: Option<usize>,
    /// `GT_MEMORY_LIMIT`, in bytes.
    pub memory_limit: u64,
    /// `GT_INSTRUCTION_LOG`, with what its `%` stand for.
    pub instruction_log: Option<PathBuf>,
    /// `GT_VERBOSE`.
    pub verbose: bool,
    /// `GT_DEBUG_CLIENT`.
    pub debug_client: bool,
    /// `GT_DEBUG_DISPATCHER`.
    pub debug_dispatcher: bool,
    /// `GT_DEBUG_WORKER`.
    pub debug_worker: bool,
    /// `GT_DEBUG_COMPILE`.
    pub debug_compile: bool,
    /// `GT_ADDRESS`.
    pub address: Option<String>,
    /// `GT_TOKEN`.
    pub token: Option<String>,
    /// `GT_CONFIG`.
    pub signals: Option<PathBuf>,
    /// `GT_STRICT_CONFIG`.
    pub strict_config: bool,
    /// `GT_AUTO_SHARD`.
    pub auto_shard: bool,
    /// `GT_FLUSH_DENORMAL`.
    pub flush_denormal: bool,
    /// `GT_DATA_ON_WORKERS`.
    pub data_on_workers: bool,
    /// The program is not run but planned.
    pub plan: Option<PlanRequest>,
}

/// A variable of this process, or what a call put in its place.
pub(crate) fn variable(name: &str) -> Option<String> {
    let asked = denormal::asked().filter(|_| name == denormal::VARIABLE);
    asked.map(|on| u8::from(on).to_string()).or_else(|| std::env::var(name).ok())
}

/// How a worker runs a session with these variables.
///
/// # Errors
/// When one does not parse; the text names it.
pub fn session_config(variables: &[(String, String)]) -> Result<SessionConfig, String> {
    let get = |name: &str| variables.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
    Config::read(&get).map(|config| config.session()).map_err(|e| e.to_string())
}

impl Config {
    /// The settings of this process's environment.
    ///
    /// # Errors
    /// When a variable does not parse; the error names it.
    pub fn from_env() -> Result<Config> {
        Config::read(&variable)
    }

    /// As [`Config::from_env`], for the first op: warns of variables that mean nothing.
    ///
    /// # Errors
    /// Also when a filter makes an error of the warning.
    pub(crate) fn at_first_op() -> Result<Config> {
        let config = Config::from_env()?;
        variables::variable_warnings().into_iter().try_for_each(|(_, said)| gt_client::warn_once(said))?;
        Ok(config)
    }

    pub(crate) fn read(get: Lookup<'_>) -> Result<Config> {
        variables::check(get)?;
        let asked = text(get, "GT_BACKEND");
        let name = asked.as_deref().unwrap_or(AUTO);
        let backend = Backend::named(name).map_err(|e| Error::Value(format!("GT_BACKEND={name}: {e}")))?;
        let plan = match count(get, PLAN_WORKERS)? {
            Some(workers) => Some(PlanRequest { workers, explain: flag(get, "GT_PLAN_EXPLAIN")?.unwrap_or(false) }),
            None => None,
        };
        let backend = if plan.is_some() { Backend::null() } else { backend };
        let auto = flag(get, "GT_AUTO_COMPILE")?;
        let compile = match (flag(get, "GT_COMPILE")?, auto) {
            (Some(true), _) => Compile::Always,
            (Some(false), Some(true)) => Compile::Auto,
            (Some(false), _) => Compile::Off,
            (None, Some(false)) => Compile::Never,
            (None, _) => Compile::Auto,
        };
        let memory_limit = memory(get, "GT_MEMORY_LIMIT")?.unwrap_or_else(|| memory_limit::available() / 10 * 9);
        Ok(Config {
            backend,
            backend_is_chosen: !matches!(asked.as_deref(), None | Some("auto")),
            compile,
            client_batch_size: count(get, "GT_CLIENT_BATCH_SIZE")?,
            blocking: flag(get, "GT_BLOCKING")?.unwrap_or(false),
            worker_batch_size: count(get, "GT_WORKER_BATCH_SIZE")?,
            hotpath_threshold: count(get, "GT_HOTPATH_THRESHOLD")?.unwrap_or(5) as u64,
            hotpath_min_seq: count(get, "GT_HOTPATH_MIN_SEQ")?.unwrap_or(3),
            hotpath_max_expand: count(get, "GT_HOTPATH_MAX_EXPAND")?.unwrap_or(4),
            threads: count(get, "GT_NUM_THREADS")?,
            memory_limit,
            instruction_log: text(get, "GT_INSTRUCTION_LOG")
                .map(|name| log_path(&name).map_err(|why| Error::Value(format!("GT_INSTRUCTION_LOG={name:?}: {why}"))))
                .transpose()?,
            verbose: flag(get, "GT_VERBOSE")?.unwrap_or(false),
            debug_client: flag(get, "GT_DEBUG_CLIENT")?.unwrap_or(false),
            debug_dispatcher: flag(get, "GT_DEBUG_DISPATCHER")?.unwrap_or(false),
            debug_worker: flag(get, "GT_DEBUG_WORKER")?.unwrap_or(false),
            debug_compile: flag(get, "GT_DEBUG_COMPILE")?.unwrap_or(false),
            address: text(get, "GT_ADDRESS"),
            token: text(get, "GT_TOKEN"),
            signals: text(get, "GT_CONFIG").map(PathBuf::from),
            strict_config: flag(get, "GT_STRICT_CONFIG")?.unwrap_or(false),
            auto_shard: flag(get, "GT_AUTO_SHARD")?.unwrap_or(false),
            flush_denormal: flag(get, denormal::VARIABLE)?.unwrap_or(false),
            data_on_workers: flag(get, "GT_DATA_ON_WORKERS")?.unwrap_or(true),
            plan,
        })
    }

    /// How a worker runs a session with these settings.
    pub(crate) fn session(&self) -> SessionConfig {
        SessionConfig {
            fusion: self.compile != Compile::Off,
            compile: match self.compile {
                Compile::Off | Compile::Never => CompilePolicy::Never,
                Compile::Always => CompilePolicy::Always,
                Compile::Auto => CompilePolicy::AfterRepeats(self.hotpath_threshold),
            },
            hotpath_threshold: self.hotpath_threshold,
            batch_limit: self.worker_batch_size,
            flush_denormal: Arc::new(AtomicBool::new(self.flush_denormal)),
            ..SessionConfig::default()
        }
    }

    /// After how many repeats the windows of a stretch are joined. `pays` says whether that is worth it here.
    pub(crate) fn join_after(&self, pays: bool) -> Option<u64> {
        match self.compile {
            // What is waited for is sent early.
            _ if self.blocking => None,
            Compile::Off | Compile::Never => None,
            Compile::Always => Some(1),
            Compile::Auto => pays.then_some(self.hotpath_threshold),
        }
    }

    /// Which loops without reads are cut where an iteration ends, and when their windows are joined.
    pub(crate) fn loops(&self) -> Option<LoopOptions> {
        let join_after = match self.compile {
            _ if self.blocking => return None,
            Compile::Off | Compile::Never => return None,
            Compile::Always => 1,
            Compile::Auto => self.hotpath_threshold,
        };
        Some(LoopOptions { shortest: self.hotpath_min_seq, join_after, joined: self.hotpath_max_expand })
    }

    /// Prints what a dispatcher in this process does, if that is wanted.
    pub fn dispatcher_debug(&self) -> Debug {
        Debug::new(Component::Dispatcher, self.debug_dispatcher)
    }

    /// Prints what lanes do, if that is wanted.
    pub(crate) fn client_debug(&self) -> Option<fn(&str)> {
        self.debug_client.then_some(|line: &str| Debug::new(Component::Client, true).print(|| line.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)]) -> Result<Config> {
        Config::read(&|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
    }

    #[test]
    fn defaults_are_automatic() {
        let c = read(&[]).unwrap();
        assert_eq!((c.backend, c.compile, c.hotpath_threshold), (Backend::named("cpu").unwrap(), Compile::Auto, 5));
    }

    #[test]
    fn an_explicit_auto_compile_wins_over_compile_off() {
        assert_eq!(read(&[("GT_COMPILE", "0")]).unwrap().compile, Compile::Off);
        assert_eq!(read(&[("GT_COMPILE", "0"), ("GT_AUTO_COMPILE", "1")]).unwrap().compile, Compile::Auto);
    }

    #[test]
    fn a_wrong_value_names_its_variable() {
        for (name, value) in [
            ("GT_BACKEND", "gpu"),
            ("GT_CLIENT_BATCH_SIZE", "0"),
            ("GT_CLIENT_BATCH_SIZE", "many"),
            ("GT_COMPILE", "maybe"),
            ("GT_NUM_THREADS", "-1"),
            ("GT_MEMORY_LIMIT", "lots"),
            ("GT_VERBOSE", "2"),
            ("GT_DEBUG_CLIENT", "x"),
            ("GT_DEBUG_DISPATCHER", "x"),
            ("GT_DEBUG_WORKER", "x"),
            ("GT_STRICT_CONFIG", "x"),
            ("GT_AUTO_SHARD", "2"),
            ("GT_BLOCKING", "x"),
            ("GT_INSTRUCTION_LOG", "gt-%d.log"),
            ("GT_VERIFY_REPLAY", "zzz"),
            ("GT_HOTPATH_MIN_SEQ", "zzz"),
            ("GT_HOTPATH_MAX_EXPAND", "0"),
            ("GT_INSTRUCTION_LOG_FULL", "2"),
        ] {
            let message = read(&[(name, value)]).unwrap_err().to_string();
            assert!(message.contains(name) && message.contains(value), "{message}");
        }
    }
}
