//! Two additions, subtractions or multiplications of f32 in one loop.
//!
//! Cheap loops are bound by loads and stores of the tile between them, and most of what optimizers, norms and gradients do is
//! made of these three. Each of the two operations rounds by itself, so the bits are those of two loops.

use std::marker::PhantomData;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use gt_ir::rows::BinaryKind;

use super::kernel::{Kernel, TileLoop, kernel};

/// One of the two operations, with the tile that comes through on the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Half {
    /// Which.
    pub op: PairOp,
    /// Whether the other operand is a constant.
    pub constant: bool,
}

/// An operation that pairs are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairOp {
    /// `x + y`.
    Add,
    /// `x - y`.
    Sub,
    /// `y - x`.
    SubFrom,
    /// `x * y`.
    Mul,
}

impl PairOp {
    /// The operation of a row whose left operand, or if `swapped` its right one, is `x`.
    pub fn of(kind: BinaryKind, swapped: bool) -> Option<PairOp> {
        match (kind, swapped) {
            (BinaryKind::Add, _) => Some(PairOp::Add),
            (BinaryKind::Mul, _) => Some(PairOp::Mul),
            (BinaryKind::Sub, false) => Some(PairOp::Sub),
            (BinaryKind::Sub, true) => Some(PairOp::SubFrom),
            _ => None,
        }
    }
}

trait Function {
    fn f(x: f32, y: f32) -> f32;
}

macro_rules! functions {
    ($($name:ident |$x:ident, $y:ident| $body:expr),*) => {$(
        struct $name;
        impl Function for $name {
            #[inline(always)]
            fn f($x: f32, $y: f32) -> f32 {
                $body
            }
        }
    )*};
}
functions!(Add | x, y | x + y, Sub | x, y | x - y, SubFrom | x, y | y - x, Mul | x, y | x * y);

/// `G(F(a, b), c)`, where `b` and `c` may be constants.
struct Pair<F, G, const B: bool, const C: bool>(PhantomData<(F, G)>);

impl<F: Function, G: Function, const B: bool, const C: bool> TileLoop for Pair<F, G, B, C> {
    #[inline(always)]
    unsafe fn run(n: usize, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8) {
        let count = |constant: bool| if constant { 1 } else { n };
        // SAFETY: the caller gives `n` elements, or one where the operand is a constant, and room for `n`.
        let dst = unsafe { from_raw_parts_mut(dst.cast::<f32>(), n) };
        // SAFETY: as above.
        let a = unsafe { from_raw_parts(a.cast::<f32>(), n) };
        // SAFETY: as above.
        let (b, c) = unsafe { (from_raw_parts(b.cast::<f32>(), count(B)), from_raw_parts(c.cast::<f32>(), count(C))) };
        match (B, C) {
            (false, false) => {
                for (((d, &x), &y), &z) in dst.iter_mut().zip(a).zip(b).zip(c) {
                    *d = G::f(F::f(x, y), z);
                }
            }
            (true, false) => {
                let y = b[0];
                for ((d, &x), &z) in dst.iter_mut().zip(a).zip(c) {
                    *d = G::f(F::f(x, y), z);
                }
            }
            (false, true) => {
                let z = c[0];
                for ((d, &x), &y) in dst.iter_mut().zip(a).zip(b) {
                    *d = G::f(F::f(x, y), z);
                }
            }
            (true, true) => {
                let (y, z) = (b[0], c[0]);
                for (d, &x) in dst.iter_mut().zip(a) {
                    *d = G::f(F::f(x, y), z);
                }
            }
        }
    }
}

/// The loop that does both.
pub fn pair(first: Half, second: Half) -> Kernel {
    fn constants<F: Function, G: Function>(first: bool, second: bool) -> Kernel {
        match (first, second) {
            (false, false) => kernel::<Pair<F, G, false, false>>(),
            (false, true) => kernel::<Pair<F, G, false, true>>(),
            (true, false) => kernel::<Pair<F, G, true, false>>(),
            (true, true) => kernel::<Pair<F, G, true, true>>(),
        }
    }
    fn then<F: Function>(first: Half, second: Half) -> Kernel {
        match second.op {
            PairOp::Add => constants::<F, Add>(first.constant, second.constant),
            PairOp::Sub => constants::<F, Sub>(first.constant, second.constant),
            PairOp::SubFrom => constants::<F, SubFrom>(first.constant, second.constant),
            PairOp::Mul => constants::<F, Mul>(first.constant, second.constant),
        }
    }
    match first.op {
        PairOp::Add => then::<Add>(first, second),
        PairOp::Sub => then::<Sub>(first, second),
        PairOp::SubFrom => then::<SubFrom>(first, second),
        PairOp::Mul => then::<Mul>(first, second),
    }
}
