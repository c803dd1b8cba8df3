//! The I/O thread of a process, and how others speak to it.
//!
//! IO-1: one thread serves every connection and listener of an [`Io`]; it waits in the poll and nowhere else.
//! IO-2: it ends with the last clone of its `Io`: what was taken is sent, for a bounded time, and everyone is told.
//! IO-3: in a forked child the thread does not exist: dropping an `Io` there touches nothing that is shared.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{JoinHandle, ThreadId};
use std::time::Instant;

use mio::unix::SourceFd;
use mio::{Interest, Poll, Registry, Token, Waker};
use parking_lot::Mutex;

use crate::entry::Entry;
use crate::listener::Accepting;
use crate::reactor::Reactor;
use crate::{NetError, Result};

pub(crate) const WAKE: Token = Token(usize::MAX);

/// What others ask of the I/O thread.
pub(crate) enum Command {
    /// Serve a connection.
    Add(Box<Entry>),
    /// Serve a listener.
    Listen(Box<Accepting>),
    /// Serve it no longer.
    StopListening(usize),
    /// Something waits there, or something is wrong.
    Look(usize),
    /// Send what waits, then say goodbye.
    Close(usize),
    /// End it now.
    Fail(usize, NetError),
    /// Deadlines have changed.
    Deadlines,
}

/// What others share with the I/O thread.
pub(crate) struct IoShared {
    commands: Mutex<Vec<Command>>,
    waker: Waker,
    pub(crate) stopping: AtomicBool,
    /// Nobody serves commands any more.
    stopped: AtomicBool,
    tokens: AtomicUsize,
    started: Instant,
    thread: OnceLock<ThreadId>,
    registry: Registry,
    /// Connections on which something was sent from within a turn (CHANNEL-3).
    unflushed: Mutex<Vec<usize>>,
}

impl IoShared {
    pub(crate) fn tell(&self, command: Command) {
        if self.stopped.load(Ordering::Acquire) {
            return;
        }
        let mut commands = self.commands.lock();
        commands.push(command);
        let first = commands.len() == 1;
        drop(commands);
        // Whoever made the list non-empty has woken the thread, which takes all of it.
        if first {
            let _ = self.waker.wake();
        }
    }

    pub(crate) fn take_commands(&self) -> Vec<Command> {
        std::mem::take(&mut self.commands.lock())
    }

    /// For the end of the turn, on the I/O thread.
    pub(crate) fn flush_later(&self, token: usize) {
        self.unflushed.lock().push(token);
    }

    pub(crate) fn take_unflushed(&self) -> Vec<usize> {
        std::mem::take(&mut self.unflushed.lock())
    }

    pub(crate) fn stop_taking(&self) {
        self.stopped.store(true, Ordering::Release);
        self.commands.lock().clear();
    }

    /// A number that no other connection or listener has had (so that a late event meets nobody else).
    pub(crate) fn next_token(&self) -> usize {
        self.tokens.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Has the poll watch a socket.
    pub(crate) fn watch(&self, fd: i32, token: usize, interest: Interest) -> Result<()> {
        let watched = self.registry.register(&mut SourceFd(&fd), Token(token), interest);
        watched.map_err(|e| NetError::resource("poll", e))
    }

    /// Has the poll watch a socket for something else. What it would tell by now, it tells at once.
    pub(crate) fn watch_again(&self, fd: i32, token: usize, interest: Interest) -> Result<()> {
        let watched = self.registry.reregister(&mut SourceFd(&fd), Token(token), interest);
        watched.map_err(|e| NetError::resource("poll", e))
    }

    pub(crate) fn is_this_thread(&self) -> bool {
        self.thread.get() == Some(&std::thread::current().id())
    }
}

/// A process's I/O thread. Clones are the same; the thread ends with the last.
#[derive(Clone)]
pub struct Io(Arc<Owner>);

struct Owner {
    shared: Arc<IoShared>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl Io {
    /// Starts the thread; `name` is what debuggers and `top` show.
    pub fn start(name: &str) -> Result<Io> {
        let poll = Poll::new().map_err(|e| NetError::resource("poll", e))?;
        let waker = Waker::new(poll.registry(), WAKE).map_err(|e| NetError::resource("poll", e))?;
        let shared = Arc::new(IoShared {
            commands: Mutex::new(Vec::new()),
            waker,
            stopping: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            tokens: AtomicUsize::new(0),
            started: Instant::now(),
            thread: OnceLock::new(),
            registry: poll.registry().try_clone().map_err(|e| NetError::resource("poll", e))?,
            unflushed: Mutex::new(Vec::new()),
        });
        let reactor = Reactor::new(poll, shared.clone());
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_string())
            .spawn(move || {
                let _ = of_thread.thread.set(std::thread::current().id());
                reactor.run();
            })
            .map_err(|e| NetError::resource("thread", e))?;
        Ok(Io(Arc::new(Owner { shared, thread: Some(thread), process: std::process::id() })))
    }

    pub(crate) fn shared(&self) -> &Arc<IoShared> {
        &self.0.shared
    }

    /// For receivers: does not keep the thread alive.
    pub(crate) fn downgrade(&self) -> WeakIo {
        WeakIo(Arc::downgrade(&self.0))
    }
}

/// An [`Io`] that may have ended.
pub(crate) struct WeakIo(Weak<Owner>);

impl WeakIo {
    pub(crate) fn upgrade(&self) -> Option<Io> {
        self.0.upgrade().map(Io)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process != std::process::id() {
            // IO-3: the handle names a thread of the parent, and the locks may have been held at the fork.
            std::mem::forget(thread);
            std::mem::forget(self.shared.clone());
            return;
        }
        self.shared.stopping.store(true, Ordering::Release);
        let _ = self.shared.waker.wake();
        // A receiver may hold the last clone; the thread then ends when that call returns.
        if !self.shared.is_this_thread() {
            let _ = thread.join();
        }
    }
}
