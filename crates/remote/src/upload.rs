//! Payloads that travel apart from their windows, by the data connection.
//!
//! UPLOAD-1: a payload is kept until the window that takes it has been executed, or until the worker has said that it has it:
//!           a worker whose data connection is a new one gets again what is kept, and waits for nothing else.

use gt_ir::{Bytes, TensorId};
use gt_net::Connection;
use gt_net::protocol::{DataRequest, encode};
use gt_stream::{Occurrence, UploadPlace};

use super::Shared;
use super::state::Answer;
use gt_client::link::WaitError;

/// How many bytes the payloads of a window have, those that are not in it included.
pub(super) fn payload_bytes(window: &Occurrence) -> u64 {
    window.recipe().uploads().iter().map(|place| place.len_bytes as u64).sum()
}

/// The payloads of a window that travel apart: those longer than `longest`.
pub(super) fn apart(window: &Occurrence, longest: usize) -> Vec<(TensorId, Bytes)> {
    let mut payloads = window.bindings().uploads.iter().peekable();
    let own =
        |(place, id): (UploadPlace, TensorId)| Some((id, payloads.next_if(|p| p.instr == place.instr)?.bytes.clone()));
    window.uploads().filter_map(own).filter(|(_, bytes)| bytes.len() > longest).collect()
}

impl Shared {
    /// Sends a payload and keeps it (UPLOAD-1).
    pub(super) fn upload(&self, id: TensorId, bytes: Bytes) {
        let connection = {
            let mut state = self.state.lock();
            if state.has_ended() {
                return;
            }
            state.keep_uploads(&[(id, bytes.clone())]);
            state.data.clone()
        };
        if let Some(connection) = connection {
            let _ = connection.send_with_body(&encode(&DataRequest::Upload { id }), bytes);
        }
    }

    /// Sends a payload that is only lent, and waits until the worker has it. What does not get there is copied and kept.
    pub(super) fn lend(&self, id: TensorId, bytes: &[u8], cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        let (connection, request) = {
            let mut state = self.state.lock();
            (state.data.clone(), state.expect_answer())
        };
        let arrived = connection.map_or(Ok(false), |c| self.write(&c, id, bytes, request, cancel));
        self.state.lock().forget_answer(request);
        match arrived {
            Ok(true) => return Ok(()),
            // Which is no fault of the upload: the next read says why.
            Err(WaitError::Failed(_)) => return Ok(()),
            Ok(false) | Err(WaitError::Interrupted) => self.upload(id, bytes.into()),
        }
        arrived.map(|_| ())
    }

    /// Whether the worker has the payload; false when the connection was lost.
    fn write(
        &self,
        connection: &Connection,
        id: TensorId,
        bytes: &[u8],
        request: u64,
        cancel: &dyn Fn() -> bool,
    ) -> Result<bool, WaitError> {
        match connection.write_body(&encode(&DataRequest::Upload { id }), bytes, cancel) {
            Ok(()) => {}
            Err(gt_net::NetError::Interrupted) => return Err(WaitError::Interrupted),
            Err(_) => return Ok(false),
        }
        // All of the payload is on the wire in front of this: its echo means that the payload has come.
        if connection.send(&encode(&DataRequest::Echo { request })).is_err() {
            return Ok(false);
        }
        self.wait(cancel, |state| match state.take_answer(request) {
            Some(Answer::Done) => Some(Ok(true)),
            _ if state.data.as_ref().is_none_or(|now| !now.is_same(connection)) => Some(Ok(false)),
            _ => None,
        })
    }
}
