//! `gt server`.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use gt_dispatcher::{Dispatcher, DispatcherConfig};
use gt_net::{Address, Fingerprint, Identity, Io, Listener, RELAY_SILENCE, Relay, Secret, ServerTls};

use crate::children::Children;
use crate::ending::Ending;
use crate::reach::{CLIENT_TOKEN, WORKER_TOKEN};
use crate::{log_lines, size};

/// How often signals are looked for, and whether workers have died.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Start a server that scripts connect to and workers join
///
/// Scripts (gt.connect) and workers (gt worker) use the same port. Processes of
/// the same user on this machine use a Unix socket. The server assigns each
/// session to a worker and forwards its work. Tensors travel directly between
/// scripts and workers; they pass through the server only if a worker cannot be
/// reached directly.
///
/// Without a token, the server accepts only processes of its own user on this
/// machine. To accept scripts from other machines, set --host and --token-file,
/// and encrypt with --tls. To accept workers from other machines as well, set
/// --worker-token-file:
///   (umask 077; head -c 32 /dev/urandom | base64 > gt.token)
///   (umask 077; head -c 32 /dev/urandom | base64 > worker.token)
///   gt server --host 0.0.0.0 --token-file gt.token --worker-token-file worker.token --tls
///
/// On Ctrl-C or SIGTERM, the server notifies its clients and workers, and exits.
/// A second Ctrl-C makes it exit at once.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ServerArgs {
    /// Port to listen on; 0 picks a free one
    #[arg(short, long, default_value_t = 9000)]
    port: u16,

    /// Host name or address to listen on; 0.0.0.0 listens on all interfaces
    #[arg(long, default_value = "127.0.0.1")]
    host: String,

    /// Number of workers to start on this machine
    ///
    /// The server restarts workers that crash, and stops all of them when it exits.
    /// GT_MEMORY_LIMIT and GT_NUM_THREADS are divided equally among them. Without
    /// these variables, they share the machine with the user's other workers.
    #[arg(long, value_name = "N", default_value_t = 0, verbatim_doc_comment)]
    workers: usize,

    /// Folder that the workers of --workers read files from for other users and hosts; repeatable
    #[arg(long, value_name = "DIR", requires = "workers")]
    data_root: Vec<PathBuf>,

    /// URL pattern that the workers of --workers read for other users and hosts; repeatable
    #[arg(long, value_name = "PATTERN", requires = "workers")]
    data_url: Vec<String>,

    /// File to append the log of clients, workers and sessions to (default: stderr)
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,

    /// File with the token that scripts and gt status must have
    ///
    /// They need the token even on this machine. The variable GT_TOKEN can hold
    /// the token itself instead.
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    token_file: Option<PathBuf>,

    /// File with the token that workers must have
    ///
    /// Workers need the token even on this machine, except those of --workers.
    /// The variable GT_WORKER_TOKEN can hold the token itself instead. Without a
    /// worker token, only workers of this user on this machine can join.
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    worker_token_file: Option<PathBuf>,

    /// Memory limit of each session, such as 4GiB or 500MB (default: the worker's limit)
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "0", hide_default_value = true)]
    max_session_memory: u64,

    /// Maximum number of sessions
    #[arg(long, value_name = "N", default_value_t = DispatcherConfig::default().max_sessions)]
    max_sessions: usize,

    /// Encrypt connections with a certificate generated for this run
    ///
    /// The server prints the certificate's fingerprint when it is ready. Pass the
    /// fingerprint to scripts as gt.connect("host:port#fingerprint"), and to gt
    /// commands as --fingerprint.
    #[arg(long, conflicts_with_all = ["tls_cert", "tls_key"], verbatim_doc_comment)]
    tls: bool,

    /// Certificate file (PEM) to encrypt connections with
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key file (PEM) of --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

pub(crate) fn run(args: ServerArgs, worker_command: &[OsString]) -> anyhow::Result<()> {
    gt_net::most_descriptors();
    let token = CLIENT_TOKEN.read(args.token_file.as_ref())?;
    let worker_token = WORKER_TOKEN.read(args.worker_token_file.as_ref())?;
    if token.is_some() && token == worker_token {
        bail!(
            "the worker token is the same as the token of scripts, so any script could join as a worker; use two different tokens"
        );
    }
    let address = Address::Tcp { host: args.host.clone(), port: args.port };
    if !address.is_local() && token.is_none() {
        bail!(
            "--host {} accepts connections from other machines, so a token is required. Create one and pass it:\n  \
             (umask 077; head -c 32 /dev/urandom | base64 > gt.token)\n  \
             gt server --host {} --token-file gt.token",
            args.host,
            args.host
        );
    }
    let identity = identity(&args)?;
    if !address.is_local() && identity.is_none() {
        gt_observe::say(format_args!(
            "gt: warning: without --tls, others on the network can read the data of sessions and take over sessions"
        ));
    }
    // Before anything is started, or a signal could leave it behind.
    let mut signals = Ending::signals()?;
    let ending = Ending::prepare()?;

    let settings = gt::Config::from_env()?;
    let log = log_lines::open(args.log_file.as_deref(), settings.dispatcher_debug())?;
    // Its own workers show a secret of this run, which comes to them in their environment.
    let own_workers = Secret::random()?;
    let dispatcher = Dispatcher::new(DispatcherConfig {
        token,
        worker_token,
        own_workers: Some(own_workers.clone()),
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
    let relay = Relay::new(&io, RELAY_SILENCE, move |pass, worker| finder.find_worker(pass, worker));
    let door = |relay: Relay| move |receiver| relay.receiver(receiver);
    let listen_unix = |port: u16| -> anyhow::Result<Listener> {
        Ok(dispatcher.listen_behind(&io, &Address::Unix(gt_net::server_socket(port)?), None, door(relay.clone()))?)
    };
    // First, if the port is known: workers that wait for their server try the port where there is no such socket, and are refused there.
    let early = (args.port != 0).then(|| listen_unix(args.port)).transpose()?;
    let tcp = dispatcher.listen_behind(&io, &address, tls, door(relay.clone()))?;
    let Address::Tcp { port, .. } = *tcp.address() else {
        bail!("internal error: {} is not a TCP address", tcp.address())
    };
    let unix = early.map_or_else(|| listen_unix(port), Ok)?;
    let secret = String::from_utf8_lossy(own_workers.as_bytes()).into_owned();
    let variables = [(WORKER_TOKEN.variable, secret)];
    let mut children = Children::start(worker_command, args.workers, &worker_args(&args, port, &settings), &variables)?;

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

/// What a worker of this server is told: it comes by the Unix socket, so it needs no certificate.
///
/// Variables that limit what they take are for all of them together. Otherwise each takes its part of the host, as every worker
/// does.
fn worker_args(args: &ServerArgs, port: u16, settings: &gt::Config) -> Vec<OsString> {
    let parent = std::process::id().to_string();
    let mut told: Vec<String> = ["--port", &port.to_string(), "--parent", &parent].map(String::from).to_vec();
    if !(Address::Tcp { host: args.host.clone(), port }).is_local() {
        told.extend(["--listen".to_string(), args.host.clone()]);
    }
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if let Some(threads) = settings.threads {
        told.extend(["--threads".to_string(), (threads / args.workers.max(1)).max(1).to_string()]);
    }
    if is_set("GT_MEMORY_LIMIT") {
        told.extend(["--memory-limit".to_string(), (settings.memory_limit / args.workers.max(1) as u64).to_string()]);
    }
    let roots = args.data_root.iter().flat_map(|root| ["--data-root".into(), root.clone().into_os_string()]);
    let urls = args.data_url.iter().flat_map(|url| ["--data-url".into(), OsString::from(url)]);
    told.into_iter().map(OsString::from).chain(roots).chain(urls).collect()
}
