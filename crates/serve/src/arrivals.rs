//! Values of other workers: those that came before the session's stream has reached them, and those that it waits for.
//!
//! ARRIVAL-1: a value comes once, whatever is sent again.
//! ARRIVAL-2: what waits is bounded in bytes; what has no room comes as a failure, so that nobody waits for ever.
//! ARRIVAL-3: of a worker that was given up, what has not come never does, and what comes late is dropped.

use std::collections::BTreeMap;

use gt_ir::{Failure, FailureKind, TensorId, TensorType};

use super::taken::Taken;
use gt_worker::Supplied;

/// A value from another worker, or why there is none.
pub(super) type Arrived = Result<(TensorType, Supplied), Failure>;

/// Who sends: the client's number for a worker, and which of those that had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    pub(super) number: u32,
    pub(super) epoch: u64,
}

/// A value that is waited for: its own name here, and what it must be.
struct Awaited {
    id: TensorId,
    ty: TensorType,
}

/// What is to be done with a value that is waited for: its own name here, and the value.
pub(super) type Delivery = (TensorId, Result<Supplied, Failure>);

/// What came for one session, and what is to come.
pub(super) struct Arrivals {
    came: BTreeMap<(Origin, TensorId), Arrived>,
    awaited: BTreeMap<(Origin, TensorId), Awaited>,
    /// Which values have come from processes elsewhere.
    taken: BTreeMap<Origin, Taken>,
    /// Workers that were given up: up to which epoch, and why.
    abandoned: BTreeMap<u32, (u64, Failure)>,
    bytes: usize,
    most_bytes: usize,
}

fn len_bytes(arrived: &Arrived) -> usize {
    arrived.as_ref().map_or_else(Failure::len_bytes, |(_, value)| value.len_bytes())
}

/// A value as the stream wants it.
fn checked(arrived: Arrived, name: TensorId, ty: TensorType) -> Result<Supplied, Failure> {
    let (found, value) = arrived?;
    match found == ty && value.len_bytes() == ty.bytes() {
        true => Ok(value),
        false => {
            let message = format!("{name} arrived as {found} with {} bytes, expected {ty}", value.len_bytes());
            Err(Failure::new(FailureKind::Internal, message))
        }
    }
}

impl Arrivals {
    pub(super) fn new(most_bytes: usize) -> Self {
        Arrivals {
            came: BTreeMap::new(),
            awaited: BTreeMap::new(),
            taken: BTreeMap::new(),
            abandoned: BTreeMap::new(),
            bytes: 0,
            most_bytes,
        }
    }

    /// How many values, waits and workers are remembered.
    pub(super) fn records(&self) -> usize {
        self.came.len() + self.awaited.len() + self.taken.len() + self.abandoned.len()
    }

    fn why_abandoned(&self, origin: Origin) -> Option<&Failure> {
        self.abandoned.get(&origin.number).filter(|(epoch, _)| origin.epoch <= *epoch).map(|(_, failure)| failure)
    }

    /// A value of this number has come by a connection: whether for the first time, and below which number all have come (ARRIVAL-1).
    pub(super) fn take(&mut self, origin: Origin, number: u64) -> (bool, u64) {
        let taken = self.taken.entry(origin).or_default();
        let is_new = taken.note(number);
        (is_new, taken.below())
    }

    /// A value came; what to do with it, if it is waited for.
    pub(super) fn put(&mut self, origin: Origin, name: TensorId, arrived: Arrived) -> Option<Delivery> {
        let key = (origin, name);
        if self.why_abandoned(origin).is_some() {
            return None;
        }
        if let Some(Awaited { id, ty }) = self.awaited.remove(&key) {
            return Some((id, checked(arrived, name, ty)));
        }
        let more = len_bytes(&arrived);
        let arrived = match self.bytes.saturating_add(more) > self.most_bytes && self.bytes > 0 {
            true => {
                let message = format!("{name} was rejected: {} bytes of transfers are already waiting", self.bytes);
                Err(Failure::new(FailureKind::Memory, message))
            }
            false => arrived,
        };
        self.bytes += len_bytes(&arrived);
        self.came.insert(key, arrived);
        None
    }

    /// The stream waits for a value, under a name of its own: what to do, if that is known already.
    pub(super) fn expect(&mut self, origin: Origin, name: TensorId, id: TensorId, ty: TensorType) -> Option<Delivery> {
        let key = (origin, name);
        if let Some(arrived) = self.came.remove(&key) {
            self.bytes -= len_bytes(&arrived);
            return Some((id, checked(arrived, name, ty)));
        }
        if let Some(failure) = self.why_abandoned(origin) {
            return Some((id, Err(failure.clone())));
        }
        self.awaited.insert(key, Awaited { id, ty });
        None
    }

    /// A worker was given up: what becomes of the values that were waited for. What came stays for those that the stream has
    /// yet to reach.
    pub(super) fn abandon(&mut self, origin: Origin, failure: &Failure) -> Vec<Delivery> {
        self.abandoned.insert(origin.number, (origin.epoch, failure.clone()));
        let gone: Vec<(Origin, TensorId)> = self.awaited.keys().copied().filter(|(of, _)| older(*of, origin)).collect();
        gone.iter().filter_map(|key| Some((self.awaited.remove(key)?.id, Err(failure.clone())))).collect()
    }

    /// The stream has passed the place where a worker was given up: nobody asks for the rest of what came.
    pub(super) fn forget(&mut self, origin: Origin) {
        self.came.retain(|(of, _), _| !older(*of, origin));
        self.taken.retain(|of, _| !older(*of, origin));
        self.bytes = self.came.values().map(len_bytes).sum();
    }
}

fn older(of: Origin, than: Origin) -> bool {
    of.number == than.number && of.epoch <= than.epoch
}

#[cfg(test)]
mod tests {
    use gt_ir::DType;

    use super::*;

    const FROM: Origin = Origin { number: 3, epoch: 7 };

    fn ty() -> TensorType {
        TensorType::new(DType::F32, &[1])
    }

    fn value(of: u8) -> Arrived {
        Ok((ty(), Supplied::Bytes(vec![of; 4].into())))
    }

    fn bytes(delivery: Option<Delivery>) -> (u64, u8) {
        match delivery.expect("there is something to do") {
            (id, Ok(Supplied::Bytes(bytes))) => (id.0, bytes[0]),
            (id, other) => panic!("{id}: {}", other.err().expect("bytes or a failure")),
        }
    }

    fn failure((id, value): Delivery) -> (u64, Failure) {
        (id.0, value.err().expect("a failure"))
    }

    #[test]
    fn a_value_may_come_before_it_is_expected_or_after() {
        let mut arrivals = Arrivals::new(100);
        assert!(arrivals.put(FROM, TensorId(1), value(1)).is_none());
        assert_eq!(bytes(arrivals.expect(FROM, TensorId(1), TensorId(50), ty())), (50, 1));
        assert!(arrivals.expect(FROM, TensorId(2), TensorId(51), ty()).is_none());
        // The same name of another worker is another value.
        assert!(arrivals.put(Origin { number: 4, epoch: 7 }, TensorId(2), value(9)).is_none());
        assert_eq!(bytes(arrivals.put(FROM, TensorId(2), value(2))), (51, 2));
        assert_eq!(arrivals.bytes, 4);
    }

    #[test]
    fn each_worker_has_numbers_of_its_own() {
        let mut arrivals = Arrivals::new(100);
        assert_eq!(arrivals.take(FROM, 0), (true, 1));
        assert_eq!(arrivals.take(FROM, 2), (true, 1));
        assert_eq!(arrivals.take(FROM, 0), (false, 1));
        assert_eq!(arrivals.take(Origin { epoch: 8, ..FROM }, 0), (true, 1));
        assert_eq!(arrivals.take(FROM, 1), (true, 3));
    }

    #[test]
    fn what_is_not_of_its_type_is_a_failure() {
        let mut arrivals = Arrivals::new(100);
        arrivals.put(FROM, TensorId(1), value(1));
        let other = TensorType::new(DType::I32, &[1]);
        let found = arrivals.expect(FROM, TensorId(1), TensorId(50), other).unwrap();
        assert_eq!(failure(found).1.kind, FailureKind::Internal);
        arrivals.expect(FROM, TensorId(2), TensorId(51), ty());
        let short = Ok((ty(), Supplied::Bytes(vec![1; 3].into())));
        assert_eq!(failure(arrivals.put(FROM, TensorId(2), short).unwrap()).1.kind, FailureKind::Internal);
    }

    #[test]
    fn of_a_worker_that_was_given_up_nothing_more_comes() {
        let mut arrivals = Arrivals::new(100);
        let gone = Failure::new(FailureKind::WorkerLost, "gone");
        arrivals.put(FROM, TensorId(1), value(1));
        arrivals.put(FROM, TensorId(5), value(5));
        arrivals.expect(FROM, TensorId(2), TensorId(50), ty());
        let failed: Vec<_> = arrivals.abandon(FROM, &gone).into_iter().map(failure).collect();
        assert_eq!(failed, [(50, gone.clone())]);
        // What had come is as good as ever for the part of the stream that still asks for it.
        assert_eq!(bytes(arrivals.expect(FROM, TensorId(1), TensorId(51), ty())), (51, 1));
        assert_eq!(arrivals.expect(FROM, TensorId(3), TensorId(52), ty()).map(failure), Some((52, gone)));
        arrivals.forget(FROM);
        arrivals.put(FROM, TensorId(2), value(2));
        assert_eq!((arrivals.bytes, arrivals.came.len()), (0, 0));
        // The next worker of that number is another one.
        let next = Origin { epoch: 8, ..FROM };
        assert!(arrivals.expect(next, TensorId(9), TensorId(60), ty()).is_none());
        assert_eq!(bytes(arrivals.put(next, TensorId(9), value(9))), (60, 9));
    }

    #[test]
    fn what_waits_is_bounded_but_one_value_always_passes() {
        let mut arrivals = Arrivals::new(6);
        arrivals.put(FROM, TensorId(1), value(1));
        arrivals.put(FROM, TensorId(2), value(2));
        let second = arrivals.expect(FROM, TensorId(2), TensorId(51), ty()).unwrap();
        assert_eq!(failure(second).1.kind, FailureKind::Memory);
        assert_eq!(bytes(arrivals.expect(FROM, TensorId(1), TensorId(50), ty())), (50, 1));
        assert_eq!(arrivals.bytes, 0);
    }
}
