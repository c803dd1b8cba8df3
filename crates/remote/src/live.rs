//! Which values a session holds, and the lines that made them: what to say when a worker is gone.
//!
//! LIVE-VALUES-1: what is made of a lost value is lost with it, for the same reason.
//! LIVE-VALUES-2: a write of lost values is skipped: its cells keep what they have, and the next read says why, once. A write to lost
//! cells of values that are there gives them: a program recovers by writing.

use std::collections::{HashMap, HashSet, VecDeque};

use gt_ir::ops::Fill;
use gt_ir::{DType, Failure, FailureKind, IdMap, Instr, Op, Scalar, Shape, SiteId, TensorId, Window};
use gt_stream::{Occurrence, Survivor};

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
    /// Why writes were skipped, where nobody has heard of it yet (LIVE-VALUES-2). Only what [`Live::remove_lost`] took out: of the rest the
    /// worker tells.
    owed: VecDeque<Failure>,
}

/// What becomes of one value of an instruction.
#[derive(Clone, Copy)]
enum Fate {
    Made,
    /// A cell that keeps its old value.
    Kept(TensorId),
    Lost,
}

impl Live {
    /// Whether values were lost whose names may still come.
    pub fn has_losses(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Takes note of what a window defines and frees. Most of what it defines dies in it, and is not written down at all.
    pub fn window(&mut self, window: &Occurrence) {
        if self.has_losses() {
            return self.after_losses(&window.window());
        }
        let (recipe, bindings) = (window.recipe(), window.bindings());
        let dying = bindings.inputs.iter().zip(recipe.dying()).filter(|(_, dies)| **dies).map(|(id, _)| id);
        dying.chain(&bindings.older_frees).for_each(|id| _ = self.sites.remove(id));
        let made = |value: &Survivor| (window.defined(value.defined as usize), window.sites()[value.instr as usize]);
        self.sites.extend(recipe.survivors().iter().map(made));
    }

    /// As [`Live::window`], for a window that may use lost values.
    fn after_losses(&mut self, window: &Window) {
        for instr in &window.instrs {
            // Also while there is no worker to say so (LIVE-VALUES-1).
            let why = self.loss_of(instr);
            for (k, &id) in instr.outs.iter().enumerate() {
                match (self.fate(instr, k, why), why) {
                    (Fate::Lost, Some(which)) => self.lost.insert(id, which).map(|_| ()),
                    _ => self.sites.insert(id, instr.site).map(|_| ()),
                };
            }
        }
        for id in &window.frees {
            self.sites.remove(id);
            self.lost.remove(id);
        }
    }

    /// What becomes of an instruction's value when it depends on a loss, or does not.
    fn fate(&self, instr: &Instr, k: usize, why: Option<usize>) -> Fate {
        match (why, &instr.op, instr.ins.get(k)) {
            (None, ..) => Fate::Made,
            (Some(_), Op::Write(_), Some(&old)) if !self.lost.contains_key(&old) => Fate::Kept(old),
            (Some(_), ..) => Fate::Lost,
        }
    }

    /// Which loss an instruction depends on. A write needs its new values only (LIVE-VALUES-2). The payload of an upload may have been
    /// lost before anybody asked for it.
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
        self.remove_lost(window, |_, _, _, _| {});
    }

    /// As [`Live::window`], and puts something harmless in the place of what needs lost values: for workers that do not know what was
    /// lost, and have every value of a window named in turn.
    pub fn stand_in(&mut self, window: Occurrence) -> Occurrence {
        if !self.has_losses() {
            self.window(&window);
            return window;
        }
        let mut spelled = window.window();
        self.remove_lost(&mut spelled, |live, id, site, kept| {
            live.stand_ins.insert(id);
            kept.push(nothing(id, site));
        });
        // Every value is still named in turn, so it is a window.
        Occurrence::of(spelled).unwrap_or(window)
    }

    /// Takes out of a window what needs lost values; `instead` may put something in its place.
    fn remove_lost(&mut self, window: &mut Window, instead: impl Fn(&mut Live, TensorId, SiteId, &mut Vec<Instr>)) {
        let mut places: Vec<Option<u32>> = Vec::with_capacity(window.instrs.len());
        let mut kept = Vec::with_capacity(window.instrs.len());
        for mut instr in std::mem::take(&mut window.instrs) {
            if let Some(which) = self.loss_of(&instr) {
                places.push(None);
                for (k, &id) in instr.outs.iter().enumerate() {
                    if let Fate::Kept(old) = self.fate(&instr, k, Some(which)) {
                        kept.push(same(id, old, &instr));
                        self.sites.insert(id, instr.site);
                        self.owe(which);
                        continue;
                    }
                    self.lost.insert(id, which);
                    instead(self, id, instr.site, &mut kept);
                }
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

    /// A write was skipped (LIVE-VALUES-2).
    fn owe(&mut self, which: usize) {
        let failure = &self.failures[which];
        if !self.owed.contains(failure) {
            self.owed.push_back(failure.clone());
        }
    }

    /// Why a write was skipped that nobody has heard of.
    pub fn take_owed(&mut self) -> Option<Failure> {
        self.owed.pop_front()
    }

    /// What whoever reads a value has to hear instead: that it is lost, or of a write that was skipped.
    pub fn refuses(&mut self, id: TensorId) -> Option<Failure> {
        let lost = self.lost(id);
        lost.inspect(|failure| self.heard(failure)).or_else(|| self.take_owed())
    }

    /// Somebody has heard of a failure: what was skipped for it so far is no news.
    pub fn heard(&mut self, failure: &Failure) {
        self.owed.retain(|owed| owed.message != failure.message);
    }

    /// Whether a failure says what was said here.
    pub fn has_said(&self, failure: &Failure) -> bool {
        self.failures.iter().any(|said| said.message == failure.message)
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
                let line = gt_client::site::name(site).unwrap_or_else(|| "an unknown line".to_string());
                format!("\n  {count} from {line}")
            })
            .collect();
        let more = match lines.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!("\n  and from {n} more lines"),
        };
        let tensors = gone.len();
        let failure = Failure::new(
            FailureKind::WorkerLost,
            format!("{worker} is lost ({reason}). It held {tensors} tensors of this session:{}{more}", named.concat()),
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

    /// The values that are lost, by why.
    pub fn all_lost(&self) -> Vec<(Vec<TensorId>, Failure)> {
        let mut lost: Vec<(Vec<TensorId>, Failure)> =
            self.failures.iter().map(|failure| (Vec::new(), failure.clone())).collect();
        self.lost.iter().for_each(|(&id, &which)| lost[which].0.push(id));
        lost.retain(|(ids, _)| !ids.is_empty());
        lost.iter_mut().for_each(|(ids, _)| ids.sort_unstable());
        lost
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

/// What a skipped write does: the cell's next value is the one it has.
fn same(id: TensorId, old: TensorId, write: &Instr) -> Instr {
    Instr { outs: [id].into_iter().collect(), ins: [old, old].into_iter().collect(), ..write.clone() }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn window(lines: &[&str]) -> Window {
        let parsed = |line: &&str| line.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
        Window { instrs: lines.iter().map(parsed).collect(), ..Window::default() }
    }

    fn of(window: &Window) -> Occurrence {
        Occurrence::of(window.clone()).expect("an occurrence")
    }

    /// Cells %0 and %2, and %1, which is lost.
    fn lost_inputs() -> (Live, Failure) {
        let mut live = Live::default();
        let fill = |id: u64| format!("%{id} = fill() dtype=f32 shape=[2] $ 1.0");
        let lines: Vec<String> = (0..3).map(fill).collect();
        live.window(&of(&window(&lines.iter().map(String::as_str).collect::<Vec<_>>())));
        let failure = live.lose_these(&[TensorId(1)], "worker_1", "killed");
        (live, failure)
    }

    fn texts(window: &Window) -> Vec<String> {
        window.instrs.iter().map(|instr| instr.to_string()).collect()
    }

    #[test]
    fn a_write_of_lost_values_lost_its_cells() {
        let (mut live, failure) = lost_inputs();
        let mut next =
            window(&["%3, %4 = write(%0, %1, %2, %1)", "%5 = unary(%3) kind=neg", "%6 = unary(%4) kind=neg"]);
        live.window(&of(&next));
        assert_eq!((live.lost(TensorId(3)), live.lost(TensorId(4))), (None, Some(failure.clone())));
        assert_eq!(live.take_owed(), None, "the worker tells of it");

        let (mut live, _) = lost_inputs();
        live.spare(&mut next);
        assert_eq!(texts(&next), ["%3 = write(%0, %0)", "%5 = unary(%3) kind=neg"]);
        assert_eq!(live.lost(TensorId(6)), Some(failure.clone()));
        assert_eq!((live.take_owed(), live.take_owed()), (Some(failure), None));
    }

    #[test]
    fn a_stand_in_takes_the_place_of_each_lost_value_and_no_other() {
        let (mut live, _) = lost_inputs();
        let mut next = window(&["%3, %4 = write(%0, %1, %2, %1)", "%5 = unary(%4) kind=neg"]);
        next = live.stand_in(of(&next)).window();
        let outs: Vec<u64> = next.instrs.iter().flat_map(|instr| instr.outs.iter().map(|id| id.0)).collect();
        assert_eq!((outs, texts(&next)[0].as_str()), (vec![3, 4, 5], "%3 = write(%0, %0)"));
    }

    #[test]
    fn a_loss_that_was_heard_of_is_not_told_again_for_what_it_had_skipped() {
        let (mut live, failure) = lost_inputs();
        live.spare(&mut window(&["%3 = write(%0, %1)"]));
        live.heard(&failure);
        assert_eq!(live.take_owed(), None);
        live.spare(&mut window(&["%4 = write(%3, %1)"]));
        assert_eq!(live.take_owed(), Some(failure));
    }
}
