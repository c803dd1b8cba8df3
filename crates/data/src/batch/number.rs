//! Numbers from one type to another, a run at a time.

use gt_ir::DType;
use half::{bf16, f16};

use crate::field::Elem;

/// How a stored number is read: as itself, or as the next type that computes.
trait Stored {
    type Wide: Copy;
    const SIZE: usize;
    fn read(bytes: &[u8]) -> Self::Wide;
}

/// How a number is written as a dtype's element. Out of range it goes as Rust's `as` does: floats saturate, integers wrap.
trait Element<W> {
    const SIZE: usize;
    fn write(value: W, out: &mut [u8]);
}

struct Flag;

macro_rules! stored {
    ($($ty:ty),*) => {$(
        impl Stored for $ty {
            type Wide = $ty;
            const SIZE: usize = size_of::<$ty>();
            #[inline(always)]
            fn read(bytes: &[u8]) -> $ty {
                <$ty>::from_le_bytes(bytes.try_into().expect("a chunk of one number"))
            }
        }
        impl Element<$ty> for Flag {
            const SIZE: usize = 1;
            #[inline(always)]
            fn write(value: $ty, out: &mut [u8]) {
                out[0] = (value != 0 as $ty) as u8;
            }
        }
        elements!($ty => u8, i8, i32, i64, f32, f64);
        impl Element<$ty> for f16 {
            const SIZE: usize = 2;
            #[inline(always)]
            fn write(value: $ty, out: &mut [u8]) {
                out.copy_from_slice(&f16::from_f64(value as f64).to_le_bytes());
            }
        }
        impl Element<$ty> for bf16 {
            const SIZE: usize = 2;
            #[inline(always)]
            fn write(value: $ty, out: &mut [u8]) {
                out.copy_from_slice(&bf16::from_f64(value as f64).to_le_bytes());
            }
        }
    )*};
}

macro_rules! elements {
    ($from:ty => $($to:ty),*) => {$(
        impl Element<$from> for $to {
            const SIZE: usize = size_of::<$to>();
            #[inline(always)]
            fn write(value: $from, out: &mut [u8]) {
                out.copy_from_slice(&(value as $to).to_le_bytes());
            }
        }
    )*};
}

stored!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

macro_rules! stored_halves {
    ($($ty:ty),*) => {$(
        impl Stored for $ty {
            type Wide = f32;
            const SIZE: usize = 2;
            #[inline(always)]
            fn read(bytes: &[u8]) -> f32 {
                <$ty>::from_le_bytes(bytes.try_into().expect("a chunk of one number")).to_f32()
            }
        }
    )*};
}

stored_halves!(f16, bf16);

#[inline(always)]
fn run<S: Stored, D: Element<S::Wide>>(from: &[u8], to: &mut [u8]) {
    for (from, to) in from.chunks_exact(S::SIZE).zip(to.chunks_exact_mut(D::SIZE)) {
        D::write(S::read(from), to);
    }
}

fn copy(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

/// The function that casts with the widest instructions this machine has.
fn widest<S: Stored, D: Element<S::Wide>>() -> Cast {
    #[cfg(target_arch = "x86_64")]
    {
        use std::is_x86_feature_detected as has;

        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn avx512<S: Stored, D: Element<S::Wide>>(from: &[u8], to: &mut [u8]) {
            run::<S, D>(from, to);
        }
        if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
            // SAFETY: the machine has what the function is compiled for.
            return |from, to| unsafe { avx512::<S, D>(from, to) };
        }
    }
    run::<S, D>
}

/// Casts a run of stored numbers into a run of elements; both have the same number of them.
pub(crate) type Cast = fn(&[u8], &mut [u8]);

fn to_dtype<S: Stored>(to: DType) -> Cast
where
    Flag: Element<S::Wide>,
    u8: Element<S::Wide>,
    i8: Element<S::Wide>,
    i32: Element<S::Wide>,
    i64: Element<S::Wide>,
    f16: Element<S::Wide>,
    bf16: Element<S::Wide>,
    f32: Element<S::Wide>,
    f64: Element<S::Wide>,
{
    match to {
        DType::Bool => widest::<S, Flag>(),
        DType::U8 => widest::<S, u8>(),
        DType::I8 => widest::<S, i8>(),
        DType::I32 => widest::<S, i32>(),
        DType::I64 => widest::<S, i64>(),
        DType::F16 => widest::<S, f16>(),
        DType::BF16 => widest::<S, bf16>(),
        DType::F32 => widest::<S, f32>(),
        DType::F64 => widest::<S, f64>(),
    }
}

/// The function that casts.
pub(crate) fn cast(from: Elem, to: DType) -> Cast {
    // A stored bool is 0 or 1 already; any other type that is the same on both sides is copied.
    if from == Elem::of(to) {
        return copy;
    }
    match from {
        Elem::Bool | Elem::U8 => to_dtype::<u8>(to),
        Elem::I8 => to_dtype::<i8>(to),
        Elem::U16 => to_dtype::<u16>(to),
        Elem::I16 => to_dtype::<i16>(to),
        Elem::U32 => to_dtype::<u32>(to),
        Elem::I32 => to_dtype::<i32>(to),
        Elem::U64 => to_dtype::<u64>(to),
        Elem::I64 => to_dtype::<i64>(to),
        Elem::F16 => to_dtype::<f16>(to),
        Elem::BF16 => to_dtype::<bf16>(to),
        Elem::F32 => to_dtype::<f32>(to),
        Elem::F64 => to_dtype::<f64>(to),
    }
}

/// Numbers that are copied or cast at a time.
const AT_ONCE: usize = 32;
/// The most that [`Convert::write`] may read or write too much.
pub(crate) const BEYOND_BYTES: usize = AT_ONCE * 8;

/// Writes runs of numbers of one type as another.
#[derive(Clone, Copy)]
pub(crate) struct Convert {
    from_bytes: usize,
    to_bytes: usize,
    cast: Cast,
    /// Whether numbers stay as they are.
    same: bool,
}

impl Convert {
    /// From numbers of one type to another, which is the same or a dtype's.
    pub(crate) fn new(from: Elem, to: Elem) -> Convert {
        let cast = if from == to { copy } else { cast(from, to.dtype()) };
        Convert { from_bytes: from.size(), to_bytes: to.size(), cast, same: from == to }
    }

    /// Writes numbers from the beginning of `from` to the beginning of `to`, several at a time: how many there are is another
    /// number each time, which the processor would have to guess. So what lies behind them may be written over, up to
    /// [`BEYOND_BYTES`]; where nothing lies there, they are written exactly.
    #[inline(always)]
    pub(crate) fn write(&self, from: &[u8], numbers: usize, to: &mut [u8]) {
        let whole = numbers.next_multiple_of(AT_ONCE);
        match (from.get(..whole * self.from_bytes), to.get_mut(..whole * self.to_bytes)) {
            (Some(from), Some(to)) if self.same => {
                let groups = from.as_chunks::<AT_ONCE>().0.iter().zip(to.as_chunks_mut::<AT_ONCE>().0);
                groups.for_each(|(from, to)| *to = *from);
            }
            (Some(from), Some(to)) => (self.cast)(from, to),
            _ => (self.cast)(&from[..numbers * self.from_bytes], &mut to[..numbers * self.to_bytes]),
        }
    }
}

/// A number as it is stored, in the first bytes.
pub(crate) fn number_bytes(elem: Elem, value: f64) -> [u8; 8] {
    let mut out = [0; 8];
    match elem {
        Elem::Bool => out[0] = (value != 0.0) as u8,
        Elem::U8 => out[0] = value as u8,
        Elem::I8 => out[0] = value as i8 as u8,
        Elem::U16 => out[..2].copy_from_slice(&(value as u16).to_le_bytes()),
        Elem::I16 => out[..2].copy_from_slice(&(value as i16).to_le_bytes()),
        Elem::F16 => out[..2].copy_from_slice(&f16::from_f64(value).to_le_bytes()),
        Elem::BF16 => out[..2].copy_from_slice(&bf16::from_f64(value).to_le_bytes()),
        Elem::U32 => out[..4].copy_from_slice(&(value as u32).to_le_bytes()),
        Elem::I32 => out[..4].copy_from_slice(&(value as i32).to_le_bytes()),
        Elem::F32 => out[..4].copy_from_slice(&(value as f32).to_le_bytes()),
        Elem::U64 => out.copy_from_slice(&(value as u64).to_le_bytes()),
        Elem::I64 => out.copy_from_slice(&(value as i64).to_le_bytes()),
        Elem::F64 => out.copy_from_slice(&value.to_le_bytes()),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_casts_to_every_dtype() {
        for from in Elem::ALL {
            for to in DType::ALL {
                for value in [0.0, 1.0, 3.0, 100.0] {
                    let value = if from == Elem::Bool { f64::from(value != 0.0) } else { value };
                    let stored = number_bytes(from, value);
                    let mut out = vec![0xAA; 2 * to.size()];
                    let two = [&stored[..from.size()], &stored[..from.size()]].concat();
                    cast(from, to)(&two, &mut out);
                    let expected = number_bytes(Elem::of(to), value);
                    assert_eq!(&out[..to.size()], &expected[..to.size()], "{from:?} to {to:?}");
                    assert_eq!(&out[to.size()..], &expected[..to.size()], "{from:?} to {to:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_below_zero_stay_below_zero() {
        for from in [Elem::I8, Elem::I16, Elem::I32, Elem::I64, Elem::F16, Elem::BF16, Elem::F32, Elem::F64] {
            let mut out = [0; 4];
            cast(from, DType::F32)(&number_bytes(from, -3.0)[..from.size()], &mut out);
            assert_eq!(f32::from_le_bytes(out), -3.0, "{from:?}");
        }
    }

    #[test]
    fn runs_of_any_length_are_whole_whatever_is_behind_them() {
        for (from, to) in [(Elem::I16, Elem::F32), (Elem::I16, Elem::I16), (Elem::F64, Elem::BF16)] {
            let convert = Convert::new(from, to);
            let stored: Vec<u8> = (0..100).flat_map(|i| number_bytes(from, i as f64)[..from.size()].to_vec()).collect();
            let expected: Vec<u8> = (0..100).flat_map(|i| number_bytes(to, i as f64)[..to.size()].to_vec()).collect();
            for numbers in [0, 1, 31, 32, 33, 64, 99, 100] {
                for more in [0, 1, BEYOND_BYTES] {
                    let len = numbers * to.size();
                    let mut out = vec![0xAA; len + more];
                    convert.write(&stored[..], numbers, &mut out);
                    assert_eq!(out[..len], expected[..len], "{numbers} numbers of {from:?}, {more} bytes behind them");
                    convert.write(&stored[..numbers * from.size()], numbers, &mut out[..len]);
                    assert_eq!(out[..len], expected[..len], "{numbers} numbers of {from:?}, with nothing behind them");
                }
            }
        }
    }
}
