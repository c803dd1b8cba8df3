//! How a worker comes to another one: connects, says whose values it brings, and waits to be let in.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use gt_ir::Bytes;
use gt_net::protocol::{DataReply, DataRequest, decode, encode};
use gt_net::{Connection, NetError, Reach, Receiver, Secret, SessionPass};
use parking_lot::{Condvar, Mutex};

use super::route::Route;

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How often somebody who waits looks whether it is still wanted.
const POLL: Duration = Duration::from_millis(20);

/// What the other worker said.
#[derive(Default)]
enum Answer {
    #[default]
    Nothing,
    Attached,
    Refused(String),
}

#[derive(Default)]
struct Reply {
    answer: Mutex<Answer>,
    changed: Condvar,
}

struct FromPeer {
    reply: Arc<Reply>,
    route: Weak<Route>,
}

impl FromPeer {
    fn set(&self, answer: Answer) {
        *self.reply.answer.lock() = answer;
        self.reply.changed.notify_all();
    }
}

impl Receiver for FromPeer {
    fn message(&mut self, from: &Connection, head: &[u8], _: Option<Bytes>) {
        match decode::<DataReply<'_>>(head) {
            Ok(DataReply::Attached { .. }) => self.set(Answer::Attached),
            Ok(DataReply::Refused { reason }) => self.set(Answer::Refused(reason)),
            Ok(DataReply::Taken { transfers }) => {
                if let Some(route) = self.route.upgrade() {
                    route.acked(from, transfers);
                }
            }
            Ok(_) => {}
            Err(_) => from.close(),
        }
    }

    fn closed(&mut self, from: &Connection, why: &NetError) {
        self.set(Answer::Refused(why.to_string()));
        if let Some(route) = self.route.upgrade() {
            route.lost(from, why);
        }
    }
}

/// A connection to a worker that may not know the session yet.
pub(super) struct Connected {
    connection: Connection,
    reply: Arc<Reply>,
    worker: String,
}

/// Connects, and says whose values will come.
pub(super) fn connect(reach: &Reach, route: &Arc<Route>, cancel: &dyn Fn() -> bool) -> Result<Connected, NetError> {
    let way = route.way();
    let worker = &way.to.worker;
    let reply = Arc::new(Reply::default());
    let receiver = || Box::new(FromPeer { reply: reply.clone(), route: Arc::downgrade(route) }) as Box<dyn Receiver>;
    let pass = SessionPass { session: way.to.session, key: Secret::from_bytes(&way.to.key) };
    let connection = reach.worker(worker, &pass, &receiver, ATTEMPT, cancel)?;
    let attach = DataRequest::AttachPeer {
        session: way.to.session,
        key: &way.to.key,
        from: way.own.number,
        epoch: way.own.epoch,
    };
    connection.send(&encode(&attach))?;
    Ok(Connected { connection, reply, worker: worker.id.clone() })
}

impl Connected {
    /// Waits until values may go by it.
    pub(super) fn wait_let_in(self, stopping: &dyn Fn() -> bool) -> Result<Connection, NetError> {
        let Connected { connection, reply, worker } = self;
        let unreachable = |reason: &str| NetError::Unreachable { address: worker.clone(), reason: reason.to_string() };
        let deadline = Instant::now() + ATTEMPT;
        let mut answer = reply.answer.lock();
        while let Answer::Nothing = *answer {
            if stopping() || Instant::now() > deadline {
                connection.close();
                return Err(unreachable("no reply"));
            }
            reply.changed.wait_for(&mut answer, POLL);
        }
        match &*answer {
            Answer::Attached => Ok(connection),
            Answer::Refused(reason) => Err(unreachable(reason)),
            Answer::Nothing => Err(unreachable("no reply")),
        }
    }
}
