//! Which values a session holds, and the lines that made them: what to say when a worker is gone.

use std::collections::{HashMap, HashSet};

use gt_ir::ops::Fill;
use gt_ir::{DType, Failure, FailureKind, IdMap, Instr, Op, Scalar, Shape, SiteId, TensorId, Window};

/// How many lines a failure names.
const NAMED: usize = 5;

/// The values that outlive their windows.
#[derive(Default)]
pub(super) struct Live {
    sites: IdMap<SiteId>,
    /// Values that were lost, and why.
    lost: IdMap<usize>,
    /// Lost values for which a worker has something else; see [`Live::stand_in`].
    stand_ins: HashSet<TensorId>,
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

    /// Which loss an instruction depends on. A write needs its new values only: the old ones are replaced. The payload of an
    /// upload may have been lost before anybody asked for it.
    fn loss_of(&self, instr: &Instr) -> Option<usize> {
        let needed = match &instr.op {
            Op::Write(_) => &instr.ins[instr.ins.len() / 2..],
            Op::Upload(_) => &instr.outs[..],
            _ => &instr.ins[..],
        };
        needed.iter().find_map(|id| self.lost.get(id).copied())
    }

    /// As [`Live::window`], and leaves in the window what can still run: for workers that do not know what was lost.
    pub fn spare(&mut self, window: &mut Window) {
        self.sift(window, |_, _, _| {});
    }

    /// As [`Live::window`], and puts something harmless in the place of what needs lost values: for workers that do not know what was
    /// lost, and have every value of a window named in turn.
    pub fn stand_in(&mut self, window: &mut Window) {
        self.sift(window, |live, instr, kept| {
            live.stand_ins.extend(instr.outs.iter().copied());
            kept.extend(instr.outs.iter().map(|&id| nothing(id, instr.site)));
        });
    }

    /// Takes out of a window what needs lost values; `instead` may put something in its place.
    fn sift(&mut self, window: &mut Window, instead: impl Fn(&mut Live, &Instr, &mut Vec<Instr>)) {
        if self.lost.is_empty() {
            return self.window(window);
        }
        let mut places: Vec<Option<u32>> = Vec::with_capacity(window.instrs.len());
        let mut kept = Vec::with_capacity(window.instrs.len());
        for mut instr in std::mem::take(&mut window.instrs) {
            if let Some(which) = self.loss_of(&instr) {
                self.lost.extend(instr.outs.iter().map(|&id| (id, which)));
                places.push(None);
                instead(self, &instr, &mut kept);
                continue;
            }
            self.replace_lost(&mut instr);
            self.sites.extend(instr.outs.iter().map(|&id| (id, instr.site)));
            places.push(Some(kept.len() as u32));
            kept.push(instr);
        }
        window.instrs = kept;
        keep_payloads(window, &places);
        window.met.retain(|met| !self.lost.contains_key(&met.id));
        window.frees.retain(|id| {
            self.sites.remove(id);
            self.lost.remove(id).is_none() || self.stand_ins.remove(id)
        });
    }

    /// A program recovers by writing: what is there no more is not needed either.
    fn replace_lost(&self, instr: &mut Instr) {
        if let Op::Write(_) = &instr.op {
            let half = instr.ins.len() / 2;
            for k in (0..half).filter(|&k| self.lost.contains_key(&instr.ins[k])).collect::<Vec<_>>() {
                instr.ins[k] = instr.ins[half + k];
            }
        }
    }

    /// Values that cannot be had, for a reason of their own.
    pub fn fail(&mut self, ids: impl IntoIterator<Item = TensorId>, failure: Failure) {
        self.failures.push(failure);
        let which = self.failures.len() - 1;
        for id in ids {
            self.sites.remove(&id);
            self.lost.insert(id, which);
        }
    }

    /// Everything there is has been lost with a worker.
    pub fn lose(&mut self, worker: &str, reason: &str) -> Failure {
        let all = self.values();
        self.lose_these(&all, worker, reason)
    }

    /// These values have been lost with a worker.
    pub fn lose_these(&mut self, ids: &[TensorId], worker: &str, reason: &str) -> Failure {
        let mut by_line: HashMap<SiteId, usize> = HashMap::new();
        let gone: Vec<(TensorId, SiteId)> = ids.iter().filter_map(|id| self.sites.remove_entry(id)).collect();
        gone.iter().for_each(|&(_, site)| *by_line.entry(site).or_default() += 1);
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
        let tensors = gone.len();
        let failure = Failure::new(
            FailureKind::WorkerLost,
            format!("{worker} is gone ({reason}); it held {tensors} tensors of this session:{}{more}", named.concat()),
        );
        self.failures.push(failure.clone());
        let which = self.failures.len() - 1;
        self.lost.extend(gone.into_iter().map(|(id, _)| (id, which)));
        failure
    }

    /// The names of all values, ascending.
    pub fn values(&self) -> Vec<TensorId> {
        let mut ids: Vec<TensorId> = self.sites.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// The names of all values, and of those that are lost, ascending.
    pub fn values_and_lost(&self) -> Vec<TensorId> {
        let mut ids = self.values();
        ids.extend(self.lost.keys());
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

/// Keeps the payloads of instructions that are still there, by their new places.
fn keep_payloads(window: &mut Window, places: &[Option<u32>]) {
    window.uploads.retain_mut(|payload| match places.get(payload.instr as usize).copied().flatten() {
        Some(place) => {
            payload.instr = place;
            true
        }
        None => false,
    });
}

/// What stands for a value that cannot be made.
fn nothing(id: TensorId, site: SiteId) -> Instr {
    Instr {
        op: Fill { dtype: DType::F32, shape: Shape::new(&[]) }.into(),
        outs: [id].into_iter().collect(),
        ins: Default::default(),
        scalars: [Scalar::F64(0.0)].into_iter().collect(),
        scope: Default::default(),
        site,
    }
}
