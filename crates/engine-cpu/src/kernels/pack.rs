//! Copies of matrix blocks in the order the tiles read them.
//!
//! A panel of width `w` holds element `(i, p)` at `p * w + i`: for each step `p` along `k` the `w` neighbours that a
//! tile needs. Places past the edge of the matrix hold zeros.

use super::microkernel::prefetch;

/// Writes `rows` rows of `depth` elements each, `row_stride` apart, as columns: element `p` of row `i` goes to
/// `to + p * width + i`.
pub(super) type TransposeFn<T> =
    unsafe fn(from: *const T, row_stride: isize, rows: usize, depth: usize, to: *mut T, width: usize);

/// Copies rows of whole panels: element `i` of panel `j` at step `p` goes from `from + p * along + j * WIDTH + i` to
/// `to + (j * depth + p) * WIDTH + i`.
pub(super) type CopyFn<T> = unsafe fn(from: *const T, along: isize, panels: usize, depth: usize, to: *mut T);

/// Rows that are fetched ahead: operands mostly come from another core or a farther cache, in pieces too short for the
/// machine to see where they lead.
const ROWS_AHEAD: isize = 16;
/// Elements of a row that are fetched ahead.
const ELEMENTS_AHEAD: usize = 48;

/// A block of a matrix to pack: `count` neighbours across the panel, `depth` along `k`.
#[derive(Clone, Copy)]
pub(super) struct Block<T> {
    pub from: *const T,
    /// Elements between neighbours across the panel.
    pub across: isize,
    /// Elements between neighbours along `k`.
    pub along: isize,
    pub count: usize,
    pub depth: usize,
}

/// Fills panels of `width`, as many as the block needs, one behind the other.
///
/// # Safety
/// The block lies in readable memory, `to` has room for the panels, and `copy` is for this width.
pub(super) unsafe fn panels<T: Copy + Default>(
    block: Block<T>,
    to: *mut T,
    width: usize,
    transpose: TransposeFn<T>,
    copy: CopyFn<T>,
) {
    let Block { from, across, along, count, depth } = block;
    let whole = if across == 1 { count / width } else { 0 };
    // A few panels at a time: enough of a row to be worth going there, few enough places to write to.
    for first in (0..whole).step_by(PANELS_AT_ONCE) {
        let panels = (whole - first).min(PANELS_AT_ONCE);
        // SAFETY: whole panels of the block, into their places.
        unsafe { copy(from.add(first * width), along, panels, depth, to.add(first * depth * width)) };
    }
    for i in (whole * width..count).step_by(width) {
        let part = Block { from: from.wrapping_offset(i as isize * across), count: (count - i).min(width), ..block };
        // SAFETY: a part of the block into its panel.
        unsafe { panel(part, to.add(i * depth), width, transpose) };
    }
}

/// Panels that are filled side by side.
const PANELS_AT_ONCE: usize = 4;

/// See [`CopyFn`].
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn copy<T: Copy, const WIDTH: usize>(
    from: *const T,
    along: isize,
    panels: usize,
    depth: usize,
    to: *mut T,
) {
    for p in 0..depth {
        let from = from.wrapping_offset(p as isize * along);
        let ahead = from.wrapping_offset(ROWS_AHEAD * along);
        for line in (0..panels * WIDTH).step_by(64 / size_of::<T>()) {
            prefetch(ahead.wrapping_add(line));
        }
        for j in 0..panels {
            // SAFETY: the caller's rows and panels.
            unsafe {
                let row = from.add(j * WIDTH).cast::<[T; WIDTH]>().read_unaligned();
                to.add((j * depth + p) * WIDTH).cast::<[T; WIDTH]>().write_unaligned(row);
            }
        }
    }
}

/// Fills one panel that is not whole or whose neighbours lie apart.
///
/// # Safety
/// The block lies in readable memory and `to` has room for `depth * width` elements.
pub(super) unsafe fn panel<T: Copy + Default>(block: Block<T>, to: *mut T, width: usize, transpose: TransposeFn<T>) {
    let Block { from, across, along, count, depth } = block;
    // SAFETY: all places are below `depth * width`, all elements inside the block.
    unsafe {
        if count < width {
            for p in 0..depth {
                for i in count..width {
                    *to.add(p * width + i) = T::default();
                }
            }
        }
        if across == 1 {
            for p in 0..depth {
                std::ptr::copy_nonoverlapping(from.offset(p as isize * along), to.add(p * width), count);
            }
        } else if along == 1 {
            transpose(from, across, count, depth, to, width);
        } else {
            for p in 0..depth {
                for i in 0..count {
                    *to.add(p * width + i) = *from.offset(i as isize * across + p as isize * along);
                }
            }
        }
    }
}

/// See [`TransposeFn`]; four rows at a time, so that the writes of a step fall together.
pub(super) unsafe fn transpose_plain<T: Copy>(
    from: *const T,
    row_stride: isize,
    rows: usize,
    depth: usize,
    to: *mut T,
    width: usize,
) {
    // SAFETY: the caller's block and panel.
    unsafe {
        let mut i = 0;
        while i + 4 <= rows {
            let r: [*const T; 4] = std::array::from_fn(|j| from.offset((i + j) as isize * row_stride));
            for p in 0..depth {
                let at = to.add(p * width + i);
                for j in 0..4 {
                    *at.add(j) = *r[j].add(p);
                }
            }
            i += 4;
        }
        for i in i..rows {
            let row = from.offset(i as isize * row_stride);
            for p in 0..depth {
                *to.add(p * width + i) = *row.add(p);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use avx512::{transpose_avx512_f32, transpose_avx512_f64};

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::prefetch;

    /// See [`super::TransposeFn`]: blocks of 16 by 16 in registers.
    #[target_feature(enable = "avx512f")]
    pub(in super::super) unsafe fn transpose_avx512_f32(
        from: *const f32,
        row_stride: isize,
        rows: usize,
        depth: usize,
        to: *mut f32,
        width: usize,
    ) {
        let zero = _mm512_setzero_ps();
        for i in (0..rows).step_by(16) {
            let high = (rows - i).min(16);
            let write = ((1u32 << high) - 1) as u16;
            for p in (0..depth).step_by(16) {
                let wide = (depth - p).min(16);
                let read = ((1u32 << wide) - 1) as u16;
                let mut r = [zero; 16];
                for (j, r) in r.iter_mut().enumerate() {
                    if j < high {
                        let at = from.wrapping_offset((i + j) as isize * row_stride).wrapping_add(p);
                        prefetch(at.wrapping_add(super::ELEMENTS_AHEAD));
                        // SAFETY: masked to the `wide` elements of a row of the block.
                        *r = unsafe { _mm512_maskz_loadu_ps(read, at) };
                    }
                }
                let columns = transpose_16(r);
                for (q, column) in columns.iter().enumerate() {
                    if q < wide {
                        // SAFETY: masked to the `high` places of this step of the panel.
                        unsafe { _mm512_mask_storeu_ps(to.add((p + q) * width + i), write, *column) };
                    }
                }
            }
        }
    }

    /// Pairs of lanes, then quads, then 128-bit quarters change places.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn transpose_16(r: [__m512; 16]) -> [__m512; 16] {
        let mut s = r;
        for i in (0..16).step_by(2) {
            s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
            s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
        }
        let mut t = s;
        for i in (0..16).step_by(4) {
            let d = |x: usize| _mm512_castps_pd(s[i + x]);
            t[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(d(0), d(2)));
            t[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(d(0), d(2)));
            t[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(d(1), d(3)));
            t[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(d(1), d(3)));
        }
        // t[4 g + c] holds, in quarter q, column 4 q + c of rows 4 g ..; bring the four g of a column together.
        let mut out = t;
        for c in 0..4 {
            let low = _mm512_shuffle_f32x4::<0x88>(t[c], t[4 + c]);
            let high = _mm512_shuffle_f32x4::<0xdd>(t[c], t[4 + c]);
            let low_2 = _mm512_shuffle_f32x4::<0x88>(t[8 + c], t[12 + c]);
            let high_2 = _mm512_shuffle_f32x4::<0xdd>(t[8 + c], t[12 + c]);
            out[c] = _mm512_shuffle_f32x4::<0x88>(low, low_2);
            out[8 + c] = _mm512_shuffle_f32x4::<0xdd>(low, low_2);
            out[4 + c] = _mm512_shuffle_f32x4::<0x88>(high, high_2);
            out[12 + c] = _mm512_shuffle_f32x4::<0xdd>(high, high_2);
        }
        out
    }

    /// See [`super::TransposeFn`]: blocks of 8 by 8 in registers.
    #[target_feature(enable = "avx512f")]
    pub(in super::super) unsafe fn transpose_avx512_f64(
        from: *const f64,
        row_stride: isize,
        rows: usize,
        depth: usize,
        to: *mut f64,
        width: usize,
    ) {
        let zero = _mm512_setzero_pd();
        for i in (0..rows).step_by(8) {
            let high = (rows - i).min(8);
            let write = ((1u32 << high) - 1) as u8;
            for p in (0..depth).step_by(8) {
                let wide = (depth - p).min(8);
                let read = ((1u32 << wide) - 1) as u8;
                let mut r = [zero; 8];
                for (j, r) in r.iter_mut().enumerate() {
                    if j < high {
                        // SAFETY: masked to the `wide` elements of a row of the block.
                        *r = unsafe { _mm512_maskz_loadu_pd(read, from.offset((i + j) as isize * row_stride).add(p)) };
                    }
                }
                let columns = transpose_8(r);
                for (q, column) in columns.iter().enumerate() {
                    if q < wide {
                        // SAFETY: masked to the `high` places of this step of the panel.
                        unsafe { _mm512_mask_storeu_pd(to.add((p + q) * width + i), write, *column) };
                    }
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn transpose_8(r: [__m512d; 8]) -> [__m512d; 8] {
        let mut s = r;
        for i in (0..8).step_by(2) {
            s[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
            s[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
        }
        // s[2 g + c] holds, in quarter q, column 2 q + c of rows 2 g, 2 g + 1.
        let mut out = s;
        for c in 0..2 {
            let low = _mm512_shuffle_f64x2::<0x88>(s[c], s[2 + c]);
            let high = _mm512_shuffle_f64x2::<0xdd>(s[c], s[2 + c]);
            let low_2 = _mm512_shuffle_f64x2::<0x88>(s[4 + c], s[6 + c]);
            let high_2 = _mm512_shuffle_f64x2::<0xdd>(s[4 + c], s[6 + c]);
            out[c] = _mm512_shuffle_f64x2::<0x88>(low, low_2);
            out[4 + c] = _mm512_shuffle_f64x2::<0xdd>(low, low_2);
            out[2 + c] = _mm512_shuffle_f64x2::<0x88>(high, high_2);
            out[6 + c] = _mm512_shuffle_f64x2::<0xdd>(high, high_2);
        }
        out
    }
}
