//! A value on its way to another worker.

use gt_ir::{Failure, TensorId};
use gt_net::protocol::{DataRequest, encode};
use gt_net::{Connection, NetError};

use gt_worker::Departing;

/// Values up to this size travel in the head.
const IN_HEAD_BYTES: usize = 64 << 10;

/// A value with its name, or why there is none.
pub(super) struct Parcel {
    pub(super) name: TensorId,
    pub(super) value: Result<Departing, Failure>,
}

impl Parcel {
    pub(super) fn len_bytes(&self) -> usize {
        self.value.as_ref().map_or(0, |departing| departing.ty().bytes())
    }

    /// Whether sending it waits for nothing.
    pub(super) fn is_small(&self) -> bool {
        self.len_bytes() <= IN_HEAD_BYTES
    }

    /// Gives it to a connection, as the value of this number.
    pub(super) fn send(&self, number: u64, connection: &Connection, cancel: &dyn Fn() -> bool) -> Result<(), NetError> {
        let id = self.name;
        let transfer = |value, bytes| encode(&DataRequest::Transfer { number, id, value, bytes });
        let found = self.value.as_ref().map_err(Failure::clone).and_then(|value| Ok((value.ty(), value.bytes()?)));
        match found {
            Ok((ty, bytes)) if self.is_small() => connection.send(&transfer(Ok(ty), Some(&bytes))),
            Ok((ty, bytes)) => connection.write_body(&transfer(Ok(ty), None), &bytes, cancel),
            Err(failure) => connection.send(&transfer(Err(failure), None)),
        }
    }
}
