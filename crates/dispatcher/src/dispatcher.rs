//! The dispatcher, as the process that runs it sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gt_ir::Bytes;
use gt_net::protocol::WorkerInfo;
use gt_net::{Address, Connection, Io, Limits, Listener, NetError, Receiver, ServerTls, SessionPass};

use crate::clock::{Clock, SystemClock, Timer};
use crate::config::DispatcherConfig;
use crate::core::Core;
use crate::status::Status;
use crate::turnstile::{ConnectionId, Event, Turnstile};

/// Takes connections of clients and workers, and passes streams on between them. Clones are the same dispatcher.
#[derive(Clone)]
pub struct Dispatcher(Arc<Shared>);

struct Shared {
    turnstile: Turnstile,
    next_connection: AtomicU64,
}

impl Dispatcher {
    /// A dispatcher with nobody there yet.
    ///
    /// # Errors
    /// When the system gives no random numbers for secrets.
    pub fn new(config: DispatcherConfig) -> Result<Dispatcher, NetError> {
        Dispatcher::with_clock(config, Arc::new(SystemClock))
    }

    /// The same, with a clock of the caller's.
    ///
    /// # Errors
    /// As for [`Dispatcher::new`].
    pub fn with_clock(config: DispatcherConfig, clock: Arc<dyn Clock>) -> Result<Dispatcher, NetError> {
        let turnstile = Turnstile::new(Core::new(config, clock)?);
        Ok(Dispatcher(Arc::new(Shared { turnstile, next_connection: AtomicU64::new(0) })))
    }

    /// Who receives from a new connection, of a client or of a worker: its first message says which.
    pub fn receiver(&self) -> Box<dyn Receiver> {
        let id = self.0.next_connection.fetch_add(1, Ordering::Relaxed);
        Box::new(Peering { id, shared: self.0.clone() })
    }

    /// Takes connections at `address`.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn listen(&self, io: &Io, address: &Address, tls: Option<ServerTls>) -> Result<Listener, NetError> {
        self.listen_behind(io, address, tls, |receiver| receiver)
    }

    /// As [`Dispatcher::listen`], behind somebody who receives first and takes what is not for a dispatcher.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn listen_behind(
        &self,
        io: &Io,
        address: &Address,
        tls: Option<ServerTls>,
        door: impl Fn(Box<dyn Receiver>) -> Box<dyn Receiver> + Send + 'static,
    ) -> Result<Listener, NetError> {
        let dispatcher = self.clone();
        let accept = move |_: &gt_net::Peer| Some(door(dispatcher.receiver()));
        let listener = io.listen(address, tls, Limits::before_authentication(), accept)?;
        let at = listener.address().to_string();
        self.0.turnstile.call(move |core| core.addresses.push(at));
        Ok(listener)
    }

    /// Starts the thread that has leases end and late acks go out. Without it, call [`Dispatcher::tick`].
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start_timer(&self) -> Result<Timer, NetError> {
        Timer::start(self.clone(), self.0.turnstile.alarm.clone())
    }

    /// Does everything whose time has come.
    pub fn tick(&self) {
        self.0.turnstile.call(Core::tick);
    }

    /// Tells everyone that the server ends, and lets nobody in any more.
    pub fn end(&self) {
        self.0.turnstile.call(Core::end);
    }

    /// Where the worker of an index is, for who comes there for a session. Not for receivers.
    ///
    /// # Errors
    /// When no such session lives there, or there is no such worker now.
    pub fn find_worker(&self, pass: &SessionPass, worker: u32) -> Result<WorkerInfo, String> {
        self.0.turnstile.look(|core| core.find_worker(pass, worker))
    }

    /// What an observer sees now. Not for receivers.
    pub fn status(&self) -> Status {
        self.0.turnstile.look(|core| core.status())
    }
}

/// Receives from one connection.
struct Peering {
    id: ConnectionId,
    shared: Arc<Shared>,
}

impl Receiver for Peering {
    fn opened(&mut self, connection: &Connection) {
        self.shared.turnstile.event(self.id, connection, Event::Opened);
    }

    fn message(&mut self, from: &Connection, head: &[u8], body: Option<Bytes>) {
        // Control messages have no bodies; a socket's limits refuse them, a pair's do not.
        match body {
            None => self.shared.turnstile.event(self.id, from, Event::Message(head)),
            Some(_) => self.shared.turnstile.event(self.id, from, Event::Message(&[])),
        }
    }

    fn closed(&mut self, from: &Connection, why: &NetError) {
        self.shared.turnstile.event(self.id, from, Event::Closed(why));
    }
}
