//! What digests see.

use gt_ir::{DType, Digest, StreamHasher, TensorType};

fn of(dtype: DType, shapes: &[&[usize]]) -> Digest {
    let mut hasher = StreamHasher::default();
    shapes.iter().for_each(|shape| hasher.tensor(&TensorType::new(dtype, shape)));
    hasher.finish()
}

#[test]
fn digests_see_extents_rank_dtype_and_order() {
    let base = of(DType::F32, &[&[2, 3], &[4]]);
    assert_eq!(base, of(DType::F32, &[&[2, 3], &[4]]));
    let others: [&[&[usize]]; 6] =
        [&[&[3, 2], &[4]], &[&[2, 3], &[5]], &[&[2], &[3, 4]], &[&[2, 3, 4]], &[&[4], &[2, 3]], &[&[2, 3]]];
    for other in others {
        assert_ne!(base, of(DType::F32, other), "{other:?}");
    }
    assert_ne!(base, of(DType::F64, &[&[2, 3], &[4]]));
}

/// No collision among a few thousand short inputs that differ in one place.
#[test]
fn neighbouring_inputs_do_not_collide() {
    let mut seen = std::collections::BTreeSet::new();
    for length in 1..5usize {
        for place in 0..length {
            for value in 0..300u64 {
                let mut hasher = StreamHasher::default();
                for i in 0..length {
                    hasher.word(if i == place { value + 1_000 } else { i as u64 });
                }
                assert!(seen.insert(hasher.finish()), "length {length}, place {place}, value {value}");
            }
        }
    }
}
