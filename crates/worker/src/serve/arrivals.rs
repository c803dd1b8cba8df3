//! Values that came from other workers and that the session's stream has not reached yet.
//!
//! ARRIVAL-1: a value of an older generation than the one that is expected is never used.
//! ARRIVAL-2: what waits is bounded in bytes.

use std::collections::BTreeMap;

use gt_ir::{Bytes, Failure, TensorId, TensorType};

/// A value from another worker, or why there is none.
pub(super) type Arrived = Result<(TensorType, Bytes), Failure>;

/// What came for one session.
pub(super) struct Arrivals {
    came: BTreeMap<TensorId, (u64, Arrived)>,
    bytes: usize,
    most_bytes: usize,
    /// The generation that was expected last.
    generation: u64,
}

fn len_bytes(arrived: &Arrived) -> usize {
    arrived.as_ref().map_or(0, |(_, bytes)| bytes.len())
}

impl Arrivals {
    pub(super) fn new(most_bytes: usize) -> Self {
        Arrivals { came: BTreeMap::new(), bytes: 0, most_bytes, generation: 0 }
    }

    /// A value came.
    ///
    /// # Errors
    /// When it is of an older generation, or too much waits already.
    pub(super) fn put(&mut self, id: TensorId, generation: u64, arrived: Arrived) -> Result<(), String> {
        if generation < self.generation {
            return Err(format!("{id} is of generation {generation}, the group is at {}", self.generation));
        }
        let more = len_bytes(&arrived);
        if !self.came.is_empty() && self.bytes.saturating_add(more) > self.most_bytes {
            return Err(format!("{} bytes of moved values wait already", self.bytes));
        }
        self.bytes += more;
        if let Some((_, old)) = self.came.insert(id, (generation, arrived)) {
            self.bytes -= len_bytes(&old);
        }
        Ok(())
    }

    /// Takes the value that the stream expects, if it is here.
    pub(super) fn take(&mut self, id: TensorId, generation: u64) -> Option<Arrived> {
        if generation > self.generation {
            self.generation = generation;
            // What the group moved before it was formed again (ARRIVAL-1).
            self.came.retain(|_, (of, _)| *of >= generation);
            self.bytes = self.came.values().map(|(_, arrived)| len_bytes(arrived)).sum();
        }
        let (_, arrived) = self.came.remove(&id)?;
        self.bytes -= len_bytes(&arrived);
        Some(arrived)
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::DType;

    use super::*;

    fn value(of: u8) -> Arrived {
        Ok((TensorType::new(DType::F32, &[1]), vec![of; 4].into()))
    }

    #[test]
    fn an_older_generation_is_refused_before_and_after() {
        let mut arrivals = Arrivals::new(100);
        arrivals.put(TensorId(1), 1, value(1)).unwrap();
        arrivals.put(TensorId(2), 2, value(2)).unwrap();
        assert!(arrivals.take(TensorId(1), 2).is_none(), "it came before the group was formed again");
        assert!(arrivals.put(TensorId(1), 1, value(1)).is_err());
        arrivals.put(TensorId(1), 2, value(3)).unwrap();
        assert_eq!(arrivals.take(TensorId(1), 2), Some(value(3)));
        assert_eq!(arrivals.take(TensorId(2), 2), Some(value(2)));
        assert_eq!(arrivals.bytes, 0);
    }

    #[test]
    fn what_waits_is_bounded_but_one_value_always_passes() {
        let mut arrivals = Arrivals::new(6);
        arrivals.put(TensorId(1), 0, value(1)).unwrap();
        assert!(arrivals.put(TensorId(2), 0, value(2)).is_err());
        assert!(arrivals.take(TensorId(1), 0).is_some());
        arrivals.put(TensorId(2), 0, value(2)).unwrap();
    }
}
