//! Values that move from one session to another, as they lie.
//!
//! MOVED-1: a value on its way does not change: it is a handle of the engine's storage, and shared storage is never
//! written. It stays charged to the session that made it, for as long as somebody holds it.
//! MOVED-2: a session whose engine has the same buffers takes the handle itself; any other takes a copy of the elements.
//! MOVED-3: what is taken as a handle keeps no more alive than twice what it is: a narrow view is copied, so that whatever
//! it is a view of can go.

use std::any::Any;
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use gt_engine::Buffer;
use gt_ir::{Bytes, Failure, TensorType};

use crate::{Charge, SessionMemory};

/// What a handle may keep alive, in sizes of its value.
const MOST_KEPT: usize = 2;

/// A buffer, whatever its engine.
trait AnyBuffer: Any + Send + Sync {
    fn packed(&self) -> Option<&[u8]>;
    fn read(&self) -> Result<Vec<u8>, Failure>;
    fn as_any(&self) -> &dyn Any;
}

impl<B: Buffer> AnyBuffer for B {
    fn packed(&self) -> Option<&[u8]> {
        Buffer::packed(self)
    }

    fn read(&self) -> Result<Vec<u8>, Failure> {
        Buffer::read(self).map(|value| value.bytes)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A value on its way to another session, where it is.
#[derive(Clone)]
pub struct Departing {
    ty: TensorType,
    buffer: Arc<dyn AnyBuffer>,
    /// Where it comes from, named in failures.
    worker: Arc<str>,
    /// What a copy of it is charged to.
    memory: SessionMemory,
}

/// Elements of a value, and what they count for if they are a copy.
pub struct Elements<'a> {
    bytes: Cow<'a, [u8]>,
    _charge: Option<Charge>,
}

impl Deref for Elements<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Departing {
    pub(crate) fn new<B: Buffer>(buffer: B, worker: &str, memory: SessionMemory) -> Self {
        Departing { ty: buffer.ty(), buffer: Arc::new(buffer), worker: worker.into(), memory }
    }

    /// What it is.
    pub fn ty(&self) -> TensorType {
        self.ty
    }

    /// Its elements, packed: where they are if they lie so in ordinary memory, else a copy.
    ///
    /// # Errors
    /// When its device cannot be read, or there is no memory for a copy.
    pub fn bytes(&self) -> Result<Elements<'_>, Failure> {
        if let Some(packed) = self.buffer.packed() {
            return Ok(Elements { bytes: Cow::Borrowed(packed), _charge: None });
        }
        let (bytes, charge) = self.copied(|| self.buffer.read())?;
        Ok(Elements { bytes: Cow::Owned(bytes), _charge: Some(charge) })
    }

    /// A copy of its elements.
    ///
    /// # Errors
    /// As for [`Departing::bytes`].
    pub(crate) fn to_bytes(&self) -> Result<Bytes, Failure> {
        let (bytes, charge) = self.copied(|| match self.buffer.packed() {
            Some(packed) => {
                let mut copy = gt_ir::vec_for_bytes(packed.len())?;
                copy.extend_from_slice(packed);
                Ok(copy)
            }
            None => self.buffer.read(),
        })?;
        Ok(Bytes::from(bytes).accompanied_by(Box::new(charge)))
    }

    fn copied(&self, copy: impl FnOnce() -> Result<Vec<u8>, Failure>) -> Result<(Vec<u8>, Charge), Failure> {
        let charge = self.memory.hold(self.ty.bytes());
        charge.and_then(|charge| Ok((copy()?, charge))).map_err(|mut failure| {
            failure.worker = self.worker.to_string();
            failure
        })
    }

    /// The handle itself, for an engine with such buffers (MOVED-2, MOVED-3).
    pub(crate) fn as_buffer<B: Buffer>(&self) -> Option<B> {
        let buffer = self.buffer.as_any().downcast_ref::<B>()?;
        (buffer.bytes() <= self.ty.bytes().saturating_mul(MOST_KEPT)).then(|| buffer.clone())
    }
}

/// A value that came from elsewhere: its elements, or where another session of this process has it.
#[derive(Clone)]
pub enum Supplied {
    /// Sent by somebody else.
    Bytes(Bytes),
    /// Made by this process, from files.
    Loaded(Bytes),
    /// Still where it is.
    Moved(Departing),
}

impl Supplied {
    /// Bytes of its elements.
    pub fn len_bytes(&self) -> usize {
        match self {
            Supplied::Bytes(bytes) | Supplied::Loaded(bytes) => bytes.len(),
            Supplied::Moved(departing) => departing.ty.bytes(),
        }
    }
}
