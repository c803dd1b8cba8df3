//! How a worker comes to another one: connects, says whose values it brings, and waits to be let in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_ir::Bytes;
use gt_net::protocol::{DataReply, DataRequest, decode, encode};
use gt_net::{Connection, NetError, Reach, Receiver};
use parking_lot::{Condvar, Mutex};

use super::courier::Way;

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

struct FromPeer(Arc<Reply>);

impl FromPeer {
    fn set(&self, answer: Answer) {
        *self.0.answer.lock() = answer;
        self.0.changed.notify_all();
    }
}

impl Receiver for FromPeer {
    fn message(&mut self, from: &Connection, head: &[u8], _: Option<Bytes>) {
        match decode::<DataReply<'_>>(head) {
            Ok(DataReply::Attached {}) => self.set(Answer::Attached),
            Ok(DataReply::Refused { reason }) => self.set(Answer::Refused(reason)),
            Ok(_) => {}
            Err(_) => from.close(),
        }
    }
    fn closed(&mut self, _: &Connection, why: &NetError) {
        self.set(Answer::Refused(why.to_string()));
    }
}

/// A connection that values may go by.
pub(super) fn attach(reach: &Reach, way: &Way, stopping: &dyn Fn() -> bool) -> Result<Connection, NetError> {
    let worker = &way.to.worker;
    let unreachable = |reason: &str| NetError::Unreachable { address: worker.id.clone(), reason: reason.to_string() };
    let reply = Arc::new(Reply::default());
    let receiver = || Box::new(FromPeer(reply.clone())) as Box<dyn Receiver>;
    let connection = reach.worker(worker, &receiver, ATTEMPT, stopping)?;
    let attach = DataRequest::AttachPeer {
        session: way.to.session,
        secret: &way.to.secret,
        from: way.own.number,
        epoch: way.own.epoch,
    };
    connection.send(&encode(&attach))?;
    let deadline = Instant::now() + ATTEMPT;
    let mut answer = reply.answer.lock();
    while let Answer::Nothing = *answer {
        if stopping() || Instant::now() > deadline {
            connection.close();
            return Err(unreachable("it did not answer"));
        }
        reply.changed.wait_for(&mut answer, POLL);
    }
    match &*answer {
        Answer::Attached => Ok(connection),
        Answer::Refused(reason) => Err(unreachable(reason)),
        Answer::Nothing => Err(unreachable("it did not answer")),
    }
}
