//! Which values a session holds, and the lines that made them: what to say when a worker is gone.

use std::collections::HashMap;

use gt_ir::{Failure, FailureKind, Instr, Op, SiteId, TensorId, Window};

/// How many lines a failure names.
const NAMED: usize = 5;

/// The values that outlive their windows.
#[derive(Default)]
pub(super) struct Live {
    sites: HashMap<TensorId, SiteId>,
    /// Values that were lost, and why.
    lost: HashMap<TensorId, usize>,
    failures: Vec<Failure>,
}

impl Live {
    /// Takes note of what a window defines and frees.
    pub fn window(&mut self, window: &Window) {
        for instr in &window.instrs {
            // What is made of a lost value is lost with it, also while there is no worker to say so.
            let why = if self.lost.is_empty() { None } else { self.loss_of(instr) };
            for &id in &instr.outs {
                match why {
                    Some(which) => self.lost.insert(id, which).map(|_| ()),
                    None => self.sites.insert(id, instr.site).map(|_| ()),
                };
            }
        }
        for id in &window.frees {
            self.sites.remove(id);
            if !self.lost.is_empty() {
                self.lost.remove(id);
            }
        }
    }

    /// Which loss an instruction depends on. A write needs its new values only: the old ones are replaced.
    fn loss_of(&self, instr: &Instr) -> Option<usize> {
        let needed = match &instr.op {
            Op::Write(_) => &instr.ins[instr.ins.len() / 2..],
            _ => &instr.ins[..],
        };
        needed.iter().find_map(|id| self.lost.get(id).copied())
    }

    /// Everything there is has been lost with a worker.
    pub fn lose(&mut self, worker: &str, reason: &str) -> Failure {
        let mut by_line: HashMap<SiteId, usize> = HashMap::new();
        self.sites.values().for_each(|&site| *by_line.entry(site).or_default() += 1);
        let mut lines: Vec<(SiteId, usize)> = by_line.into_iter().collect();
        lines.sort_by_key(|&(site, count)| (std::cmp::Reverse(count), site.0));
        let named: Vec<String> = lines
            .iter()
            .take(NAMED)
            .map(|&(site, count)| {
                let line = crate::site::name(site).unwrap_or_else(|| "an unknown line".to_string());
                format!("\n  {count} from {line}")
            })
            .collect();
        let more = match lines.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!("\n  and of {n} more lines"),
        };
        let tensors = self.sites.len();
        let failure = Failure::new(
            FailureKind::WorkerLost,
            format!("{worker} is gone ({reason}); it held {tensors} tensors of this session:{}{more}", named.concat()),
        );
        self.failures.push(failure.clone());
        let which = self.failures.len() - 1;
        self.lost.extend(self.sites.drain().map(|(id, _)| (id, which)));
        failure
    }

    /// The names of all values, ascending.
    pub fn values(&self) -> Vec<TensorId> {
        let mut ids: Vec<TensorId> = self.sites.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// What was said when values were lost last.
    pub fn last_loss(&self) -> Option<&Failure> {
        self.failures.last()
    }

    /// Why a value is lost, if it is.
    pub fn lost(&self, id: TensorId) -> Option<Failure> {
        self.lost.get(&id).map(|&which| self.failures[which].clone())
    }
}
