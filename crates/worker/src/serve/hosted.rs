//! A session that lives here.
//!
//! Locks, taken in this order: `reading` (the I/O thread), `steps` (the I/O thread and the device thread, for moments), and
//! the outlet's or `arrivals`. Answers are given with at most `steps` held, and take only the outlet's, or the `arrivals` of
//! another session: under that nothing else is locked, so two sessions may send to each other at once.

use std::sync::{Arc, Weak};

use gt_ir::{Bytes, Failure, FailureKind, SiteId, TensorId};
use gt_net::protocol::{FromWorker, ReadAnswer, Resumption};
use gt_net::{Connection, Secret};
use parking_lot::Mutex;

use super::arrivals::{Arrivals, Arrived, Delivery, Origin};
use super::config::{HeldLimits, RecorderMoved};
use super::courier::Couriers;
use super::group::Group;
use super::loader::LoadingOf;
use super::loaders::Loaders;
use super::neighbors;
use super::outlet::Outlet;
use super::parcel::Parcel;
use super::placing::Receive;
use super::reading::{Fault, NewWindow, Reading, Step};
use super::route::Way;
use super::steps::Steps;
use super::uploads::Uploaded;
use crate::moved::Supplied;
use crate::{Departing, Oversupplied, ReadError, SessionConfig, SessionHandle, WorkerHandle};

/// What all sessions of a service share.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) group: Arc<Group>,
    pub(super) couriers: Arc<Couriers>,
    pub(super) held: HeldLimits,
    pub(super) recorder_moved: Option<RecorderMoved>,
    pub(super) loading: Option<LoadingOf>,
}

/// What the server says of a session when it opens it.
pub(super) struct Opening {
    pub(super) number: u64,
    pub(super) secret: Secret,
    pub(super) config: SessionConfig,
    /// The first message that comes here.
    pub(super) from: u64,
}

/// A session that lives here.
pub(super) struct Hosted {
    number: u64,
    secret: Secret,
    handle: SessionHandle,
    around: Surroundings,
    reading: Mutex<Reading>,
    steps: Mutex<Steps>,
    arrivals: Mutex<Arrivals>,
    uploaded: Mutex<Uploaded>,
    outlet: Arc<Outlet>,
    loaders: Loaders,
}

impl Hosted {
    pub(super) fn open(worker: &WorkerHandle, opening: Opening, around: &Surroundings) -> Arc<Hosted> {
        let Opening { number, secret, config, from } = opening;
        let outlet = Arc::new(Outlet::new(around.held));
        let (steps, is_bereft) = (Mutex::new(Steps::new(from, &config, &around.held)), config.lost.is_some());
        let handle = worker.open(config);
        let loaders = Loaders::new(around.loading.as_ref(), &outlet, &handle);
        let hosted = Arc::new(Hosted {
            number,
            secret,
            handle,
            reading: Mutex::new(Reading::new(from, is_bereft, &around.held)),
            steps,
            arrivals: Mutex::new(Arrivals::new(around.held.transfer_bytes)),
            uploaded: Mutex::new(Uploaded::new(around.held.part_bytes)),
            loaders,
            outlet,
            around: around.clone(),
        });
        // Weak, or the session would hold itself.
        let of_hook: Weak<Hosted> = Arc::downgrade(&hosted);
        hosted.handle.on_executed(Box::new(move |count| {
            if let Some(hosted) = of_hook.upgrade() {
                hosted.ran(count);
            }
        }));
        let of_hook = Arc::downgrade(&hosted);
        hosted.handle.set_idle_hook(Box::new(move || {
            if let Some(hosted) = of_hook.upgrade() {
                hosted.report();
            }
            false
        }));
        hosted
    }

    /// Its number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether somebody is its client.
    pub(super) fn knows(&self, secret: &[u8]) -> bool {
        self.secret.matches(secret)
    }

    /// How many messages of its stream have come.
    pub(super) fn received(&self) -> u64 {
        self.reading.lock().received()
    }

    /// A message of its stream.
    pub(super) fn receive(&self, seq: u64, message: &[u8]) -> Result<(), Fault> {
        let mut reading = self.reading.lock();
        let mut steps = Vec::new();
        let wanted = reading.take(seq, message, &mut steps);
        // What was read before something wrong is still right.
        self.push(steps)?;
        if let Some(digest) = wanted? {
            self.around.group.say(&FromWorker::NeedTemplate { session: self.number, digest });
        }
        Ok(())
    }

    fn push(&self, new: Vec<(u64, Step)>) -> Result<(), Fault> {
        if new.is_empty() {
            return Ok(());
        }
        let mut steps = self.steps.lock();
        let pushed = new.into_iter().try_for_each(|(stream, step)| {
            // At once: what stands before it may wait for just those values.
            if let Step::Abandon { from, failure } = &step {
                let failed = self.arrivals.lock().abandon(*from, failure);
                failed.into_iter().for_each(|delivery| self.deliver(delivery));
                self.around.couriers.forget(self.number, Some(*from));
            }
            // At once too: files are read while windows wait for room, and what those wait for may be a batch.
            if let Step::Loader(request) = &step {
                self.loaders.take(request, &self.handle);
            }
            steps.push(stream, step)?;
            self.go_on(&mut steps);
            Ok(())
        });
        self.say_executed(&mut steps, false);
        pushed
    }

    /// The worker has run so much.
    fn ran(&self, count: u64) {
        let mut steps = self.steps.lock();
        steps.executed.ran(count);
        self.go_on(&mut steps);
        self.say_executed(&mut steps, false);
    }

    /// Does what can be done.
    fn go_on(&self, steps: &mut Steps) {
        self.go_on_until_full(steps);
        self.loaders.supply(&self.handle);
    }

    fn go_on_until_full(&self, steps: &mut Steps) {
        while let Some((stream, step)) = steps.pop() {
            if let Err(step) = self.apply(steps, stream, step) {
                steps.put_back(stream, step);
                return;
            }
        }
    }

    /// Does a step, or gives it back when it has to wait.
    fn apply(&self, steps: &mut Steps, stream: u64, step: Step) -> Result<(), Step> {
        let sent = self.handle.sent();
        let outlet = self.outlet.clone();
        match step {
            Step::Window(new) => {
                let NewWindow { window, missing, payload_bytes } = *new;
                let instrs = window.instrs.len() as u64;
                if let Err(back) = self.handle.try_send(window, missing) {
                    let (window, missing) = *back;
                    return Err(Step::Window(Box::new(NewWindow { window, missing, payload_bytes })));
                }
                steps.executed.gave(stream, instrs, payload_bytes);
            }
            Step::Repeat(repeat) if self.handle.is_full() => return Err(Step::Repeat(repeat)),
            Step::Repeat(repeat) => {
                let (instrs, payload_bytes) = (repeat.instrs() as u64, repeat.payload_bytes() as u64);
                self.handle.repeat(repeat);
                steps.executed.gave(stream, instrs, payload_bytes);
            }
            Step::Trim => {
                self.handle.trim();
                steps.executed.gave(stream, 0, 0);
            }
            Step::Receive(receive) => {
                let Receive { id, name, ty, from } = *receive;
                self.handle.expect(id, ty, SiteId::default());
                steps.executed.gave(stream, 0, 0);
                let delivery = self.arrivals.lock().expect(from, name, id, ty);
                if let Some(delivery) = delivery {
                    self.deliver(delivery);
                }
            }
            Step::Abandon { from, .. } => {
                self.arrivals.lock().forget(from);
                steps.executed.passed(stream);
            }
            Step::Read { request, id } => {
                outlet.owe();
                self.handle.read_then(id, sent, Box::new(move |value| outlet.value(request, value)));
                steps.executed.passed(stream);
            }
            Step::Synchronize { request } => {
                outlet.owe();
                self.handle.synchronize_then(sent, Box::new(move |result| outlet.done(request, result)));
                steps.executed.passed(stream);
            }
            Step::Stats { request } => {
                outlet.owe();
                outlet.answer(request, ReadAnswer::Stats { json: self.handle.stats().to_json() }, None);
                steps.executed.passed(stream);
            }
            Step::Send { id, name, to, own } => {
                let couriers = self.around.couriers.clone();
                let way = Way { session: self.number, own, to };
                if !neighbors::is_one(&way.to.worker) {
                    couriers.prepare(&way);
                }
                let then = move |value: Result<Departing, ReadError>| {
                    // A session that is over sends nothing: the client says to the others what that means.
                    if matches!(value, Err(ReadError::Stopped)) {
                        return;
                    }
                    let value = value.map_err(super::outlet::failure);
                    match neighbors::find(&way.to) {
                        Some(hosted) => {
                            hosted.arrived(way.own, name, value.map(|value| (value.ty(), Supplied::Moved(value))));
                        }
                        None => couriers.send(&way, Parcel { name, value }),
                    }
                };
                self.handle.move_then(id, sent, Box::new(then));
                steps.executed.passed(stream);
            }
            // It has had its effect.
            Step::Loader(_) | Step::Nothing => steps.executed.passed(stream),
        }
        Ok(())
    }

    /// Tells the server how far the session has run, if it is time.
    fn say_executed(&self, steps: &mut Steps, anyway: bool) {
        let report = if anyway { steps.report() } else { steps.due_report() };
        if let Some(executed) = report
            && !self.around.group.say(&FromWorker::Executed { session: self.number, executed })
        {
            steps.executed.report_again();
        }
    }

    /// Tells the server how far the session has run.
    pub(super) fn report(&self) {
        self.say_executed(&mut self.steps.lock(), true);
    }

    /// The server is back: it hears again what it may have missed.
    pub(super) fn report_again(&self) {
        let mut steps = self.steps.lock();
        steps.executed.report_again();
        self.say_executed(&mut steps, true);
        drop(steps);
        if let Some(digest) = self.reading.lock().awaited() {
            self.around.group.say(&FromWorker::NeedTemplate { session: self.number, digest });
        }
    }

    /// Whether everything that came has run, and been answered.
    pub(super) fn is_dry(&self) -> bool {
        self.reading.lock().awaited().is_none() && self.steps.lock().is_dry() && self.outlet.is_even()
    }

    /// A payload of its client.
    pub(super) fn upload(&self, id: TensorId, bytes: Bytes) -> Result<(), Oversupplied> {
        match self.uploaded.lock().note(id) {
            true => self.handle.supply(id, bytes),
            false => Ok(()),
        }
    }

    /// The rest of a payload, of which so many bytes have come before; nothing when they are not here.
    pub(super) fn upload_rest(&self, id: TensorId, before: u64, rest: &[u8]) -> Option<Result<(), Oversupplied>> {
        let whole = self.uploaded.lock().complete(id, before, rest)?;
        Some(whole.map_or(Ok(()), |bytes| self.handle.supply(id, bytes)))
    }

    /// A connection has ended in the middle of a payload.
    pub(super) fn keep_part(&self, id: TensorId, before: u64, arrived: &[u8]) {
        self.uploaded.lock().keep(id, before, arrived);
    }

    /// The client has an answer.
    pub(super) fn got(&self, request: u64) {
        self.outlet.got(request);
    }

    /// A value from another worker.
    pub(super) fn arrived(&self, from: Origin, name: TensorId, arrived: Arrived) {
        let delivery = self.arrivals.lock().put(from, name, arrived);
        if let Some(delivery) = delivery {
            self.deliver(delivery);
        }
    }

    /// A value from a worker of another process, by its number: below which number all have come from there.
    pub(super) fn transferred(&self, from: Origin, number: u64, name: TensorId, arrived: Arrived) -> u64 {
        let (is_new, below) = self.arrivals.lock().take(from, number);
        if is_new {
            self.arrived(from, name, arrived);
        }
        below
    }

    /// Gives a value to those that wait for it.
    fn deliver(&self, (id, value): Delivery) {
        match value {
            Ok(value) => {
                let supplied = match value {
                    Supplied::Bytes(bytes) | Supplied::Loaded(bytes) => self.handle.supply(id, bytes),
                    Supplied::Moved(value) => self.handle.hand(id, value),
                };
                // It was expected, so there is room.
                if let Err(too_much) = supplied {
                    self.handle.fail(id, Failure::new(FailureKind::Memory, too_much.to_string()));
                }
            }
            Err(failure) => self.handle.fail(id, failure),
        }
    }

    /// Another worker that there is a value for cannot be reached: the client decides what becomes of the two.
    pub(super) fn out_of_reach(&self, worker: Origin, reason: &str) {
        self.outlet.out_of_reach(worker, reason);
    }

    /// Its client is here, and says what it has.
    pub(super) fn attach(&self, connection: &Connection, resume: Option<&Resumption>) {
        let uploads = resume.map(|resume| self.uploaded.lock().have(&resume.uploads)).unwrap_or_default();
        self.outlet.attach(connection, uploads, resume);
    }

    /// Its client's connection is gone.
    pub(super) fn detach(&self, connection: &Connection) {
        self.outlet.detach(connection);
    }

    /// Looks after what had no room; what is wrong, if something is.
    pub(super) fn look_after(&self) -> Option<String> {
        self.report();
        self.outlet.flush();
        self.outlet.is_overfull().then(|| "its client does not take its answers".to_string())
    }

    /// Ends the session; its client is told why, if there is something to tell.
    pub(super) fn close(&self, reason: Option<&str>) {
        if let Some(reason) = reason {
            // First, so that this is what it hears.
            self.outlet.close(Some(reason));
        }
        self.handle.close();
        self.loaders.close();
        self.around.couriers.forget(self.number, None);
        self.outlet.close(None);
    }
}
