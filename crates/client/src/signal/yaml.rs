//! Signals from YAML.
//!
//! YAML-1: every error says where: the line and the column of what is wrong, both from 1.
//! YAML-2: a file is data: no tags, no aliases, a depth that is bounded.

use std::iter::Peekable;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::config::{ShardConfig, SignalConfig, WorkerName, Workers};

/// How deep a file may nest; a config needs five levels.
const DEEPEST: usize = 16;

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct YamlError {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What.
    pub message: String,
}

type Result<T> = std::result::Result<T, YamlError>;

#[derive(Clone, Copy, Default)]
struct At {
    line: usize,
    column: usize,
}

impl At {
    fn of(span: &Span) -> At {
        At { line: span.start.line().max(1), column: span.start.col() + 1 }
    }

    fn error<T>(self, message: impl Into<String>) -> Result<T> {
        Err(YamlError { line: self.line, column: self.column, message: message.into() })
    }
}

/// A node of the file with its place.
struct Node {
    at: At,
    kind: Kind,
}

enum Kind {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

struct Key {
    at: At,
    name: String,
}

impl Node {
    fn what(&self) -> &'static str {
        match self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "true or false",
            Kind::Int(_) => "a number",
            Kind::Text(_) => "text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
        }
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        self.at.error(format!("expected {what}, got {}", self.what()))
    }
}

struct Reader<'a>(Peekable<Parser<'a, StrInput<'a>>>);

fn scan_error(e: ScanError) -> YamlError {
    let at = e.marker();
    YamlError { line: at.line().max(1), column: at.col() + 1, message: e.info().to_owned() }
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, At)> {
        match self.0.next() {
            Some(Ok((event, span))) => Ok((event, At::of(&span))),
            Some(Err(e)) => Err(scan_error(e)),
            None => At { line: 1, column: 1 }.error("unexpected end of file"),
        }
    }

    /// The whole file: one document, or nothing.
    fn file(&mut self) -> Result<Option<Node>> {
        let mut document = None;
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(document),
                (Event::DocumentStart(_), at) if document.is_some() => {
                    return at.error("only one YAML document per file is supported");
                }
                (Event::DocumentStart(_), _) => {
                    let (event, at) = self.next()?;
                    document = Some(self.node(event, at, 0)?);
                }
                _ => {}
            }
        }
    }

    fn node(&mut self, event: Event<'a>, at: At, depth: usize) -> Result<Node> {
        if depth > DEEPEST {
            return at.error("nested too deeply");
        }
        let kind = match event {
            Event::Scalar(_, _, _, Some(_)) | Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
                return at.error("YAML tags are not supported");
            }
            Event::Alias(_) => return at.error("YAML aliases are not supported"),
            Event::Scalar(text, ScalarStyle::Plain, ..) => plain(&text),
            Event::Scalar(text, ..) => Kind::Text(text.into_owned()),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break Kind::List(items),
                        (event, at) => items.push(self.node(event, at, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut entries: Vec<(Key, Node)> = Vec::new();
                loop {
                    let key = match self.next()? {
                        (Event::MappingEnd, _) => break Kind::Map(entries),
                        (Event::Scalar(text, ..), at) => Key { at, name: text.into_owned() },
                        (_, at) => return at.error("expected a name"),
                    };
                    if let Some((first, _)) = entries.iter().find(|(k, _)| k.name == key.name) {
                        let message = format!("duplicate key {:?}, first used on line {}", key.name, first.at.line);
                        return key.at.error(message);
                    }
                    let (event, at) = self.next()?;
                    let value = self.node(event, at, depth + 1)?;
                    entries.push((key, value));
                }
            }
            _ => return at.error("expected a value"),
        };
        Ok(Node { at, kind })
    }
}

/// What a word without quotes is.
fn plain(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        _ => text.parse().map_or_else(|_| Kind::Text(text.to_owned()), Kind::Int),
    }
}

/// The signals of a file, in its order.
pub(super) fn parse(text: &str) -> Result<Vec<(String, SignalConfig)>> {
    let Some(document) = Reader(Parser::new_from_str(text).peekable()).file()? else { return Ok(Vec::new()) };
    let entries = match document.kind {
        Kind::Null => return Ok(Vec::new()),
        Kind::Map(entries) => entries,
        _ => return document.expected("a mapping of signal names to settings"),
    };
    let mut signals = Vec::new();
    for (key, node) in entries {
        if key.name.is_empty() {
            return key.at.error("a signal needs a name");
        }
        signals.push((key.name, signal(&node)?));
    }
    Ok(signals)
}

fn signal(node: &Node) -> Result<SignalConfig> {
    let Kind::Map(entries) = &node.kind else {
        return node.expected("a mapping with shard, replicated, workers, backward or compile");
    };
    let mut config = SignalConfig::default();
    let (mut shard_at, mut replicated_at) = (None, None);
    for (key, value) in entries {
        match key.name.as_str() {
            "shard" => {
                shard_at = Some(key.at);
                config.shard = shards(value)?;
            }
            "replicated" => match value.kind {
                Kind::Bool(true) => replicated_at = Some(key.at),
                Kind::Bool(false) => {}
                _ => return value.expected("true or false"),
            },
            "workers" => config.workers = workers(value)?,
            "backward" => match &value.kind {
                Kind::Text(name) if !name.is_empty() => config.backward = Some(name.clone()),
                _ => return value.expected("the name of a signal"),
            },
            "compile" => match value.kind {
                Kind::Bool(on) => config.compile = on,
                _ => return value.expected("true or false"),
            },
            _ => return unknown(key, "shard, replicated, workers, backward and compile"),
        }
    }
    match (shard_at, replicated_at) {
        (Some(_), Some(at)) => return at.error("use either shard or replicated, not both"),
        (None, Some(_)) => config.shard = vec![ShardConfig::default()],
        _ => {}
    }
    let at = shard_at.or(replicated_at).unwrap_or(node.at);
    config.checked().or_else(|message| at.error(message))
}

fn unknown<T>(key: &Key, known: &str) -> Result<T> {
    key.at.error(format!("unknown key {:?}; valid keys are {known}", key.name))
}

fn shards(node: &Node) -> Result<Vec<ShardConfig>> {
    match &node.kind {
        Kind::Map(_) => Ok(vec![shard(node)?]),
        Kind::List(items) if !items.is_empty() => items.iter().map(shard).collect(),
        _ => node.expected("a mapping with axis and workers, or a list of them"),
    }
}

fn shard(node: &Node) -> Result<ShardConfig> {
    let Kind::Map(entries) = &node.kind else { return node.expected("a mapping with axis and workers") };
    let (mut cut, mut replicated, mut on) = (None, None, Workers::All);
    for (key, value) in entries {
        match key.name.as_str() {
            "axis" => match value.kind {
                Kind::Int(axis) => cut = Some((value.at, axis)),
                _ => return value.expected("an axis number"),
            },
            "workers" => on = workers(value)?,
            "replicated" => match value.kind {
                Kind::Bool(true) => replicated = Some(key.at),
                Kind::Bool(false) => {}
                _ => return value.expected("true or false"),
            },
            _ => return unknown(key, "axis, workers and replicated"),
        }
    }
    match (cut, replicated) {
        // The axis is what would be cut if it were not replicated.
        (Some((at, axis)), Some(_)) => ShardConfig::along(axis, on)
            .map(|cut| ShardConfig { axis: None, ..cut })
            .or_else(|message| at.error(message)),
        (Some((at, axis)), None) => ShardConfig::along(axis, on).or_else(|message| at.error(message)),
        (None, Some(_)) => Ok(ShardConfig { axis: None, workers: on }),
        (None, None) => Ok(ShardConfig { axis: Some(0), workers: on }),
    }
}

fn workers(node: &Node) -> Result<Workers> {
    match &node.kind {
        Kind::Null => Ok(Workers::All),
        Kind::Int(n) => Workers::count(*n).or_else(|message| node.at.error(message)),
        Kind::Text(all) if all == "all" => Ok(Workers::All),
        Kind::List(items) => {
            let mut names: Vec<WorkerName> = Vec::new();
            for item in items {
                let name = match &item.kind {
                    Kind::Int(i) => Workers::index(*i).or_else(|message| item.at.error(message))?,
                    Kind::Text(id) if !id.is_empty() => WorkerName::Id(id.clone()),
                    _ => return item.expected("a worker index or name"),
                };
                if names.contains(&name) {
                    return item.at.error(format!("worker {name} is listed twice"));
                }
                names.push(name);
            }
            Workers::listed(names).or_else(|message| node.at.error(message))
        }
        _ => node.expected("a list of workers or a number of workers"),
    }
}

#[cfg(test)]
mod tests;
