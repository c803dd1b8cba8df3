//! HASH-2: what each of the two digests sees of extents.

use gt_ir::{DType, StreamHasher, TensorType, WindowHash};

fn of(shapes: &[&[usize]]) -> WindowHash {
    let mut h = StreamHasher::default();
    shapes.iter().for_each(|s| h.tensor(&TensorType::new(DType::F32, s)));
    h.finish()
}

#[test]
fn structure_does_not_see_the_size_of_an_extent() {
    let (small, large) = (of(&[&[3, 5], &[5, 7]]), of(&[&[30, 50], &[50, 70]]));
    assert_eq!(small.structure, large.structure);
    assert_ne!(small.exact, large.exact);
}

#[test]
fn structure_sees_which_extents_are_equal() {
    assert_ne!(of(&[&[3, 5], &[5, 7]]).structure, of(&[&[3, 5], &[6, 7]]).structure);
    assert_ne!(of(&[&[3, 5], &[5, 7]]).structure, of(&[&[3, 5], &[3, 7]]).structure);
    assert_ne!(of(&[&[4, 4]]).structure, of(&[&[4, 5]]).structure);
}

#[test]
fn structure_sees_zero_and_one() {
    let hashes = [of(&[&[0, 5]]), of(&[&[1, 5]]), of(&[&[2, 5]])];
    for (i, a) in hashes.iter().enumerate() {
        for b in &hashes[i + 1..] {
            assert_ne!(a.structure, b.structure);
        }
    }
    assert_eq!(of(&[&[2, 5]]).structure, of(&[&[9, 5]]).structure);
}

#[test]
fn both_see_rank_dtype_and_order() {
    let ty = |dtype, shape: &[usize]| {
        let mut h = StreamHasher::default();
        h.tensor(&TensorType::new(dtype, shape));
        h.finish()
    };
    let base = ty(DType::F32, &[2, 3]);
    for other in [ty(DType::F64, &[2, 3]), ty(DType::F32, &[2, 3, 4]), ty(DType::F32, &[2])] {
        assert_ne!(base.structure, other.structure);
        assert_ne!(base.exact, other.exact);
    }
    assert_ne!(of(&[&[2, 3]]).exact, of(&[&[3, 2]]).exact);
    assert_eq!(of(&[&[2, 3]]), of(&[&[2, 3]]));
}

/// Words of both digests: no collision among a few thousand short inputs that differ in one place.
#[test]
fn neighbouring_inputs_do_not_collide() {
    let mut seen = std::collections::BTreeSet::new();
    for length in 1..5usize {
        for place in 0..length {
            for value in 0..300u64 {
                let mut h = StreamHasher::default();
                for i in 0..length {
                    h.word(if i == place { value + 1_000 } else { i as u64 });
                }
                assert!(seen.insert(h.finish().structure), "length {length}, place {place}, value {value}");
            }
        }
    }
}
