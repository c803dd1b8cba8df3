//! What a dispatcher allows.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gt_net::Secret;

/// How long somebody whose connection is gone may take to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leases {
    /// A client over a network.
    pub client: Duration,
    /// A worker over a network, from when it was last heard.
    pub worker: Duration,
    /// Either on this host, where a connection breaks with its process only.
    pub same_host: Duration,
}

impl Default for Leases {
    fn default() -> Self {
        // Whoever waits for a worker that is gone is to hear of it within five seconds.
        Leases { client: Duration::from_secs(30), worker: Duration::from_secs(4), same_host: Duration::ZERO }
    }
}

/// Takes a line about who came, went or was refused.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    /// Gives lines to `sink`, which must not wait.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Log {
        Log(Arc::new(sink))
    }

    /// Writes one.
    pub fn line(&self, text: fmt::Arguments<'_>) {
        (self.0)(&text.to_string());
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

/// What a dispatcher allows; the defaults are those of `gt server`.
#[derive(Clone, Debug)]
pub struct DispatcherConfig {
    /// What clients and observers must show to know, wherever they come from. Without it, the server is for processes of its user.
    pub token: Option<Secret>,
    /// What workers must show to know, wherever they come from. Without it, they must be processes of this user and come by a Unix socket.
    pub worker_token: Option<Secret>,
    /// What workers show that the server has started itself.
    pub own_workers: Option<Secret>,
    /// The user whose processes are trusted where no token is asked for.
    pub user_id: u32,
    /// How many sessions there may be. Those that belong to another one, and those that have run nothing and whose client is gone, do
    /// not count.
    pub max_sessions: usize,
    /// How many connections may be open that have not said yet who they are.
    pub max_guests: usize,
    /// How long they may take to say it.
    pub first_message_timeout: Duration,
    /// The most that a session may hold on a worker; 0 for no limit of its own.
    pub max_session_memory: u64,
    /// Instructions that a session may have sent and not yet executed.
    pub credits_instrs: u64,
    /// Payload bytes that a session may have sent and not yet executed.
    pub credits_bytes: u64,
    /// How long somebody may be away.
    pub leases: Leases,
    /// A client's connection over a network that is silent for so long is lost; it is asked to show itself before.
    pub idle_timeout: Duration,
    /// The same for a worker's. Shorter than its lease: its I/O thread answers however busy the device is, and those who wait for a worker
    /// that does not are to hear of it within five seconds.
    pub worker_silence: Duration,
    /// Bytes that may wait on a worker's connection before sessions take turns (`forward.rs`).
    pub worker_queue_bytes: u64,
    /// Acks that tell no more than that a session is idle keep this distance.
    pub ack_interval: Duration,
    /// Where lines go.
    pub log: Log,
}

impl Default for DispatcherConfig {
    fn default() -> Self {
        DispatcherConfig {
            token: None,
            worker_token: None,
            own_workers: None,
            user_id: gt_net::own_user(),
            max_sessions: 1024,
            max_guests: 1024,
            first_message_timeout: Duration::from_secs(5),
            max_session_memory: 0,
            credits_instrs: 65_536,
            credits_bytes: 256 << 20,
            leases: Leases::default(),
            idle_timeout: Duration::from_secs(10),
            worker_silence: Duration::from_secs(2),
            worker_queue_bytes: 1 << 20,
            ack_interval: Duration::from_millis(5),
            log: Log::new(|_| {}),
        }
    }
}
