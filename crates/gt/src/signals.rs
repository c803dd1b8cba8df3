//! Signals of this process: the config that variables name, and a group large enough for it.

use std::sync::atomic::{AtomicBool, Ordering};

use gt_client::signal::{self, SignalConfig};
use gt_client::{Error, Result};
use parking_lot::Mutex;

use crate::config::Config;
use crate::group;

static SETTLING: Mutex<()> = Mutex::new(());
static SETTLED: AtomicBool = AtomicBool::new(false);

/// Does what the variables say of signals, once: before the first session, or the first signal a program registers itself.
pub(crate) fn settle(config: &Config) -> Result<()> {
    let _one_at_a_time = SETTLING.lock();
    if SETTLED.load(Ordering::Acquire) {
        return Ok(());
    }
    if let Some(path) = &config.signals {
        signal::load(path).map_err(|e| Error::Value(format!("GT_CONFIG: {e}")))?;
    }
    signal::set_strict(config.strict_config);
    signal::auto_shard(config.auto_shard)?;
    SETTLED.store(true, Ordering::Release);
    Ok(())
}

/// Takes the signals of a file, in place of those of the file before. Scopes that were entered keep what they had.
///
/// ```
/// gt::load_config("rows:\n  shard: {axis: 0, workers: [0, 1]}\n", "signals.yaml")?;
/// assert_eq!(gt::signal_configs()?[0].0, "rows");
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// When the text is malformed, with file, line and column, or the workers it asks for cannot be started.
pub fn load_config(text: &str, file: &str) -> Result<()> {
    settle(&Config::from_env()?)?;
    signal::load_text(text, file)?;
    group::grow(signal::demand())
}

/// Gives a signal a meaning.
///
/// # Errors
/// When the config contradicts itself, or the workers it asks for cannot be started.
pub fn register_config(name: &str, config: SignalConfig) -> Result<()> {
    settle(&Config::from_env()?)?;
    signal::register(name, config)?;
    group::grow(signal::demand())
}

/// All signals there are, those of `GT_CONFIG` too.
///
/// # Errors
/// When a variable does not parse, or its file is malformed.
pub fn signal_configs() -> Result<Vec<(String, SignalConfig)>> {
    settle(&Config::from_env()?)?;
    Ok(signal::all())
}
