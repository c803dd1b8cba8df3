//! Functions of two numbers of one dtype.

use super::{Accepts, CBodies, CompareKind, Surface, UnaryKind, special, surface_setters};
use crate::{Domain, Emit, OpError, Operand, Saves, Val};

/// Every function of two numbers, in the order of the wire codes: hands the list to the macro of that name.
///
/// Lines are as those of [`unary_rows`](crate::unary_rows), but that the name of the second operand follows in parentheses,
/// and before it what it may be: `tensor`, or `any` for a tensor or a number.
#[macro_export]
macro_rules! binary_rows {
    ($each:ident) => {
        $each! {
            Add "add" [];
            Sub "sub" [];
            Mul "mul" [mul mul_, multiply multiply_] (any other) "input · other",
                "gt.mul(gt.tensor([1, 2]), 10)" => "tensor([10, 20])";
            Div "div" [true_divide true_divide_] (any other) "input / other",
                "gt.true_divide(gt.tensor([7]), 2)" => "tensor([3.5000])";
            FloorDiv "floor_divide" [floor_divide floor_divide_] (any other) "The quotient rounded down",
                "gt.floor_divide(gt.tensor([7]), 2)" => "tensor([3])";
            Rem "remainder" [remainder remainder_] (any other) "The remainder, with the sign of `other`",
                "gt.remainder(gt.tensor([-7]), 3)" => "tensor([2])";
            Fmod "fmod" [fmod fmod_] (any other) "The remainder, with the sign of `input`",
                "gt.fmod(gt.tensor([-7]), 3)" => "tensor([-1])";
            Pow "pow" [pow pow_] (any exponent) "input to the power of `exponent`; a number may be first",
                "gt.pow(2, gt.tensor([3]))" => "tensor([8])";
            Max "maximum" [maximum maximum_] (tensor other) "The larger elements",
                "gt.maximum(gt.tensor([1, 4]), gt.tensor([3, 2]))" => "tensor([3, 4])";
            Min "minimum" [minimum minimum_] (tensor other) "The smaller elements",
                "gt.minimum(gt.tensor([1, 4]), gt.tensor([3, 2]))" => "tensor([1, 2])";
            Atan2 "atan2" [atan2 atan2_, arctan2 arctan2_] (tensor other) "The angle of the point (other, input)",
                "gt.atan2(gt.tensor([1.0]), gt.tensor([1.0]))" => "tensor([0.7854])";
            And "bitwise_and" [bitwise_and bitwise_and_] (any other) "input & other",
                "gt.bitwise_and(gt.tensor([6]), 3)" => "tensor([2])";
            Or "bitwise_or" [bitwise_or bitwise_or_] (any other) "input | other",
                "gt.bitwise_or(gt.tensor([6]), 3)" => "tensor([7])";
            Xor "bitwise_xor" [bitwise_xor bitwise_xor_] (any other) "input ^ other",
                "gt.bitwise_xor(gt.tensor([6]), 3)" => "tensor([5])";
            Shl "left_shift" [bitwise_left_shift bitwise_left_shift_] (any other) "input << other",
                "gt.bitwise_left_shift(gt.tensor([1]), 3)" => "tensor([8])";
            Shr "right_shift" [bitwise_right_shift bitwise_right_shift_] (any other) "input >> other",
                "gt.bitwise_right_shift(gt.tensor([8]), 3)" => "tensor([1])";
            NextAfter "nextafter" [nextafter nextafter_] (tensor other) "The number next to `input` towards `other`",
                "gt.nextafter(gt.tensor([1.0]), gt.tensor([2.0])) > 1" => "tensor([True])";
            Polygamma "polygamma" [];
        }
    };
}

macro_rules! binary_kinds {
    ($($rows:tt)*) => {
        kinds!(BinaryKind "A function of two numbers." $($rows)*);
    };
}

binary_rows!(binary_kinds);

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
#[derive(Clone, Copy)]
pub struct BinaryRow {
    /// On floats.
    pub f64: fn(f64, f64) -> f64,
    /// On float32, where that is not the function on float64, rounded.
    pub f32: Option<fn(f32, f32) -> f32>,
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
    /// Where tests take floats from, left and right.
    pub domains: (Domain, Domain),
    /// The same for integers.
    pub int_domains: (Domain, Domain),
    /// What tests put in the place of an operand, if not any number will do.
    pub scalar: Option<i64>,
    /// What users see of it besides its names, and how it is tested.
    pub surface: Surface,
}

const A: Saves = Saves::ins(1);
const B: Saves = Saves::ins(2);
const AB: Saves = Saves::ins(3);

/// A function whose slope is zero.
const fn flat(f64: fn(f64, f64) -> f64, i64: fn(i64, i64) -> i64, c: CBodies, accepts: Accepts) -> BinaryRow {
    BinaryRow {
        f64,
        f32: None,
        i64,
        c,
        accepts,
        saves_left: Saves::NONE,
        saves_right: Saves::NONE,
        left: None,
        right: None,
        flops: 1,
        domains: (Domain::Any, Domain::Any),
        int_domains: (Domain::Any, Domain::Any),
        scalar: None,
        surface: Surface::EXACT,
    }
}

const fn bits(i64: fn(i64, i64) -> i64, c: &'static str) -> BinaryRow {
    flat(|_, _| f64::NAN, i64, CBodies::int(c), Accepts::Bits)
}

const fn float(f64: fn(f64, f64) -> f64, c: &'static str, flops: u64) -> BinaryRow {
    BinaryRow { flops, ..flat(f64, |_, _| 0, CBodies::float(c), Accepts::Floats) }
}

const fn number(
    f64: fn(f64, f64) -> f64,
    i64: fn(i64, i64) -> i64,
    c: [&'static str; 2],
    accepts: Accepts,
) -> BinaryRow {
    flat(f64, i64, CBodies::both(c[0], c[1]), accepts)
}

impl BinaryRow {
    /// Whether floats of every dtype give floats of the same dtype.
    #[inline]
    pub const fn keeps_floats(&self) -> bool {
        self.accepts.takes_every_float()
    }
    const fn on(self, left: Domain, right: Domain) -> Self {
        BinaryRow { domains: (left, right), int_domains: (left, right), ..self }
    }
    const fn near(self, ulps: f64) -> Self {
        self.with(Surface { ulps, ..self.surface })
    }
    const fn with(self, surface: Surface) -> Self {
        BinaryRow { surface, ..self }
    }
    surface_setters!();
}

table!(BinaryKind, BinaryRow);

impl BinaryKind {
    const fn make(self) -> BinaryRow {
        use BinaryKind::*;
        use Domain::{AboveOne, Any, Distinct, Index, NonZero, Positive};
        match self {
            Add => BinaryRow {
                left: Some(|_, c| Ok(c.g)),
                right: Some(|_, c| Ok(c.g)),
                ..number(
                    |x, y| x + y,
                    |x, y| x.wrapping_add(y),
                    ["return x + y;", "return (int64_t)((uint64_t)x + (uint64_t)y);"],
                    Accepts::All,
                )
            }
            .numpy("x + y"),
            Sub => BinaryRow {
                left: Some(|_, c| Ok(c.g)),
                right: Some(|e, c| e.neg(c.g)),
                ..number(
                    |x, y| x - y,
                    |x, y| x.wrapping_sub(y),
                    ["return x - y;", "return (int64_t)((uint64_t)x - (uint64_t)y);"],
                    Accepts::Numbers,
                )
            }
            .numpy("x - y"),
            Mul => BinaryRow {
                saves_left: B,
                saves_right: A,
                left: Some(|e, c| e.mul(c.g, c.b()?)),
                right: Some(|e, c| e.mul(c.g, c.a()?)),
                ..number(
                    |x, y| x * y,
                    |x, y| x.wrapping_mul(y),
                    ["return x * y;", "return (int64_t)((uint64_t)x * (uint64_t)y);"],
                    Accepts::All,
                )
            }
            .numpy("x * y"),
            Div => BinaryRow {
                saves_left: B,
                saves_right: AB,
                left: Some(|e, c| e.div(c.g, c.b()?)),
                right: Some(|e, c| {
                    let q = e.div(c.a()?, c.b()?)?;
                    let qb = e.div(q, c.b()?)?;
                    let gq = e.mul(c.g, qb)?;
                    e.neg(gq)
                }),
                ..float(|x, y| x / y, "return x / y;", 4)
            }
            .on(NonZero, NonZero)
            .numpy("x / y"),
            FloorDiv => BinaryRow {
                flops: 4,
                ..flat(
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
                )
            }
            .on(NonZero, NonZero)
            .near(4.0),
            Rem => BinaryRow {
                saves_right: AB,
                left: Some(|_, c| Ok(c.g)),
                right: Some(|e, c| {
                    let q = e.binary(FloorDiv, c.a()?, c.b()?)?;
                    let gq = e.mul(c.g, q)?;
                    e.neg(gq)
                }),
                flops: 6,
                ..number(
                    python_rem,
                    |x, y| {
                        if y == 0 {
                            return 0;
                        }
                        let r = x.wrapping_rem(y);
                        if r != 0 && (r < 0) != (y < 0) { r + y } else { r }
                    },
                    [
                        "T r = fmod(x, y); return r != 0 && (r < 0) != (y < 0) ? r + y : r;",
                        "if (y == 0 || y == -1) return 0; int64_t r = x % y; \
                     return r != 0 && (r < 0) != (y < 0) ? r + y : r;",
                    ],
                    Accepts::Numbers,
                )
            }
            .on(NonZero, NonZero)
            .near(4.0),
            Fmod => BinaryRow {
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
                ..number(
                    |x, y| x % y,
                    |x, y| if y == 0 { 0 } else { x.wrapping_rem(y) },
                    ["return fmod(x, y);", "return y == 0 || y == -1 ? 0 : x % y;"],
                    Accepts::Numbers,
                )
            }
            .on(NonZero, NonZero),
            Pow => BinaryRow {
                domains: (Positive, Any),
                int_domains: (Any, Index(4)),
                scalar: Some(2),
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
                ..number(
                    f64::powf,
                    int_pow,
                    [
                        "return pow(x, y);",
                        "if (x == 1) return 1; if (x == -1) return y & 1 ? -1 : 1; if (y < 0) return 0; \
                     uint64_t base = (uint64_t)x, out = 1; \
                     for (uint64_t left = (uint64_t)y; left > 0; left >>= 1) { \
                     if (left & 1) out *= base; base *= base; } \
                     return (int64_t)out;",
                    ],
                    Accepts::Numbers,
                )
            }
            .numpy("np.power(x, y)")
            .near(8.0)
            .autocast(),
            Max => BinaryRow {
                saves_left: AB,
                saves_right: AB,
                left: Some(|e, c| share(e, c.g, c.a()?, c.b()?, CompareKind::Lt)),
                right: Some(|e, c| share(e, c.g, c.b()?, c.a()?, CompareKind::Lt)),
                ..number(
                    |x, y| if x.is_nan() || x > y { x } else { y },
                    |x, y| x.max(y),
                    ["return x != x || x > y ? x : y;", "return x > y ? x : y;"],
                    Accepts::All,
                )
            }
            .on(Distinct, Any),
            Min => BinaryRow {
                saves_left: AB,
                saves_right: AB,
                left: Some(|e, c| share(e, c.g, c.a()?, c.b()?, CompareKind::Gt)),
                right: Some(|e, c| share(e, c.g, c.b()?, c.a()?, CompareKind::Gt)),
                ..number(
                    |x, y| if x.is_nan() || x < y { x } else { y },
                    |x, y| x.min(y),
                    ["return x != x || x < y ? x : y;", "return x < y ? x : y;"],
                    Accepts::All,
                )
            }
            .on(Distinct, Any),
            Atan2 => BinaryRow {
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
                ..float(f64::atan2, "return atan2(x, y);", 24)
            }
            .on(NonZero, NonZero)
            .numpy("np.arctan2(x, y)")
            .near(4.0),
            And => bits(|x, y| x & y, "return x & y;"),
            Or => bits(|x, y| x | y, "return x | y;"),
            Xor => bits(|x, y| x ^ y, "return x ^ y;"),
            Shl => BinaryRow {
                accepts: Accepts::Ints,
                int_domains: (Any, Index(4)),
                scalar: Some(2),
                ..bits(
                    |x, y| if (0..64).contains(&y) { x << y } else { 0 },
                    "return y >= 0 && y < 64 ? (int64_t)((uint64_t)x << y) : 0;",
                )
            }
            .numpy("x << y"),
            Shr => BinaryRow {
                accepts: Accepts::Ints,
                int_domains: (Any, Index(4)),
                scalar: Some(2),
                ..bits(
                    |x, y| x >> if (0..64).contains(&y) { y } else { 63 },
                    "return x >> (y >= 0 && y < 64 ? y : 63);",
                )
            }
            .numpy("x >> y"),
            NextAfter => BinaryRow {
                f32: Some(libm::nextafterf),
                accepts: Accepts::Wide,
                // A step changes nothing that a slope could see.
                left: Some(|_, c| Ok(c.g)),
                right: Some(|e, c| {
                    let ty = e.ty(c.g);
                    e.fill(ty, 0.0)
                }),
                ..float(libm::nextafter, "return nextafter(x, y);", 4)
            },
            Polygamma => BinaryRow {
                saves_right: AB,
                // The order has no slope: it is a whole number.
                right: Some(|e, c| {
                    let next = match c.a()? {
                        Operand::Num(n) => Operand::Num((n.as_f64() + 1.0).into()),
                        Operand::Val(n) => e.add(n, 1.0)?.into(),
                    };
                    let slope = e.binary(Polygamma, next, c.b()?)?;
                    e.mul(c.g, slope)
                }),
                scalar: Some(2),
                ..float(special::polygamma, special::POLYGAMMA, 200)
            }
            .on(AboveOne, Positive)
            .near(8.0)
            .cancels(),
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
