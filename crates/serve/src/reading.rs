//! From the bytes of a session's stream to what is to be done, in order.
//!
//! READING-1: a message is read once, whatever is sent again.
//! READING-2: a window whose template is not here stops the reading; what comes behind it is kept as it came, and read once
//! the template is there. The template is asked for once.
//! READING-3: bytes that are not what they should be are the session's fault, and said so.

use std::collections::VecDeque;
use std::sync::Arc;

use gt_ir::codec::Reader;
use gt_ir::{Failure, OpError, TensorId};
use gt_net::protocol::{Peer, StreamMessage, decode};
use gt_net::{Arrival, Inbox};
use gt_shard::{PlacedBindings, PlacedTemplate, PlacedWindow};
use gt_stream::{Bindings, Checker, Occurrence, Template};

use super::arrivals::Origin;
use super::config::HeldLimits;
use super::group::ServerConnection;
use super::loaders::LoaderRequest;
use super::placing::{MemberLowering, Receive};
use super::templates::Templates;
use gt_worker::{Charge, Missing, SessionMemory};

/// What a message takes while it is kept, besides its bytes.
const OVERHEAD_BYTES: usize = 64;
/// The part of what may be on its way that templates take at most.
const TEMPLATES_PART: usize = 4;

/// What is to be done.
pub(super) enum Step {
    /// Run a window.
    Window(Box<NewWindow>),
    /// Answer with a value.
    Read { request: u64, id: TensorId },
    /// Answer when everything before has run.
    Synchronize { request: u64 },
    /// Answer with what was counted.
    Stats { request: u64 },
    /// Give cached memory back.
    Trim,
    /// Send a value to another worker.
    Send { id: TensorId, name: TensorId, to: Arc<Peer>, own: Origin },
    /// Wait for a value from another worker.
    Receive(Box<Receive>),
    /// Wait for no more values of a worker.
    Abandon { from: Origin, failure: Box<Failure> },
    /// Something for a loader.
    Loader(LoaderRequest),
    /// Nothing: the message has had its effect.
    Nothing,
}

/// A window and what it waits for.
pub(super) struct NewWindow {
    pub(super) occurrence: Occurrence,
    pub(super) missing: Vec<Missing>,
    /// Of all payloads, those that travel apart included.
    pub(super) payload_bytes: u64,
}

impl NewWindow {
    /// A window, with the uploads whose payloads travel apart.
    pub(super) fn new(occurrence: Occurrence, missing: Vec<Missing>) -> Self {
        let uploads = occurrence.recipe().uploads().iter();
        let payload_bytes = uploads.fold(0u64, |sum, place| sum.saturating_add(place.len_bytes as u64));
        NewWindow { occurrence, missing, payload_bytes }
    }

    /// A window of the client: a payload that is not in it is supplied under the name of its value.
    fn of_client(occurrence: Occurrence) -> Self {
        let missing = occurrence.missing().map(|(place, id)| (place.instr, id)).collect();
        NewWindow::new(occurrence, missing)
    }
}

impl Step {
    /// What it takes while it is kept.
    pub(super) fn len_bytes(&self) -> usize {
        match self {
            Step::Window(new) => {
                // As if it were spelled out, which it may have to be.
                let own = new.occurrence.held_bytes() + new.occurrence.payload_bytes();
                OVERHEAD_BYTES + own + size_of_val(&new.missing[..])
            }
            Step::Abandon { failure, .. } => OVERHEAD_BYTES + failure.len_bytes(),
            Step::Receive(_) => OVERHEAD_BYTES + size_of::<Receive>(),
            Step::Loader(request) => OVERHEAD_BYTES + request.len_bytes(),
            Step::Read { .. }
            | Step::Synchronize { .. }
            | Step::Stats { .. }
            | Step::Trim
            | Step::Send { .. }
            | Step::Nothing => OVERHEAD_BYTES,
        }
    }
}

/// What is wrong with a message.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    /// One before it is missing: the connection is to be made anew.
    Gap { expected: u64 },
    /// The session's: it is to be closed.
    Broken(String),
}

impl From<OpError> for Fault {
    fn from(error: OpError) -> Self {
        Fault::Broken(format!("internal error in GT, please report it: a message is malformed: {error}"))
    }
}

/// The reading end of one session's stream.
pub(super) struct Reading {
    inbox: Inbox,
    templates: Templates,
    checker: Checker,
    awaited: Option<u64>,
    /// With the stream's count after each.
    unread: VecDeque<(u64, Box<[u8]>, Charge)>,
    unread_bytes: usize,
    most_bytes: usize,
    /// Once it is one of several sessions.
    placing: Option<MemberLowering>,
    is_bereft: bool,
    memory: SessionMemory,
    group: Arc<ServerConnection>,
}

impl Reading {
    /// Reads from message `from` on. One that is bereft had values on a worker that is lost.
    pub(super) fn new(
        from: u64,
        is_bereft: bool,
        held: &HeldLimits,
        memory: SessionMemory,
        group: Arc<ServerConnection>,
    ) -> Self {
        // Templates are not counted one by one: all of them take a part of what may be on its way.
        let template_bytes = usize::try_from(memory.longest_body()).unwrap_or(usize::MAX) / TEMPLATES_PART;
        let template_bytes = held.template_bytes.min(template_bytes);
        Reading {
            placing: None,
            is_bereft,
            memory,
            group,
            inbox: Inbox::starting_at(from),
            templates: Templates::new(held.templates, template_bytes),
            checker: Checker::default(),
            awaited: None,
            unread: VecDeque::new(),
            unread_bytes: 0,
            most_bytes: held.message_bytes,
        }
    }

    /// How many messages have come.
    pub(super) fn received(&self) -> u64 {
        self.inbox.received()
    }

    /// How many names and peers are remembered.
    pub(super) fn records(&self) -> usize {
        self.placing.as_ref().map_or(0, MemberLowering::records)
    }

    /// The template that was asked for and has not come.
    pub(super) fn awaited(&self) -> Option<u64> {
        self.awaited
    }

    /// Takes the next message; puts into `steps` what can be done now. Gives the number of a template to ask for.
    pub(super) fn take(
        &mut self,
        seq: u64,
        message: &[u8],
        steps: &mut Vec<(u64, Step)>,
    ) -> Result<Option<u64>, Fault> {
        match self.inbox.accept(seq) {
            Arrival::New => {}
            Arrival::Duplicate => return Ok(None),
            Arrival::Gap { expected } => return Err(Fault::Gap { expected }),
        }
        let stream = self.inbox.received();
        if self.awaited.is_none() {
            return self.read(stream, message, steps);
        }
        if let Ok(StreamMessage::Template { number, template }) = decode(message) {
            self.keep_template(number, template)?;
        }
        self.keep(stream, message.into())?;
        self.go_on(steps)
    }

    fn keep(&mut self, stream: u64, unread: Box<[u8]>) -> Result<(), Fault> {
        self.unread_bytes += unread.len() + OVERHEAD_BYTES;
        if self.unread_bytes > self.most_bytes {
            let bytes = self.unread_bytes;
            return Err(Fault::Broken(format!("{bytes} bytes of messages are waiting for work that did not arrive")));
        }
        let charge = self.memory.hold_words(unread.len() + OVERHEAD_BYTES);
        let charge =
            charge.map_err(|failure| Fault::Broken(format!("no memory for messages that wait for work: {failure}")))?;
        self.unread.push_back((stream, unread, charge));
        Ok(())
    }

    /// Reads what was kept, if the template is here.
    fn go_on(&mut self, steps: &mut Vec<(u64, Step)>) -> Result<Option<u64>, Fault> {
        if self.awaited.is_none_or(|number| self.templates.get(number).is_none()) {
            return Ok(None);
        }
        self.awaited = None;
        let mut unread = std::mem::take(&mut self.unread);
        self.unread_bytes = 0;
        let mut wanted = None;
        while let Some((stream, message, charge)) = unread.pop_front() {
            drop(charge);
            match self.awaited {
                None => wanted = self.read(stream, &message, steps)?,
                // Another template is missing: the rest waits again.
                Some(_) => self.keep(stream, message)?,
            }
        }
        Ok(wanted)
    }

    fn keep_template(&mut self, number: u64, template: &[u8]) -> Result<Template, Fault> {
        let template = whole(template, self.memory.longest_words(), Template::decode)?;
        self.templates.put(number, template.clone());
        Ok(template)
    }

    /// An occurrence of a template.
    fn occurrence(&mut self, template: Template, bindings: &[u8]) -> Result<Step, Fault> {
        let bindings = whole(bindings, self.memory.longest_words(), Bindings::decode)?;
        let occurrence = self.checker.bind(template, bindings)?;
        Ok(Step::Window(Box::new(NewWindow::of_client(occurrence))))
    }

    fn read(&mut self, stream: u64, message: &[u8], steps: &mut Vec<(u64, Step)>) -> Result<Option<u64>, Fault> {
        let read = decode::<StreamMessage<'_>>(message).map_err(|e| Fault::Broken(e.to_string()))?;
        let most = self.memory.longest_words();
        let step = match read {
            StreamMessage::Send { window } => {
                let occurrence = whole(window, most, |reader| self.checker.decode(reader))?;
                Step::Window(Box::new(NewWindow::of_client(occurrence)))
            }
            StreamMessage::Define { number, template, bindings } => {
                let template = self.keep_template(number, template)?;
                self.occurrence(template, bindings)?
            }
            StreamMessage::Replay { number, bindings } => match self.templates.get(number) {
                Some(template) => self.occurrence(template, bindings)?,
                None => {
                    self.awaited = Some(number);
                    self.keep(stream, message.into())?;
                    return Ok(Some(number));
                }
            },
            StreamMessage::Template { number, template } => {
                self.keep_template(number, template)?;
                Step::Nothing
            }
            StreamMessage::Read { request, id } => {
                let id = self.placing.as_ref().map_or(id, |placing| placing.name(id));
                Step::Read { request, id }
            }
            StreamMessage::Synchronize { request } => Step::Synchronize { request },
            StreamMessage::Trim {} => Step::Trim,
            StreamMessage::Stats { request } => Step::Stats { request },
            StreamMessage::Peers { own, epoch, peers } => {
                self.placing
                    .get_or_insert_with(|| MemberLowering::new(own, self.group.clone()))
                    .meet(own, epoch, peers)?;
                Step::Nothing
            }
            StreamMessage::Placed { window } => {
                let window = whole(window, most, PlacedWindow::decode)?;
                return self.placed(stream, steps, |placing| placing.steps(&window)).map(|()| None);
            }
            StreamMessage::DefinePlaced { number, template, bindings } => {
                let memory = self.memory.clone();
                let template = whole(template, most, PlacedTemplate::decode)?;
                let bindings = whole(bindings, most, PlacedBindings::decode)?;
                let own = |placing: &mut MemberLowering| {
                    placing.define(number, template, &memory)?;
                    placing.replay(number, &bindings)
                };
                return self.placed(stream, steps, own).map(|()| None);
            }
            StreamMessage::ReplayPlaced { number, bindings } => {
                let bindings = whole(bindings, most, PlacedBindings::decode)?;
                return self.placed(stream, steps, |placing| placing.replay(number, &bindings)).map(|()| None);
            }
            StreamMessage::Abandon { from, failure } => match &self.placing {
                Some(placing) => Step::Abandon { from: placing.origin(from)?, failure: Box::new(failure.shortened()) },
                None if self.is_bereft => Step::Nothing,
                None => return Err(not_one_of_several()),
            },
            StreamMessage::OpenLoader { loader, description } => {
                Step::Loader(LoaderRequest::Open { loader, description: description.into() })
            }
            StreamMessage::Announce { loader, request } => Step::Loader(LoaderRequest::Announce { loader, request }),
            StreamMessage::Bind { loader, batch, values } => {
                Step::Loader(LoaderRequest::Bind { loader, batch, values })
            }
            StreamMessage::CloseLoader { loader, taken } => Step::Loader(LoaderRequest::Close { loader, taken }),
        };
        steps.push((stream, step));
        Ok(None)
    }

    /// A window for several workers: what this one does of it.
    fn placed(
        &mut self,
        stream: u64,
        steps: &mut Vec<(u64, Step)>,
        own: impl FnOnce(&mut MemberLowering) -> Result<Vec<Step>, Fault>,
    ) -> Result<(), Fault> {
        let mut own = match &mut self.placing {
            Some(placing) => own(placing)?,
            // It was for the worker that is lost; the client will say so.
            None if self.is_bereft => Vec::new(),
            None => return Err(not_one_of_several()),
        };
        // The message is done with when the last of them is.
        let last = own.pop().unwrap_or(Step::Nothing);
        steps.extend(own.into_iter().map(|step| (stream - 1, step)));
        steps.push((stream, last));
        Ok(())
    }
}

fn not_one_of_several() -> Fault {
    Fault::Broken("work for several workers arrived before the list of workers".to_string())
}

/// Decodes something that takes all of the bytes, and `most_bytes` of memory at most.
fn whole<T>(
    bytes: &[u8],
    most_bytes: usize,
    decode: impl FnOnce(&mut Reader<'_>) -> Result<T, OpError>,
) -> Result<T, Fault> {
    let mut reader = Reader::within(bytes, most_bytes);
    let decoded = decode(&mut reader)?;
    match reader.left() {
        0 => Ok(decoded),
        left => Err(Fault::Broken(format!("{left} unexpected bytes follow a message"))),
    }
}
