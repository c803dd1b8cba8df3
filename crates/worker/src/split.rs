//! Cuts a window into shorter ones.

use gt_ir::{Payload, Window};

/// The window in parts of at most `limit` instructions. What dies, dies with the last part.
pub(crate) fn split(window: Window, limit: usize) -> Vec<Window> {
    let Window { instrs, uploads, frees, eager, joined } = window;
    let mut parts = Vec::with_capacity(instrs.len().div_ceil(limit));
    let mut uploads = uploads.into_iter().peekable();
    let mut instrs = instrs.into_iter();
    let mut start = 0;
    while instrs.len() > 0 {
        let part: Vec<_> = instrs.by_ref().take(limit).collect();
        let end = start + part.len();
        let mut own = Vec::new();
        while let Some(payload) = uploads.next_if(|p| (p.instr as usize) < end) {
            own.push(Payload { instr: payload.instr.saturating_sub(start as u32), ..payload });
        }
        parts.push(Window { instrs: part, uploads: own, frees: Vec::new(), eager, joined });
        start = end;
    }
    if let Some(last) = parts.last_mut() {
        last.frees = frees;
        last.uploads.extend(uploads);
    }
    parts
}
