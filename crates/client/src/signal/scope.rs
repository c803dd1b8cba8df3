//! Scopes: which signal the calling thread records under.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use gt_ir::ScopeId;
use parking_lot::Mutex;

use super::config::{self, ShardConfig, SignalConfig, WorkerName, Workers};
use super::layout::{Resolved, ScopeSpec};
use super::warning::{is_strict, warn_once};
use crate::error::{Error, Result};
use crate::lane;
use crate::session::session;

/// What makes a scope the same as another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Meaning {
    name: String,
    placing: ScopeSpec,
    /// The signal of its gradients.
    backward: Option<(String, ScopeSpec)>,
}

struct Scope {
    meaning: Meaning,
    gradients: ScopeId,
    /// What it was on the group it was last asked for.
    resolved: Option<(Vec<String>, Resolved)>,
}

#[derive(Default)]
struct Table {
    scopes: Vec<Scope>,
    ids: HashMap<Meaning, ScopeId>,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);
/// Whether any scope that means something was ever entered.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// What is recorded outside of any scope.
static OUTSIDE: AtomicU32 = AtomicU32::new(0);
static STARTING: Mutex<()> = Mutex::new(());

/// A scope that was entered by name.
struct Entered {
    name: String,
    before: ScopeId,
    compile: bool,
}

thread_local! {
    static CURRENT: Cell<ScopeId> = const { Cell::new(ScopeId(0)) };
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

fn with_table<T>(f: impl FnOnce(&mut Table) -> T) -> T {
    f(TABLE.lock().get_or_insert_with(Table::default))
}

impl Table {
    fn get(&mut self, id: ScopeId) -> Option<&mut Scope> {
        self.scopes.get_mut((id.0 as usize).checked_sub(1)?)
    }

    fn intern(&mut self, meaning: Meaning) -> ScopeId {
        if let Some(&id) = self.ids.get(&meaning) {
            return id;
        }
        // The gradients of gradients stay where the gradients are.
        let gradients =
            meaning.backward.clone().map(|(name, placing)| self.intern(Meaning { name, placing, backward: None }));
        let id = ScopeId(self.scopes.len() as u32 + 1);
        self.scopes.push(Scope { meaning: meaning.clone(), gradients: gradients.unwrap_or(id), resolved: None });
        self.ids.insert(meaning, id);
        id
    }
}

/// Whether signals mean something in this process: some window may carry a scope.
#[inline]
pub fn in_use() -> bool {
    IN_USE.load(Ordering::Relaxed)
}

/// From now on windows name the values they meet (SIGNAL-4).
fn start_using() -> Result<()> {
    if in_use() {
        return Ok(());
    }
    let _one_at_a_time = crate::session::lock(&STARTING);
    let sent = lane::meet_from_now_on();
    IN_USE.store(true, Ordering::Release);
    sent
}

/// The scope that the calling thread records under.
#[inline]
pub fn current() -> ScopeId {
    match CURRENT.get() {
        ScopeId(0) => ScopeId(OUTSIDE.load(Ordering::Relaxed)),
        scope => scope,
    }
}

/// What a node of the tape remembers: as [`current`], and no more than one look where there are no signals.
#[inline]
pub(crate) fn recorded_under() -> ScopeId {
    if in_use() { current() } else { ScopeId(0) }
}

/// The scope that gradients of what was recorded under `scope` belong to.
pub(crate) fn gradients_of(scope: ScopeId) -> ScopeId {
    if scope == ScopeId(0) {
        return scope;
    }
    with_table(|table| table.get(scope).map_or(scope, |s| s.gradients))
}

/// Puts the scope back that was there before.
pub struct ScopeGuard(ScopeId);

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Records under `scope` until the guard is dropped, on this thread.
#[must_use]
pub fn under(scope: ScopeId) -> ScopeGuard {
    ScopeGuard(CURRENT.replace(scope))
}

/// Records under `scope` from now on, on this thread; gives the one before. For callers that have no place for a guard.
pub fn exchange(scope: ScopeId) -> ScopeId {
    CURRENT.replace(scope)
}

/// The name of a scope.
pub fn name(scope: ScopeId) -> Option<String> {
    with_table(|table| table.get(scope).map(|s| s.meaning.name.clone()))
}

/// Whether a scope is the one that `GT_AUTO_SHARD` puts around everything.
pub fn is_automatic(scope: ScopeId) -> bool {
    scope != ScopeId(0) && scope.0 == OUTSIDE.load(Ordering::Relaxed)
}

pub(super) fn resolved(scope: ScopeId, workers: &[String]) -> Option<Resolved> {
    with_table(|table| {
        let scope = table.get(scope)?;
        if scope.resolved.as_ref().is_none_or(|(group, _)| group != workers) {
            scope.resolved = Some((workers.to_vec(), scope.meaning.placing.resolve(workers)));
        }
        scope.resolved.as_ref().map(|(_, resolved)| resolved.clone())
    })
}

/// The config of a signal that was asked for; what is unknown says nothing, after a warning.
fn known(name: &str, role: &str) -> Result<Option<SignalConfig>> {
    let found = config::get(name);
    if found.is_none() {
        warn_once(format!("{role} {name:?} is not configured and is ignored"))?;
    }
    Ok(found)
}

/// Warns of workers that a scope names and the session has not.
fn check_workers(scope: ScopeId) -> Result<()> {
    let workers = session()?.link.workers();
    let Some(resolved) = resolved(scope, &workers) else { return Ok(()) };
    if resolved.missing.is_empty() {
        return Ok(());
    }
    let name = name(scope).unwrap_or_default();
    let (there, missing) = (workers.len(), resolved.missing.join(", "));
    let then = if resolved.layout.is_some() { "the missing workers are skipped" } else { "the signal runs unsharded" };
    warn_once(format!("signal {name:?} names workers that do not exist ({missing}; the session has {there}): {then}"))
}

/// The scope that a signal stands for now, and whether it is a window of its own. `None` if it changes nothing.
fn scope_for(signal: &str, backward: Option<&str>) -> Result<(Option<ScopeId>, bool)> {
    // The first op reads the config; so does the first scope.
    session()?;
    let config = known(signal, "signal")?.unwrap_or_default();
    let backward = match backward.or(config.backward.as_deref()) {
        Some(name) => known(name, &format!("backward of {signal:?}:"))?.map(|c| (name.to_owned(), ScopeSpec::of(&c))),
        None => None,
    };
    let backward = backward.filter(|(_, placing)| !placing.says_nothing());
    let mut placing = ScopeSpec::of(&config);
    if placing.says_nothing() {
        if backward.is_none() {
            return Ok((None, config.compile));
        }
        let around = current();
        placing = with_table(|table| table.get(around).map(|s| s.meaning.placing.clone()).unwrap_or_default());
    }
    let id = with_table(|table| table.intern(Meaning { name: signal.to_owned(), placing, backward }));
    check_workers(id)?;
    let gradients = gradients_of(id);
    if gradients != id {
        check_workers(gradients)?;
    }
    start_using()?;
    Ok((Some(id), config.compile))
}

/// Under `GT_STRICT_CONFIG`, fails where a tensor that is created under a scope has too few dimensions to be cut as it says: else
/// such a one is whole on each worker.
///
/// # Errors
/// Just then.
pub fn check_rank(scope: ScopeId, rank: usize) -> Result<()> {
    if !is_strict() || is_automatic(scope) {
        return Ok(());
    }
    let meaning = with_table(|table| table.get(scope).map(|s| (s.meaning.name.clone(), s.meaning.placing.last_axis())));
    match meaning {
        Some((name, Some(axis))) if axis as usize >= rank => Err(Error::Value(format!(
            "signal {name:?} shards axis {axis}, but the tensor has only {rank} dimensions (GT_STRICT_CONFIG=1)"
        ))),
        _ => Ok(()),
    }
}

/// The scope that a signal stands for now; the one around it if it says nothing. `backward` is as that of [`enter`].
///
/// # Errors
/// Under `GT_STRICT_CONFIG`, when the signal or a worker it names is unknown.
pub fn scope_of(signal: &str, backward: Option<&str>) -> Result<ScopeId> {
    Ok(scope_for(signal, backward)?.0.unwrap_or_else(current))
}

/// Enters a scope: what this thread records until [`exit`] is under the signal. `backward` names the signal of the
/// gradients, in place of the one that the config names.
///
/// # Errors
/// Under `GT_STRICT_CONFIG`, when a signal or a worker is unknown; nothing was entered then.
pub fn enter(signal: &str, backward: Option<&str>) -> Result<()> {
    let (scope, compile) = scope_for(signal, backward)?;
    if compile {
        lane::compile_from_now_on(true)?;
    }
    let before = CURRENT.get();
    ENTERED.with_borrow_mut(|entered| entered.push(Entered { name: signal.to_owned(), before, compile }));
    if let Some(scope) = scope {
        CURRENT.set(scope);
    }
    Ok(())
}

/// The name of the innermost signal that this thread has entered, whether or not it is configured.
pub fn innermost() -> Option<String> {
    ENTERED.with_borrow(|entered| entered.last().map(|last| last.name.clone()))
}

/// Leaves the innermost scope, which has to be this one.
///
/// # Errors
/// When it is another one, or there is none; nothing was left then.
pub fn exit(signal: &str) -> Result<()> {
    let left = ENTERED.with_borrow_mut(|entered| match entered.last() {
        Some(last) if last.name == signal => Ok(entered.pop()),
        Some(last) => {
            Err(Error::State(format!("cannot exit signal {signal:?}: the innermost scope is {:?}", last.name)))
        }
        None => Err(Error::State(format!("cannot exit signal {signal:?}: no scope was entered"))),
    })?;
    let Some(left) = left else { return Ok(()) };
    CURRENT.set(left.before);
    if !left.compile {
        return Ok(());
    }
    let compiles = ENTERED.with_borrow(|entered| entered.iter().any(|around| around.compile));
    lane::compile_from_now_on(compiles)
}

fn intern(name: String, axis: Option<u8>, workers: Workers) -> ScopeId {
    let config = SignalConfig { shard: vec![ShardConfig { axis, workers }], ..SignalConfig::default() };
    with_table(|table| table.intern(Meaning { name, placing: ScopeSpec::of(&config), backward: None }))
}

/// The scope of what is whole on one worker.
///
/// # Errors
/// When what was recorded before cannot be sent.
pub fn worker(index: usize) -> Result<ScopeId> {
    let scope = intern(format!("worker:{index}"), None, Workers::Listed(vec![WorkerName::Index(index)]));
    start_using()?;
    Ok(scope)
}

/// Whether everything outside of scopes is split along axis 0 over all workers: `GT_AUTO_SHARD`.
///
/// # Errors
/// When what was recorded before cannot be sent.
pub fn auto_shard(on: bool) -> Result<()> {
    if !on {
        OUTSIDE.store(0, Ordering::Relaxed);
        return Ok(());
    }
    let scope = intern("auto".into(), Some(0), Workers::All);
    start_using()?;
    OUTSIDE.store(scope.0, Ordering::Relaxed);
    Ok(())
}
