//! How a window goes out: whole, as a definition, or by its template.
//!
//! ENCODER-1: a template that a message needs is remembered until that message has been executed: whichever worker gets it may ask
//! for the template, a new home among them.

use std::collections::HashMap;
use std::sync::Arc;

use gt_ir::Payload;
use gt_net::protocol::{StreamMessage, encode};
use gt_stream::{Occurrence, Template};

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

/// A template that was seen before.
struct Known {
    template: Template,
    /// Its number, and its binary form, once it has been sent.
    sent: Option<(u64, Arc<[u8]>)>,
    /// The number of the last message that carried it.
    last_message: u64,
}

/// Encodes windows, with memory of those that came before.
#[derive(Default)]
pub(super) struct Encoder {
    /// Templates by the numbers of their recipes.
    known: HashMap<u64, Vec<Known>>,
    len: usize,
    /// How many templates were sent.
    last: u64,
    bindings: Vec<u8>,
}

impl Encoder {
    /// Message number `number`, which carries a window, with its payloads up to the length that [`longest_inside`] gave. Those below
    /// `executed` have been executed.
    pub fn window(&mut self, window: &Occurrence, longest: usize, number: u64, executed: u64) -> Vec<u8> {
        // What time or another thread cut will not come again as it is.
        if window.bindings().eager || window.is_empty() {
            return whole(window, longest);
        }
        let template = window.template();
        let known = self.known.get_mut(&template.recipe.number());
        if let Some(known) = known.into_iter().flatten().find(|known| known.template.is(template)) {
            known.last_message = number;
            self.bindings.clear();
            window.bindings().encode(longest, &mut self.bindings);
            if let Some((number, _)) = known.sent {
                return encode(&StreamMessage::Replay { number, bindings: &self.bindings });
            }
            self.last += 1;
            let mut encoded = Vec::new();
            template.encode(&mut encoded);
            let message =
                encode(&StreamMessage::Define { number: self.last, template: &encoded, bindings: &self.bindings });
            known.sent = Some((self.last, encoded.into()));
            return message;
        }
        if self.len >= REMEMBERED {
            self.forget(executed);
        }
        self.len += 1;
        let known = Known { template: template.clone(), sent: None, last_message: number };
        self.known.entry(template.recipe.number()).or_default().push(known);
        whole(window, longest)
    }

    /// A template that was sent and is still remembered.
    pub fn template(&self, number: u64) -> Option<Arc<[u8]>> {
        let sent = self.known.values().flatten().filter_map(|known| known.sent.as_ref());
        sent.into_iter().find(|(sent, _)| *sent == number).map(|(_, encoded)| encoded.clone())
    }

    /// Forgets the half that has not been used for longest, as far as nobody will ask for it (ENCODER-1).
    fn forget(&mut self, executed: u64) {
        let mut uses: Vec<u64> = self.known.values().flatten().map(|known| known.last_message).collect();
        uses.sort_unstable();
        let oldest = uses[uses.len() / 2];
        self.known.retain(|_, known| {
            known.retain(|known| {
                known.last_message > oldest || (known.sent.is_some() && known.last_message >= executed)
            });
            !known.is_empty()
        });
        self.len = self.known.values().map(Vec::len).sum();
    }
}

fn whole(window: &Occurrence, longest: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 + 48 * window.len());
    window.encode(longest, &mut bytes);
    encode(&StreamMessage::Send { window: &bytes })
}

#[cfg(test)]
mod tests {
    use gt_ir::{Instr, Window};
    use gt_net::protocol::decode;

    use super::*;

    fn window(size: usize) -> Occurrence {
        let instr: Instr = format!("%1 = fill() dtype=f32 shape=[{size}] $ 3.0").parse().unwrap();
        Occurrence::of(Window { instrs: vec![instr], ..Window::default() }).expect("an occurrence")
    }

    /// Sends windows of these sizes as messages from `number` on; the numbers of the templates that were used.
    fn send(encoder: &mut Encoder, sizes: std::ops::Range<usize>, number: u64, executed: u64) -> Vec<u64> {
        let template = |(k, size): (u64, usize)| match decode(&encoder.window(&window(size), 0, number + k, executed)) {
            Ok(StreamMessage::Define { number, .. } | StreamMessage::Replay { number, .. }) => Some(number),
            Ok(StreamMessage::Send { .. }) => None,
            other => panic!("{other:?}"),
        };
        (0..).zip(sizes).filter_map(template).collect()
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
        assert!(used.iter().all(|number| encoder.template(*number).is_some()), "ENCODER-1");
        assert!(encoder.len <= REMEMBERED + used.len());
        // Now it has.
        send(&mut encoder, 10_000..10_000 + 2 * REMEMBERED, 10_000, 9_000);
        assert!(used.iter().all(|number| encoder.template(*number).is_none()));
    }
}
