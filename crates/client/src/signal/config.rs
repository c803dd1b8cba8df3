//! What a signal says, and the signals there are.
//!
//! CONFIG-1: a config that exists is well formed: every way to make one checks it.
//! CONFIG-2: loading a file replaces what was loaded before; what a program registered stays. Of two of one name the later
//!           one counts.

use std::collections::BTreeMap;

use gt_ir::MAX_RANK;
use parking_lot::Mutex;

use super::yaml;
use crate::error::{Error, Result};

/// The most workers a signal can ask for: a number beyond it is a slip of the hand.
const MOST_WORKERS: usize = 65_536;

/// A worker as a config names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WorkerName {
    /// By its place in the group, from 0.
    Index(usize),
    /// By its id, such as `worker_1`.
    Id(String),
}

impl WorkerName {
    /// The place in a group that names its workers itself.
    fn place(&self) -> Option<usize> {
        match self {
            WorkerName::Index(i) => Some(*i),
            WorkerName::Id(id) => id.strip_prefix("worker_").and_then(|n| n.parse().ok()).filter(|n| *n < MOST_WORKERS),
        }
    }
}

impl std::fmt::Display for WorkerName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WorkerName::Index(i) => write!(f, "{i}"),
            WorkerName::Id(id) => write!(f, "{id:?}"),
        }
    }
}

/// Which workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Workers {
    /// All there are.
    #[default]
    All,
    /// The first so many.
    Count(usize),
    /// These.
    Listed(Vec<WorkerName>),
}

impl Workers {
    /// The first `n`.
    ///
    /// # Errors
    /// When that is none; the text says so.
    pub fn count(n: i64) -> Result<Workers, String> {
        match usize::try_from(n) {
            Ok(n) if (1..=MOST_WORKERS).contains(&n) => Ok(Workers::Count(n)),
            _ => Err(format!("the number of workers must be between 1 and {MOST_WORKERS}, got {n}")),
        }
    }

    /// The worker at place `i`.
    ///
    /// # Errors
    /// When there is no such place in any group.
    pub fn index(i: i64) -> Result<WorkerName, String> {
        match usize::try_from(i) {
            Ok(i) if i < MOST_WORKERS => Ok(WorkerName::Index(i)),
            _ => Err(format!("a worker index must be between 0 and {}, got {i}", MOST_WORKERS - 1)),
        }
    }

    /// These.
    ///
    /// # Errors
    /// When there are none, or one is there twice.
    pub fn listed(names: Vec<WorkerName>) -> Result<Workers, String> {
        if names.is_empty() {
            return Err("workers is empty; omit it to use all workers".into());
        }
        match names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            Some((_, twice)) => Err(format!("worker {twice} is listed twice")),
            None => Ok(Workers::Listed(names)),
        }
    }

    /// How large a group has to be to have them.
    fn demand(&self) -> usize {
        match self {
            Workers::All => 1,
            Workers::Count(n) => *n,
            Workers::Listed(names) => names.iter().filter_map(WorkerName::place).max().map_or(1, |i| i + 1),
        }
    }
}

/// One axis of a signal's mesh of workers, and which axis of a tensor is cut along it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShardConfig {
    /// The axis that is cut; `None` for tensors that are whole on each worker.
    pub axis: Option<u8>,
    /// The workers.
    pub workers: Workers,
}

impl ShardConfig {
    /// A cut along `axis`.
    ///
    /// # Errors
    /// When no tensor has such an axis.
    pub fn along(axis: i64, workers: Workers) -> Result<ShardConfig, String> {
        match u8::try_from(axis) {
            Ok(a) if (a as usize) < MAX_RANK => Ok(ShardConfig { axis: Some(a), workers }),
            _ => Err(format!("axis must be between 0 and {}, got {axis}", MAX_RANK - 1)),
        }
    }
}

/// What happens to what is recorded under a signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SignalConfig {
    /// The axes of a mesh of workers; none says nothing of workers.
    pub shard: Vec<ShardConfig>,
    /// The workers of the whole mesh, where its axes only count them.
    pub workers: Workers,
    /// The signal of the gradients.
    pub backward: Option<String>,
    /// Whether the scope is a window of its own.
    pub compile: bool,
}

impl SignalConfig {
    /// Whole on each of these workers.
    pub fn replicated(workers: Workers) -> SignalConfig {
        SignalConfig { shard: vec![ShardConfig { axis: None, workers }], ..SignalConfig::default() }
    }

    /// Whether everything under it is whole on each of its workers.
    pub fn is_replicated(&self) -> bool {
        !self.shard.is_empty() && self.shard.iter().all(|s| s.axis.is_none())
    }

    /// What the parts say of each other.
    ///
    /// # Errors
    /// When they contradict each other; the text says how.
    pub fn checked(self) -> Result<SignalConfig, String> {
        let axes: Vec<u8> = self.shard.iter().filter_map(|s| s.axis).collect();
        if let Some((_, axis)) = axes.iter().enumerate().find(|(i, axis)| axes[..*i].contains(axis)) {
            return Err(format!("axis {axis} is sharded twice"));
        }
        let lists = self.shard.iter().any(|s| matches!(s.workers, Workers::Listed(_)));
        if self.shard.len() > 1 && lists {
            return Err(
                "with several axes, give each a number of workers; to list workers by name, move `workers` next to `shard`".into()
            );
        }
        if self.shard.iter().filter(|s| s.workers == Workers::All).count() > 1 {
            return Err("in a mesh, at most one axis can omit its number of workers".into());
        }
        if self.workers != Workers::All {
            match &self.shard[..] {
                [] => return Err("`workers` also needs `shard` or `replicated`".into()),
                [one] if one.workers != Workers::All => {
                    return Err("workers is given twice: inside shard and beside it".into());
                }
                _ => {}
            }
        }
        let (extents, open) = self.extents();
        let most = extents.iter().try_fold(1usize, |n, e| n.checked_mul(*e)).filter(|n| *n <= MOST_WORKERS);
        let Some(count) = most else { return Err(format!("the mesh has more than {MOST_WORKERS} workers")) };
        if let Workers::Listed(names) = &self.workers
            && open.is_none()
            && self.shard.len() > 1
            && names.len() != count
        {
            return Err(format!("the mesh needs {count} workers, but {} are listed", names.len()));
        }
        Ok(self)
    }

    /// How many workers there are along each axis, 1 where that is open, and which axis is.
    pub(super) fn extents(&self) -> (Vec<usize>, Option<usize>) {
        let extent = |s: &ShardConfig| match &s.workers {
            Workers::All => 1,
            Workers::Count(n) => *n,
            Workers::Listed(names) => names.len(),
        };
        let open = self.shard.iter().position(|s| s.workers == Workers::All);
        (self.shard.iter().map(extent).collect(), open)
    }

    /// How large a group has to be to have all its workers.
    fn demand(&self) -> usize {
        let mesh = if let [one] = &self.shard[..] { one.workers.demand() } else { self.extents().0.iter().product() };
        mesh.max(self.workers.demand())
    }
}

#[derive(Clone)]
struct Entry {
    config: SignalConfig,
    from_file: bool,
}

static SIGNALS: Mutex<BTreeMap<String, Entry>> = Mutex::new(BTreeMap::new());

/// Gives a signal a meaning. Scopes that were entered before keep theirs.
///
/// # Errors
/// When the config contradicts itself.
pub fn register(name: &str, config: SignalConfig) -> Result<()> {
    if name.is_empty() {
        return Err(Error::Value("a signal needs a name".into()));
    }
    let config = config.checked().map_err(|text| Error::Value(format!("signal {name:?}: {text}")))?;
    SIGNALS.lock().insert(name.to_owned(), Entry { config, from_file: false });
    Ok(())
}

/// Takes the signals of a file in place of those loaded before.
///
/// # Errors
/// When the text is malformed, with `file`, line and column; nothing has changed then.
pub fn load_text(text: &str, file: &str) -> Result<()> {
    let loaded =
        yaml::parse(text).map_err(|e| Error::Value(format!("{file}:{}:{}: {}", e.line, e.column, e.message)))?;
    let mut signals = SIGNALS.lock();
    signals.retain(|_, entry| !entry.from_file);
    signals.extend(loaded.into_iter().map(|(name, config)| (name, Entry { config, from_file: true })));
    Ok(())
}

/// As [`load_text`], from a file.
///
/// # Errors
/// Also when it cannot be read.
pub fn load(path: &std::path::Path) -> Result<()> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| Error::Value(format!("cannot read {file}: {e}")))?;
    load_text(&text, &file)
}

/// What a signal says now.
pub fn get(name: &str) -> Option<SignalConfig> {
    SIGNALS.lock().get(name).map(|entry| entry.config.clone())
}

/// All signals, by name.
pub fn all() -> Vec<(String, SignalConfig)> {
    SIGNALS.lock().iter().map(|(name, entry)| (name.clone(), entry.config.clone())).collect()
}

/// How large a group has to be for every signal to have its workers.
pub fn demand() -> usize {
    SIGNALS.lock().values().map(|entry| entry.config.demand()).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_as_large_as_the_largest_index_demands() {
        let listed = Workers::listed(vec![WorkerName::Index(1), WorkerName::Id("worker_6".into())]).unwrap();
        assert_eq!(SignalConfig::replicated(listed).demand(), 7);
        let count = |axis, n| ShardConfig::along(axis, Workers::count(n).unwrap()).unwrap();
        let grid = SignalConfig { shard: vec![count(0, 2), count(1, 3)], ..SignalConfig::default() };
        assert_eq!(grid.checked().unwrap().demand(), 6);
        assert_eq!(SignalConfig::replicated(Workers::All).demand(), 1);
    }
}
