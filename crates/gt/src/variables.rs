//! The environment variables of GT. One table: what reads them, checks them and travels with a session follows it, and so does
//! `docs/variables.md` (a test compares).

use gt_client::{Error, Result};

use crate::backends::Backend;
use crate::{config, denormal, memory_limit};

/// Looks up a variable; tests pass their own.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What a variable may be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// `0` or `1`.
    Flag,
    /// A whole number from 1 up.
    Count,
    /// A whole number from 0 up.
    Number,
    /// Bytes, with a unit or as a share of the memory there is.
    Memory,
    /// One of [`Backend::choices`].
    Backend,
    /// Whoever reads it says what is wrong with it.
    Text,
}

/// Whom a variable is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The process that is started with it.
    Process,
    /// The session: it travels with it to a server.
    Session,
    /// Nobody yet: it is checked, and has no effect.
    Planned,
    /// Those who work on GT: its tests, its tools.
    Developer,
}

struct Variable {
    name: &'static str,
    values: Values,
    scope: Scope,
}

/// How the names of all variables begin.
const PREFIX: &str = "GT_";
/// Fewer letters are a part of some name by accident.
const SHORTEST_PART: usize = 3;

const fn variable(name: &'static str, values: Values, scope: Scope) -> Variable {
    Variable { name, values, scope }
}

const TABLE: &[Variable] = &[
    variable("GT_ADDRESS", Values::Text, Scope::Process),
    variable("GT_AUTO_COMPILE", Values::Flag, Scope::Session),
    variable("GT_AUTO_SHARD", Values::Flag, Scope::Session),
    variable("GT_BACKEND", Values::Backend, Scope::Process),
    variable("GT_BENCH_PYTHON", Values::Text, Scope::Developer),
    variable("GT_BLOCKING", Values::Flag, Scope::Session),
    variable("GT_CACHE_DIR", Values::Text, Scope::Process),
    variable("GT_CLIENT_BATCH_SIZE", Values::Count, Scope::Process),
    variable("GT_COMPILE", Values::Flag, Scope::Session),
    variable("GT_CONFIG", Values::Text, Scope::Process),
    variable("GT_DATA_ON_WORKERS", Values::Flag, Scope::Process),
    variable("GT_DEBUG_CLIENT", Values::Flag, Scope::Process),
    variable("GT_DEBUG_COMPILE", Values::Flag, Scope::Process),
    variable("GT_DEBUG_DISPATCHER", Values::Flag, Scope::Process),
    variable("GT_DEBUG_WORKER", Values::Flag, Scope::Process),
    variable(denormal::VARIABLE, Values::Flag, Scope::Session),
    variable("GT_GOLDEN", Values::Text, Scope::Developer),
    variable("GT_HOTPATH_MAX_EXPAND", Values::Count, Scope::Session),
    variable("GT_HOTPATH_MIN_SEQ", Values::Count, Scope::Session),
    variable("GT_HOTPATH_THRESHOLD", Values::Count, Scope::Session),
    variable("GT_INSTRUCTION_LOG", Values::Text, Scope::Process),
    variable("GT_INSTRUCTION_LOG_FULL", Values::Flag, Scope::Planned),
    variable("GT_MEMORY_LIMIT", Values::Memory, Scope::Process),
    variable("GT_NUM_THREADS", Values::Count, Scope::Process),
    variable("GT_PLAN_EXPLAIN", Values::Flag, Scope::Developer),
    variable("GT_PLAN_WORKERS", Values::Count, Scope::Developer),
    variable("GT_STRICT_CONFIG", Values::Flag, Scope::Process),
    variable("GT_TEST_DAMAGED_FILES", Values::Text, Scope::Developer),
    variable("GT_TOKEN", Values::Text, Scope::Process),
    variable("GT_VERBOSE", Values::Flag, Scope::Process),
    variable("GT_VERIFY_REPLAY", Values::Number, Scope::Planned),
    variable("GT_WORKER_BATCH_SIZE", Values::Count, Scope::Session),
    variable("GT_WORKER_TOKEN", Values::Text, Scope::Process),
];

/// The variables that belong to a session and are set in this process.
pub(crate) fn of_session() -> Vec<(String, String)> {
    let travels = TABLE.iter().filter(|variable| variable.scope == Scope::Session);
    travels.filter_map(|variable| Some((variable.name.to_string(), config::variable(variable.name)?))).collect()
}

/// Checks the value of every variable that is set, whoever reads it.
///
/// # Errors
/// The first that does not parse, by name.
pub(crate) fn check(get: Lookup<'_>) -> Result<()> {
    for Variable { name, values, .. } in TABLE {
        match values {
            Values::Flag => flag(get, name).map(|_| ())?,
            Values::Count => count(get, name).map(|_| ())?,
            Values::Memory => memory(get, name).map(|_| ())?,
            Values::Number => {
                if let Some(v) = text(get, name).filter(|v| v.parse::<u64>().is_err()) {
                    return Err(wrong(name, &v, "a whole number, 0 or larger"));
                }
            }
            Values::Backend => {
                let words: Vec<&str> = Backend::choices().collect();
                if let Some(v) = text(get, name).filter(|v| !words.contains(&v.as_str())) {
                    return Err(wrong(name, &v, &words.join(", ")));
                }
            }
            Values::Text => {}
        }
    }
    Ok(())
}

/// Variables that are set and without an effect, and what to warn of: names that begin as GT's do and mean nothing, and variables that
/// have no effect yet.
pub fn variable_warnings() -> Vec<(String, String)> {
    warnings(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))
}

fn warnings(set: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let mut set: Vec<String> = set.filter(|name| name.starts_with(PREFIX)).collect();
    // The environment has no order of its own.
    set.sort_unstable();
    set.into_iter().filter_map(|name| warning(&name).map(|said| (name, said))).collect()
}

fn warning(name: &str) -> Option<String> {
    match TABLE.iter().find(|variable| variable.name == name) {
        Some(known) if known.scope == Scope::Planned => Some(format!("{name} has no effect in this version of GT")),
        Some(_) => None,
        None => {
            let hint = meant(name).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
            Some(format!("unknown environment variable {name}{hint}"))
        }
    }
}

/// The shortest name of which this one is a part, such as `GT_CACHE_DIR` for `GT_CACHE`; otherwise the nearest, if at most a third of
/// the letters differ. All names begin alike, so that does not count.
fn meant(name: &str) -> Option<&'static str> {
    let public = || TABLE.iter().filter(|variable| variable.scope != Scope::Developer).map(|variable| variable.name);
    let own = name.strip_prefix(PREFIX)?;
    let is_part = |known: &&str| own.len() >= SHORTEST_PART && known.contains(&format!("_{own}"));
    let whole = public().filter(is_part).min_by_key(|known| known.len());
    let near = || public().map(|known| (distance(own, &known[PREFIX.len()..]), known)).min();
    whole.or_else(|| near().filter(|(edits, _)| *edits <= own.len() / 3).map(|(_, known)| known))
}

/// How many letters have to change to make one name of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

pub(crate) fn wrong(name: &str, value: &str, expected: &str) -> Error {
    Error::Value(format!("{name}={value:?} is not valid: expected {expected}"))
}

/// A variable that is set and not empty.
pub(crate) fn text(get: Lookup<'_>, name: &str) -> Option<String> {
    get(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty())
}

pub(crate) fn flag(get: Lookup<'_>, name: &str) -> Result<Option<bool>> {
    text(get, name)
        .map(|v| match v.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Ok(true),
            "0" | "false" | "no" | "off" => Ok(false),
            _ => Err(wrong(name, &v, "0 or 1")),
        })
        .transpose()
}

pub(crate) fn count(get: Lookup<'_>, name: &str) -> Result<Option<usize>> {
    text(get, name)
        .map(|v| match v.parse::<usize>() {
            Ok(n) if n >= 1 => Ok(n),
            _ => Err(wrong(name, &v, "a whole number, 1 or larger")),
        })
        .transpose()
}

pub(crate) fn memory(get: Lookup<'_>, name: &str) -> Result<Option<u64>> {
    text(get, name)
        .map(|v| memory_limit::parse(&v).ok_or_else(|| wrong(name, &v, "a size such as 4GiB, 500MB or 80%")))
        .transpose()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_value_that_does_not_parse_is_an_error_whether_or_not_the_variable_has_an_effect() {
        for variable in TABLE.iter().filter(|variable| variable.values != Values::Text) {
            let get = |name: &str| (name == variable.name).then(|| "zzz".to_string());
            let message = check(&get).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{}=\"zzz\"", variable.name)), "{message}");
        }
    }

    #[test]
    fn an_unknown_variable_is_warned_of_with_the_nearest_name() {
        let set = ["GT_NUM_TREADS", "PATH", "GT_COMPILE", "GT_XYZ"].map(String::from);
        let said = warnings(set.into_iter());
        assert_eq!(said[0].1, "unknown environment variable GT_NUM_TREADS; did you mean GT_NUM_THREADS?");
        assert!(said.len() == 2 && said[1].1.starts_with("unknown environment variable GT_XYZ"), "{said:?}");
    }

    #[test]
    fn the_prefix_does_not_make_other_variables_similar() {
        let hint = |name: &str| meant(name);
        assert_eq!(hint("GT_CACHE"), Some("GT_CACHE_DIR"));
        assert_eq!(hint("GT_THREADS"), Some("GT_NUM_THREADS"));
        assert_eq!(hint("GT_WORKERS"), Some("GT_DATA_ON_WORKERS"));
        assert_eq!(hint("GT_ADRESS"), Some("GT_ADDRESS"));
        assert_eq!(hint("GT_TOEKN"), None);
        assert_eq!(hint("GT_COLOR"), None);
        assert_eq!(hint("GT_AD"), None);
        assert_eq!(hint("GT_"), None);
    }

    #[test]
    fn a_variable_without_an_effect_says_so() {
        let said = warnings(std::iter::once("GT_VERIFY_REPLAY".to_string()));
        assert_eq!(said[0].1, "GT_VERIFY_REPLAY has no effect in this version of GT");
    }

    #[test]
    fn the_page_of_variables_lists_what_the_table_has() {
        let page = include_str!("../../../docs/variables.md");
        let first_cells = page.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
        let listed: BTreeSet<&str> = first_cells
            .flat_map(|cell| cell.split('`'))
            .filter_map(|name| name.split('=').next()?.strip_prefix("GT_"))
            .collect();
        let public = |variable: &&Variable| variable.scope != Scope::Developer;
        let known: BTreeSet<&str> = TABLE.iter().filter(public).map(|variable| &variable.name[3..]).collect();
        let developer: BTreeSet<&str> =
            TABLE.iter().filter(|variable| !public(variable)).map(|variable| &variable.name[3..]).collect();
        let missing: Vec<_> = known.difference(&listed).collect();
        assert!(missing.is_empty(), "docs/variables.md does not list {missing:?}");
        let unknown: Vec<_> =
            listed.iter().filter(|name| !known.contains(*name) && !developer.contains(*name)).collect();
        assert!(unknown.is_empty(), "docs/variables.md lists {unknown:?}, which the table does not have");
    }
}
