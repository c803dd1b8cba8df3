//! Reading a strided value in iteration order.

use gt_ir::MAX_RANK;

use crate::Layout;

/// A value's axes in iteration order, outermost first, without those of extent 1, neighbours joined where the strides
/// nest.
#[derive(Clone, Copy)]
pub struct Walk {
    rank: usize,
    extents: [usize; MAX_RANK],
    strides: [i64; MAX_RANK],
}

impl Walk {
    /// The walk over (extent, stride) pairs, outermost first.
    #[inline]
    pub fn new(axes: impl Iterator<Item = (usize, i64)>) -> Walk {
        let mut walk = Walk { rank: 0, extents: [1; MAX_RANK], strides: [0; MAX_RANK] };
        for (extent, stride) in axes {
            if extent == 1 {
                continue;
            }
            if walk.rank > 0 && walk.strides[walk.rank - 1] == stride * extent as i64 {
                walk.extents[walk.rank - 1] *= extent;
                walk.strides[walk.rank - 1] = stride;
            } else {
                walk.extents[walk.rank] = extent;
                walk.strides[walk.rank] = stride;
                walk.rank += 1;
            }
        }
        walk
    }

    /// The walk over a layout in row-major order.
    pub fn row_major(layout: &Layout) -> Walk {
        Walk::new(layout.shape.iter().copied().zip(layout.strides.iter().copied()))
    }

    /// Whether the elements lie one after the other.
    #[inline]
    pub fn is_packed(&self) -> bool {
        self.rank == 0 || (self.rank == 1 && self.strides[0] == 1)
    }

    /// Whether it is one element throughout.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.rank == 0 || (self.rank == 1 && self.strides[0] == 0)
    }

    /// Whether neighbours in iteration order lie apart while other elements lie side by side.
    pub fn is_transposed(&self) -> bool {
        self.rank > 1
            && self.strides[self.rank - 1].abs() > 1
            && self.strides[..self.rank - 1].contains(&1)
            && !self.strides[..self.rank].contains(&0)
    }

    /// Copies elements `start..start + count` of the walk to `dst`.
    ///
    /// # Safety
    /// `first` is the walk's first element, of `size` bytes; all elements of the range are readable and `dst` takes
    /// `count` of them.
    pub unsafe fn copy(&self, first: *const u8, size: usize, start: usize, count: usize, dst: *mut u8) {
        // SAFETY: passed on.
        unsafe { self.copy_apart(first, size, start, count, dst, 0) };
    }

    /// After how many elements they come again, if they do.
    #[inline]
    pub fn period(&self) -> Option<usize> {
        (self.rank > 1 && self.strides[0] == 0).then(|| self.extents[1..self.rank].iter().product())
    }

    /// Whether those of a period lie one after the other.
    #[inline]
    pub fn is_packed_in_period(&self) -> bool {
        self.rank == 2 && self.strides[0] == 0 && self.strides[1] == 1
    }

    /// The extent of the innermost axis.
    #[inline]
    pub fn innermost(&self) -> usize {
        if self.rank == 0 { 1 } else { self.extents[self.rank - 1] }
    }

    /// The same, leaving out `gap` elements of `dst` after each run of the innermost axis.
    ///
    /// # Safety
    /// As [`Walk::copy`], with room in `dst` for the gaps between runs.
    pub unsafe fn copy_apart(
        &self,
        first: *const u8,
        size: usize,
        start: usize,
        count: usize,
        dst: *mut u8,
        gap: usize,
    ) {
        if count == 0 {
            return;
        }
        // SAFETY: passed on; elements are aligned to their size because buffers are and offsets count elements.
        unsafe {
            match size {
                1 => self.copy_elements::<u8>(first.cast(), start, count, dst.cast(), gap),
                2 => self.copy_elements::<u16>(first.cast(), start, count, dst.cast(), gap),
                4 => self.copy_elements::<u32>(first.cast(), start, count, dst.cast(), gap),
                _ => self.copy_elements::<u64>(first.cast(), start, count, dst.cast(), gap),
            }
        }
    }

    /// # Safety
    /// As [`Walk::copy_apart`].
    #[inline(always)]
    unsafe fn copy_elements<T: Copy>(&self, first: *const T, start: usize, count: usize, mut dst: *mut T, gap: usize) {
        if self.rank == 0 {
            // SAFETY: one element is all there is.
            unsafe { *dst = *first };
            return;
        }
        let inner = self.rank - 1;
        let mut index = [0usize; MAX_RANK];
        let mut rest = start;
        let mut at = first;
        for axis in (0..self.rank).rev() {
            index[axis] = rest % self.extents[axis];
            rest /= self.extents[axis];
            at = at.wrapping_offset(index[axis] as isize * self.strides[axis] as isize);
        }
        let (extent, stride) = (self.extents[inner], self.strides[inner] as isize);
        let mut left = count;
        loop {
            if stride == 1 && inner > 0 && index[inner] == 0 && left >= extent {
                // Whole runs, as many as lie alike.
                let runs = (left / extent).min(self.extents[inner - 1] - index[inner - 1]);
                let apart = self.strides[inner - 1] as isize;
                // SAFETY: `at` is the first of `runs` runs along the next axis; `dst` has room for them and their gaps.
                unsafe { copy_runs(extent, runs, at, apart, dst, extent + gap) };
                left -= runs * extent;
                dst = dst.wrapping_add(runs * (extent + gap));
                // On as from the last of them.
                index[inner - 1] += runs - 1;
                at = at.wrapping_offset((runs as isize - 1) * apart);
            } else {
                let run = left.min(extent - index[inner]);
                // SAFETY: `at` is element `index` of the walk and the run stays inside the innermost axis.
                unsafe { copy_run(at, stride, run, dst) };
                left -= run;
                dst = dst.wrapping_add(run + gap);
            }
            if left == 0 {
                return;
            }
            at = at.wrapping_offset(-(index[inner] as isize * stride));
            index[inner] = 0;
            for axis in (0..inner).rev() {
                index[axis] += 1;
                at = at.wrapping_offset(self.strides[axis] as isize);
                if index[axis] < self.extents[axis] {
                    break;
                }
                at = at.wrapping_offset(-(self.extents[axis] as isize * self.strides[axis] as isize));
                index[axis] = 0;
            }
        }
    }
}

/// Elements copied at a time: most axes are short, and a call to `memcpy` costs more than they do.
const CHUNK: usize = 8;

/// # Safety
/// `run` elements `stride` apart are readable from `at` on, and `dst` takes as many.
#[inline(always)]
unsafe fn copy_run<T: Copy>(at: *const T, stride: isize, run: usize, dst: *mut T) {
    // SAFETY: as promised by the caller; source and destination are different memory.
    let dst = unsafe { std::slice::from_raw_parts_mut(dst, run) };
    match stride {
        1 => {
            // SAFETY: as promised by the caller.
            let src = unsafe { std::slice::from_raw_parts(at, run) };
            copy_neighbours(src, dst);
        }
        0 => {
            // SAFETY: there is one element at least, since a run is never empty.
            let value = unsafe { *at };
            fill_short(value, dst);
        }
        2.. => {
            // SAFETY: the run's elements and all between them lie in one buffer.
            let src = unsafe { std::slice::from_raw_parts(at, (run - 1) * stride as usize + 1) };
            for (d, s) in dst.iter_mut().zip(src.chunks(stride as usize)) {
                *d = s[0];
            }
        }
        _ => {
            for (i, d) in dst.iter_mut().enumerate() {
                // SAFETY: element `i` of the run.
                *d = unsafe { *at.wrapping_offset(i as isize * stride) };
            }
        }
    }
}

/// Copies `runs` runs of `len` neighbours. Each begins `from_apart` elements behind the one before it, and goes `to_apart`
/// behind it.
///
/// # Safety
/// The runs are readable, `to` has room for them and what lies between them; they do not overlap.
#[inline(always)]
pub(super) unsafe fn copy_runs<T: Copy>(
    len: usize,
    runs: usize,
    from: *const T,
    from_apart: isize,
    to: *mut T,
    to_apart: usize,
) {
    // SAFETY: passed on.
    unsafe {
        match len {
            8 => copy_runs_of::<T, 8>(runs, from, from_apart, to, to_apart),
            16 => copy_runs_of::<T, 16>(runs, from, from_apart, to, to_apart),
            32 => copy_runs_of::<T, 32>(runs, from, from_apart, to, to_apart),
            64 => copy_runs_of::<T, 64>(runs, from, from_apart, to, to_apart),
            _ => {
                for r in 0..runs {
                    let from = std::slice::from_raw_parts(from.wrapping_offset(r as isize * from_apart), len);
                    let to = std::slice::from_raw_parts_mut(to.wrapping_add(r * to_apart), len);
                    copy_neighbours(from, to);
                }
            }
        }
    }
}

/// [`copy_runs`] of a length that heads of attention have, known beforehand: most of the time goes to counting otherwise.
///
/// # Safety
/// As [`copy_runs`].
unsafe fn copy_runs_of<T: Copy, const LEN: usize>(
    runs: usize,
    from: *const T,
    from_apart: isize,
    to: *mut T,
    to_apart: usize,
) {
    for r in 0..runs {
        let from = from.wrapping_offset(r as isize * from_apart).cast::<[T; LEN]>();
        // SAFETY: run `r` is readable and has its room; arrays are aligned as their elements are.
        unsafe { *to.wrapping_add(r * to_apart).cast::<[T; LEN]>() = *from };
    }
}

/// Copies a run of any length; the slices have one length.
#[inline(always)]
pub(crate) fn copy_neighbours<T: Copy>(src: &[T], dst: &mut [T]) {
    if size_of_val(src) > 512 {
        dst.copy_from_slice(src);
    } else {
        copy_short(src, dst);
    }
}

/// Whole chunks, and for the rest the last whole chunk, over what is there already.
#[inline(always)]
fn copy_short<T: Copy>(src: &[T], dst: &mut [T]) {
    let (from, _) = src.as_chunks::<CHUNK>();
    let (to, _) = dst.as_chunks_mut::<CHUNK>();
    for (d, s) in to.iter_mut().zip(from) {
        *d = *s;
    }
    if let (Some(d), Some(s)) = (dst.last_chunk_mut::<CHUNK>(), src.last_chunk::<CHUNK>()) {
        *d = *s;
    } else {
        for (d, s) in dst.iter_mut().zip(src) {
            *d = *s;
        }
    }
}

#[inline(always)]
fn fill_short<T: Copy>(value: T, dst: &mut [T]) {
    let (to, _) = dst.as_chunks_mut::<CHUNK>();
    for d in to {
        *d = [value; CHUNK];
    }
    if let Some(d) = dst.last_chunk_mut::<CHUNK>() {
        *d = [value; CHUNK];
    } else {
        for d in dst {
            *d = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_any_range_of_any_walk() {
        let source: Vec<u32> = (0..1000).collect();
        let axes: &[&[(usize, i64)]] = &[
            &[(4, 5), (5, 1)],
            &[(5, 1), (4, 5)],
            &[(3, 0), (4, 1)],
            &[(3, 7), (2, 0), (5, -1)],
            &[(2, 50), (3, 10), (4, 2)],
            &[(2, 60), (3, 9), (8, 1)],
            &[(3, 0), (2, 16), (3, -5), (4, 1)],
            &[(3, 0), (32, 1)],
        ];
        for axes in axes {
            let mut expected = vec![500i64];
            for &(extent, stride) in *axes {
                expected = expected.iter().flat_map(|&o| (0..extent as i64).map(move |i| o + i * stride)).collect();
            }
            let walk = Walk::new(axes.iter().copied());
            for start in 0..expected.len() {
                for end in start..=expected.len() {
                    let mut out = vec![0u32; end - start];
                    // SAFETY: offsets stay between 400 and 700.
                    unsafe {
                        walk.copy(source.as_ptr().add(500).cast(), 4, start, end - start, out.as_mut_ptr().cast())
                    };
                    let want: Vec<u32> = expected[start..end].iter().map(|&o| o as u32).collect();
                    assert_eq!(out, want, "{axes:?} {start}..{end}");
                    // Apart: three elements are left out wherever a run ends.
                    let runs_before = |at: usize| (start + at) / walk.innermost() - start / walk.innermost();
                    let mut apart = vec![u32::MAX; out.len() + 3 * runs_before(out.len())];
                    let (from, to) = (source.as_ptr().wrapping_add(500).cast(), apart.as_mut_ptr().cast());
                    // SAFETY: as above, and the gaps have room too.
                    unsafe { walk.copy_apart(from, 4, start, end - start, to, 3) };
                    let mut want_apart = vec![u32::MAX; apart.len()];
                    want.iter().enumerate().for_each(|(i, &v)| want_apart[i + 3 * runs_before(i)] = v);
                    assert_eq!(apart, want_apart, "{axes:?} {start}..{end}");
                }
            }
        }
    }
}
