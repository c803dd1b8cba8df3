//! Statistics as text: one `name value` a line, so that they can travel.

use std::fmt::Write as _;

use crate::{Sequence, WorkerStats};

/// Calls `$each!(field)` for every counter.
macro_rules! counters {
    ($each:ident) => {
        $each!(
            total_instructions,
            windows,
            idle_cuts,
            plan_hits,
            plan_misses,
            structure_hits,
            cached_plans,
            compiled_windows,
            compiled_instructions,
            round_trips,
            syncs,
            bytes_in,
            bytes_out,
            live_bytes,
            peak_bytes,
            cached_bytes,
            limit_bytes,
            live_tensors,
            flops,
            busy_ns,
            planning_ns,
            failures,
            unique_sequences,
            hot_sequences,
            hot_instructions,
            hot_threshold
        )
    };
}

impl WorkerStats {
    /// The text form.
    pub fn to_text(&self) -> String {
        let mut out = format!("worker {}\nengine {}\n", self.worker, self.engine);
        macro_rules! print {
            ($($field:ident),*) => { $(let _ = writeln!(out, concat!(stringify!($field), " {}"), self.$field);)* };
        }
        counters!(print);
        for s in &self.top_sequences {
            let _ = writeln!(out, "sequence {} {} {}", s.hash, s.count, s.instrs);
        }
        out
    }

    /// Reads the text form. Counters that this version does not know are passed over.
    ///
    /// # Errors
    /// When a line is not one; the text says which.
    pub fn from_text(text: &str) -> Result<WorkerStats, String> {
        let mut stats = WorkerStats::default();
        for line in text.lines() {
            let wrong = || format!("{line:?} is not a counter");
            let (name, value) = line.split_once(' ').ok_or_else(wrong)?;
            macro_rules! read {
                ($($field:ident),*) => {
                    match name {
                        "worker" => stats.worker = value.to_string(),
                        "engine" => stats.engine = value.to_string(),
                        "sequence" => stats.top_sequences.push(sequence(value).ok_or_else(wrong)?),
                        $(stringify!($field) => stats.$field = value.parse().map_err(|_| wrong())?,)*
                        _ => {}
                    }
                };
            }
            counters!(read);
        }
        Ok(stats)
    }
}

fn sequence(text: &str) -> Option<Sequence> {
    let mut words = text.split(' ');
    let hash = words.next()?.to_string();
    Some(Sequence { hash, count: words.next()?.parse().ok()?, instrs: words.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_survives() {
        let mut stats = WorkerStats { worker: "worker_0".into(), engine: "cpu".into(), ..WorkerStats::default() };
        let mut next = 7;
        macro_rules! fill {
            ($($field:ident),*) => { $({ next += 1; stats.$field = next; })* };
        }
        counters!(fill);
        stats.top_sequences.push(Sequence { hash: "abc".into(), count: 3, instrs: 4 });
        assert_eq!(WorkerStats::from_text(&stats.to_text()), Ok(stats));
        assert!(WorkerStats::from_text("windows many").unwrap_err().contains("windows many"));
        assert!(WorkerStats::from_text("windows").is_err());
    }
}
