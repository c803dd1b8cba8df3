//! Batches: samples of decoded blocks, gathered into tensors.

mod buffers;
mod gather;
mod lengths;
mod number;
mod sheet;
mod spec;

use gt_ir::{Bytes, DType};

pub use buffers::Buffers;
pub use gather::{Picked, gather};
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
