//! Values that move between workers over connections that break, fall silent, or are never there.

mod serving;
#[path = "../../worker/tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use gt_net::protocol::{Peer, StreamMessage};
use serving::pair::*;
use serving::proxy::Proxy;
use serving::*;
use support::within_time;

/// How long those who need a value may wait before they hear that it does not come.
const SOON: Duration = Duration::from_secs(5);

/// Moves a value from worker 0 to worker 1.
fn move_one(pair: &mut Pair) {
    let mut steps = run(&["%1 = fill() dtype=f32 shape=[2] $ 4.0"], 0);
    steps.push(carry(1, 2, floats_type(2), 0, 1));
    let window = placed(steps, &[]);
    pair.placed(0, &window);
    pair.placed(1, &window);
}

#[test]
fn values_come_once_and_whole_over_a_line_that_breaks_all_the_time() {
    within_time(|| {
        let mut proxies = Vec::new();
        let mut pair = Pair::introduced(|ports| {
            proxies.extend(ports.map(|port| Proxy::cutting(port, 90_000)));
            Known::AtPorts([proxies[0].port, proxies[1].port])
        });
        // Small ones and, every fifth, one that takes most of a connection's life; both ways.
        let (count, large) = (300, 20_000);
        let len = |n: u64| if n.is_multiple_of(5) { large } else { 2 };
        let mut steps = Vec::new();
        for n in 0..count {
            let on = (n % 2) as u32;
            steps.extend(run(&[&format!("%{} = fill() dtype=f32 shape=[{}] $ {n}.5", 1 + n, len(n))], on));
            steps.push(carry(1 + n, 1001 + n, floats_type(len(n)), on, 1 - on));
        }
        let window = placed(steps, &[]);
        pair.placed(0, &window);
        pair.placed(1, &window);
        for n in 0..count {
            let at = 1 - (n % 2) as u32;
            pair.read(at, n, 1001 + n);
            assert_eq!(pair.clients[at as usize].floats(n), vec![n as f32 + 0.5; len(n)]);
        }
        assert!(proxies.iter().all(|proxy| proxy.cuts() > 3), "the lines hardly broke");
    });
}

#[test]
fn a_value_of_a_line_that_broke_once_was_lost() {
    within_time(|| {
        let mut proxies = Vec::new();
        let mut pair = Pair::introduced(|ports| {
            // Long enough to be let in, not for what comes next.
            proxies.push(Proxy::cutting(ports[1], 400));
            Known::AtPorts([ports[0], proxies[0].port])
        });
        let mut steps = run(&["%1 = fill() dtype=f32 shape=[2] $ 4.0"], 0);
        for n in 0..100 {
            steps.push(carry(1, 2 + n, floats_type(2), 0, 1));
        }
        let window = placed(steps, &[]);
        (0..2).for_each(|on| pair.placed(on, &window));
        for n in 0..100 {
            pair.read(1, n, 2 + n);
            assert_eq!(pair.clients[1].floats(n), [4.0, 4.0]);
        }
        assert!(proxies[0].cuts() > 3);
    });
}

#[test]
fn a_worker_that_is_not_there_is_told_soon_and_the_session_goes_on() {
    within_time(|| {
        // Nobody listens at the second, and the server of this test passes nothing on, nor says so.
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut pair = Pair::introduced(|ports| Known::AtPorts([ports[0], nobody]));
        let began = Instant::now();
        move_one(&mut pair);
        let (number, epoch, reason) = pair.clients[0].out_of_reach();
        assert_eq!((number, epoch), (1, 1));
        assert!(began.elapsed() < SOON && reason.contains("cannot send a value"), "{:?}: {reason}", began.elapsed());
        pair.read(0, 1, 1);
        assert_eq!(pair.clients[0].floats(1), [4.0, 4.0]);
        // A client whose connection broke hears of it by the next one.
        let again = pair.stages[0].attach(session(0));
        assert_eq!(again.out_of_reach(), (1, 1, reason));
    });
}

#[test]
fn a_worker_without_an_address_is_told_at_once_where_the_server_knows_no_way() {
    within_time(|| {
        let mut pair = Pair::new(Known::AsNeighbors);
        let mut worker = pair.stages[1].service.info().clone();
        (worker.unix, worker.tcp) = (None, None);
        let peer = Peer { number: 1, epoch: 2, worker: sealed(worker), session: session(1), key: peer_key().into() };
        pair.say(0, &StreamMessage::Peers { own: 0, epoch: 1, peers: vec![peer] });
        let began = Instant::now();
        move_one(&mut pair);
        let (number, epoch, _) = pair.clients[0].out_of_reach();
        assert_eq!((number, epoch), (1, 2));
        assert!(began.elapsed() < SOON);
    });
}

/// A value gets through `line`; the next one finds it silent.
fn told_soon_when_silent(pair: &mut Pair, line: &Proxy) {
    move_one(pair);
    pair.read(1, 1, 2);
    assert_eq!(pair.clients[1].floats(1), [4.0, 4.0]);
    line.fall_silent();
    let began = Instant::now();
    let mut steps = run(&["%11 = fill() dtype=f32 shape=[2] $ 5.0"], 0);
    steps.push(carry(11, 12, floats_type(2), 0, 1));
    pair.placed(0, &placed(steps, &[]));
    let (number, _, reason) = pair.clients[0].out_of_reach();
    assert_eq!(number, 1);
    assert!(began.elapsed() < SOON, "{:?}: {reason}", began.elapsed());
    assert!(line.connections() > 1, "it was tried again");
}

#[test]
fn a_line_that_falls_silent_is_told_soon() {
    within_time(|| {
        let mut proxies = Vec::new();
        let mut pair = Pair::introduced(|ports| {
            proxies.push(Proxy::faithful(ports[1]));
            Known::AtPorts([ports[0], proxies[0].port])
        });
        told_soon_when_silent(&mut pair, &proxies[0]);
    });
}

/// The relay answers for itself, so nobody noticed for ten seconds.
#[test]
fn a_worker_behind_a_relay_that_falls_silent_is_told_soon() {
    within_time(|| {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut proxies = Vec::new();
        let mut pair = Pair::introduced(|ports| {
            proxies.push(Proxy::faithful(ports[1]));
            Known::AtPorts([ports[0], nobody])
        });
        let mut beyond = pair.stages[1].service.info().clone();
        (beyond.unix, beyond.tcp) = (None, Some(format!("127.0.0.1:{}", proxies[0].port)));
        pair.stages[0].server.pass_on_to(beyond);
        told_soon_when_silent(&mut pair, &proxies[0]);
    });
}
