//! Tile programs as C: one function for each program, which loops over the space and computes one element at a time.
//!
//! The functions compile as C with [`C_PRELUDE`] in front of them, so that tests can run them on the CPU. An engine that prints
//! source for a device shares what an operation is; loops and addresses are its own.
//!
//! A function rounds where the program says so (PROGRAM-5) if the compiler contracts no product and sum to one rounding and
//! reorders no floating-point arithmetic.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gt_ir::ops::{Reduce, ReduceKind};
use gt_ir::rows::{BinaryKind, CBodies, CompareKind, UnaryKind};
use gt_ir::{AxisSet, DType, Shape};

use super::{Level, Spot, TileFn, TileFold, TileOp, TileProgram, register_type};

/// What the functions need before them: types, `math.h`, and the halves.
pub const C_PRELUDE: &str = include_str!("c_prelude.h");

/// A C file in the making.
#[derive(Default)]
pub struct CSource {
    /// Functions of rows and folds, by name: programs share them.
    helpers: BTreeMap<String, String>,
    programs: String,
}

/// The C type of stored elements.
fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool | DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I32 => "int32_t",
        DType::I64 => "int64_t",
        DType::F16 | DType::BF16 => "uint16_t",
        DType::F32 => "float",
        DType::F64 => "double",
    }
}

impl CSource {
    /// Adds the function of a program:
    /// `void name(const void *const *ins, const uint64_t *consts, void *const *outs)`.
    ///
    /// Each input is packed over the extents of its level. Each constant's register value lies in the low bytes of its
    /// word. The results are those of the outputs, then those of the folds, packed.
    pub fn add(&mut self, program: &TileProgram, name: &str) {
        let mut printer = Printer { program, helpers: &mut self.helpers, text: String::new(), depth: 1 };
        printer.function(name);
        self.programs.push_str(&printer.text);
    }

    /// The file.
    pub fn finish(self) -> String {
        let helpers: String = self.helpers.into_values().collect();
        format!("{C_PRELUDE}\n{helpers}\n{}", self.programs)
    }
}

struct Printer<'a> {
    program: &'a TileProgram,
    helpers: &'a mut BTreeMap<String, String>,
    text: String,
    depth: usize,
}

impl Printer<'_> {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{:indent$}{line}", "", indent = 4 * self.depth);
    }

    fn open(&mut self, line: &str) {
        self.line(&format!("{line} {{"));
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    fn function(&mut self, name: &str) {
        let program = self.program;
        let _ =
            writeln!(self.text, "void {name}(const void *const *ins, const uint64_t *consts, void *const *outs)\n{{");
        self.line("(void)ins; (void)consts;");
        for (c, constant) in program.consts.iter().enumerate() {
            let t = c_type(register_type(constant.dtype));
            self.line(&format!("{t} c{c}; memcpy(&c{c}, consts + {c}, sizeof c{c});"));
        }
        let numel = program.space.numel();
        for (f, fold) in program.folds.iter().enumerate() {
            let t = c_type(program.dtype(fold.source));
            self.line(&format!("{t} *folded{f} = malloc({numel} * sizeof *folded{f} + 1);"));
        }
        match program.row_axes {
            None => self.positions(),
            Some(axes) => self.rows(axes),
        }
        for (f, fold) in program.folds.iter().enumerate() {
            self.fold(f, fold);
        }
        self.text.push_str("}\n\n");
    }

    /// A program without rows: one loop; what belongs to a part is computed where the position is one of the part's.
    fn positions(&mut self) {
        let program = self.program;
        self.open(&format!("for (size_t p = 0; p < {}; p++)", program.space.numel()));
        for (part, own) in program.parts.iter().enumerate() {
            let (period, start, len) = (own.period, own.start, own.len);
            self.line(&format!("size_t q{part} = p % {period} - {start}, p{part} = p / {period} * {len} + q{part};"));
        }
        for (r, &dtype) in program.registers.iter().enumerate() {
            self.line(&format!("{} r{r} = 0;", c_type(dtype)));
        }
        for op in &program.ops {
            let part = match (op.f, op.level) {
                (TileFn::Place(part), _) | (_, Level::Part(part)) => Some(part),
                _ => None,
            };
            let statement = self.statement(op);
            // Before its start the difference wraps, and is no less than its length.
            let condition = part.map(|part| format!("if (q{part} < {}) ", program.parts[usize::from(part)].len));
            self.line(&format!("{}{statement}", condition.unwrap_or_default()));
        }
        self.keep_sources();
        self.close();
    }

    /// A program with row folds: row by row; values of a row's positions are kept in arrays.
    fn rows(&mut self, axes: AxisSet) {
        let program = self.program;
        let rows = program.extents(Level::Row).numel();
        let len: usize = axes.iter().map(|axis| program.space[axis]).product();
        let mut full = vec![false; program.registers.len()];
        for op in program.ops.iter().filter(|op| op.level == Level::Full) {
            if let Spot::Reg(r) = op.dst {
                full[usize::from(r)] = true;
            }
        }
        for (r, &dtype) in program.registers.iter().enumerate() {
            let t = c_type(dtype);
            self.line(&match full[r] {
                true => format!("{t} *r{r} = malloc({len} * sizeof *r{r} + 1);"),
                false => format!("{t} r{r} = 0;"),
            });
        }
        self.open(&format!("for (size_t row = 0; row < {rows}; row++)"));
        let mut inside = false;
        for op in &program.ops {
            let positions = op.level == Level::Full;
            if positions != inside {
                if inside {
                    self.close()
                } else {
                    self.over_row(len)
                }
                inside = positions;
            }
            let statement = match op.f {
                TileFn::Fold(kind) => self.row_fold(kind, op, len),
                _ => self.statement(op),
            };
            self.line(&statement);
        }
        if inside == program.folds.is_empty() {
            if inside {
                self.close()
            } else {
                self.over_row(len)
            }
            inside = !inside;
        }
        self.keep_sources();
        if inside {
            self.close();
        }
        self.close();
        for r in (0..full.len()).filter(|&r| full[r]) {
            self.line(&format!("free(r{r});"));
        }
    }

    fn over_row(&mut self, len: usize) {
        self.open(&format!("for (size_t k = 0; k < {len}; k++)"));
        self.line(&format!("size_t p = row * {len} + k;"));
    }

    /// Keeps what is folded when the whole space has been walked.
    fn keep_sources(&mut self) {
        for (f, fold) in self.program.folds.iter().enumerate() {
            let source = self.value(fold.source, Level::Full);
            self.line(&format!("folded{f}[p] = {source};"));
        }
    }

    /// Where the element of a spot is, read or written at a level.
    fn value(&self, spot: Spot, level: Level) -> String {
        let at = match level {
            Level::Full => "p".to_string(),
            Level::Row => "row".to_string(),
            Level::Part(part) => format!("p{part}"),
        };
        let t = c_type(self.program.dtype(spot));
        match spot {
            Spot::In(i) => format!("((const {t} *)ins[{i}])[{at}]"),
            Spot::Out(o) => format!("(({t} *)outs[{o}])[{at}]"),
            Spot::Const(c) => format!("c{c}"),
            Spot::Reg(r) if level == Level::Full && self.program.row_axes.is_some() => format!("r{r}[k]"),
            Spot::Reg(r) => format!("r{r}"),
        }
    }

    fn statement(&mut self, op: &TileOp) -> String {
        let args: Vec<String> = op.args.iter().map(|&arg| self.value(arg, op.read_level())).collect();
        let (from, to) = (self.program.dtype(op.args[0]), self.program.dtype(op.dst));
        let result = match op.f {
            TileFn::Unary(kind) => {
                let call = self.unary(kind, from);
                // The complement of a bool is its lowest bit.
                if to == DType::Bool { format!("(int){call}({}) & 1", args[0]) } else { format!("{call}({})", args[0]) }
            }
            TileFn::Binary(kind) => {
                let call = self.binary(kind, from);
                let is_bool = if to == DType::Bool { " != 0" } else { "" };
                format!("{call}({}, {}){is_bool}", args[0], args[1])
            }
            TileFn::Compare(kind) => format!("{}({}, {})", self.compare(kind, from), args[0], args[1]),
            TileFn::Select => format!("{} ? {} : {}", args[0], args[1], args[2]),
            TileFn::Cast => cast(from, to, &args[0]),
            TileFn::Copy | TileFn::Splat | TileFn::Spread | TileFn::Place(_) => args[0].clone(),
            TileFn::Widen => format!("gt_{from}_to_f32({})", args[0]),
            TileFn::Narrow => format!("gt_f32_to_{to}({})", args[0]),
            TileFn::Round(half) => format!("gt_{half}_to_f32(gt_f32_to_{half}({}))", args[0]),
            TileFn::Fold(_) => unreachable!("a row fold is a statement of its own"),
        };
        format!("{} = ({})({result});", self.value(op.dst, op.level), c_type(to))
    }

    /// Adds a helper function, if it is not there yet, and gives its name.
    fn helper(&mut self, name: String, text: impl FnOnce(&str) -> String) -> String {
        if !self.helpers.contains_key(&name) {
            let text = text(&name);
            self.helpers.insert(name.clone(), text);
        }
        name
    }

    /// The function of a row on elements of this type.
    fn row(&mut self, row: &str, c: CBodies, dtype: DType, operands: &[&str]) -> String {
        let (t, body, name) = match c_float(dtype) {
            Some(t) => (t, c.float, format!("gt_{row}_{dtype}")),
            None => ("int64_t", c.int, format!("gt_{row}_int")),
        };
        let body = body.expect("PROGRAM-2: the row takes the type");
        let operands: Vec<String> = operands.iter().map(|x| format!("{t} {x}")).collect();
        let operands = operands.join(", ");
        self.helper(name, |name| format!("static inline {t} {name}({operands}) {{ typedef {t} T; (T)x; {body} }}\n"))
    }

    fn unary(&mut self, kind: UnaryKind, dtype: DType) -> String {
        self.row(kind.name(), kind.row().c, dtype, &["x"])
    }

    fn binary(&mut self, kind: BinaryKind, dtype: DType) -> String {
        self.row(kind.name(), kind.row().c, dtype, &["x", "y"])
    }

    fn compare(&mut self, kind: CompareKind, dtype: DType) -> String {
        let body = kind.row().c;
        self.row(kind.name(), CBodies { float: Some(body), int: Some(body) }, dtype, &["x", "y"])
    }

    /// The function that folds so many elements in the order of REDUCE-1.
    fn folder(&mut self, kind: ReduceKind, dtype: DType) -> String {
        // Totals of floats are doubles, however the elements are held; whole numbers wrap.
        let (lane, total) = match (c_float(dtype), kind) {
            (Some(t), _) => (t, "double"),
            (None, ReduceKind::Sum | ReduceKind::Prod) => ("uint64_t", "uint64_t"),
            (None, ReduceKind::Max | ReduceKind::Min) => ("int64_t", "int64_t"),
        };
        let (combine, start) = match (kind, dtype) {
            (ReduceKind::Sum, _) => ("a + b", "0"),
            (ReduceKind::Prod, _) => ("a * b", "1"),
            (ReduceKind::Max, DType::Bool) => ("a > b ? a : b", "0"),
            (ReduceKind::Min, DType::Bool) => ("a < b ? a : b", "1"),
            (ReduceKind::Max, _) if dtype.is_float() => ("a != a || a > b ? a : b", "-INFINITY"),
            (ReduceKind::Min, _) if dtype.is_float() => ("a != a || a < b ? a : b", "INFINITY"),
            (ReduceKind::Max, _) => ("a > b ? a : b", "INT64_MIN"),
            (ReduceKind::Min, _) => ("a < b ? a : b", "INT64_MAX"),
        };
        let (t, block, lanes, half) = (c_type(dtype), Reduce::BLOCK, Reduce::LANES, Reduce::LANES / 2);
        self.helper(format!("gt_{}_{dtype}", kind.name()), |name| {
            format!(
                "static {total} {name}(const {t} *x, size_t n)
{{
    {total} total = {start};
    for (size_t first = 0; first < n; first += {block}) {{
        size_t count = n - first < {block} ? n - first : {block};
        {lane} lanes[{lanes}];
        for (size_t k = 0; k < {lanes}; k++) lanes[k] = {start};
        for (size_t k = 0; k < count; k++) {{ {lane} a = lanes[k % {lanes}], b = x[first + k]; lanes[k % {lanes}] = {combine}; }}
        for (size_t w = {half}; w > 0; w /= 2)
            for (size_t k = 0; k < w; k++) {{ {lane} a = lanes[k], b = lanes[k + w]; lanes[k] = {combine}; }}
        {{ {total} a = total, b = lanes[0]; total = {combine}; }}
    }}
    return total;
}}
"
            )
        })
    }

    /// Folds the row at hand.
    fn row_fold(&mut self, kind: ReduceKind, op: &TileOp, len: usize) -> String {
        let from = self.program.dtype(op.args[0]);
        let (folder, t) = (self.folder(kind, from), c_type(from));
        let source = self.value(op.args[0], Level::Full);
        let stored = stored(self.program.dtype(op.dst), &format!("{folder}(x, {len})"));
        let dst = self.value(op.dst, Level::Row);
        format!(
            "{{ {t} *x = malloc({len} * sizeof *x + 1); \
             for (size_t k = 0, p = row * {len}; k < {len}; k++, p++) x[k] = {source}; {dst} = {stored}; free(x); }}"
        )
    }

    /// Folds what the whole space has left.
    fn fold(&mut self, f: usize, fold: &TileFold) {
        let program = self.program;
        let from = program.dtype(fold.source);
        let (folder, t) = (self.folder(fold.kind, from), c_type(from));
        let kept: Vec<usize> = (0..program.space.rank()).filter(|&axis| !fold.axes.contains(axis)).collect();
        let folded: Vec<usize> = fold.axes.iter().collect();
        let count: usize = folded.iter().map(|&axis| program.space[axis]).product();
        self.line(&format!("{t} *line{f} = malloc({count} * sizeof *line{f} + 1);"));
        self.open(&format!("for (size_t o = 0; o < {}; o++)", fold.ty.numel()));
        self.open(&format!("for (size_t k = 0; k < {count}; k++)"));
        self.line(&format!("size_t at = 0, rest = o; {}", walk(&program.space, &kept)));
        self.line(&format!("rest = k; {}", walk(&program.space, &folded)));
        self.line(&format!("line{f}[k] = folded{f}[at];"));
        self.close();
        let stored = stored(fold.ty.dtype, &format!("{folder}(line{f}, {count})"));
        let (out, t) = (program.outs.len() + f, c_type(fold.ty.dtype));
        self.line(&format!("(({t} *)outs[{out}])[o] = {stored};"));
        self.close();
        self.line(&format!("free(line{f}); free(folded{f});"));
    }
}

/// The C type that a float dtype is computed in.
fn c_float(dtype: DType) -> Option<&'static str> {
    dtype.is_float().then(|| c_type(register_type(dtype)))
}

/// Statements that turn `rest`, a position in these axes of the space, into a position of the space, added to `at`.
fn walk(space: &Shape, axes: &[usize]) -> String {
    let strides = space.contiguous_strides();
    let step = |&axis: &usize| format!("at += rest % {0} * {1}; rest /= {0};", space[axis], strides[axis]);
    axes.iter().rev().map(step).collect::<Vec<_>>().join(" ")
}

/// The result of a fold as it is stored.
fn stored(dtype: DType, total: &str) -> String {
    match register_type(dtype) == dtype {
        true => format!("({})({total})", c_type(dtype)),
        false => format!("gt_f32_to_{dtype}((float)({total}))"),
    }
}

/// An element of one register type as one of another.
fn cast(from: DType, to: DType, x: &str) -> String {
    match (from.is_float(), to) {
        (_, DType::Bool) => format!("{x} != 0"),
        (true, DType::U8 | DType::I8 | DType::I32 | DType::I64) => format!("gt_to_int({x})"),
        _ => x.to_string(),
    }
}
