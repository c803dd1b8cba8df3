//! Streams of all forms, forgotten templates and repeated messages, read by [`Reading`].

use std::sync::Arc;

use gt_net::Secret;

use crate::group::{ServerConnection, Standing};
use std::collections::BTreeMap;

use gt_ir::{DType, Instr, SiteId, TensorId, TensorType, Window};
use gt_net::protocol::{Peer, StreamMessage, WorkerInfo, encode};
use gt_shard::{Conversion, PlacedStep, PlacedWindow, Placement};
use gt_stream::Occurrence;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::config::HeldLimits;
use super::reading::{Fault, Reading, Step};
use gt_worker::SessionMemory;

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
    seen: BTreeMap<u64, u8>,
    templates: BTreeMap<u64, Vec<u8>>,
    sent: Vec<Vec<u8>>,
    expected: Vec<Window>,
}

impl Client {
    fn window(&mut self, window: Window) {
        let occurrence = Occurrence::of(window.clone()).unwrap();
        let (mut template, mut bound, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        occurrence.template().encode(&mut template);
        occurrence.bindings().encode(0, &mut bound);
        occurrence.encode(0, &mut bytes);
        let number = occurrence.recipe().digest() as u64;
        let times = self.seen.entry(number).or_default();
        *times = times.saturating_add(1);
        self.sent.push(match *times {
            1 => encode(&StreamMessage::Send { window: &bytes }),
            2 => encode(&StreamMessage::Define { number, template: &template, bindings: &bound }),
            _ => encode(&StreamMessage::Replay { number, bindings: &bound }),
        });
        self.templates.insert(number, template);
        self.expected.push(window);
    }

    fn template(&mut self, number: u64) {
        self.sent.push(encode(&StreamMessage::Template { number, template: &self.templates[&number] }));
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
        let mut reading = Reading::new(0, false, &held(templates), SessionMemory::unlimited(), group());
        let (mut windows, mut streams, mut wanted) = (Vec::new(), Vec::new(), Vec::<(usize, u64)>::new());
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
                let (_, number) = wanted.remove(at);
                client.template(number);
            }
            while next < client.sent.len() {
                let repeats = if again[next % again.len()] { 2 } else { 1 };
                for _ in 0..repeats {
                    let mut steps = Vec::new();
                    let asks = reading.take(next as u64, &client.sent[next], &mut steps).unwrap();
                    if let Some(number) = asks {
                        wanted.push((late[asked % late.len()], number));
                        asked += 1;
                    }
                    for (stream, step) in steps {
                        streams.push(stream);
                        if let Step::Window(new) = step {
                            windows.push(new.occurrence.window());
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
}

#[test]
fn no_bytes_do_harm() {
    let noise = prop::collection::vec(any::<u8>(), 0..64);
    // A message of a client with some bytes changed, or no message at all.
    let cut = (any::<prop::sample::Index>(), any::<u8>());
    let changed = (any::<prop::sample::Index>(), prop::collection::vec(cut, 1..4));
    let message = prop_oneof![3 => changed.prop_map(Ok), 1 => noise.prop_map(Err)];
    let mut client = Client::default();
    (0..16).for_each(|n| client.window(window(n % 4, n)));
    let numbers: Vec<u64> = client.templates.keys().copied().collect();
    numbers.into_iter().for_each(|number| client.template(number));
    client.sent.push(encode(&StreamMessage::Read { request: 1, id: TensorId(9) }));
    client.sent.push(encode(&StreamMessage::Synchronize { request: 2 }));
    let (accepted, offered) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig { cases: 1000, ..ProptestConfig::default() });
    let ran = runner.run(&prop::collection::vec(message, 0..20), |messages| {
        let mut reading = Reading::new(0, false, &held(4), SessionMemory::unlimited(), group());
        // It knows the templates, or it would keep what comes behind one that is missing.
        for (seq, known) in client.sent[..8].iter().enumerate() {
            reading.take(seq as u64, known, &mut Vec::new()).unwrap();
        }
        for (seq, message) in (8..).zip(messages) {
            let bytes = message.map_or_else(
                |noise| noise,
                |(of, cuts)| {
                    let mut bytes = of.get(&client.sent).clone();
                    cuts.into_iter().for_each(|(at, value)| *at.get_mut(&mut bytes) = value);
                    bytes
                },
            );
            let mut steps = Vec::new();
            // The session would be closed at the first fault; going on must be harmless all the same.
            let taken = reading.take(seq, &bytes, &mut steps);
            prop_assert!(steps.len() as u64 <= seq + 1);
            offered.set(offered.get() + 1);
            accepted.set(accepted.get() + (taken.is_ok() && !steps.is_empty()) as u32);
        }
        Ok(())
    });
    ran.unwrap();
    // Bytes that never get past the decoder would show nothing.
    assert!(accepted.get() > 500, "{} of {} messages were read", accepted.get(), offered.get());
}

#[test]
fn what_follows_a_missing_template_keeps_its_place() {
    let mut reading = Reading::new(5, false, &held(2), SessionMemory::unlimited(), group());
    let mut client = Client::default();
    (0..3).for_each(|n| client.window(window(0, n)));
    let mut steps = Vec::new();
    let number = reading.take(5, &client.sent[2], &mut steps).unwrap().unwrap();
    let read = encode(&StreamMessage::Read { request: 1, id: TensorId(9) });
    assert_eq!(reading.take(6, &read, &mut steps), Ok(None));
    assert_eq!(reading.take(8, b"", &mut steps), Err(Fault::Gap { expected: 7 }));
    assert!(steps.is_empty() && reading.awaited() == Some(number));
    client.template(number);
    assert_eq!(reading.take(7, &client.sent[3], &mut steps), Ok(None));
    let [(6, Step::Window(_)), (7, Step::Read { .. }), (8, Step::Nothing)] = &steps[..] else {
        panic!("{} steps", steps.len())
    };
    assert_eq!((reading.received(), reading.awaited()), (8, None));
}

const SEAL_KEY: &[u8] = b"seal";

/// A worker's place in a server's group.
fn group() -> Arc<ServerConnection> {
    let group = ServerConnection::default();
    group.stands(Standing { secret: Box::default(), id: String::new(), seal_key: Secret::from_bytes(SEAL_KEY) });
    Arc::new(group)
}

/// A worker's part of a window for two, by the number that it has.
fn placed(own: u32) -> (Reading, Vec<u8>) {
    let mut reading = Reading::new(0, false, &held(2), SessionMemory::unlimited(), group());
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
        seal: Box::default(),
    };
    let worker = worker.sealed(&Secret::from_bytes(SEAL_KEY));
    let peer = Peer { number: 1 - own, epoch: 3, worker, session: 2, key: Box::default() };
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
    assert_eq!((to.number, to.epoch, frees.occurrence.frees().count()), (1, 3, 1));
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
    assert!(matches!(
        Reading::new(0, false, &held(2), SessionMemory::unlimited(), group()).take(0, &message, &mut steps),
        Err(Fault::Broken(_))
    ));
    assert_eq!(
        Reading::new(0, true, &held(2), SessionMemory::unlimited(), group()).take(0, &message, &mut steps),
        Ok(None)
    );
    assert!(matches!(&steps[..], [(1, Step::Nothing)]));
}

#[test]
fn no_placed_window_does_harm() {
    let cut = (any::<prop::sample::Index>(), any::<u8>());
    let cases = (prop::collection::vec(cut, 1..4), 0usize..200);
    let accepted = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig { cases: 4000, ..ProptestConfig::default() });
    let ran = runner.run(&cases, |(cuts, end)| {
        let (mut reading, mut window) = placed(0);
        for (at, value) in cuts {
            let at = at.index(window.len());
            window[at] = value;
        }
        window.truncate(window.len().saturating_sub(end % 3));
        let message = encode(&StreamMessage::Placed { window: &window });
        accepted.set(accepted.get() + reading.take(1, &message, &mut Vec::new()).is_ok() as u32);
        Ok(())
    });
    ran.unwrap();
    // Bytes that never get past the decoder would show nothing.
    assert!(accepted.get() > 100, "{} of 4000 windows were accepted", accepted.get());
}
