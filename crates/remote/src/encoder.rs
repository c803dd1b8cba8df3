//! How a window goes out: whole, as a definition, or by its template.
//!
//! ENCODER-1: a template that a message needs is remembered until that message has been executed: whichever worker gets it may ask
//! for the template, a new home among them.

use std::collections::HashMap;
use std::sync::Arc;

use gt_ir::{Payload, Window};
use gt_net::protocol::{StreamMessage, encode};
use gt_plan::TemplateHasher;

/// Payloads over this go by the data connection.
const TRAVELS_APART_BYTES: usize = 64 << 10;
/// What payloads may add to a message: servers take messages of a few MiB.
const INSIDE_BYTES: usize = 1 << 20;
/// Templates that are remembered, besides those that may be asked for. Workers remember more, so that they rarely have to ask.
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
    /// The number of the last message that carried it.
    last_message: u64,
}

/// Encodes windows, with memory of those that came before.
#[derive(Default)]
pub(super) struct Encoder {
    hasher: TemplateHasher,
    known: HashMap<u128, Known>,
    bindings: Vec<u8>,
}

impl Encoder {
    /// Message number `number`, which carries a window, with its payloads up to the length that [`longest_inside`] gave. Those below
    /// `executed` have been executed.
    pub fn window(&mut self, window: &Window, longest: usize, number: u64, executed: u64) -> Vec<u8> {
        // What time or another thread cut will not come again as it is.
        if window.eager || window.instrs.is_empty() {
            return whole(window, longest);
        }
        let (digest, bindings) = self.hasher.run(window, longest);
        self.bindings.clear();
        bindings.encode(&mut self.bindings);
        if let Some(known) = self.known.get_mut(&digest) {
            known.last_message = number;
            if known.template.is_some() {
                return encode(&StreamMessage::Replay { digest, bindings: &self.bindings });
            }
            let mut template = Vec::new();
            self.hasher.template(window).encode(&mut template);
            let message = encode(&StreamMessage::Define { digest, template: &template, bindings: &self.bindings });
            known.template = Some(template.into());
            return message;
        }
        if self.known.len() >= REMEMBERED {
            self.forget(executed);
        }
        self.known.insert(digest, Known { template: None, last_message: number });
        whole(window, longest)
    }

    /// A template that was sent and is still remembered.
    pub fn template(&self, digest: u128) -> Option<Arc<[u8]>> {
        self.known.get(&digest)?.template.clone()
    }

    /// Forgets the half that has not been used for longest, as far as nobody will ask for it (ENCODER-1).
    fn forget(&mut self, executed: u64) {
        let mut uses: Vec<u64> = self.known.values().map(|k| k.last_message).collect();
        uses.sort_unstable();
        let oldest = uses[uses.len() / 2];
        self.known.retain(|_, known| {
            known.last_message > oldest || (known.template.is_some() && known.last_message >= executed)
        });
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

#[cfg(test)]
mod tests {
    use gt_ir::Instr;
    use gt_net::protocol::decode;

    use super::*;

    fn window(size: usize) -> Window {
        let instr: Instr = format!("%1 = fill() dtype=f32 shape=[{size}] $ 3.0").parse().unwrap();
        Window { instrs: vec![instr], ..Window::default() }
    }

    /// Sends windows of these sizes as messages from `number` on; the digests of those that went as templates.
    fn send(encoder: &mut Encoder, sizes: std::ops::Range<usize>, number: u64, executed: u64) -> Vec<u128> {
        let digest = |(k, size): (u64, usize)| match decode(&encoder.window(&window(size), 0, number + k, executed)) {
            Ok(StreamMessage::Define { digest, .. } | StreamMessage::Replay { digest, .. }) => Some(digest),
            Ok(StreamMessage::Send { .. }) => None,
            other => panic!("{other:?}"),
        };
        (0..).zip(sizes).filter_map(digest).collect()
    }

    #[test]
    fn a_new_home_asked_for_a_template_that_was_forgotten() {
        let mut encoder = Encoder::default();
        assert!(send(&mut encoder, 1..10, 0, 0).is_empty(), "the first time they go whole");
        let used = send(&mut encoder, 1..10, 10, 0);
        assert_eq!(used.len(), 9);
        // Many others come, and nothing of all that has been executed.
        for round in 0..4 {
            let sizes = 100 + 1000 * round..100 + 1000 * round + REMEMBERED;
            send(&mut encoder, sizes, 20 + 1000 * round as u64, 10);
        }
        assert!(used.iter().all(|digest| encoder.template(*digest).is_some()), "ENCODER-1");
        assert!(encoder.known.len() <= REMEMBERED + used.len());
        // Now it has.
        send(&mut encoder, 10_000..10_000 + 2 * REMEMBERED, 10_000, 9_000);
        assert!(used.iter().all(|digest| encoder.template(*digest).is_none()));
    }
}
