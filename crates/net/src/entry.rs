//! A connection in the I/O thread's table, and its turns.

use std::sync::Arc;
use std::time::Instant;

use crate::NetError;
use crate::Result;
use crate::channel::Channel;
use crate::connection::{Connection, End};
use crate::flush::Flow;
use crate::incoming::{Incoming, Progress};
use crate::socket::Socket;
use crate::spares::Spares;

/// How many bytes of bodies a connection may send before others have their turn.
const BODIES_BUDGET: usize = 1 << 20;
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Messages go both ways, or will once the other side has introduced itself.
    Live,
    /// Closed on this side: what waits is sent, then the goodbye.
    Leaving { until: Instant },
    /// Nothing is left to say, the receiver has been told: the other side may still be reading.
    Ending { until: Instant },
}

/// A connection in the I/O thread's table.
pub(crate) struct Entry {
    pub(crate) channel: Arc<Channel>,
    pub(crate) socket: Arc<Socket>,
    pub(crate) incoming: Incoming,
    pub(crate) connection: Connection,
    pub(crate) phase: Phase,
    pub(crate) open_by: Instant,
    /// Whether the receiver is told of an end that came before the beginning.
    pub(crate) accepted: bool,
    shut: bool,
    pub(crate) pinged: Instant,
}

impl Entry {
    pub(crate) fn new(channel: Arc<Channel>, socket: Arc<Socket>, incoming: Incoming, accepted: bool) -> Box<Entry> {
        let connection = Connection(End::Socket(channel.clone()));
        let open_by = Instant::now() + channel.lock().limits.handshake_timeout;
        let phase = Phase::Live;
        let pinged = Instant::now();
        Box::new(Entry { channel, socket, incoming, connection, phase, open_by, accepted, shut: false, pinged })
    }

    /// Reads, delivers and sends; true if there is more to do at once.
    pub(crate) fn turn(&mut self, spares: &mut Spares) -> Result<bool> {
        if let Phase::Ending { .. } = self.phase {
            let ended = self.incoming.discard(&self.socket);
            let flow = self.channel.pump(BODIES_BUDGET)?;
            if flow == Flow::Done && !self.shut {
                self.socket.finish_sending();
                self.shut = true;
            }
            return if ended { Err(NetError::lost("over")) } else { Ok(false) };
        }
        let leaving = matches!(self.phase, Phase::Leaving { .. });
        let progress = self.incoming.read(&self.channel, &self.socket, &self.connection, spares);
        // A process that says why it leaves and is gone: its words are read before the failed write is looked at.
        let progress = progress?;
        let flow = self.channel.pump(BODIES_BUDGET)?;
        if leaving && flow == Flow::Done && !self.shut {
            let mut out = self.channel.lock();
            if !out.has_bodies() {
                out.goodbye("");
                let last = out.flush(0)?;
                if last == Flow::Done {
                    self.socket.finish_sending();
                    self.shut = true;
                }
            }
        }
        Ok(progress == Progress::More || flow == Flow::More)
    }
}
