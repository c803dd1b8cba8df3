//! What each fuzz target does with bytes: all that a process does with what another sends, up to running it.
//!
//! The targets themselves, which need a sanitizer's runtime, are in `fuzz/`, outside the workspace; `make fuzz` builds and
//! runs them. `tests/corpus.rs` replays what they have found worth keeping, as an ordinary test.
//!
//! FUZZ-1: a target returns, whatever the bytes: no panic, no memory of others, no more memory or time than its limits.
//! FUZZ-2: a target is a function of the bytes alone.

mod draw;
mod instructions;
mod messages;
mod placed;
mod running;
mod templates;

/// A target: what it does with bytes, and whether they got past the decoder.
pub type Target = fn(&[u8]) -> bool;

/// Every target with its name, which is that of its file in `fuzz/fuzz_targets` and of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("window", running::window),
    ("instructions", instructions::instructions),
    ("template", templates::template),
    ("placed_window", placed::window),
    ("placed_template", placed::template),
    ("messages", messages::messages),
    ("frames", messages::frames),
];

/// Runs the target of this name.
///
/// # Panics
/// If there is none of that name, or with what the target found.
pub fn run(name: &str, bytes: &[u8]) -> bool {
    let target = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of this name");
    (target.1)(bytes)
}
