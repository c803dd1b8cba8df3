//! How a worker serves.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gt_net::{Address, ClientTls, Identity, Secret};

use super::loader::LoadingOf;
use gt_worker::SessionConfig;

/// What a session's variables ask for, or which of them is wrong.
pub type SessionSettings = Arc<dyn Fn(&[(String, String)]) -> Result<SessionConfig, String> + Send + Sync>;

/// Is told the core on which a client of this host records, when it has moved.
pub type RecorderMoved = Arc<dyn Fn(u32) + Send + Sync>;

/// Looks how much the device may take now, has it take that, and says so: threads, and bytes of memory.
pub type Resources = Arc<dyn Fn() -> (u32, u64) + Send + Sync>;

/// What the server is told of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedDevice {
    /// The engine's name.
    pub engine: String,
    /// How many threads it computes with.
    pub threads: u32,
    /// How much it may allocate.
    pub memory_limit: u64,
}

/// How much is held, for each session, of what cannot go on yet. A session that needs more has broken the rules that keep
/// it below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLimits {
    /// Messages that wait for a template, for room or for a value, in bytes.
    pub message_bytes: usize,
    /// Answers that wait for the client, in bytes.
    pub answer_bytes: usize,
    /// Answers that were sent over a network, for a connection that takes the place of a lost one, in bytes.
    pub sent_bytes: usize,
    /// Uploads of which a part has come, for the rest of them, in bytes; a single one may be larger.
    pub part_bytes: usize,
    /// Values that came from other workers, or go to one, before they are used, in bytes.
    pub transfer_bytes: usize,
    /// Templates.
    pub templates: usize,
    /// What all templates together take, in bytes.
    pub template_bytes: usize,
}

impl Default for HeldLimits {
    fn default() -> Self {
        HeldLimits {
            message_bytes: 512 << 20,
            answer_bytes: 4 << 30,
            sent_bytes: 64 << 20,
            part_bytes: 256 << 20,
            transfer_bytes: 16 << 30,
            templates: 1024,
            template_bytes: 256 << 20,
        }
    }
}

/// How a worker serves.
#[derive(Clone)]
pub struct ServeConfig {
    /// Where the server is.
    pub server: Address,
    /// The server's Unix socket, if it may be on this host: tried first.
    pub unix: Option<Address>,
    /// What shows to the server that this is a worker of its; over a network the server has to know it too.
    pub token: Option<Secret>,
    /// Which certificate of the server is trusted, if it speaks TLS.
    pub server_tls: Option<ClientTls>,
    /// The worker's name; an empty one leaves it to the server.
    pub id: String,
    /// The host to listen at for clients and workers elsewhere, with any free port. Without it, those of this host come by
    /// a Unix socket, and nobody else.
    pub listen_host: Option<String>,
    /// The name that others reach this host by; without it, the address that the server is reached from.
    pub advertised_host: Option<String>,
    /// The certificate shown there. Without one, one is made when `listen_host` is more than loopback.
    pub identity: Option<Identity>,
    /// Where the Unix socket is put; without it, in the user's runtime directory.
    pub socket_directory: Option<PathBuf>,
    /// How long sessions are kept while the server is gone.
    pub lease: Duration,
    /// A connection over a network that is silent for so long is lost.
    pub idle_timeout: Duration,
    /// What is held at most.
    pub held: HeldLimits,
    /// Reads a session's variables.
    pub settings: SessionSettings,
    /// Who keeps the device's thread off the core of a client on the same host.
    pub recorder_moved: Option<RecorderMoved>,
    /// Who decides how much the device takes, about once a second; without it, it takes what it began with.
    pub resources: Option<Resources>,
    /// Who makes batches of files, for each session; without it loaders are refused.
    pub loading: Option<LoadingOf>,
}

impl ServeConfig {
    /// Serves the server at this address, with everything else as it usually is.
    pub fn new(server: Address, settings: SessionSettings) -> ServeConfig {
        ServeConfig {
            server,
            unix: None,
            token: None,
            server_tls: None,
            id: String::new(),
            listen_host: None,
            advertised_host: None,
            identity: None,
            socket_directory: None,
            lease: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(10),
            held: HeldLimits::default(),
            settings,
            recorder_moved: None,
            resources: None,
            loading: None,
        }
    }
}
