//! Functions of two numbers of one dtype.

use super::{Accepts, CBodies, CompareKind, UnaryKind};
use crate::attr::choice;
use crate::{Emit, OpError, Operand, Saves, Val};

choice! {
    /// A function of two numbers.
    #[allow(missing_docs)]
    pub enum BinaryKind {
        Add = "add", Sub = "sub", Mul = "mul", Div = "div", FloorDiv = "floor_divide",
        Rem = "remainder", Fmod = "fmod", Pow = "pow", Max = "maximum", Min = "minimum",
        Atan2 = "atan2", And = "bitwise_and", Or = "bitwise_or", Xor = "bitwise_xor",
        Shl = "left_shift", Shr = "right_shift",
    }
}

/// What a gradient rule gets: the gradient of the output, both operands and the output as far as
/// they were kept.
pub struct BinaryCx {
    /// The gradient of the output.
    pub g: Val,
    /// The left operand.
    pub a: Option<Operand>,
    /// The right operand.
    pub b: Option<Operand>,
    /// The output.
    pub y: Option<Val>,
}

impl BinaryCx {
    fn a(&self) -> Result<Operand, OpError> {
        self.a.ok_or_else(|| OpError::argument("the gradient needs the left operand"))
    }
    fn b(&self) -> Result<Operand, OpError> {
        self.b.ok_or_else(|| OpError::argument("the gradient needs the right operand"))
    }
    fn y(&self) -> Result<Val, OpError> {
        self.y.ok_or_else(|| OpError::argument("the gradient needs the output"))
    }
}

/// The gradient of one operand, before broadcasting is undone.
pub type BinaryGrad = fn(&mut dyn Emit, &BinaryCx) -> Result<Val, OpError>;

/// One row.
pub struct BinaryRow {
    /// On floats.
    pub f64: fn(f64, f64) -> f64,
    /// On integers (and bool as 0 and 1), wrapping; a divisor of zero gives zero.
    pub i64: fn(i64, i64) -> i64,
    /// In C.
    pub c: CBodies,
    /// The dtypes it takes.
    pub accepts: Accepts,
    /// What the gradient of the left operand needs (bit 0 and 1 of `ins`: left and right).
    pub saves_left: Saves,
    /// What the gradient of the right operand needs.
    pub saves_right: Saves,
    /// The gradient of the left operand.
    pub left: Option<BinaryGrad>,
    /// The gradient of the right operand.
    pub right: Option<BinaryGrad>,
    /// Arithmetic operations an element costs, roughly.
    pub flops: u64,
}

const A: Saves = Saves::ins(1);
const B: Saves = Saves::ins(2);
const AB: Saves = Saves::ins(3);

impl BinaryKind {
    /// The row of this function.
    pub fn row(self) -> BinaryRow {
        use BinaryKind::*;
        let bits = |i64, c| BinaryRow {
            f64: |_, _| f64::NAN,
            i64,
            c: CBodies::int(c),
            accepts: Accepts::Bits,
            saves_left: Saves::NONE,
            saves_right: Saves::NONE,
            left: None,
            right: None,
            flops: 1,
        };
        let flat = |f64, i64, c: CBodies, accepts| BinaryRow {
            f64,
            i64,
            c,
            accepts,
            saves_left: Saves::NONE,
            saves_right: Saves::NONE,
            left: None,
            right: None,
            flops: 4,
        };
        match self {
            Add => BinaryRow {
                f64: |x, y| x + y,
                i64: |x, y| x.wrapping_add(y),
                c: CBodies::both("return x + y;", "return (int64_t)((uint64_t)x + (uint64_t)y);"),
                accepts: Accepts::All,
                saves_left: Saves::NONE,
                saves_right: Saves::NONE,
                left: Some(|_, c| Ok(c.g)),
                right: Some(|_, c| Ok(c.g)),
                flops: 1,
            },
            Sub => BinaryRow {
                f64: |x, y| x - y,
                i64: |x, y| x.wrapping_sub(y),
                c: CBodies::both("return x - y;", "return (int64_t)((uint64_t)x - (uint64_t)y);"),
                accepts: Accepts::Numbers,
                saves_left: Saves::NONE,
                saves_right: Saves::NONE,
                left: Some(|_, c| Ok(c.g)),
                right: Some(|e, c| e.neg(c.g)),
                flops: 1,
            },
            Mul => BinaryRow {
                f64: |x, y| x * y,
                i64: |x, y| x.wrapping_mul(y),
                c: CBodies::both("return x * y;", "return (int64_t)((uint64_t)x * (uint64_t)y);"),
                accepts: Accepts::All,
                saves_left: B,
                saves_right: A,
                left: Some(|e, c| e.mul(c.g, c.b()?)),
                right: Some(|e, c| e.mul(c.g, c.a()?)),
                flops: 1,
            },
            Div => BinaryRow {
                f64: |x, y| x / y,
                i64: |_, _| 0,
                c: CBodies::float("return x / y;"),
                accepts: Accepts::Floats,
                saves_left: B,
                saves_right: AB,
                left: Some(|e, c| e.div(c.g, c.b()?)),
                right: Some(|e, c| {
                    let q = e.div(c.a()?, c.b()?)?;
                    let qb = e.div(q, c.b()?)?;
                    let gq = e.mul(c.g, qb)?;
                    e.neg(gq)
                }),
                flops: 4,
            },
            FloorDiv => flat(
                python_floor_div,
                |x, y| {
                    if y == 0 {
                        0
                    } else {
                        x.wrapping_div(y) - ((x.wrapping_rem(y) != 0) & ((x < 0) != (y < 0))) as i64
                    }
                },
                CBodies::both(
                    "if (y == 0) return x / y; T r = fmod(x, y), q = (x - r) / y; \
                     return rint(r != 0 && (r < 0) != (y < 0) ? q - 1 : q);",
                    "if (y == 0) return 0; if (y == -1) return (int64_t)(0 - (uint64_t)x); \
                     return x / y - (x % y != 0 && (x < 0) != (y < 0));",
                ),
                Accepts::Numbers,
            ),
            Rem => BinaryRow {
                f64: python_rem,
                i64: |x, y| {
                    if y == 0 {
                        return 0;
                    }
                    let r = x.wrapping_rem(y);
                    if r != 0 && (r < 0) != (y < 0) { r + y } else { r }
                },
                c: CBodies::both(
                    "T r = fmod(x, y); return r != 0 && (r < 0) != (y < 0) ? r + y : r;",
                    "if (y == 0 || y == -1) return 0; int64_t r = x % y; \
                     return r != 0 && (r < 0) != (y < 0) ? r + y : r;",
                ),
                accepts: Accepts::Numbers,
                saves_left: Saves::NONE,
                saves_right: AB,
                left: Some(|_, c| Ok(c.g)),
                right: Some(|e, c| {
                    let q = e.binary(FloorDiv, c.a()?, c.b()?)?;
                    let gq = e.mul(c.g, q)?;
                    e.neg(gq)
                }),
                flops: 6,
            },
            Fmod => BinaryRow {
                f64: |x, y| x % y,
                i64: |x, y| if y == 0 { 0 } else { x.wrapping_rem(y) },
                c: CBodies::both("return fmod(x, y);", "return y == 0 || y == -1 ? 0 : x % y;"),
                accepts: Accepts::Numbers,
                saves_left: Saves::NONE,
                saves_right: AB,
                left: Some(|_, c| Ok(c.g)),
                right: Some(|e, c| {
                    // The whole quotient, from what the remainder leaves: a / b itself may round up to the next one.
                    let r = e.binary(Fmod, c.a()?, c.b()?)?;
                    let whole = e.sub(c.a()?, r)?;
                    let q = e.div(whole, c.b()?)?;
                    let t = e.unary(UnaryKind::Round, q)?;
                    let gt = e.mul(c.g, t)?;
                    e.neg(gt)
                }),
                flops: 6,
            },
            Pow => BinaryRow {
                f64: f64::powf,
                i64: int_pow,
                c: CBodies::both(
                    "return pow(x, y);",
                    "if (x == 1) return 1; if (x == -1) return y & 1 ? -1 : 1; if (y < 0) return 0; \
                     uint64_t base = (uint64_t)x, out = 1; \
                     for (uint64_t left = (uint64_t)y; left > 0; left >>= 1) { if (left & 1) out *= base; base *= base; } \
                     return (int64_t)out;",
                ),
                accepts: Accepts::Numbers,
                saves_left: AB,
                saves_right: Saves { ins: 3, outs: 1 },
                left: Some(|e, c| {
                    // d/da a^b = b·a^(b-1), and 0 where b is 0 whatever a is.
                    let (a, b) = (c.a()?, c.b()?);
                    let slope = match b {
                        Operand::Num(n) if n.as_f64() == 0.0 => {
                            let ty = e.ty(c.g);
                            return e.fill(ty, 0.0);
                        }
                        Operand::Num(n) => {
                            let p = e.binary(Pow, a, n.as_f64() - 1.0)?;
                            e.mul(p, b)?
                        }
                        Operand::Val(bv) => {
                            let b1 = e.sub(bv, 1.0)?;
                            let p = e.binary(Pow, a, b1)?;
                            let s = e.mul(p, bv)?;
                            let zero = e.compare(CompareKind::Eq, bv, 0.0)?;
                            let dtype = e.ty(c.g).dtype;
                            e.select(zero, 0.0, s, dtype)?
                        }
                    };
                    e.mul(c.g, slope)
                }),
                right: Some(|e, c| {
                    // d/db a^b = a^b·ln a, and 0 where a is 0 and b is not negative.
                    let (a, b, y) = (c.a()?, c.b()?, c.y()?);
                    let dtype = e.ty(c.g).dtype;
                    let slope = match a {
                        Operand::Num(n) => e.mul(y, n.as_f64().ln())?,
                        Operand::Val(av) => {
                            let ln = e.unary(UnaryKind::Log, av)?;
                            e.mul(y, ln)?
                        }
                    };
                    let flat = match (a, b) {
                        (Operand::Num(n), b) if n.as_f64() == 0.0 => Some(e.compare(CompareKind::Ge, b, 0.0)?),
                        (Operand::Val(av), Operand::Val(bv)) => {
                            let zero = e.compare(CompareKind::Eq, av, 0.0)?;
                            let not_negative = e.compare(CompareKind::Ge, bv, 0.0)?;
                            Some(e.binary(And, zero, not_negative)?)
                        }
                        _ => None,
                    };
                    let slope = match flat {
                        Some(flat) => e.select(flat, 0.0, slope, dtype)?,
                        None => slope,
                    };
                    e.mul(c.g, slope)
                }),
                flops: 30,
            },
            Max => BinaryRow {
                f64: |x, y| if x.is_nan() || x > y { x } else { y },
                i64: |x, y| x.max(y),
                c: CBodies::both("return x != x || x > y ? x : y;", "return x > y ? x : y;"),
                accepts: Accepts::All,
                saves_left: AB,
                saves_right: AB,
                left: Some(|e, c| share(e, c.g, c.a()?, c.b()?, CompareKind::Lt)),
                right: Some(|e, c| share(e, c.g, c.b()?, c.a()?, CompareKind::Lt)),
                flops: 1,
            },
            Min => BinaryRow {
                f64: |x, y| if x.is_nan() || x < y { x } else { y },
                i64: |x, y| x.min(y),
                c: CBodies::both("return x != x || x < y ? x : y;", "return x < y ? x : y;"),
                accepts: Accepts::All,
                saves_left: AB,
                saves_right: AB,
                left: Some(|e, c| share(e, c.g, c.a()?, c.b()?, CompareKind::Gt)),
                right: Some(|e, c| share(e, c.g, c.b()?, c.a()?, CompareKind::Gt)),
                flops: 1,
            },
            Atan2 => BinaryRow {
                f64: f64::atan2,
                i64: |_, _| 0,
                c: CBodies::float("return atan2(x, y);"),
                accepts: Accepts::Floats,
                saves_left: AB,
                saves_right: AB,
                left: Some(|e, c| {
                    let d = square_sum(e, c)?;
                    let q = e.div(c.b()?, d)?;
                    e.mul(c.g, q)
                }),
                right: Some(|e, c| {
                    let d = square_sum(e, c)?;
                    let q = e.div(c.a()?, d)?;
                    let gq = e.mul(c.g, q)?;
                    e.neg(gq)
                }),
                flops: 24,
            },
            And => bits(|x, y| x & y, "return x & y;"),
            Or => bits(|x, y| x | y, "return x | y;"),
            Xor => bits(|x, y| x ^ y, "return x ^ y;"),
            Shl => BinaryRow {
                accepts: Accepts::Ints,
                ..bits(
                    |x, y| if (0..64).contains(&y) { x << y } else { 0 },
                    "return y >= 0 && y < 64 ? (int64_t)((uint64_t)x << y) : 0;",
                )
            },
            Shr => BinaryRow {
                accepts: Accepts::Ints,
                ..bits(
                    |x, y| x >> if (0..64).contains(&y) { y } else { 63 },
                    "return x >> (y >= 0 && y < 64 ? y : 63);",
                )
            },
        }
    }
}

/// The remainder with the sign of the divisor.
fn python_rem(x: f64, y: f64) -> f64 {
    let r = x % y;
    if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
}

/// The quotient that goes with [`python_rem`], also where the divisor is infinite.
fn python_floor_div(x: f64, y: f64) -> f64 {
    if y == 0.0 {
        return x / y;
    }
    let r = x % y;
    let q = (x - r) / y;
    let below = r != 0.0 && (r < 0.0) != (y < 0.0);
    (if below { q - 1.0 } else { q }).round_ties_even()
}

/// Integer power, wrapping; a negative exponent gives 0 except for ±1.
fn int_pow(x: i64, y: i64) -> i64 {
    match (x, y) {
        (1, _) => 1,
        (-1, y) => {
            if y & 1 == 0 {
                1
            } else {
                -1
            }
        }
        (_, y) if y < 0 => 0,
        (x, y) => {
            let (mut base, mut exp, mut out) = (x, y as u64, 1i64);
            while exp > 0 {
                if exp & 1 == 1 {
                    out = out.wrapping_mul(base);
                }
                base = base.wrapping_mul(base);
                exp >>= 1;
            }
            out
        }
    }
}

/// The gradient of one operand of an extreme: all of it unless the operand lost, half on a tie. Where one is NaN, neither
/// lost, and both get all of it.
fn share(e: &mut dyn Emit, g: Val, mine: Operand, other: Operand, loses: CompareKind) -> Result<Val, OpError> {
    let dtype = e.ty(g).dtype;
    let lost = e.compare(loses, mine, other)?;
    let tied = e.compare(CompareKind::Eq, mine, other)?;
    let half = e.mul(g, 0.5)?;
    let not_lost = e.select(tied, half, g, dtype)?;
    e.select(lost, 0.0, not_lost, dtype)
}

/// The square of the distance to the origin, infinite at the origin itself: there `atan2` has no slope.
fn square_sum(e: &mut dyn Emit, c: &BinaryCx) -> Result<Val, OpError> {
    let (a, b) = (c.a()?, c.b()?);
    let square = |e: &mut dyn Emit, o: Operand| match o {
        Operand::Val(v) => e.mul(v, v).map(Operand::Val),
        Operand::Num(n) => Ok(Operand::Num((n.as_f64() * n.as_f64()).into())),
    };
    let (aa, bb) = (square(e, a)?, square(e, b)?);
    let sum = e.add(aa, bb)?;
    let origin = e.compare(CompareKind::Eq, sum, 0.0)?;
    let dtype = e.ty(sum).dtype;
    e.select(origin, f64::INFINITY, sum, dtype)
}
