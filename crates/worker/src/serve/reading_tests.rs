//! Streams of all forms, forgotten templates and repeated messages, read by [`Reading`].

use std::collections::BTreeMap;

use gt_ir::{DType, Instr, SiteId, TensorId, TensorType, Window};
use gt_net::protocol::{Peer, StreamMessage, WorkerInfo, encode};
use gt_plan::Outliner;
use gt_plan::shard::{Conversion, PlacedStep, PlacedWindow, Placement};
use proptest::prelude::*;

use super::config::HeldLimits;
use super::reading::{Fault, Reading, Step};

/// One of few shapes of windows, under names of its own.
fn window(shape: u64, n: u64) -> Window {
    let line = |k: u64| format!("%{} = fill() dtype=f32 shape=[{}] $ {n}.0", 10 * n + k, shape + 1).parse().unwrap();
    Window { instrs: (0..=shape).map(line).collect(), ..Window::default() }
}

fn held(templates: usize) -> HeldLimits {
    HeldLimits { templates, ..HeldLimits::default() }
}

/// What a client sends, and what it knows by template.
#[derive(Default)]
struct Client {
    seen: BTreeMap<u128, u8>,
    templates: BTreeMap<u128, Vec<u8>>,
    sent: Vec<Vec<u8>>,
    expected: Vec<Window>,
}

impl Client {
    fn window(&mut self, window: Window) {
        let mut outliner = Outliner::default();
        let (digest, bindings) = outliner.run(&window, 0);
        let mut bound = Vec::new();
        bindings.encode(&mut bound);
        let (mut template, mut bytes) = (Vec::new(), Vec::new());
        outliner.template(&window).encode(&mut template);
        window.encode(&mut bytes);
        let times = self.seen.entry(digest).or_default();
        *times = times.saturating_add(1);
        self.sent.push(match *times {
            1 => encode(&StreamMessage::Send { window: &bytes }),
            2 => encode(&StreamMessage::Define { digest, template: &template, bindings: &bound }),
            _ => encode(&StreamMessage::Replay { digest, bindings: &bound }),
        });
        self.templates.insert(digest, template);
        self.expected.push(window);
    }

    fn template(&mut self, digest: u128) {
        self.sent.push(encode(&StreamMessage::Template { digest, template: &self.templates[&digest] }));
    }
}

proptest! {
    #[test]
    fn every_window_is_read_once_and_in_order(
        shapes in prop::collection::vec(0u64..4, 1..40),
        templates in 1usize..4,
        late in prop::collection::vec(0usize..5, 40),
        again in prop::collection::vec(any::<bool>(), 200),
    ) {
        let mut client = Client::default();
        let mut reading = Reading::new(0, false, &held(templates));
        let (mut windows, mut streams, mut wanted) = (Vec::new(), Vec::new(), Vec::<(usize, u128)>::new());
        let mut shapes = shapes.into_iter().enumerate();
        let (mut next, mut asked) = (0, 0);
        loop {
            // A template comes after some more windows, or when there are none.
            wanted.iter_mut().for_each(|(wait, _)| *wait = wait.saturating_sub(1));
            let shape = shapes.next();
            let due = wanted.iter().position(|(wait, _)| *wait == 0 || shape.is_none());
            if let Some((n, shape)) = shape {
                client.window(window(shape, n as u64));
            } else if due.is_none() && next == client.sent.len() {
                break;
            }
            if let Some(at) = due {
                let (_, digest) = wanted.remove(at);
                client.template(digest);
            }
            while next < client.sent.len() {
                let repeats = if again[next % again.len()] { 2 } else { 1 };
                for _ in 0..repeats {
                    let mut steps = Vec::new();
                    let asks = reading.take(next as u64, &client.sent[next], &mut steps).unwrap();
                    if let Some(digest) = asks {
                        wanted.push((late[asked % late.len()], digest));
                        asked += 1;
                    }
                    for (stream, step) in steps {
                        streams.push(stream);
                        match step {
                            Step::Window(new) => windows.push(new.window),
                            Step::Repeat(repeat) => windows.push(repeat.window()),
                            _ => {}
                        }
                    }
                }
                next += 1;
            }
            prop_assert!(wanted.len() <= 1, "a template is asked for once, and one at a time");
        }
        prop_assert_eq!(windows, client.expected);
        prop_assert_eq!(streams, (1..=client.sent.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn no_bytes_do_harm(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..20)) {
        let mut reading = Reading::new(0, false, &held(2));
        for (seq, message) in messages.iter().enumerate() {
            let mut steps = Vec::new();
            // The session would be closed at the first fault; going on must be harmless all the same.
            let _ = reading.take(seq as u64, message, &mut steps);
            prop_assert!(steps.len() <= seq + 1);
        }
    }
}

#[test]
fn what_follows_a_missing_template_keeps_its_place() {
    let mut reading = Reading::new(5, false, &held(2));
    let mut client = Client::default();
    (0..3).for_each(|n| client.window(window(0, n)));
    let mut steps = Vec::new();
    let digest = reading.take(5, &client.sent[2], &mut steps).unwrap().unwrap();
    let read = encode(&StreamMessage::Read { request: 1, id: TensorId(9) });
    assert_eq!(reading.take(6, &read, &mut steps), Ok(None));
    assert_eq!(reading.take(8, b"", &mut steps), Err(Fault::Gap { expected: 7 }));
    assert!(steps.is_empty() && reading.awaited() == Some(digest));
    client.template(digest);
    assert_eq!(reading.take(7, &client.sent[3], &mut steps), Ok(None));
    let [(6, Step::Repeat(_)), (7, Step::Read { .. }), (8, Step::Nothing)] = &steps[..] else {
        panic!("{} steps", steps.len())
    };
    assert_eq!((reading.received(), reading.awaited()), (8, None));
}

/// A worker's part of a window for two, by the number that it has.
fn placed(own: u32) -> (Reading, Vec<u8>) {
    let mut reading = Reading::new(0, false, &held(2));
    let worker = WorkerInfo {
        index: 1,
        id: "worker_1".into(),
        unix: None,
        tcp: None,
        fingerprint: None,
        host: String::new(),
        engine: String::new(),
        threads: 1,
        memory_limit: 0,
    };
    let peer = Peer { number: 1 - own, epoch: 3, worker, session: 2, secret: Box::default() };
    let peers = encode(&StreamMessage::Peers { own, epoch: 4, peers: vec![peer] });
    let mut steps = Vec::new();
    reading.take(0, &peers, &mut steps).unwrap();
    assert!(matches!(&steps[..], [(1, Step::Nothing)]));
    let fill: Instr = "%1 = fill() dtype=f32 shape=[2] $ 3.0".parse().unwrap();
    let ty = TensorType::new(DType::F32, &[2]);
    let moved = Conversion { from: TensorId(1), to: TensorId(2), ty, lies: 0, wanted: 1 };
    let window = PlacedWindow {
        placements: vec![Placement::on(0), Placement::on(1)],
        steps: vec![
            PlacedStep::Run { instr: fill, ins: Default::default(), outs: [0].into_iter().collect() },
            PlacedStep::Convert { values: vec![moved], first: TensorId(100), site: SiteId(0) },
        ],
        frees: vec![(TensorId(1), 0)],
        ..PlacedWindow::default()
    };
    let mut bytes = Vec::new();
    window.encode(&mut bytes);
    (reading, bytes)
}

#[test]
fn each_worker_reads_its_own_part_of_a_placed_window() {
    let (mut from, window) = placed(0);
    let mut steps = Vec::new();
    assert_eq!(from.take(1, &encode(&StreamMessage::Placed { window: &window }), &mut steps), Ok(None));
    // Only the last one ends the message.
    let [(1, Step::Window(_)), (1, Step::Send { to, .. }), (2, Step::Window(frees))] = &steps[..] else {
        panic!("{} steps", steps.len())
    };
    assert_eq!((to.number, to.epoch, frees.window.frees.len()), (1, 3, 1));
    let (mut to, window) = placed(1);
    let mut steps = Vec::new();
    to.take(1, &encode(&StreamMessage::Placed { window: &window }), &mut steps).unwrap();
    let Some((_, Step::Receive(receive))) = steps.first() else { panic!("{} steps", steps.len()) };
    assert_eq!((receive.from.number, receive.from.epoch), (0, 3));
    // What was placed is read by its own name here.
    steps.clear();
    to.take(2, &encode(&StreamMessage::Read { request: 1, id: TensorId(2) }), &mut steps).unwrap();
    assert!(matches!(&steps[..], [(3, Step::Read { id, .. })] if *id != TensorId(2)));
}

#[test]
fn a_placed_window_before_word_of_the_others_is_wrong_unless_they_are_lost() {
    let (_, window) = placed(0);
    let message = encode(&StreamMessage::Placed { window: &window });
    let mut steps = Vec::new();
    assert!(matches!(Reading::new(0, false, &held(2)).take(0, &message, &mut steps), Err(Fault::Broken(_))));
    assert_eq!(Reading::new(0, true, &held(2)).take(0, &message, &mut steps), Ok(None));
    assert!(matches!(&steps[..], [(1, Step::Nothing)]));
}

proptest! {
    #[test]
    fn no_placed_window_does_harm(cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), end in 0usize..200) {
        let (mut reading, mut window) = placed(0);
        for (at, value) in cuts {
            let at = at.index(window.len());
            window[at] = value;
        }
        window.truncate(window.len().saturating_sub(end % 3));
        let _ = reading.take(1, &encode(&StreamMessage::Placed { window: &window }), &mut Vec::new());
    }
}
