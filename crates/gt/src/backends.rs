//! The engines that GT computes with. To add one: write its crate, depend on it, and add its row to [`BACKENDS`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gt_client::{Error, Result};
use gt_engine_cpu::affinity::CoreAffinity;
use gt_engine_cpu::{Config, CpuEngine};
use gt_worker::{WorkerConfig, WorkerHandle};

use crate::threads::Adjustable;

/// An engine that a worker can compute with.
///
/// ```
/// let cpu = gt::Backend::named("cpu")?;
/// assert_eq!(gt::Backend::named("auto")?, cpu);
/// assert!(gt::Backend::named("cuda").is_err());
/// # Ok::<(), gt::Error>(())
/// ```
pub struct Backend {
    /// What users call it.
    pub name: &'static str,
    /// What it is, for `gt worker --help`.
    pub about: &'static str,
    /// Whether users may choose it. Otherwise it is for GT's own tools.
    pub is_public: bool,
    /// Whether its threads and its memory limit may change while it runs.
    pub(crate) is_adjustable: bool,
    /// Starts a worker with it. None where this build has no such engine.
    start: Option<fn(Resources, WorkerConfig) -> WorkerHandle>,
}

/// What an engine may take of its host.
pub(crate) struct Resources {
    pub(crate) threads: Arc<AtomicUsize>,
    pub(crate) memory_limit_bytes: Arc<AtomicU64>,
    /// Which core the device thread keeps off; it enrols.
    pub(crate) affinity: Arc<CoreAffinity>,
    /// The threads that bring it messages, if those are not the recorder's.
    pub(crate) messengers: Option<Arc<CoreAffinity>>,
}

/// What users may name to leave the choice to GT.
pub const AUTO: &str = "auto";

/// Every engine. `auto` is the first that this build has.
pub const BACKENDS: &[Backend] = &[
    Backend { name: "cpu", about: "CPU of this machine", is_public: true, is_adjustable: true, start: Some(start_cpu) },
    Backend {
        name: "cuda",
        about: "CUDA device; not available in this build",
        is_public: true,
        is_adjustable: false,
        start: None,
    },
    Backend {
        name: "reference",
        about: "Slow engine that defines the result of every operation",
        is_public: true,
        is_adjustable: false,
        start: Some(|host, worker| {
            let limit = host.memory_limit_bytes.load(Ordering::Relaxed);
            WorkerHandle::spawn(move || gt_engine_check::Reference::with_limit(limit), worker)
        }),
    },
    Backend {
        name: "null",
        about: "Engine that computes nothing: every value reads as zeros",
        is_public: false,
        is_adjustable: false,
        start: Some(|_, worker| WorkerHandle::spawn(|| gt_engine_check::Null, worker)),
    },
];

fn start_cpu(host: Resources, worker: WorkerConfig) -> WorkerHandle {
    let Resources { threads, memory_limit_bytes, affinity, messengers } = host;
    let make = move || {
        let config = Config {
            threads: threads.load(Ordering::Relaxed),
            memory_limit_bytes: memory_limit_bytes.load(Ordering::Relaxed),
        };
        let mut engine = CpuEngine::new(config).limited_by(memory_limit_bytes);
        if let Some(messengers) = messengers {
            engine = engine.with_messengers(messengers);
        }
        affinity.enrol();
        Adjustable { engine, threads }
    };
    WorkerHandle::spawn(make, worker)
}

impl Backend {
    /// The engine that a user named, or that `auto` stands for.
    ///
    /// # Errors
    /// When there is none of that name, or this build has no such engine.
    pub fn named(name: &str) -> Result<&'static Backend> {
        let wanted = |backend: &&Backend| match name {
            AUTO => backend.start.is_some(),
            name => backend.is_public && backend.name == name,
        };
        let choices = || {
            let there = BACKENDS.iter().filter(|backend| backend.is_public && backend.start.is_some());
            let names: Vec<&str> = std::iter::once(AUTO).chain(there.map(|backend| backend.name)).collect();
            let (last, others) = names.split_last().expect("there is `auto`");
            format!("{} or {last}", others.join(", "))
        };
        match BACKENDS.iter().find(wanted) {
            None => Err(Error::Value(format!("unknown engine {name:?}; use {}", choices()))),
            Some(Backend { start: None, .. }) => {
                Err(Error::Value(format!("this build of GT has no {} engine; use {}", name.to_uppercase(), choices())))
            }
            Some(backend) => Ok(backend),
        }
    }

    /// The engine for programs whose values do not matter.
    pub(crate) fn null() -> &'static Backend {
        BACKENDS.iter().find(|backend| backend.name == "null").expect("it is in the table")
    }

    /// What users may name.
    pub fn choices() -> impl Iterator<Item = &'static str> {
        let public = BACKENDS.iter().filter(|backend| backend.is_public).map(|backend| backend.name);
        std::iter::once(AUTO).chain(public)
    }

    /// Starts a worker with this engine.
    pub(crate) fn start(&self, host: Resources, worker: WorkerConfig) -> WorkerHandle {
        let start = self.start.expect("`Backend::named` gives engines that this build has");
        start(host, worker)
    }
}

impl PartialEq for Backend {
    fn eq(&self, other: &Backend) -> bool {
        self.name == other.name
    }
}

impl Eq for Backend {}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn names_and_choices_come_from_the_table() {
        assert_eq!(Backend::choices().collect::<Vec<_>>(), ["auto", "cpu", "cuda", "reference"]);
        assert_eq!(Backend::named("auto").unwrap().name, "cpu");
        let said = |name| Backend::named(name).unwrap_err().to_string();
        assert_eq!(said("cuda"), "this build of GT has no CUDA engine; use auto, cpu or reference");
        assert_eq!(said("null"), "unknown engine \"null\"; use auto, cpu or reference");
    }

    #[test]
    fn every_engine_of_this_build_starts() {
        for backend in BACKENDS.iter().filter(|backend| backend.start.is_some()) {
            let host = Resources {
                threads: Arc::new(AtomicUsize::new(1)),
                memory_limit_bytes: Arc::new(AtomicU64::new(1 << 24)),
                affinity: Arc::default(),
                messengers: None,
            };
            let worker = backend.start(host, WorkerConfig::default());
            let deadline = Instant::now() + Duration::from_secs(20);
            while worker.stats().engine.is_empty() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(worker.stats().engine, backend.name);
        }
    }
}
