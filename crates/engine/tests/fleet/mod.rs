//! A group of workers in one thread: what each does of a placed window, run op by op on the reference engine.

#![allow(dead_code, reason = "every test uses a part of it")]

use std::collections::{HashMap, VecDeque};

use gt_engine::evaluate;
use gt_ir::{DType, HostTensor, TensorId, TensorType};
use gt_plan::shard::{LocalStep, Lowerer, PlacedWindow};

struct Worker {
    lowerer: Lowerer,
    values: HashMap<TensorId, HostTensor>,
    steps: VecDeque<LocalStep>,
}

/// Workers, what is on its way between them, and what travelled.
pub struct Fleet {
    workers: Vec<Worker>,
    mail: HashMap<(u32, TensorId), HostTensor>,
    /// Bytes that each worker has sent.
    pub sent_bytes: Vec<usize>,
    /// Messages that each worker has sent.
    pub messages: Vec<usize>,
}

impl Fleet {
    pub fn new(count: u32) -> Fleet {
        let worker = |i| Worker { lowerer: Lowerer::new(i), values: HashMap::new(), steps: VecDeque::new() };
        Fleet {
            workers: (0..count).map(worker).collect(),
            mail: HashMap::new(),
            sent_bytes: vec![0; count as usize],
            messages: vec![0; count as usize],
        }
    }

    /// Sends a window to those that take part, by its binary form, and runs everything.
    pub fn run(&mut self, window: &PlacedWindow) {
        let mut bytes = Vec::new();
        window.encode(&mut bytes);
        let decoded = PlacedWindow::decode(&mut gt_ir::codec::Reader::new(&bytes)).expect("a window that reads back");
        assert_eq!(&decoded, window);
        for worker in decoded.workers() {
            let worker = &mut self.workers[worker as usize];
            worker.steps.extend(worker.lowerer.window(&decoded).expect("a window that makes sense"));
        }
        loop {
            let mut moved = false;
            for index in 0..self.workers.len() {
                while self.step(index as u32) {
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        let waits: Vec<_> = self.workers.iter().filter_map(|w| w.steps.front()).collect();
        assert!(waits.is_empty(), "somebody waits for ever: {waits:?}");
        assert!(self.mail.is_empty(), "something was sent that nobody takes: {:?}", self.mail.keys());
    }

    fn step(&mut self, index: u32) -> bool {
        let worker = &mut self.workers[index as usize];
        let Some(step) = worker.steps.pop_front() else { return false };
        match step {
            LocalStep::Window { window, waits } => {
                assert!(waits.is_empty());
                let mut expected = None;
                for (at, instr) in window.instrs.iter().enumerate() {
                    let ins: Vec<&HostTensor> = instr.ins.iter().map(|id| &worker.values[id]).collect();
                    let payload = window.uploads.iter().find(|p| p.instr as usize == at).map(|p| &p.bytes);
                    let outs = evaluate(&instr.op, &ins, &instr.scalars, payload)
                        .unwrap_or_else(|e| panic!("{instr:?}: {}", e.message));
                    for (&id, value) in instr.outs.iter().zip(outs) {
                        assert!(expected.is_none_or(|e| e == id), "WINDOW-1");
                        expected = Some(TensorId(id.0 + 1));
                        worker.values.insert(id, value);
                    }
                }
                for id in &window.frees {
                    assert!(worker.values.remove(id).is_some(), "{id} is freed twice, or never was");
                }
            }
            LocalStep::Send { id, name, to } => {
                let value = worker.values[&id].clone();
                self.sent_bytes[index as usize] += value.bytes.len();
                self.messages[index as usize] += 1;
                assert!(self.mail.insert((to, name), value).is_none(), "{name} is sent twice");
            }
            LocalStep::Receive { id, name, ty, from } => {
                let Some(value) = self.mail.remove(&(index, name)) else {
                    worker.steps.push_front(LocalStep::Receive { id, name, ty, from });
                    return false;
                };
                assert_eq!(value.ty, ty);
                worker.values.insert(id, value);
            }
        }
        true
    }

    /// What a worker has under a placed name.
    pub fn value(&self, worker: u32, id: TensorId) -> &HostTensor {
        let worker = &self.workers[worker as usize];
        &worker.values[&worker.lowerer.name(id)]
    }

    /// How many values all workers hold.
    pub fn held(&self) -> usize {
        self.workers.iter().map(|w| w.values.len()).sum()
    }
}

/// Different whole numbers, so that sums in any order are exact.
pub fn counted(shape: &[usize]) -> HostTensor {
    let ty = TensorType::new(DType::F32, shape);
    let bytes = (0..ty.numel()).flat_map(|i| (1.0 + i as f32).to_le_bytes()).collect();
    HostTensor { ty, bytes }
}
