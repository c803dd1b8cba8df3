//! The elements of a part among those of the others (FUSED-6).

use gt_plan::Part;

use super::walk::copy_runs;

/// Copies the elements of `part` that lie among the step's positions `start..start + n` to a tile of these positions.
///
/// # Safety
/// `from` holds as many elements of `size` bytes as the part has among the positions, `to` has room for `n`; they are
/// aligned and do not overlap.
pub(super) unsafe fn place(part: &Part, start: usize, n: usize, size: usize, from: *const u8, to: *mut u8) {
    // SAFETY: passed on.
    unsafe {
        match size {
            1 => place_elements::<u8>(part, start, n, from.cast(), to.cast()),
            2 => place_elements::<u16>(part, start, n, from.cast(), to.cast()),
            4 => place_elements::<u32>(part, start, n, from.cast(), to.cast()),
            _ => place_elements::<u64>(part, start, n, from.cast(), to.cast()),
        }
    }
}

/// How much of the part's first run lies before position `start` of the step, and how far behind it the rest begins.
pub(super) fn first_run(part: &Part, start: usize) -> (usize, usize) {
    let within = start % part.period;
    match within {
        _ if within <= part.start => (0, part.start - within),
        _ if within < part.start + part.len => (within - part.start, 0),
        _ => (0, part.period - within + part.start),
    }
}

/// # Safety
/// As [`place`].
#[inline(always)]
unsafe fn place_elements<T: Copy>(part: &Part, start: usize, n: usize, from: *const T, to: *mut T) {
    let count = part.before(start + n) - part.before(start);
    let (skipped, at) = first_run(part, start);
    let (mut from, mut to, mut left) = (from, to.wrapping_add(at), count);
    let gap = part.period - part.len;
    // SAFETY: `left` elements are to be read from `from` on; each run has its room, and a gap before the next.
    unsafe {
        if skipped > 0 {
            let run = left.min(part.len - skipped);
            copy_runs(run, 1, from, 0, to, 0);
            (from, to, left) = (from.wrapping_add(run), to.wrapping_add(run + gap), left - run);
        }
        let runs = left / part.len;
        copy_runs(part.len, runs, from, part.len as isize, to, part.period);
        let (from, to) = (from.wrapping_add(runs * part.len), to.wrapping_add(runs * part.period));
        copy_runs(left % part.len, 1, from, 0, to, 0);
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::Shape;

    use super::*;

    #[test]
    fn puts_any_range_of_any_part() {
        for (period, start, len) in
            [(5, 0, 2), (5, 2, 3), (7, 2, 3), (4, 0, 4), (30, 10, 19), (9, 8, 1), (16, 8, 8), (16, 0, 8)]
        {
            let part = Part { shape: Shape::new(&[4, len]), period, start, len };
            let mut own = 0u32..;
            let whole: Vec<u32> = (0..4 * period)
                .map(|p| if (start..start + len).contains(&(p % period)) { own.next().unwrap() } else { u32::MAX })
                .collect();
            let elements: Vec<u32> = (0..4 * len as u32).collect();
            for from in 0..whole.len() {
                for to in from..=whole.len() {
                    let mut tile = vec![u32::MAX; to - from];
                    let first = &elements[part.before(from)..part.before(to)];
                    // SAFETY: the elements are those of the part among the positions of the tile.
                    unsafe { place(&part, from, to - from, 4, first.as_ptr().cast(), tile.as_mut_ptr().cast()) };
                    assert_eq!(tile, whole[from..to], "{part:?} {from}..{to}");
                }
            }
        }
    }
}
