//! Cuts a window into shorter ones.

use std::sync::Arc;

use gt_ir::{Failure, Instr, Payload, Window};

use crate::inbox::Lost;

/// A piece of a window, before the last.
pub(crate) enum Part {
    Window(Window),
    /// An upload whose payload never came: its value is poisoned, whatever else the window does goes on.
    Lost(Instr, Arc<Failure>),
}

/// The window in parts of at most `limit` instructions, the lost uploads taken out. What dies, dies with the last part,
/// which is a window and may have no instructions. `lost` ascends by instruction.
pub(crate) fn parts(window: Window, limit: Option<usize>, lost: Vec<Lost>) -> (Vec<Part>, Window) {
    let Window { instrs, uploads, frees, eager, joined, met: _ } = window;
    // A part is not what the client saw repeat.
    let joined = joined && lost.is_empty();
    let empty = || Window { eager, joined, ..Window::default() };
    let mut uploads = uploads.into_iter().peekable();
    let mut lost = lost.into_iter().peekable();
    let (mut before, mut part, mut start) = (Vec::new(), empty(), 0);
    for (at, instr) in instrs.into_iter().enumerate() {
        let gone = lost.next_if(|lost| lost.instr as usize == at);
        let full = limit.is_some_and(|limit| part.instrs.len() >= limit);
        if !part.instrs.is_empty() && (full || gone.is_some()) {
            before.push(Part::Window(std::mem::replace(&mut part, empty())));
            start = at;
        }
        match gone {
            Some(Lost { failure, .. }) => {
                before.push(Part::Lost(instr, failure));
                start = at + 1;
            }
            None => {
                while let Some(payload) = uploads.next_if(|p| p.instr as usize <= at) {
                    part.uploads.push(Payload { instr: payload.instr.saturating_sub(start as u32), ..payload });
                }
                part.instrs.push(instr);
            }
        }
    }
    // Payloads that no instruction takes: whoever plans the part refuses it.
    part.uploads.extend(uploads);
    part.frees = frees;
    (before, part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_ir::{FailureKind, TensorId};

    fn window() -> Window {
        let lines = [
            "%1 = upload() dtype=f32 shape=[1]",
            "%2 = upload() dtype=f32 shape=[1]",
            "%3 = unary(%1) kind=neg",
            "%4 = upload() dtype=f32 shape=[1]",
        ];
        let payload = |instr: u32| Payload { instr, bytes: vec![instr as u8; 4].into() };
        Window {
            instrs: lines.iter().map(|line| line.parse().unwrap()).collect(),
            uploads: vec![payload(0), payload(3)],
            frees: vec![TensorId(1)],
            ..Window::default()
        }
    }

    fn shape(window: &Window) -> (Vec<u64>, Vec<(u32, u8)>) {
        let ids = window.instrs.iter().map(|i| i.outs[0].0).collect();
        (ids, window.uploads.iter().map(|p| (p.instr, p.bytes[0])).collect())
    }

    fn lost(instr: u32) -> Lost {
        Lost { instr, failure: Arc::new(Failure::new(FailureKind::WorkerLost, "gone")) }
    }

    #[test]
    fn a_lost_upload_is_taken_out_and_the_rest_stays() {
        let (before, last) = parts(window(), None, vec![lost(1)]);
        assert!(matches!(&before[0], Part::Window(part) if shape(part) == (vec![1], vec![(0, 0)])));
        assert!(matches!(&before[1], Part::Lost(instr, _) if instr.outs[0] == TensorId(2)));
        assert_eq!((before.len(), shape(&last)), (2, (vec![3, 4], vec![(1, 3)])));
        assert_eq!(last.frees, [TensorId(1)]);
    }

    #[test]
    fn what_is_lost_at_the_ends_leaves_no_empty_part_but_the_last() {
        let mut all = window();
        all.uploads.clear();
        let (before, last) = parts(all, Some(1), vec![lost(0), lost(1), lost(3)]);
        let lost = |part: &Part| matches!(part, Part::Lost(..));
        assert_eq!(before.iter().map(lost).collect::<Vec<_>>(), [true, true, false, true]);
        assert!(last.instrs.is_empty());
        assert_eq!(last.frees, [TensorId(1)]);
    }

    #[test]
    fn a_limit_cuts_evenly_and_moves_payloads_along() {
        let mut all = window();
        all.uploads.insert(1, Payload { instr: 1, bytes: vec![1; 4].into() });
        let (before, last) = parts(all, Some(2), Vec::new());
        assert!(matches!(&before[0], Part::Window(part) if shape(part) == (vec![1, 2], vec![(0, 0), (1, 1)])));
        assert_eq!((before.len(), shape(&last)), (1, (vec![3, 4], vec![(1, 3)])));
    }
}
