//! A session that lives here.
//!
//! Locks, taken in this order: `reading` (the I/O thread), `steps` (the I/O thread and the device thread, for moments), and
//! the outlet's or `arrivals`. Answers are given with at most `steps` held, and take only the outlet's, or the `arrivals` of
//! another session: under that nothing else is locked, so two sessions may send to each other at once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use gt_ir::{Bytes, Failure, FailureKind, SiteId, TensorId};
use gt_net::protocol::{FromWorker, ReadAnswer, Resumption};
use gt_net::{Connection, SessionKeys};
use parking_lot::Mutex;

use super::arrivals::{Arrivals, Arrived, Delivery, Origin};
use super::config::{HeldLimits, RecorderMoved};
use super::courier::Couriers;
use super::group::ServerConnection;
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
use gt_worker::Supplied;
use gt_worker::{Charge, Departing, Oversupplied, ReadError, SessionConfig, SessionHandle, WorkerHandle};

/// A session is ended when there was no room for more than so many payloads.
const MOST_REFUSED_UPLOADS: u64 = 1000;

/// What all sessions of a service share.
#[derive(Clone)]
pub(super) struct ServiceContext {
    pub(super) group: Arc<ServerConnection>,
    pub(super) couriers: Arc<Couriers>,
    pub(super) held: HeldLimits,
    pub(super) recorder_moved: Option<RecorderMoved>,
    pub(super) loading: Option<LoadingOf>,
}

/// What the server says of a session when it opens it.
pub(super) struct Opening {
    pub(super) number: u64,
    pub(super) keys: SessionKeys,
    pub(super) config: SessionConfig,
    /// The first message that comes here.
    pub(super) from: u64,
    /// Its client is this worker's user, on this host.
    pub(super) same_user: bool,
}

/// A session that lives here.
pub(super) struct Hosted {
    number: u64,
    keys: SessionKeys,
    handle: SessionHandle,
    around: ServiceContext,
    reading: Mutex<Reading>,
    steps: Mutex<Steps>,
    arrivals: Mutex<Arrivals>,
    uploaded: Mutex<Uploaded>,
    outlet: Arc<Outlet>,
    loaders: Loaders,
    /// Payloads for which there was no room.
    refused_uploads: AtomicU64,
    /// Set when it has more records than it may, with the reason: nothing more is done of its stream, and it is about to be ended.
    overfull: OnceLock<String>,
    /// Connections that have shown a key of it, those included that were refused and are about to end.
    guests: AtomicUsize,
}

impl Hosted {
    pub(super) fn open(worker: &WorkerHandle, opening: Opening, around: &ServiceContext) -> Arc<Hosted> {
        let Opening { number, keys, config, from, same_user } = opening;
        let (steps, is_bereft) = (Steps::new(from, &config, &around.held), config.lost.is_some());
        let handle = worker.open(config);
        let memory = handle.memory();
        let steps = Mutex::new(steps.charged_to(memory.clone()));
        let outlet = Arc::new(Outlet::new(around.held, memory.clone()));
        let loaders = Loaders::new(around.loading.as_ref(), &outlet, &handle, same_user);
        let hosted = Arc::new(Hosted {
            number,
            keys,
            handle,
            reading: Mutex::new(Reading::new(from, is_bereft, &around.held, memory.clone(), around.group.clone())),
            steps,
            arrivals: Mutex::new(Arrivals::new(around.held.transfer_bytes)),
            uploaded: Mutex::new(Uploaded::new(around.held.part_bytes, memory)),
            loaders,
            refused_uploads: AtomicU64::new(0),
            overfull: OnceLock::new(),
            guests: AtomicUsize::new(0),
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

    /// What those have who may come to it.
    pub(super) fn keys(&self) -> &SessionKeys {
        &self.keys
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
        let names = reading.records();
        // What was read before something wrong is still right.
        self.push(steps)?;
        self.check_records(names).map_err(Fault::Broken)?;
        if let Some(number) = wanted? {
            self.around.group.say(&FromWorker::NeedTemplate { session: self.number, number });
        }
        Ok(())
    }

    /// Whether it has as many records as it may, at most (SESSION-MEMORY-3); `names` are those of the reading end.
    fn check_records(&self, names: usize) -> Result<(), String> {
        let kept = self.arrivals.lock().records() + self.loaders.records() + self.outlet.records();
        self.has_room_for_records(names + kept + self.handle.records());
        self.overfull.get().map_or(Ok(()), |reason| Err(reason.clone()))
    }

    /// Whether the session may go on. One with too many records stops here, and is ended when it is looked after next.
    fn has_room_for_records(&self, records: usize) -> bool {
        if let Err(reason) = self.handle.memory().allows_records(records) {
            self.overfull.get_or_init(|| reason);
        }
        self.overfull.get().is_none()
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
        steps.ran(count);
        // What has run may have made many values: before more is run, they are counted.
        self.has_room_for_records(self.handle.records());
        self.go_on(&mut steps);
        self.say_executed(&mut steps, false);
    }

    /// Does what can be done.
    fn go_on(&self, steps: &mut Steps) {
        self.go_on_until_full(steps);
        self.loaders.supply(&self.handle);
    }

    fn go_on_until_full(&self, steps: &mut Steps) {
        while self.overfull.get().is_none()
            && let Some((stream, step, charge)) = steps.pop()
        {
            match self.apply(steps, stream, step) {
                Ok(()) => steps.did(charge),
                Err(step) => return steps.put_back(stream, step, charge),
            }
        }
    }

    /// Does a step, or gives it back when it has to wait.
    fn apply(&self, steps: &mut Steps, stream: u64, step: Step) -> Result<(), Step> {
        let sent = self.handle.sent();
        let outlet = self.outlet.clone();
        match step {
            Step::Window(new) => {
                let NewWindow { occurrence, missing, payload_bytes } = *new;
                let instrs = occurrence.len() as u64;
                if let Err(back) = self.handle.try_send(occurrence, missing) {
                    let (occurrence, missing) = *back;
                    return Err(Step::Window(Box::new(NewWindow { occurrence, missing, payload_bytes })));
                }
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
        if let Some(number) = self.reading.lock().awaited() {
            self.around.group.say(&FromWorker::NeedTemplate { session: self.number, number });
        }
    }

    /// Whether everything that came has run, and been answered.
    pub(super) fn is_dry(&self) -> bool {
        self.reading.lock().awaited().is_none() && self.steps.lock().is_dry() && self.outlet.is_even()
    }

    /// How many connections have shown a key of it.
    pub(super) fn guests(&self) -> usize {
        self.guests.load(Relaxed)
    }

    /// One more connection has shown a key of it.
    pub(super) fn add_guest(&self) {
        self.guests.fetch_add(1, Relaxed);
    }

    /// A connection that had shown a key of it is gone.
    pub(super) fn remove_guest(&self) {
        self.guests.fetch_sub(1, Relaxed);
    }

    /// Room for a body that arrives for it.
    pub(super) fn make_room(&self, len_bytes: u64) -> Result<Charge, Failure> {
        self.handle.memory().hold(usize::try_from(len_bytes).unwrap_or(usize::MAX))
    }

    /// Whether there would be room for a body if nothing else were on its way.
    pub(super) fn could_have(&self, len_bytes: u64) -> bool {
        len_bytes <= self.handle.memory().longest_body()
    }

    /// There was no room for a payload.
    pub(super) fn refuse_upload(&self, id: TensorId, failure: Failure) {
        if self.uploaded.lock().note(id) && self.has_room_for_records(self.handle.records()) {
            self.refused_uploads.fetch_add(1, Relaxed);
            self.handle.fail(id, failure);
        }
    }

    /// A payload of its client.
    pub(super) fn upload(&self, id: TensorId, bytes: Bytes) -> Result<(), Oversupplied> {
        if !self.uploaded.lock().note(id) {
            return Ok(());
        }
        match self.has_room_for_records(self.handle.records()) {
            true => self.handle.supply(id, bytes),
            false => Ok(()),
        }
    }

    /// The rest of a payload, of which so many bytes have come before; nothing when they are not here.
    pub(super) fn upload_rest(&self, id: TensorId, before: u64, rest: &[u8]) -> Option<Result<(), String>> {
        let whole = self.uploaded.lock().complete(id, before, rest)?;
        Some(match whole {
            None => Ok(()),
            Some(Ok(bytes)) => self.handle.supply(id, bytes).map_err(|too_much| too_much.to_string()),
            Some(Err(failure)) => {
                self.handle.fail(id, failure);
                Ok(())
            }
        })
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
        let mut arrivals = self.arrivals.lock();
        if !self.has_room_for_records(arrivals.records()) {
            return;
        }
        let delivery = arrivals.put(from, name, arrived);
        drop(arrivals);
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
        let refused = self.refused_uploads.load(Relaxed);
        let names = self.reading.lock().records();
        if let Err(reason) = self.check_records(names) {
            return Some(reason);
        }
        match () {
            _ if self.outlet.is_overfull() => Some("the script requested values but does not receive them".to_string()),
            _ if refused > MOST_REFUSED_UPLOADS => {
                Some(format!("the script kept uploading after {refused} uploads over the memory limit"))
            }
            _ => None,
        }
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
