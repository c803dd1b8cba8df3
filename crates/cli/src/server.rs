//! `gt server`.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use gt_dispatcher::{Dispatcher, DispatcherConfig};
use gt_net::{Address, Fingerprint, Identity, Io, RELAY_SILENCE, Relay, ServerTls};

use crate::children::Children;
use crate::ending::Ending;
use crate::{log_lines, reach, size};

/// How often signals are looked for, and whether workers have died.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Serve sessions: scripts connect here, workers join here.
///
/// The server takes scripts (gt.connect) and workers (gt worker) at one port, and at a Unix socket for processes of the same
/// user on this machine. It places sessions on workers and passes their work on. Tensors go between scripts and workers; through
/// the server they go only where a worker cannot be reached.
///
/// On loopback no token is needed. Any other --host needs one, and should have --tls:
///   (umask 077; head -c 32 /dev/urandom | base64 > gt.token)
///   gt server --host 0.0.0.0 --token-file gt.token --tls
///
/// Ctrl-C or SIGTERM tells everyone and ends the server; a second Ctrl-C ends it at once.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ServerArgs {
    /// The port to listen at; 0 for any that is free.
    #[arg(short, long, default_value_t = 9000)]
    port: u16,

    /// The host name or address to listen at; 0.0.0.0 for all of this machine.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,

    /// Start so many workers on this machine, start those again that die, and end them with the server.
    #[arg(long, value_name = "N", default_value_t = 0)]
    workers: usize,

    /// Append lines about who comes and goes to this file instead of stderr.
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,

    /// A file with the token that everyone beyond loopback has to show. GT_TOKEN may hold the token itself instead.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// The most that one session may hold on its worker: 4GiB, 500MB. No limit but the worker's otherwise.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "0", hide_default_value = true)]
    max_session_memory: u64,

    /// How many sessions there may be.
    #[arg(long, value_name = "N", default_value_t = DispatcherConfig::default().max_sessions)]
    max_sessions: usize,

    /// Encrypt with a certificate made for this run; its fingerprint is printed, and clients have to be given it.
    #[arg(long, conflicts_with_all = ["tls_cert", "tls_key"])]
    tls: bool,

    /// Encrypt with this certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The key of --tls-cert (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

pub(crate) fn run(args: ServerArgs, worker_command: &[OsString]) -> anyhow::Result<()> {
    let token = reach::token(args.token_file.as_ref())?;
    let address = Address::Tcp { host: args.host.clone(), port: args.port };
    if !address.is_local() && token.is_none() {
        bail!(
            "--host {} can be reached from other machines, so a token is needed. Make one and name it:\n  \
             (umask 077; head -c 32 /dev/urandom | base64 > gt.token)\n  \
             gt server --host {} --token-file gt.token",
            args.host,
            args.host
        );
    }
    let identity = identity(&args)?;
    if !address.is_local() && identity.is_none() {
        eprintln!("gt: warning: whoever is on the network can read tokens and data; --tls encrypts");
    }
    // Before anything is started, or a signal could leave it behind.
    let mut signals = Ending::signals()?;
    let ending = Ending::prepare()?;

    let log = log_lines::open(args.log_file.as_deref(), gt::Config::from_env()?.dispatcher_debug())?;
    let dispatcher = Dispatcher::new(DispatcherConfig {
        token,
        max_sessions: args.max_sessions,
        max_session_memory: args.max_session_memory,
        log: log.clone(),
        ..DispatcherConfig::default()
    })?;
    let io = Io::start("gt-server")?;
    let timer = dispatcher.start_timer()?;
    let tls = identity.as_ref().map(ServerTls::new).transpose()?;
    gt_net::remove_stale_sockets(&gt_net::runtime_directory()?);
    let finder = dispatcher.clone();
    let relay = Relay::new(&io, RELAY_SILENCE, move |peer, token, worker| finder.find_worker(peer, token, worker));
    let door = |relay: Relay| move |receiver| relay.receiver(receiver);
    let tcp = dispatcher.listen_behind(&io, &address, tls, door(relay.clone()))?;
    let Address::Tcp { port, .. } = *tcp.address() else { bail!("{} is no port", tcp.address()) };
    let unix = dispatcher.listen_behind(&io, &Address::Unix(gt_net::server_socket(port)?), None, door(relay))?;
    let mut children = Children::start(worker_command, args.workers, &worker_args(&args, port))?;

    let fingerprint = identity.as_ref().map(Identity::fingerprint).transpose()?;
    announce(&tcp.address().to_string(), &unix.address().to_string(), fingerprint, args.workers)?;
    while signals.pending().next().is_none() {
        children.look_after(Instant::now(), &mut |line| log.line(format_args!("{line}")));
        std::thread::sleep(LOOK_INTERVAL);
    }

    ending.begin();
    dispatcher.end();
    drop(children);
    // What was said to clients leaves before the I/O thread ends.
    drop((tcp, unix, timer, io));
    Ok(())
}

/// The one line that says that connections are taken.
fn announce(tcp: &str, unix: &str, fingerprint: Option<Fingerprint>, workers: usize) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let tls = fingerprint.map(|f| format!(", TLS fingerprint {f}")).unwrap_or_default();
    let workers = match workers {
        0 => "no workers of its own".to_string(),
        1 => "1 worker".to_string(),
        n => format!("{n} workers"),
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "gt server {version} ready at {tcp} and {unix}, {workers}{tls}")?;
    Ok(out.flush()?)
}

fn identity(args: &ServerArgs) -> anyhow::Result<Option<Identity>> {
    if args.tls {
        let names = [args.host.clone(), "localhost".to_string(), "127.0.0.1".to_string()];
        return Ok(Some(Identity::generate(&names)?));
    }
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let read = |path: &PathBuf| std::fs::read_to_string(path).with_context(|| path.display().to_string());
    Ok(Some(Identity { certificate_pem: read(certificate)?, key_pem: read(key)? }))
}

/// What a worker of this server is told: it comes by the Unix socket, so it needs neither token nor certificate.
fn worker_args(args: &ServerArgs, port: u16) -> Vec<OsString> {
    let parent = std::process::id().to_string();
    let mut told: Vec<String> = ["--port", &port.to_string(), "--parent", &parent].map(String::from).to_vec();
    if !(Address::Tcp { host: args.host.clone(), port }).is_local() {
        told.extend(["--listen".to_string(), args.host.clone()]);
    }
    // Several share the machine: each gets its part.
    if args.workers > 1 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        told.extend(["--threads".to_string(), (cores / args.workers).max(1).to_string()]);
        told.extend(["--memory-limit".to_string(), format!("{}%", (90 / args.workers).max(1))]);
    }
    told.into_iter().map(OsString::from).collect()
}
