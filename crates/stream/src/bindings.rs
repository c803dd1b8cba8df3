//! What one occurrence adds to its recipe.

use gt_ir::codec::{Reader, put_payloads, put_signed, put_varint};
use gt_ir::{OpError, Payload, Scalar, TensorId};

/// The names, numbers and payloads of one occurrence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bindings {
    /// The id of the first value that the window defines; the others follow.
    pub first: TensorId,
    /// The values from outside, in order of first use.
    pub inputs: Vec<TensorId>,
    /// All scalars of all instructions, in order.
    pub scalars: Vec<Scalar>,
    /// Freed values that the window does not use.
    pub older_frees: Vec<TensorId>,
    /// Payloads, ascending by instruction. Those that travel apart are added when they arrive.
    pub uploads: Vec<Payload>,
    /// [`gt_ir::Window::eager`].
    pub eager: bool,
    /// [`gt_ir::Window::joined`].
    pub joined: bool,
}

impl Bindings {
    /// Appends the binary form, with the payloads of at most `longest` bytes. Ids are close to each other, so they are
    /// written as differences.
    pub fn encode(&self, longest: usize, out: &mut Vec<u8>) {
        put_varint(out, self.first.0);
        put_near(out, self.first, &self.inputs);
        put_varint(out, self.scalars.len() as u64);
        self.scalars.iter().for_each(|scalar| scalar.encode(out));
        put_near(out, self.first, &self.older_frees);
        put_payloads(out, self.uploads.iter().filter(|payload| payload.bytes.len() <= longest));
        out.push(self.eager as u8 | (self.joined as u8) << 1);
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// When the bytes are not bindings.
    pub fn decode(r: &mut Reader<'_>) -> Result<Bindings, OpError> {
        let first = TensorId(r.varint()?);
        let inputs = near(r, first)?;
        let n = r.list(1, size_of::<Scalar>())?;
        let scalars = (0..n).map(|_| r.scalar()).collect::<Result<_, _>>()?;
        let older_frees = near(r, first)?;
        let uploads = r.payloads()?;
        let flags = r.byte()?;
        if flags > 3 {
            return Err(OpError::malformed(format!("bindings have unknown flags {flags:#x}")));
        }
        let (eager, joined) = (flags & 1 != 0, flags & 2 != 0);
        Ok(Bindings { first, inputs, scalars, older_frees, uploads, eager, joined })
    }

    /// The memory they take, payloads left out.
    pub fn held_bytes(&self) -> usize {
        size_of_val(&self.inputs[..]) + size_of_val(&self.older_frees[..]) + size_of_val(&self.scalars[..])
    }
}

fn put_near(out: &mut Vec<u8>, first: TensorId, ids: &[TensorId]) {
    put_varint(out, ids.len() as u64);
    let mut last = first.0;
    for id in ids {
        put_signed(out, id.0.wrapping_sub(last) as i64);
        last = id.0;
    }
}

fn near(r: &mut Reader<'_>, first: TensorId) -> Result<Vec<TensorId>, OpError> {
    let n = r.list(1, size_of::<TensorId>())?;
    let mut last = first.0;
    (0..n)
        .map(|_| {
            last = last.wrapping_add(r.signed()? as u64);
            Ok(TensorId(last))
        })
        .collect()
}
