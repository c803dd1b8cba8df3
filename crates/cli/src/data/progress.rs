//! A line on the terminal while long work goes on.
//!
//! PROGRESS-1: nothing is written unless stderr is a terminal and nobody asked for quiet; nothing stays there afterwards.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_data::{Block, BlockInfo, Field, LoadTimes, Source, SourceFiles, StoredRows};
use parking_lot::Mutex;

/// How often the line is written anew.
const EVERY: Duration = Duration::from_millis(100);

/// Counts the blocks that are read of a data set, and shows how far that is.
pub(crate) struct Watched {
    source: Arc<dyn Source>,
    what: String,
    state: Mutex<State>,
}

struct State {
    done: u64,
    begun: Instant,
    shown: Option<Instant>,
}

impl Watched {
    /// The data set, watched while `what` is done, if anyone is there to see it.
    pub(crate) fn on_terminal(source: Arc<dyn Source>, what: &str, quiet: bool) -> Arc<dyn Source> {
        if quiet || !std::io::stderr().is_terminal() {
            return source;
        }
        let state = Mutex::new(State { done: 0, begun: Instant::now(), shown: None });
        Arc::new(Watched { source, what: what.to_owned(), state })
    }

    fn count(&self) {
        let mut state = self.state.lock();
        state.done += 1;
        let now = Instant::now();
        if state.shown.is_none_or(|shown| now - shown >= EVERY) {
            state.shown = Some(now);
            let text = line(&self.what, state.done, self.source.blocks().len() as u64, now - state.begun);
            // A terminal that went away is no reason to stop.
            let _ = write!(std::io::stderr(), "\r{text}\x1b[K").and_then(|()| std::io::stderr().flush());
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.state.get_mut().shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// What the terminal shows.
fn line(what: &str, done: u64, total: u64, took: Duration) -> String {
    let share = done as f64 / total.max(1) as f64;
    match share >= 1.0 {
        // Blocks may be read more than once; then nobody knows how many are left.
        true => format!("{what}: {done} blocks, {:.0} s", took.as_secs_f64()),
        false => {
            let left = took.as_secs_f64() * (1.0 - share) / share.max(f64::EPSILON);
            format!("{what}: {done} of {total} blocks, {:.0} %, {left:.0} s left", share * 100.0)
        }
    }
}

impl Source for Watched {
    fn fields(&self) -> &[Field] {
        self.source.fields()
    }

    fn blocks(&self) -> &[BlockInfo] {
        self.source.blocks()
    }

    fn load(&self, block: u32, times: &mut LoadTimes) -> gt_data::Result<Block> {
        let loaded = self.source.load(block, times);
        self.count();
        loaded
    }

    fn sample_id(&self, block: u32, row: u32) -> u64 {
        self.source.sample_id(block, row)
    }

    fn files(&self) -> &SourceFiles {
        self.source.files()
    }

    fn fingerprint(&self) -> u64 {
        self.source.fingerprint()
    }

    fn unread(&self) -> &[(String, String)] {
        self.source.unread()
    }

    fn stored_rows(&self, block: u32) -> gt_data::Result<Option<StoredRows>> {
        let loaded = self.source.stored_rows(block)?;
        // Where there are none, the block is loaded, and counted, by itself.
        loaded.iter().for_each(|_| self.count());
        Ok(loaded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_it_is() {
        let took = Duration::from_secs(10);
        assert_eq!(line("shuffle", 25, 100, took), "shuffle: 25 of 100 blocks, 25 %, 30 s left");
        assert_eq!(line("shuffle", 120, 100, took), "shuffle: 120 blocks, 10 s");
    }
}
