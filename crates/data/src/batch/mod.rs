//! Batches: samples of decoded blocks, gathered into tensors.

mod buffers;
mod gather;
mod lengths;
mod number;
mod sheet;
mod spec;

use std::sync::Arc;

use gt_ir::{Bytes, Companion, DType};

use crate::run::BatchCharge;

pub(crate) use buffers::Buffers;
pub use gather::Picked;
pub(crate) use gather::gather;
pub(crate) use number::{BEYOND_BYTES, Convert, cast, number_bytes};
pub use spec::{BatchSpec, Collate, Outliers, Output, Step};

/// An entry of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Numbers in row-major order.
    Tensor {
        /// Their dtype.
        dtype: DType,
        /// Their shape.
        shape: Vec<usize>,
        /// Their bytes.
        bytes: Bytes,
    },
    /// A string for each sample.
    Text {
        /// Whether they are text.
        utf8: bool,
        /// The strings.
        rows: Vec<Vec<u8>>,
    },
}

/// Samples as they are given to the user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Its entries, in the order of the spec.
    pub entries: Vec<(String, Entry)>,
    /// How many samples it has.
    pub samples: usize,
    /// How many the whole batch has, where this is a part of it.
    pub of: usize,
    /// What its strings count for: they count until this is gone.
    pub text: BatchText,
}

/// The memory that strings of a batch count for (ACCOUNT-3).
#[derive(Clone, Default)]
pub struct BatchText {
    _charge: Option<Arc<BatchCharge>>,
}

impl BatchText {
    fn new(charge: Option<BatchCharge>) -> BatchText {
        BatchText { _charge: charge.map(Arc::new) }
    }
}

impl Companion for BatchText {}

impl std::fmt::Debug for BatchText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchText").finish_non_exhaustive()
    }
}

impl PartialEq for BatchText {
    /// Batches are the same wherever they count.
    fn eq(&self, _: &BatchText) -> bool {
        true
    }
}

impl Batch {
    /// Bytes of its entries.
    pub fn bytes(&self) -> usize {
        let of = |entry: &Entry| match entry {
            Entry::Tensor { bytes, .. } => bytes.len(),
            Entry::Text { rows, .. } => rows.iter().map(Vec::len).sum(),
        };
        self.entries.iter().map(|(_, e)| of(e)).sum()
    }

    /// The entry of a name.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|(n, _)| n == name).map(|(_, e)| e)
    }
}
