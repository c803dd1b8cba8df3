//! Lines on stderr for those who asked: `[CLIENT] …`, `[WORKER] …`.

use std::fmt::Display;
use std::io::Write as _;

/// Writes a line to stderr, all of it by one write: lines of processes that share a terminal or a pipe are not mixed. A closed
/// stderr is no reason to stop.
pub fn say(line: impl Display) {
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// Recording.
    Client,
    /// Rewriting.
    Dispatcher,
    /// Running.
    Worker,
    /// Compiling.
    Compile,
}

impl Component {
    /// The prefix of its lines.
    pub const fn prefix(self) -> &'static str {
        match self {
            Component::Client => "[CLIENT]",
            Component::Dispatcher => "[DISPATCHER]",
            Component::Worker => "[WORKER]",
            Component::Compile => "[COMPILE]",
        }
    }
}

/// Prints one component's lines, or nothing.
#[derive(Clone, Copy, Debug)]
pub struct Debug {
    component: Component,
    on: bool,
}

impl Debug {
    /// A printer that is on or off for good.
    pub const fn new(component: Component, on: bool) -> Self {
        Debug { component, on }
    }

    /// Whether lines are printed.
    #[inline]
    pub const fn is_on(&self) -> bool {
        self.on
    }

    /// Prints the lines of what `message` makes; it is called only when lines are wanted.
    #[inline]
    pub fn print<T: Display>(&self, message: impl FnOnce() -> T) {
        if self.on {
            self.write(&message().to_string());
        }
    }

    #[cold]
    fn write(&self, message: &str) {
        let prefix = self.component.prefix();
        // Messages may hold text of another process: no escape sequence of its gets to a terminal.
        let clean = |line: &str| line.replace(|c: char| c.is_control(), "?");
        let text: String = message.lines().map(|line| format!("{prefix} {}\n", clean(line))).collect();
        // One write for all lines keeps threads from mixing theirs; a closed stderr is no reason to stop.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}
