//! Cross-entropy of rows of logits, and its gradient, in two passes over a row that stays near the core.
//!
//! ENTROPY-1: a row is summed in [`LANES`] lanes folded by halves, so its bits depend on its values alone.

use std::slice::{from_raw_parts, from_raw_parts_mut};

use gt_ir::{Failure, FailureKind};

use super::{Dst, Shared, Src, split};
use crate::math::exp_f32;
use crate::pool::Pool;
use crate::simd::instantiate;

const LANES: usize = 16;
/// Elements a thread should at least get.
const GRAIN: usize = 16 << 10;

trait RowLoop {
    unsafe fn run(x: *const f32, n: usize, log: *mut f32);
}
trait GradLoop {
    unsafe fn run(x: *const f32, n: usize, log: f32, g: f32, out: *mut f32);
}
instantiate!(row_kernel, RowLoop, (x: *const f32, n: usize, log: *mut f32));
instantiate!(grad_kernel, GradLoop, (x: *const f32, n: usize, log: f32, g: f32, out: *mut f32));

struct LogSumExp;
struct AwayFromOwn;

impl RowLoop for LogSumExp {
    #[inline(always)]
    unsafe fn run(x: *const f32, n: usize, log: *mut f32) {
        // SAFETY: the caller gives `n` elements.
        let row = unsafe { from_raw_parts(x, n) };
        let (chunks, tail) = row.as_chunks::<LANES>();
        let mut tops = [f32::NEG_INFINITY; LANES];
        for chunk in chunks {
            for k in 0..LANES {
                tops[k] = if chunk[k] > tops[k] { chunk[k] } else { tops[k] };
            }
        }
        let top = tops.iter().chain(tail).fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
        let mut sums = [0f32; LANES];
        for chunk in chunks {
            for k in 0..LANES {
                sums[k] += exp_f32(chunk[k] - top);
            }
        }
        let mut last = [f32::NEG_INFINITY; LANES];
        last[..tail.len()].copy_from_slice(tail);
        // Lanes beyond the row add exp(-inf) = 0, also where the row itself has nothing finite.
        for k in 0..tail.len() {
            sums[k] += exp_f32(last[k] - top);
        }
        let total: f64 = sums.iter().map(|&s| s as f64).sum();
        // SAFETY: the caller gives room for one result.
        unsafe { *log = (total.ln() + top as f64) as f32 };
    }
}

impl GradLoop for AwayFromOwn {
    #[inline(always)]
    unsafe fn run(x: *const f32, n: usize, log: f32, g: f32, out: *mut f32) {
        let whole = n / LANES * LANES;
        for at in (0..whole).step_by(LANES) {
            // SAFETY: the caller gives `n` elements and room for as many; a chunk is read before its place is written, so
            // both may be the same memory.
            unsafe {
                let chunk: [f32; LANES] = x.add(at).cast::<[f32; LANES]>().read();
                let mut result = [0f32; LANES];
                for k in 0..LANES {
                    result[k] = exp_f32(chunk[k] - log) * g;
                }
                out.add(at).cast::<[f32; LANES]>().write(result);
            }
        }
        for at in whole..n {
            // SAFETY: as above.
            unsafe { *out.add(at) = exp_f32(*x.add(at) - log) * g };
        }
    }
}

/// Fails with the first class index that is none of `0..n`; `ignore` may be anything.
fn check_classes(classes: &Src, n: usize, ignore: i64) -> Result<(), Failure> {
    let (start, step) = (classes.start::<i64>(), classes.layout.strides.first().copied().unwrap_or(0));
    for row in 0..classes.layout.shape[0] {
        // SAFETY: KERNEL-3, inside the layout.
        let class = unsafe { *start.offset(row as isize * step as isize) };
        if class != ignore && !(0..n as i64).contains(&class) {
            return Err(Failure::in_input(FailureKind::Index, 1, format!("Target {class} is out of bounds.")));
        }
    }
    Ok(())
}

/// The losses of rows and the logarithms of their sums; the logits' last axis is packed.
pub fn cross_entropy(pool: &Pool, logits: Src, classes: Src, loss: Dst, log: Dst, ignore: i64) -> Result<(), Failure> {
    let (rows, n) = (logits.layout.shape[0], logits.layout.shape[1]);
    check_classes(&classes, n, ignore)?;
    let (x, step) = (Shared::read(logits.start::<f32>()), logits.layout.strides[0] as isize);
    let (c, c_step) = (Shared::read(classes.start::<i64>()), classes.layout.strides[0] as isize);
    let (loss, log) = (Shared(loss.start::<f32>()), Shared(log.start::<f32>()));
    let kernel = row_kernel::<LogSumExp>();
    split(pool, rows, GRAIN / n.max(1), &|range| {
        for row in range {
            // SAFETY: KERNEL-3: every row is inside its operand, and written by one thread.
            unsafe {
                let x = x.get().offset(row as isize * step);
                let class = *c.get().offset(row as isize * c_step);
                let log = log.get().add(row);
                kernel(x, n, log);
                *loss.get().add(row) = if class == ignore { 0.0 } else { *log - *x.offset(class as isize) };
            }
        }
    });
    Ok(())
}

/// The gradient of the logits, whose last axis is packed; `out` may be where the logits lie.
#[allow(clippy::too_many_arguments)]
pub fn cross_entropy_grad(
    pool: &Pool,
    logits: Src,
    classes: Src,
    log: Src,
    grad: Src,
    out: Dst,
    ignore: i64,
) -> Result<(), Failure> {
    let (rows, n) = (logits.layout.shape[0], logits.layout.shape[1]);
    check_classes(&classes, n, ignore)?;
    let (x, step) = (Shared::read(logits.start::<f32>()), logits.layout.strides[0] as isize);
    let (c, c_step) = (Shared::read(classes.start::<i64>()), classes.layout.strides[0] as isize);
    let (l, l_step) = (Shared::read(log.start::<f32>()), log.layout.strides[0] as isize);
    let (g, g_step) = (Shared::read(grad.start::<f32>()), grad.layout.strides[0] as isize);
    let out = Shared(out.start::<f32>());
    let kernel = grad_kernel::<AwayFromOwn>();
    split(pool, rows, GRAIN / n.max(1), &|range| {
        for row in range {
            // SAFETY: KERNEL-3: every row is inside its operand, and written by one thread.
            unsafe {
                let class = *c.get().offset(row as isize * c_step);
                let log = *l.get().offset(row as isize * l_step);
                let g = if class == ignore { 0.0 } else { *g.get().offset(row as isize * g_step) };
                let to = out.get().add(row * n);
                let own = *x.get().offset(row as isize * step + if class == ignore { 0 } else { class as isize });
                kernel(x.get().offset(row as isize * step), n, log, g, to);
                if class != ignore {
                    from_raw_parts_mut(to, n)[class as usize] = (exp_f32(own - log) - 1.0) * g;
                }
            }
        }
    });
    Ok(())
}
