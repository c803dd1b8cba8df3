//! How a window goes out: whole, as a definition, or by its template.

use std::collections::HashMap;
use std::sync::Arc;

use gt_ir::{Payload, Window};
use gt_net::protocol::{StreamMessage, encode};
use gt_plan::Outliner;

/// Payloads over this go by the data connection.
const TRAVELS_APART_BYTES: usize = 64 << 10;
/// What payloads may add to a message: servers take messages of a few MiB.
const INSIDE_BYTES: usize = 1 << 20;
/// Templates that are remembered. Workers remember more, so that they rarely have to ask.
const REMEMBERED: usize = 512;

/// Payloads of a window that are longer than this travel apart: the longest ones, so that the rest has room in a message.
pub(super) fn longest_inside(uploads: &[Payload]) -> usize {
    let mut longest = TRAVELS_APART_BYTES;
    let inside =
        |longest: usize| -> usize { uploads.iter().map(|p| p.bytes.len()).filter(|&len| len <= longest).sum() };
    while longest > 0 && inside(longest) > INSIDE_BYTES {
        longest /= 2;
    }
    longest
}

/// A window that was seen before.
struct Known {
    /// Its template, once it has been sent.
    template: Option<Arc<[u8]>>,
    last_used: u64,
}

/// Encodes windows, with memory of those that came before.
#[derive(Default)]
pub(super) struct Encoder {
    outliner: Outliner,
    known: HashMap<u128, Known>,
    uses: u64,
    bindings: Vec<u8>,
}

impl Encoder {
    /// The message that carries a window, with its payloads up to the length that [`longest_inside`] gave.
    pub fn window(&mut self, window: &Window, longest: usize) -> Vec<u8> {
        // What time or another thread cut will not come again as it is.
        if window.eager || window.instrs.is_empty() {
            return whole(window, longest);
        }
        let (digest, bindings) = self.outliner.run(window, longest);
        self.bindings.clear();
        bindings.encode(&mut self.bindings);
        self.uses += 1;
        if let Some(known) = self.known.get_mut(&digest) {
            known.last_used = self.uses;
            if known.template.is_some() {
                return encode(&StreamMessage::Replay { digest, bindings: &self.bindings });
            }
            let mut template = Vec::new();
            self.outliner.template(window).encode(&mut template);
            let message = encode(&StreamMessage::Define { digest, template: &template, bindings: &self.bindings });
            known.template = Some(template.into());
            return message;
        }
        if self.known.len() >= REMEMBERED {
            self.forget();
        }
        self.known.insert(digest, Known { template: None, last_used: self.uses });
        whole(window, longest)
    }

    /// A template that was sent and is still remembered.
    pub fn template(&self, digest: u128) -> Option<Arc<[u8]>> {
        self.known.get(&digest)?.template.clone()
    }

    /// Forgets the half that has not been used for longest.
    fn forget(&mut self) {
        let mut uses: Vec<u64> = self.known.values().map(|k| k.last_used).collect();
        uses.sort_unstable();
        let oldest = uses[uses.len() / 2];
        self.known.retain(|_, known| known.last_used > oldest);
    }
}

fn whole(window: &Window, longest: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 + 48 * window.instrs.len());
    if window.uploads.iter().any(|p| p.bytes.len() > longest) {
        let mut light = window.clone();
        light.uploads.retain(|p| p.bytes.len() <= longest);
        light.encode(&mut bytes);
    } else {
        window.encode(&mut bytes);
    }
    encode(&StreamMessage::Send { window: &bytes })
}
