//! What a program does under its signals, line by line: placements, what travels, memory.

use std::collections::BTreeMap;
use std::fmt::Write;

use gt_ir::shard::Split;
use gt_ir::{SiteId, TensorType};

use super::{Collective, Placement};

/// What happens at one line of the program.
#[derive(Clone, Debug, Default)]
struct Line {
    /// When it was first seen.
    order: usize,
    /// Instructions with where their results lie.
    ran: BTreeMap<String, u64>,
    /// What travels because of it: how often, how many bytes, and one example.
    moved: BTreeMap<(Collective, String), (u64, u64)>,
}

/// A program's placements, as `gt plan` prints them.
#[derive(Clone, Debug, Default)]
pub struct Report {
    lines: BTreeMap<u32, Line>,
    live_bytes: BTreeMap<u32, u64>,
    peak_bytes: BTreeMap<u32, u64>,
}

impl Report {
    fn line(&mut self, site: SiteId) -> &mut Line {
        let order = self.lines.len();
        self.lines.entry(site.0).or_insert_with(|| Line { order, ..Line::default() })
    }

    pub(super) fn ran(&mut self, site: SiteId, op: &str, ty: &TensorType, placement: &Placement) {
        *self.line(site).ran.entry(format!("{op} → {ty} {}", words(placement))).or_default() += 1;
    }

    pub(super) fn moved(
        &mut self,
        site: SiteId,
        (kind, bytes): (Collective, u64),
        (from, to): (&Placement, &Placement),
        types: &[TensorType],
    ) {
        if kind == Collective::Cut {
            return;
        }
        let what = match types {
            [one] => one.to_string(),
            many => format!("{} tensors", many.len()),
        };
        let way = format!("{what}: {} → {}", words(from), words(to));
        let (count, total) = self.line(site).moved.entry((kind, way)).or_default();
        *count += 1;
        *total = total.saturating_add(bytes);
    }

    pub(super) fn holds(&mut self, ty: &TensorType, placement: &Placement, held: bool) {
        for (rank, &worker) in placement.mesh.workers().iter().enumerate() {
            let bytes = placement.local(ty, rank).bytes() as u64;
            let live = self.live_bytes.entry(worker).or_default();
            *live = if held { live.saturating_add(bytes) } else { live.saturating_sub(bytes) };
            let peak = self.peak_bytes.entry(worker).or_default();
            *peak = (*peak).max(*live);
        }
    }

    /// As text; `name` gives the name of a line, and `explain` every instruction besides what travels.
    pub fn text(&self, name: &dyn Fn(SiteId) -> Option<String>, explain: bool) -> String {
        let mut lines: Vec<(&u32, &Line)> = self.lines.iter().collect();
        lines.sort_by_key(|(_, line)| line.order);
        let mut out = String::new();
        for (&site, line) in lines {
            if !explain && line.moved.is_empty() {
                continue;
            }
            let _ = writeln!(out, "{}", name(SiteId(site)).unwrap_or_else(|| "(no line)".to_string()));
            for (what, count) in line.ran.iter().filter(|_| explain) {
                let _ = writeln!(out, "    {count:>6} × {what}");
            }
            for ((kind, way), (count, bytes)) in &line.moved {
                let _ = writeln!(out, "    {count:>6} × {kind:<14} {:>10}  {way}", size(*bytes));
            }
        }
        if out.is_empty() {
            out.push_str("workers send nothing to each other\n");
        }
        let _ = writeln!(out, "\npeak memory of the script's tensors:");
        for (worker, bytes) in &self.peak_bytes {
            let _ = writeln!(out, "    worker {worker}: {}", size(*bytes));
        }
        out
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// A placement in words: `shard(0) on 0,1`.
fn words(placement: &Placement) -> String {
    let split = |split: &Split| match split {
        Split::Replicate => "whole".to_string(),
        Split::Shard { axis, unit: 1 } => format!("shard({axis})"),
        Split::Shard { axis, unit } => format!("shard({axis}, by {unit})"),
        Split::Partial(kind) => format!("partial({})", kind.name()),
    };
    let splits: Vec<String> = placement.splits.iter().map(split).collect();
    let workers: Vec<String> = placement.mesh.workers().iter().map(u32::to_string).collect();
    format!("{} on {}", splits.join(" × "), workers.join(","))
}
