//! The types that the tape keeps.
//!
//! A type has room for the most dimensions there are, and a node keeps several types until its backward pass, if there is one. Packed,
//! they are a few words, so that recording an operation copies little.

use gt_ir::{DType, Shape, TensorType};
use smallvec::SmallVec;

/// Enough for three types of three dimensions.
const NEAR_WORDS: usize = 12;

/// A list of types.
#[derive(Default)]
pub(crate) struct PackedTypes {
    /// Of each type its dtype and its rank in one word, then its extents.
    near: [usize; NEAR_WORDS],
    near_len: usize,
    /// The types from the first one on that did not fit.
    far: Vec<TensorType>,
}

impl PackedTypes {
    #[inline]
    pub fn push(&mut self, ty: &TensorType) {
        let (start, end) = (self.near_len + 1, self.near_len + 1 + ty.shape.rank());
        if end > NEAR_WORDS || !self.far.is_empty() {
            self.far.push(*ty);
            return;
        }
        self.near[start - 1] = (ty.dtype as usize) << 8 | ty.shape.rank();
        self.near[start..end].copy_from_slice(&ty.shape);
        self.near_len = end;
    }

    /// The types, into a list that the caller has: it is large, too.
    pub fn unpack(&self, types: &mut SmallVec<[TensorType; 3]>) {
        let mut words = &self.near[..self.near_len];
        while let [head, rest @ ..] = words {
            let (extents, others) = rest.split_at(head & 0xff);
            let dtype = DType::from_code((head >> 8) as u8).expect("a dtype was packed");
            types.push(TensorType { dtype, shape: Shape::new(extents) });
            words = others;
        }
        self.far.iter().for_each(|ty| types.push(*ty));
    }

    /// The first type.
    pub fn first(&self) -> TensorType {
        let mut types = SmallVec::new();
        self.unpack(&mut types);
        types[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_out_as_they_went_in() {
        let extents: Vec<usize> = (1..=gt_ir::MAX_RANK).map(|extent| extent % 3).collect();
        let types: Vec<TensorType> = DType::ALL
            .into_iter()
            .flat_map(|dtype| (0..=extents.len()).map(move |rank| (dtype, rank)))
            .map(|(dtype, rank)| TensorType::new(dtype, &extents[..rank]))
            .collect();
        for first in 0..types.len() {
            let mut packed = PackedTypes::default();
            types[first..].iter().for_each(|ty| packed.push(ty));
            let mut unpacked = SmallVec::new();
            packed.unpack(&mut unpacked);
            assert_eq!(unpacked[..], types[first..]);
        }
    }
}
