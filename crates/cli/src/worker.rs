//! `gt worker`.

use anyhow::Context;
use clap::{Args, ValueEnum};
use gt_net::{Address, ClientTls, Secret};

use crate::reach::ReachArgs;
use crate::serving;

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The fastest there is.
    Auto,
    /// This machine's processors.
    Cpu,
    /// A CUDA device.
    Cuda,
    /// The slow engine that defines every op.
    Reference,
}

/// Serve a device of this machine to a server.
///
/// The worker joins the server, runs the sessions that are placed on it, and joins again when the connection was lost. It may
/// be started before the server. Ctrl-C or SIGTERM ends it: what runs is finished, its sessions are told.
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
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,

    /// How many threads compute. As many as there are cores otherwise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,

    /// How much the worker may allocate: 4GiB, 500MB or 50%. 90% of what there is otherwise.
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,

    /// The host name or address to listen at for clients and workers of other machines. Those of this machine need none.
    #[arg(long, value_name = "HOST")]
    listen: Option<String>,
}

/// How a worker serves, with everything read that was named.
pub struct WorkerOptions {
    /// Where the server is over a network.
    pub server: Address,
    /// Where it is on this host, if it is there.
    pub unix: Option<Address>,
    /// What the server asks for beyond loopback.
    pub token: Option<Secret>,
    /// Which certificate of the server is trusted, if it speaks TLS.
    pub server_tls: Option<ClientTls>,
    /// The wished name; an empty one leaves it to the server.
    pub id: String,
    /// What computes.
    pub backend: Backend,
    /// With how many threads.
    pub threads: Option<u32>,
    /// How much it may allocate, as written: a share depends on what there is.
    pub memory_limit: Option<String>,
    /// Where to listen for other machines.
    pub listen_host: Option<String>,
}

pub(crate) fn run(args: WorkerArgs) -> anyhow::Result<()> {
    let options = read(args)?;
    let server = options.server.to_string();
    serving::serve(options).with_context(|| format!("worker for {server}"))
}

fn read(args: WorkerArgs) -> anyhow::Result<WorkerOptions> {
    Ok(WorkerOptions {
        server: args.reach.tcp(),
        unix: args.reach.unix(),
        token: args.reach.token()?,
        server_tls: args.reach.tls()?,
        id: args.id,
        backend: args.backend,
        threads: args.threads,
        memory_limit: args.memory_limit,
        listen_host: args.listen,
    })
}
