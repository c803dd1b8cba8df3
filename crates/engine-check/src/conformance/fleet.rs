//! A group of workers in one thread: what each does of a placed window, planned and run on its own engine.

use std::collections::{HashMap, VecDeque};

use std::sync::Arc;

use gt_ir::codec::Reader;
use gt_ir::{HostTensor, TensorId};
use gt_plan::{Immediates, PlanOptions, build};
use gt_shard::{LocalStep, Lowerer, Placed, PlacedBindings, PlacedTemplate, PlacedWindow};
use gt_stream::Occurrence;

use super::{Built, run_plan};
use gt_engine::{Buffer, Engine, Value};

struct Worker<E: Engine> {
    engine: E,
    lowerer: Lowerer,
    values: HashMap<TensorId, E::Buffer>,
    steps: VecDeque<LocalStep>,
    options: PlanOptions,
}

impl<E: Engine> Worker<E> {
    fn run(&mut self, occurrence: &Occurrence) {
        let (recipe, bindings) = (occurrence.recipe(), occurrence.bindings());
        let types: Vec<_> = bindings.inputs.iter().map(|id| self.values[id].ty()).collect();
        let plan = build(recipe, &types, self.options).unwrap_or_else(|e| panic!("{:?}: {e}", occurrence.window()));
        let inputs: Vec<Value<E::Buffer>> = bindings
            .inputs
            .iter()
            .zip(recipe.dying())
            // Moved where it dies: the engine may write over what nobody else holds.
            .map(|(id, &dies)| {
                Ok(if dies { self.values.remove(id) } else { self.values.get(id).cloned() }.expect("an input"))
            })
            .collect();
        for id in &bindings.older_frees {
            assert!(self.values.remove(id).is_some(), "{id} is freed twice, or never was");
        }
        let built = Built { plan: Arc::new(plan), immediates: Immediates::of(occurrence) };
        for (slot, value) in run_plan(&mut self.engine, &built, inputs).values {
            let id = occurrence.id_of_slot(slot);
            self.values.insert(id, value.unwrap_or_else(|e| panic!("{id}: {e}")));
        }
    }
}

/// Workers, what is on its way between them, and what travelled.
pub struct Fleet<E: Engine> {
    workers: Vec<Worker<E>>,
    mail: HashMap<(u32, TensorId), E::Buffer>,
    /// Bytes that each worker has sent.
    pub sent_bytes: Vec<usize>,
    /// Messages that each worker has sent.
    pub messages: Vec<usize>,
}

impl<E: Engine> Fleet<E> {
    /// So many workers.
    pub fn new(count: u32, make: &impl Fn() -> E) -> Fleet<E> {
        let worker = |i| {
            let engine = make();
            let options = PlanOptions { fusion: true, compiled: true, limits: engine.limits() };
            Worker { engine, lowerer: Lowerer::new(i), values: HashMap::new(), steps: VecDeque::new(), options }
        };
        Fleet {
            workers: (0..count).map(worker).collect(),
            mail: HashMap::new(),
            sent_bytes: vec![0; count as usize],
            messages: vec![0; count as usize],
        }
    }

    /// Whether windows are fused and compiled from now on.
    pub fn plan_with(&mut self, fusion: bool, compiled: bool) {
        self.workers.iter_mut().for_each(|worker| {
            worker.options = PlanOptions { fusion, compiled, ..worker.options };
        });
    }

    /// Sends a window to those that take part, by its binary form, and runs everything.
    pub fn run(&mut self, window: &PlacedWindow) {
        let mut bytes = Vec::new();
        window.encode(&mut bytes);
        let decoded = PlacedWindow::decode(&mut Reader::new(&bytes)).expect("a window that reads back");
        assert_eq!(&decoded, window);
        for worker in decoded.workers() {
            let worker = &mut self.workers[worker as usize];
            worker.steps.extend(worker.lowerer.window(&decoded).expect("a window that makes sense"));
        }
        self.settle();
    }

    /// The same for a window that may have come before.
    pub fn run_placed(&mut self, placed: &Placed) {
        let again = match placed {
            Placed::Whole(window) => return self.run(window),
            Placed::Repeated(again) => again,
        };
        if let Some(before) = &again.before {
            self.run(before);
        }
        let mut bytes = Vec::new();
        again.bindings.encode(&mut bytes);
        let bindings = PlacedBindings::decode(&mut Reader::new(&bytes)).expect("bindings that read back");
        assert_eq!(bindings, again.bindings);
        let template = again.template.as_ref().map(|template| {
            let mut bytes = Vec::new();
            template.encode(&mut bytes);
            PlacedTemplate::decode(&mut Reader::new(&bytes)).expect("a template that reads back")
        });
        for &worker in again.workers.iter() {
            let worker = &mut self.workers[worker as usize];
            if let Some(template) = &template {
                worker.lowerer.define(again.number, template.clone()).expect("a template that makes sense");
            }
            worker.steps.extend(worker.lowerer.replay(again.number, &bindings).expect("bindings that fit"));
        }
        self.settle();
    }

    fn settle(&mut self) {
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
            LocalStep::Run { window, waits } => {
                assert!(waits.is_empty());
                worker.run(&window);
            }
            LocalStep::Send { id, name, to } => {
                let value = worker.values[&id].clone();
                self.sent_bytes[index as usize] += value.ty().bytes();
                self.messages[index as usize] += 1;
                assert!(self.mail.insert((to, name), value).is_none(), "{name} is sent twice");
            }
            LocalStep::Receive { id, name, ty, from } => {
                let Some(value) = self.mail.remove(&(index, name)) else {
                    worker.steps.push_front(LocalStep::Receive { id, name, ty, from });
                    return false;
                };
                assert_eq!(value.ty(), ty);
                worker.values.insert(id, value);
            }
        }
        true
    }

    /// What a worker has under a placed name.
    pub fn value(&self, worker: u32, id: TensorId) -> HostTensor {
        let worker = &self.workers[worker as usize];
        worker.values[&worker.lowerer.name(id)].read().unwrap_or_else(|e| panic!("{id}: {e}"))
    }

    /// How many values all workers hold.
    pub fn held(&self) -> usize {
        self.workers.iter().map(|w| w.values.len()).sum()
    }
}
