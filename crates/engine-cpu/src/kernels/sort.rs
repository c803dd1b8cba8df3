//! Stable sorting along an axis: values and where they stood.
//!
//! SORT-1: elements become unsigned keys in the order of sorting: zeros are equal, NaNs are equal and above every
//! number, descending is the complement. Equal keys keep the order of their positions, so the result is unique.

use gt_ir::Failure;

use super::{Axes, Dst, Shared, Src, by_dtype, try_split, walk};
use crate::alloc::{Plain, Room};
use crate::pool::Pool;

/// Elements a thread sorts at least.
const GRAIN: usize = 4 << 10;

/// Lines from this length on are sorted digit by digit.
const RADIX_FROM: usize = 1024;

/// Bits of a digit: few enough that the places written in turn stay in the caches.
const DIGIT: u32 = 8;

/// `x` sorted along `axis` into the packed `values`, and the positions (int64) into the packed `indices`.
pub fn sort(pool: &Pool, x: Src, values: Dst, indices: Dst, axis: usize, descending: bool) -> Result<(), Failure> {
    if values.layout.shape.numel() == 0 {
        return Ok(());
    }
    let (shape, extent) = (x.layout.shape.without(axis), x.layout.shape[axis]);
    let (mut from, mut to) = (x.layout.strides, values.layout.strides);
    let (x_step, step) = (from.remove(axis) as isize, to.remove(axis) as isize);
    let lines = Axes::new(&shape, [&from, &to]);
    by_dtype!(x.layout.dtype, T => {
        let (x, values, indices) = (Shared::read(x.start::<T>()), Shared(values.start::<T>()), Shared(indices.start::<i64>()));
        try_split(pool, shape.numel(), GRAIN.div_ceil(extent), &|part| {
            let mut strided: Room<T> = pool.room(if x_step == 1 { 0 } else { extent })?;
            let mut space = Space::new::<T>(pool, extent)?;
            walk(lines.list(), part, |_, [from, to]| {
                // SAFETY: KERNEL-3; the line is inside x, and its places in both results are this chunk's.
                unsafe {
                    let from = x.get().offset(from as isize);
                    let line = if x_step == 1 {
                        std::slice::from_raw_parts(from, extent)
                    } else {
                        strided.iter_mut().zip(0isize..).for_each(|(to, i)| *to = *from.offset(i * x_step));
                        &*strided
                    };
                    let to = to as isize;
                    let sorted = Sorted { values: values.get().offset(to), indices: indices.get().offset(to), step };
                    sort_line(line, sorted, &mut space, descending);
                }
            });
            Ok(())
        })
    })
}

/// Where the results of one line go.
#[derive(Clone, Copy)]
struct Sorted<T> {
    values: *mut T,
    indices: *mut i64,
    step: isize,
}

impl<T> Sorted<T> {
    /// Element `i` of the result is `value`, which stood `at`.
    #[inline(always)]
    unsafe fn put(self, i: usize, value: T, at: usize) {
        // SAFETY: the caller's `i` is inside the line.
        unsafe {
            *self.values.offset(i as isize * self.step) = value;
            *self.indices.offset(i as isize * self.step) = at as i64;
        }
    }
}

/// An element type as SORT-1 sees it.
trait Key: Plain {
    /// Bits of a key.
    const BITS: u32;
    fn key(self) -> u64;
}

macro_rules! int_key {
    ($($t:ty, $unsigned:ty, $flip:expr);*) => {$(
        impl Key for $t {
            const BITS: u32 = <$t>::BITS;
            #[inline(always)]
            fn key(self) -> u64 {
                (self as $unsigned ^ $flip) as u64
            }
        }
    )*};
}
int_key!(u8, u8, 0; i8, u8, 1 << 7; i32, u32, 1 << 31; i64, u64, 1 << 63);

macro_rules! float_key {
    ($($t:ty, $bits:ty);*) => {$(
        impl Key for $t {
            const BITS: u32 = <$bits>::BITS;
            #[inline(always)]
            fn key(self) -> u64 {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = self.to_bits();
                // Ascending as unsigned numbers: negative ones reversed, below the positive ones.
                let ordered = if bits & SIGN != 0 { !bits } else { bits | SIGN };
                let ordered = if bits == SIGN { SIGN } else { ordered };
                (if self.is_nan() { <$bits>::MAX } else { ordered }) as u64
            }
        }
    )*};
}
float_key!(half::f16, u16; half::bf16, u16; f32, u32; f64, u64);

/// Pairs of key and position, and as many again to move them to.
enum Space {
    /// Keys are counted, and need none.
    None,
    /// Both in one word.
    Narrow(Room<u64>),
    Wide(Room<[u64; 2]>),
}

impl Space {
    /// For lines of `extent` elements.
    fn new<T: Key>(pool: &Pool, extent: usize) -> Result<Space, Failure> {
        let pairs = extent.saturating_mul(2);
        Ok(match () {
            _ if counts_bytes::<T>(extent) => Space::None,
            _ if T::BITS <= 32 && extent <= u32::MAX as usize => Space::Narrow(pool.room(pairs)?),
            _ => Space::Wide(pool.room(pairs)?),
        })
    }
}

/// Whether lines of so many elements are sorted by counting.
fn counts_bytes<T: Key>(extent: usize) -> bool {
    T::BITS == 8 && extent > 32
}

/// Sorts one line; `out` has room for it.
unsafe fn sort_line<T: Key>(line: &[T], out: Sorted<T>, space: &mut Space, descending: bool) {
    let count = line.len();
    let flip = if descending { u64::MAX >> (64 - T::BITS) } else { 0 };
    let keys = line.iter().map(|x| x.key() ^ flip).zip(0u64..);
    // SAFETY: as many places as the line has elements.
    let put = |i: usize, at: u64| unsafe { out.put(i, line[at as usize], at as usize) };
    match space {
        // SAFETY: the caller's.
        Space::None => unsafe { count_bytes(line, flip, out) },
        Space::Narrow(space) => {
            let (pairs, space) = space.split_at_mut(count);
            // The position in the low half makes equal keys differ and keeps their order.
            pairs.iter_mut().zip(keys).for_each(|(pair, (key, at))| *pair = key << 32 | at);
            let sorted = sort_pairs(pairs, space, T::BITS, |&pair| pair >> 32);
            sorted.iter().enumerate().for_each(|(i, pair)| put(i, pair & u32::MAX as u64));
        }
        Space::Wide(space) => {
            let (pairs, space) = space.split_at_mut(count);
            pairs.iter_mut().zip(keys).for_each(|(pair, (key, at))| *pair = [key, at]);
            let sorted = sort_pairs(pairs, space, T::BITS, |&[key, _]| key);
            sorted.iter().enumerate().for_each(|(i, &[_, at])| put(i, at));
        }
    }
}

/// The pairs in order, in one of the two places.
fn sort_pairs<'a, P: Copy + Ord>(
    pairs: &'a mut [P],
    space: &'a mut [P],
    bits: u32,
    key: impl Fn(&P) -> u64,
) -> &'a [P] {
    if pairs.len() >= RADIX_FROM {
        return radix(pairs, space, bits, key);
    }
    pairs.sort_unstable();
    pairs
}

/// Counting sort of keys of one byte.
unsafe fn count_bytes<T: Key>(line: &[T], flip: u64, out: Sorted<T>) {
    // Several counters for each key, so that equal neighbours do not wait for each other.
    let mut counts = [[0usize; 256]; 4];
    let key = |x: T| (x.key() ^ flip) as usize & 255;
    for (i, &x) in line.iter().enumerate() {
        counts[i % 4][key(x)] += 1;
    }
    let mut next = [0usize; 256];
    let mut sum = 0;
    for (key, next) in next.iter_mut().enumerate() {
        *next = sum;
        sum += counts.iter().map(|c| c[key]).sum::<usize>();
    }
    for (at, &x) in line.iter().enumerate() {
        let place = &mut next[key(x)];
        // SAFETY: places are counted, so each is below the length of the line.
        unsafe { out.put(*place, x, at) };
        *place += 1;
    }
}

/// Stable sort by the low `bits` of the keys, lowest digit first; digits that all keys share are skipped.
fn radix<'a, P: Copy>(mut pairs: &'a mut [P], mut space: &'a mut [P], bits: u32, key: impl Fn(&P) -> u64) -> &'a [P] {
    const VALUES: usize = 1 << DIGIT;
    let digits = bits.div_ceil(DIGIT) as usize;
    let digit = |pair: &P, d: usize| (key(pair) >> (d as u32 * DIGIT)) as usize % VALUES;
    let mut counts = [[0usize; VALUES]; (u64::BITS / DIGIT) as usize];
    for pair in pairs.iter() {
        for (d, counts) in counts.iter_mut().enumerate().take(digits) {
            counts[digit(pair, d)] += 1;
        }
    }
    for d in 0..digits {
        let first = digit(&pairs[0], d);
        if counts[d][first] == pairs.len() {
            continue;
        }
        let mut next = [0usize; VALUES];
        let mut sum = 0;
        for (next, &count) in next.iter_mut().zip(&counts[d]) {
            *next = sum;
            sum += count;
        }
        for pair in pairs.iter() {
            let place = &mut next[digit(pair, d)];
            space[*place] = *pair;
            *place += 1;
        }
        std::mem::swap(&mut pairs, &mut space);
    }
    pairs
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use gt_ir::{DType, Steps};

    use super::*;
    use crate::kernels::testing::{Tensor, values};

    fn check(x: &Tensor, axis: usize, descending: bool) {
        let shape: Vec<usize> = x.layout.shape.to_vec();
        let (mut sorted, mut order) = (Tensor::counting(x.layout.dtype, &shape), Tensor::counting(DType::I64, &shape));
        sort(&Pool::new(2), x.src(), sorted.dst(), order.dst(), axis, descending).unwrap();
        let (v, sorted, order) = (x.values(), sorted.values(), order.values());
        let step: usize = shape[axis + 1..].iter().product();
        let rank = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
        for start in (0..v.len()).filter(|i| (i / step).is_multiple_of(shape[axis])) {
            let mut wanted: Vec<usize> = (0..shape[axis]).collect();
            wanted.sort_by(|&a, &b| {
                let order: Ordering = rank(v[start + a * step], v[start + b * step]);
                if descending { order.reverse() } else { order }
            });
            for (k, &at) in wanted.iter().enumerate() {
                let (i, from) = (start + k * step, v[start + at * step]);
                assert_eq!(order[i], at as f64, "{} {shape:?} {axis} {descending}", x.layout.dtype);
                assert_eq!(sorted[i].to_bits(), from.to_bits());
            }
        }
    }

    #[test]
    fn stable_both_ways_in_every_dtype() {
        for dtype in DType::ALL {
            for descending in [false, true] {
                for (shape, axis) in [(&[7][..], 0), (&[40, 3], 0), (&[3, 70], 1), (&[2, 5, 4], 1), (&[3000], 0)] {
                    let count: usize = shape.iter().product();
                    let mut numbers: Vec<f64> = values(count, 5).iter().map(|&x| (x * 20.0).round() as f64).collect();
                    if !dtype.is_float() {
                        numbers
                            .iter_mut()
                            .for_each(|x| *x = x.abs().min(if dtype == DType::Bool { 1.0 } else { 100.0 }));
                    } else {
                        numbers[count / 2] = f64::NAN;
                        numbers[count / 3] = -f64::NAN;
                        numbers[count - 1] = -0.0;
                        numbers[0] = 0.0;
                        numbers[1] = f64::NEG_INFINITY;
                    }
                    if matches!(dtype, DType::I8 | DType::I32 | DType::I64) {
                        numbers.iter_mut().step_by(3).for_each(|x| *x = -*x);
                    }
                    check(&Tensor::new(dtype, shape, &numbers), axis, descending);
                }
            }
        }
    }

    #[test]
    fn strided_input() {
        let mut x = Tensor::counting(DType::F32, &[30, 4]);
        x.layout = x.layout.permute(&Steps::new(&[1, 0]));
        check(&x, 0, true);
        check(&x, 1, true);
    }
}
