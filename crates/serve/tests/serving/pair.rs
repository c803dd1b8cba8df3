//! Two workers that a client has a session on, and what it has them do.

use gt_ir::{Instr, SiteId, TensorId, TensorType};
use gt_net::Address;
use gt_net::protocol::{Peer, StreamMessage};
use gt_shard::{Conversion, PlacedStep, PlacedWindow, Placement};

use super::{FakeClient, Stage, peer_key, reference_worker};

/// Which session a worker of this number has: 10, 11.
pub fn session(number: u32) -> u64 {
    10 + number as u64
}

/// How two workers of one process are told of each other.
#[derive(Clone, Copy, PartialEq)]
pub enum Known {
    /// As what they are.
    AsNeighbors,
    /// By another name of their sockets, so that they take each other for two processes.
    AsOthers,
    /// As processes of other hosts, at these ports.
    AtPorts([u16; 2]),
}

/// Two workers and a client that has a session on both.
pub struct Pair {
    known: Known,
    pub stages: [Stage; 2],
    pub clients: [FakeClient; 2],
    pub sent: [u64; 2],
}

impl Pair {
    pub fn new(known: Known) -> Pair {
        Pair::introduced(|_| known)
    }

    /// Two workers that are told of each other once it is known where they listen.
    pub fn introduced(known: impl FnOnce([u16; 2]) -> Known) -> Pair {
        let stages = [0, 1]
            .map(|_| Stage::with(reference_worker(), |config| config.listen_host = Some("127.0.0.1".to_string())));
        let ports = [0, 1].map(|n: usize| match stages[n].service.info().tcp.as_ref().unwrap().parse().unwrap() {
            Address::Tcp { port, .. } => port,
            Address::Unix(path) => panic!("{path:?} is no port"),
        });
        let known = known(ports);
        let clients = [0, 1].map(|n: u32| {
            stages[n as usize].control.open(session(n));
            stages[n as usize].attach(session(n))
        });
        let mut pair = Pair { known, stages, clients, sent: [0; 2] };
        pair.introduce([1, 1]);
        pair
    }

    /// Tells each of the other.
    pub fn introduce(&mut self, epochs: [u64; 2]) {
        for own in 0..2u32 {
            let other = 1 - own;
            let mut worker = self.stages[other as usize].service.info().clone();
            match self.known {
                Known::AsNeighbors => {}
                Known::AsOthers => {
                    let link = self.stages[other as usize].directory.path().join("other.sock");
                    let socket = worker.unix.replace(link.display().to_string()).unwrap();
                    // Told again, it is there already.
                    let _ = std::os::unix::fs::symlink(socket, link);
                }
                Known::AtPorts(ports) => {
                    worker.unix = None;
                    worker.tcp = Some(format!("127.0.0.1:{}", ports[other as usize]));
                }
            }
            let epoch = epochs[other as usize];
            let peer = Peer {
                number: other,
                epoch,
                worker: super::sealed(worker),
                session: session(other),
                key: peer_key().into(),
            };
            self.say(own, &StreamMessage::Peers { own, epoch: epochs[own as usize], peers: vec![peer] });
        }
    }

    pub fn say(&mut self, to: u32, message: &StreamMessage<'_>) {
        let seq = self.sent[to as usize];
        self.stages[to as usize].control.stream(session(to), seq, message);
        self.sent[to as usize] += 1;
    }

    pub fn placed(&mut self, to: u32, window: &PlacedWindow) {
        let mut bytes = Vec::new();
        window.encode(&mut bytes);
        self.say(to, &StreamMessage::Placed { window: &bytes });
    }

    pub fn read(&mut self, from: u32, request: u64, id: u64) {
        self.say(from, &StreamMessage::Read { request, id: TensorId(id) });
    }
}

pub fn floats_type(len: usize) -> TensorType {
    TensorType::new(gt_ir::DType::F32, &[len])
}

/// Runs lines on one worker.
pub fn run(lines: &[&str], on: u32) -> Vec<PlacedStep> {
    let step = |line: &&str| {
        let instr: Instr = line.parse().unwrap();
        let ins = instr.ins.iter().map(|_| (floats_type(2), on)).collect();
        let outs = instr.outs.iter().map(|_| on).collect();
        PlacedStep::Run { instr, ins, outs }
    };
    lines.iter().map(step).collect()
}

/// Moves a value; the name it travels under is made of its new one.
pub fn carry(from: u64, to: u64, ty: TensorType, lies: u32, wanted: u32) -> PlacedStep {
    let value = Conversion { from: TensorId(from), to: TensorId(to), ty, lies, wanted };
    PlacedStep::Convert { values: vec![value], first: TensorId(100_000 + to), site: SiteId(0) }
}

pub fn placed(steps: Vec<PlacedStep>, frees: &[(u64, u32)]) -> PlacedWindow {
    PlacedWindow {
        placements: vec![Placement::on(0), Placement::on(1)],
        steps,
        frees: frees.iter().map(|&(id, at)| (TensorId(id), at)).collect(),
        ..PlacedWindow::default()
    }
}
