//! `gt worker`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use gt_serve::ServeConfig;
use rustix::process::Signal;

use crate::ending::Ending;
use crate::reach::{ReachArgs, WORKER_TOKEN};
use crate::size;

/// How long what was sent may take to run once the worker is to end.
const DRAIN: Duration = Duration::from_secs(4);
/// How often signals are looked for.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// The names of engines that `--backend` takes, with a line of help each.
fn backend_names() -> PossibleValuesParser {
    let auto = PossibleValue::new("auto").help("Fastest engine available");
    let public = gt::BACKENDS.iter().filter(|backend| backend.is_public);
    let named = public.map(|backend| PossibleValue::new(backend.name).help(backend.about));
    PossibleValuesParser::new(std::iter::once(auto).chain(named))
}

/// Start a worker that computes for a server
///
/// The worker joins the server and runs the sessions that the server assigns to
/// it. It can be started before the server, and reconnects when the connection is
/// lost. On Ctrl-C or SIGTERM, it finishes running work, notifies its sessions and
/// exits. A second Ctrl-C makes it exit at once.
///
/// A worker on another machine needs the server's worker token. A worker of the
/// server's user on the server's machine joins through the server's Unix socket,
/// and needs the token only if the server has one.
///
/// Examples:
///   Join the server on this machine, port 9000:
///     gt worker
///   Join a server on another machine, and accept connections from other machines:
///     gt worker --host 10.0.0.1 --listen 0.0.0.0 --worker-token-file worker.token
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    reach: ReachArgs,

    /// File with the server's worker token
    ///
    /// The variable GT_WORKER_TOKEN can hold the token itself instead.
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    worker_token_file: Option<PathBuf>,

    /// Name of the worker: letters, digits, '.', '_' and '-' (default: worker_0, worker_1, …)
    #[arg(long, value_name = "NAME", value_parser = worker_name)]
    id: Option<String>,

    /// Engine that computes
    #[arg(long, env = "GT_BACKEND", value_name = "BACKEND", value_parser = backend_names(), default_value = "auto")]
    backend: String,

    /// Number of compute threads (default: an equal share of the cores)
    ///
    /// By default, the user's workers on this machine share its cores equally.
    #[arg(long, env = "GT_NUM_THREADS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,

    /// Memory limit, such as 4GiB, 500MB or 50% (default: an equal share of the memory)
    ///
    /// By default, the user's workers on this machine share 90% of its memory equally.
    #[arg(long, env = "GT_MEMORY_LIMIT", value_name = "SIZE")]
    memory_limit: Option<String>,

    /// Host name or address to listen on for clients and workers of other machines
    #[arg(long, value_name = "HOST")]
    listen: Option<String>,

    /// Host name or address that other machines use to reach --listen, if GT picks the wrong one
    #[arg(long, value_name = "HOST", requires = "listen")]
    advertise: Option<String>,

    /// Folder to read files from for programs of other users and hosts; repeatable
    ///
    /// Without --data-root and --data-url, a worker reads files only for programs
    /// of its own user on its own host. With --listen for other machines, it then
    /// reads no files for any program.
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    data_root: Vec<PathBuf>,

    /// URL pattern to read for programs of other users and hosts; repeatable
    ///
    /// Such as 's3://bucket/train/*'. Addresses of the worker's own host, those of its
    /// network interfaces included, and of cloud metadata services are always refused.
    #[arg(long, value_name = "PATTERN", verbatim_doc_comment)]
    data_url: Vec<String>,

    /// The process that started it: the worker ends with it.
    #[arg(long, hide = true)]
    parent: Option<i32>,
}

/// Checks a name before the worker starts: the server would change one that breaks the columns of its log.
fn worker_name(text: &str) -> Result<String, String> {
    match gt_dispatcher::is_worker_name(text) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a worker name must have 1 to {} characters: letters, digits, '.', '_' or '-'",
            gt_dispatcher::MAX_WORKER_NAME
        )),
    }
}

pub(crate) fn run(args: WorkerArgs) -> anyhow::Result<()> {
    gt_net::most_descriptors();
    let mut signals = Ending::signals()?;
    let ending = Ending::prepare()?;
    if let Some(parent) = args.parent {
        end_with(parent)?;
    }
    if args.backend == "auto" {
        gt::tell_of_unused_gpus();
    }
    let device = gt::Device {
        backend: gt::Backend::named(&args.backend).with_context(|| format!("--backend {}", args.backend))?,
        threads: args.threads.map(|n| n as usize),
        memory_limit: args.memory_limit,
        debug: gt::Config::from_env()?.debug_worker,
        data: gt::ServedData { roots: args.data_root, urls: args.data_url },
    };
    let mut config = ServeConfig::new(args.reach.tcp(), Arc::new(gt::session_config));
    config.unix = args.reach.unix();
    config.token = WORKER_TOKEN.read(args.worker_token_file.as_ref())?;
    config.server_tls = args.reach.tls()?;
    config.id = args.id.unwrap_or_default();
    config.listen_host = args.listen;
    config.advertised_host = args.advertise;
    let service = gt::serve(&device, config)?;
    let info = service.info();
    gt_observe::say(format_args!(
        "gt worker {} ready for {}: {}, {} thread{}, {} of memory",
        env!("CARGO_PKG_VERSION"),
        args.reach.tcp(),
        info.engine,
        info.threads,
        if info.threads == 1 { "" } else { "s" },
        size::show(info.memory_limit)
    ));
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
        _ => bail!("the server that started this worker has exited"),
    }
}
