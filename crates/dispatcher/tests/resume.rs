//! DISPATCH-2, with everything that can break breaking: each message reaches the worker's session exactly once, in order.

mod support;

use std::collections::BTreeMap;

use gt_dispatcher::Dispatcher;
use gt_net::Outbox;
use gt_net::protocol::{FromServer, ToServer, encode};
use proptest::prelude::*;
use support::*;

/// A client that keeps what was not acked and sends it again.
struct Stubborn {
    peer: FakeClient,
    outbox: Outbox<u64>,
    /// The connection is dead, but this side does not know: what it sends is lost.
    dead: bool,
}

impl Stubborn {
    fn send(&mut self) {
        let Ok(seq) = self.outbox.push(self.outbox.next(), 1) else { return };
        if !self.dead {
            self.transmit(seq);
        }
    }

    fn transmit(&self, seq: u64) {
        let message = seq.to_le_bytes();
        let _ = self.peer.connection.send(&encode(&ToServer::Stream { seq, instrs: 1, bytes: 0, message: &message }));
    }

    fn hear(&mut self) {
        for message in self.peer.all() {
            if let FromServer::Ack { received, .. } = message
                && !self.dead
            {
                self.outbox.ack(received).unwrap();
            }
        }
    }

    fn reconnect(&mut self, dispatcher: &Dispatcher) {
        self.peer.connection.close();
        let resume = Some(self.peer.resume_with(0));
        self.peer = FakeClient::try_enter(connect(dispatcher), b"", resume).unwrap();
        self.dead = false;
        let again: Vec<u64> = self.outbox.resend(self.peer.received).unwrap().map(|(seq, _)| seq).collect();
        again.into_iter().for_each(|seq| self.transmit(seq));
    }
}

/// A worker that applies what comes, and reports now and then.
struct Applying {
    peer: FakeWorker,
    /// What was applied, of each session.
    applied: BTreeMap<u64, Vec<u64>>,
    dead: bool,
}

impl Applying {
    fn hear(&mut self) {
        for told in self.peer.all() {
            match told {
                _ if self.dead => {}
                Told::Open { session, from, lost } => {
                    assert_eq!((from, lost), (0, None));
                    self.applied.entry(session).or_default();
                }
                Told::Stream { session, seq, message } => {
                    let applied = self.applied.get_mut(&session).expect("a session that was never opened");
                    assert_eq!(seq, applied.len() as u64, "not the next of session {session}");
                    assert_eq!(message, seq.to_le_bytes());
                    applied.push(seq);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn report(&self) {
        for (session, applied) in &self.applied {
            if !self.dead {
                self.peer.executed(*session, applied.len() as u64);
            }
        }
    }

    fn reconnect(&mut self, dispatcher: &Dispatcher) {
        self.peer.connection.close();
        let held: Vec<(u64, u64)> = self.applied.iter().map(|(id, applied)| (*id, applied.len() as u64)).collect();
        let secret = self.peer.secret.clone();
        self.peer = FakeWorker::try_join(connect(dispatcher), b"", "", &secret, &held).unwrap();
        self.dead = false;
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(usize),
    ClientDies(usize),
    ClientReturns(usize),
    WorkerDies,
    WorkerReturns,
    WorkerHears,
    WorkerReports,
    ClientHears(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..2usize).prop_map(Step::Send),
        1 => (0..2usize).prop_map(Step::ClientDies),
        1 => (0..2usize).prop_map(Step::ClientReturns),
        1 => Just(Step::WorkerDies),
        1 => Just(Step::WorkerReturns),
        3 => Just(Step::WorkerHears),
        2 => Just(Step::WorkerReports),
        2 => (0..2usize).prop_map(Step::ClientHears),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn everything_is_applied_once_and_in_order(steps in prop::collection::vec(step(), 0..200)) {
        let dispatcher = Dispatcher::new(leased()).unwrap();
        let peer = FakeWorker::join(connect(&dispatcher));
        let mut worker = Applying { peer, applied: BTreeMap::new(), dead: false };
        let enter = || FakeClient::enter(connect(&dispatcher));
        let mut clients = [enter(), enter()].map(|peer| Stubborn { peer, outbox: Outbox::new(1000), dead: false });
        let end = [Step::ClientReturns(0), Step::ClientReturns(1), Step::WorkerReturns, Step::WorkerHears, Step::WorkerReports];
        for step in steps.into_iter().chain(end) {
            match step {
                Step::Send(who) => clients[who].send(),
                Step::ClientDies(who) => clients[who].dead = true,
                Step::ClientReturns(who) => clients[who].reconnect(&dispatcher),
                Step::WorkerDies => worker.dead = true,
                Step::WorkerReturns => worker.reconnect(&dispatcher),
                Step::WorkerHears => worker.hear(),
                Step::WorkerReports => worker.report(),
                Step::ClientHears(who) => clients[who].hear(),
            }
        }
        for client in &mut clients {
            let sent: Vec<u64> = (0..client.outbox.next()).collect();
            prop_assert_eq!(&worker.applied[&client.peer.session], &sent);
            client.hear();
            prop_assert!(client.outbox.is_empty(), "an idle session was not acked");
        }
        prop_assert_eq!(dispatcher.status().server.held_bytes, 0);
    }
}
