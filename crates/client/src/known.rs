//! Small values that this thread knows without a round trip.
//!
//! KNOWN-1: what is known is kept by the name of a value, and a value never changes: in-place writes make others. So nothing that is
//!          kept here can go stale.
//! KNOWN-2: whoever reads one number of a small tensor of integers, an index among others, reads the tensor; of another small tensor,
//!          from the second number on. The numbers of the same content that are asked for later are there then.
//! KNOWN-3: sums, differences and products of known integers are known. They are recorded all the same.
//! KNOWN-4: a larger tensor is read once the numbers that were read of it one by one took as many round trips as it has pieces of the
//!          size of a small one: a few numbers of it cost no more than they are, many cost twice what the tensor does at most.

use std::cell::RefCell;
use std::collections::VecDeque;

use gt_ir::rows::BinaryKind;
use gt_ir::{DType, HostTensor, Scalar, TensorId};

use crate::error::Result;
use crate::host::scalar_at;
use crate::lane;
use crate::ops::Arg;
use crate::session::session;
use crate::tensor::Tensor;

/// The largest tensor that is read as a whole for one number.
const SMALL_BYTES: usize = 16 << 10;
/// The largest that is read as a whole at all.
const MOST_BYTES: usize = 1 << 20;
/// How many tensors are kept.
const TENSORS: usize = 4;
/// How many numbers are kept.
const NUMBERS: usize = 256;

#[derive(Default)]
struct Known {
    tensors: VecDeque<(TensorId, HostTensor)>,
    numbers: VecDeque<(TensorId, i64)>,
    /// Of what numbers were read one by one lately, and how many.
    asked: VecDeque<(TensorId, usize)>,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

impl Known {
    /// A number of this content is read; how many were before.
    fn ask(&mut self, id: TensorId) -> usize {
        let at = self.asked.iter().position(|(asked, _)| *asked == id);
        let before = at.and_then(|at| self.asked.remove(at)).map_or(0, |(_, count)| count);
        keep(&mut self.asked, TENSORS, (id, before + 1));
        before
    }

    fn number(&self, id: TensorId) -> Option<i64> {
        self.numbers.iter().rev().find(|(known, _)| *known == id).map(|(_, number)| *number)
    }

    fn element(&self, id: TensorId, at: usize) -> Option<Scalar> {
        self.tensors.iter().find(|(known, _)| *known == id).map(|(_, host)| scalar_at(host, at))
    }
}

fn keep<T>(list: &mut VecDeque<T>, most: usize, new: T) {
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(new);
}

impl Tensor {
    /// The content that the one element lies in, and where, if that is a larger tensor which is small enough to be read.
    fn piece(&self) -> Option<(crate::value::Value, usize)> {
        self.0.view.as_ref()?;
        let (content, version) = self.cell().read();
        let ty = content.ty();
        let fits = ty.dtype == self.dtype() && ty.numel() > 1 && ty.bytes() <= MOST_BYTES;
        if !fits || version != self.0.shown.version() {
            return None;
        }
        let at = usize::try_from(self.storage_offset()).ok().filter(|at| *at < ty.numel())?;
        Some((content, at))
    }

    /// The only element, without a read of its own, if it is known or lies in a small tensor.
    ///
    /// # Errors
    /// When that tensor cannot be read.
    #[track_caller]
    pub(crate) fn known_element(&self) -> Result<Option<Scalar>> {
        // A view derives itself first, so that it lies in what its cell holds now.
        let id = self.value()?.id();
        if is_index(self.dtype())
            && let Some(number) = KNOWN.with_borrow(|known| known.number(id))
        {
            return Ok(Some(Scalar::I64(number)));
        }
        let Some((content, at)) = self.piece() else { return Ok(None) };
        if let Some(element) = KNOWN.with_borrow(|known| known.element(content.id(), at)) {
            return Ok(Some(element));
        }
        let before = KNOWN.with_borrow_mut(|known| known.ask(content.id()));
        if before < usize::from(self.dtype().is_float()).max(content.ty().bytes() / SMALL_BYTES) {
            return Ok(None);
        }
        lane::cut_for_read(&content)?;
        let session = session()?;
        let host = session.wait_for(|link, cancel| link.read(content.id(), cancel))?;
        let element = scalar_at(&host, at);
        KNOWN.with_borrow_mut(|known| keep(&mut known.tensors, TENSORS, (content.id(), host)));
        Ok(Some(element))
    }

    /// The integer, if it is known without a read.
    fn known_integer(&self) -> Option<i64> {
        if self.rank() != 0 || !is_index(self.dtype()) || !self.is_current() {
            return None;
        }
        if let Some(number) = KNOWN.with_borrow(|known| known.number(self.0.shown.id())) {
            return Some(number);
        }
        let (content, at) = self.piece()?;
        KNOWN.with_borrow(|known| known.element(content.id(), at)).map(|element| element.as_i64())
    }
}

/// Whether indices are of this type.
fn is_index(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

/// The number that an operation on this type gives where a wider one gives `number`.
fn wrapped(dtype: DType, number: i64) -> i64 {
    if dtype == DType::I32 { i64::from(number as i32) } else { number }
}

fn integer(arg: Arg<'_>) -> Option<i64> {
    match arg {
        Arg::Tensor(t) => t.known_integer(),
        Arg::Number(Scalar::I64(n)) => Some(n),
        Arg::Number(_) => None,
    }
}

/// Notes the result of an operation on integers whose operands are known (KNOWN-3).
pub(crate) fn note_result(kind: BinaryKind, a: Arg<'_>, b: Arg<'_>, out: &Tensor) {
    if out.rank() != 0 || !is_index(out.dtype()) {
        return;
    }
    let (Some(a), Some(b)) = (integer(a), integer(b)) else { return };
    let number = match kind {
        BinaryKind::Add => a.wrapping_add(b),
        BinaryKind::Sub => a.wrapping_sub(b),
        BinaryKind::Mul => a.wrapping_mul(b),
        _ => return,
    };
    let (id, number) = (out.0.shown.id(), wrapped(out.dtype(), number));
    KNOWN.with_borrow_mut(|known| keep(&mut known.numbers, NUMBERS, (id, number)));
}
