//! `gt worker`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use gt_worker::serve::ServeConfig;
use rustix::process::Signal;

use crate::ending::Ending;
use crate::reach::ReachArgs;
use crate::size;

/// How long what was sent may take to run once the worker is to end.
const DRAIN: Duration = Duration::from_secs(4);
/// How often signals are looked for.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// The fastest there is.
    Auto,
    /// This machine's processors.
    Cpu,
    /// A CUDA device.
    Cuda,
    /// The slow engine that defines every op.
    Reference,
}

impl Backend {
    fn engine(self) -> anyhow::Result<gt::Backend> {
        match self {
            Backend::Auto | Backend::Cpu => Ok(gt::Backend::Cpu),
            Backend::Reference => Ok(gt::Backend::Reference),
            Backend::Cuda => bail!("--backend cuda: this build of GT has no CUDA engine; use auto, cpu or reference"),
        }
    }
}

/// Serve a device of this machine to a server.
///
/// The worker joins the server, runs the sessions that are placed on it, and joins again when the connection was lost. It may
/// be started before the server. Ctrl-C or SIGTERM ends it: what runs is finished, its sessions are told; a second
/// Ctrl-C ends it at once.
///
/// Examples:
///   gt worker                                  the server on this machine, at port 9000
///   gt worker --host 10.0.0.1 --listen 0.0.0.0 --token-file gt.token
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    reach: ReachArgs,

    /// The worker's name. The server gives it one otherwise: worker_0, worker_1, …
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    id: String,

    /// What computes.
    #[arg(long, env = "GT_BACKEND", value_enum, default_value_t = Backend::Auto)]
    backend: Backend,

    /// How many threads compute. As many as there are cores otherwise.
    #[arg(long, env = "GT_NUM_THREADS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,

    /// How much the worker may allocate: 4GiB, 500MB or 50%. 90% of what there is otherwise.
    #[arg(long, env = "GT_MEMORY_LIMIT", value_name = "SIZE")]
    memory_limit: Option<String>,

    /// The host name or address to listen at for clients and workers of other machines. Those of this machine need none.
    #[arg(long, value_name = "HOST")]
    listen: Option<String>,

    /// The name or address that others reach --listen by, where that is not the one this machine knows.
    #[arg(long, value_name = "HOST", requires = "listen")]
    advertise: Option<String>,

    /// The process that started it: the worker ends with it.
    #[arg(long, hide = true)]
    parent: Option<i32>,
}

pub(crate) fn run(args: WorkerArgs) -> anyhow::Result<()> {
    let mut signals = Ending::signals()?;
    let ending = Ending::prepare()?;
    if let Some(parent) = args.parent {
        end_with(parent)?;
    }
    let device = gt::Device {
        backend: args.backend.engine()?,
        threads: args.threads.map(|n| n as usize),
        memory_limit: args.memory_limit,
        debug: gt::Config::from_env()?.debug_worker,
    };
    let mut config = ServeConfig::new(args.reach.tcp(), Arc::new(gt::session_config));
    config.unix = args.reach.unix();
    config.token = args.reach.token()?;
    config.server_tls = args.reach.tls()?;
    config.id = args.id;
    config.listen_host = args.listen;
    config.advertised_host = args.advertise;
    let service = gt::serve(&device, config)?;
    let info = service.info();
    eprintln!(
        "gt worker {} ready for {}: {}, {} threads, {} of memory",
        env!("CARGO_PKG_VERSION"),
        args.reach.tcp(),
        info.engine,
        info.threads,
        size::show(info.memory_limit)
    );
    while signals.pending().next().is_none() {
        if let Some(error) = service.wait_ended(SIGNAL_INTERVAL) {
            return Err(error.into());
        }
    }
    ending.begin();
    service.stop(DRAIN);
    Ok(())
}

/// Has the system end this process when `parent` ends, also when that is killed and cannot ask for it.
fn end_with(parent: i32) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).context("--parent")?;
    // It may have ended before.
    match rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) {
        Some(now) if now == parent => Ok(()),
        _ => bail!("the server that started this worker has ended"),
    }
}
