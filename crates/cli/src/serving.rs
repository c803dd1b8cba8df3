//! A worker that serves until it is told to end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use gt_worker::serve::ServeConfig;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{Backend, WorkerOptions};

/// How long what is running may take once the worker was told to end.
const DRAIN: Duration = Duration::from_secs(10);
/// How often a worker looks whether it was told to end.
const LOOK: Duration = Duration::from_millis(50);

/// Serves a device of this machine to the server that the options name.
pub(crate) fn serve(options: WorkerOptions) -> anyhow::Result<()> {
    let backend = match options.backend {
        Backend::Auto | Backend::Cpu => gt::Backend::Cpu,
        Backend::Reference => gt::Backend::Reference,
        Backend::Cuda => bail!("this build of GT has no CUDA engine; use --backend auto or cpu"),
    };
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let device = gt::Device {
        backend,
        threads: options.threads.map(|n| n as usize),
        memory_limit: options.memory_limit,
        debug: std::env::var("GT_DEBUG_WORKER").is_ok_and(|v| v == "1"),
    };
    let mut config = ServeConfig::new(options.server, Arc::new(gt::session_config));
    config.unix = options.unix;
    config.token = options.token;
    config.server_tls = options.server_tls;
    config.id = options.id;
    config.listen_host = options.listen_host;
    let service = gt::serve(&device, config)?;
    loop {
        if let Some(error) = service.wait_ended(LOOK) {
            bail!(error);
        }
        if signals.pending().next().is_some() {
            service.stop(DRAIN);
            return Ok(());
        }
    }
}
