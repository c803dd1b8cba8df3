//! The text form: one instruction a line, printed and parsed.
//!
//! ```text
//! %3 = binary(%1, %2) kind=add scalar=none
//! %4 = slice(%3) sizes=[2, 3] steps=[1, 1] $ 0 1
//! %5, %6 = sort(%4) axis=1 descending=false @2 #17
//! ```
//! After the attributes come the scalars (`$`), the scope (`@`) and the site (`#`), where there are any.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::{Dims, Ins, Instr, Op, OpError, Outs, Scalar, Scalars, ScopeId, SiteId, TensorId};

/// A cursor over one line.
pub struct Parser<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    /// Reads from the start of `line`.
    pub fn new(line: &'a str) -> Self {
        Parser { line, at: 0 }
    }

    /// An error that names the column.
    pub fn error(&self, message: impl fmt::Display) -> OpError {
        OpError::malformed(format!("column {}: {message}", self.at + 1))
    }

    fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    fn spaces(&mut self) {
        self.at = self.line.len() - self.rest().trim_start().len();
    }

    /// Skips spaces and takes `token` if it is next.
    pub fn accept(&mut self, token: &str) -> bool {
        self.spaces();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Takes `token` or fails.
    pub fn expect(&mut self, token: &str) -> Result<(), OpError> {
        if self.accept(token) { Ok(()) } else { Err(self.error(format!("expected '{token}'"))) }
    }

    /// Takes `name=`.
    pub fn field(&mut self, name: &str) -> Result<(), OpError> {
        self.expect(name)?;
        self.expect("=")
    }

    /// Takes letters, digits and `_ . + -`.
    pub fn word(&mut self) -> Result<&'a str, OpError> {
        self.spaces();
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.' | '+' | '-'))
            .unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error("expected a word"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    /// Takes a number.
    pub fn integer<T: FromStr>(&mut self) -> Result<T, OpError> {
        let word = self.word()?;
        word.parse().map_err(|_| self.error(format!("'{word}' is not a valid number")))
    }

    /// Takes `[a, b, …]`.
    pub fn list<T: FromStr + Copy + Default>(&mut self) -> Result<Dims<T>, OpError> {
        self.expect("[")?;
        let mut out = Dims::default();
        while !self.accept("]") {
            if out.rank() > 0 {
                self.expect(",")?;
            }
            if out.rank() == crate::MAX_RANK {
                return Err(self.error("the list is too long"));
            }
            out.push(self.integer()?);
        }
        Ok(out)
    }

    fn id(&mut self) -> Result<TensorId, OpError> {
        self.expect("%")?;
        let word = self.word()?;
        let bad = |p: &Self| p.error(format!("'%{word}' is not a valid id"));
        let (lane, n) = word.split_once('.').unwrap_or(("0", word));
        let lane = lane.parse().map_err(|_| bad(self))?;
        let n: u64 = n.parse().map_err(|_| bad(self))?;
        if n >> 48 != 0 {
            return Err(bad(self));
        }
        Ok(TensorId::new(lane, n))
    }

    fn scalar(&mut self) -> Result<Scalar, OpError> {
        let word = self.word()?;
        match word {
            "true" => return Ok(Scalar::Bool(true)),
            "false" => return Ok(Scalar::Bool(false)),
            _ => {}
        }
        if let Some(bits) = word.strip_prefix("nan.") {
            let bits = u64::from_str_radix(bits, 16).map(f64::from_bits);
            return match bits {
                Ok(f) if f.is_nan() => Ok(Scalar::F64(f)),
                _ => Err(self.error(format!("'{word}' is not a valid NaN"))),
            };
        }
        if let Ok(i) = word.parse::<i64>() {
            return Ok(Scalar::I64(i));
        }
        word.parse::<f64>().map(Scalar::F64).map_err(|_| self.error(format!("'{word}' is not a valid scalar")))
    }
}

/// A NaN is printed with its bits, everything else as Rust prints it.
fn print_scalar(out: &mut String, scalar: Scalar) {
    let _ = match scalar {
        Scalar::Bool(b) => write!(out, "{b}"),
        Scalar::I64(i) => write!(out, "{i}"),
        Scalar::F64(f) if f.is_nan() => write!(out, "nan.{:x}", f.to_bits()),
        Scalar::F64(f) => write!(out, "{f:?}"),
    };
}

fn print_ids(out: &mut String, ids: &[TensorId]) {
    for (i, id) in ids.iter().enumerate() {
        let _ = write!(out, "{}{id}", if i > 0 { ", " } else { "" });
    }
}

impl fmt::Display for Instr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        print_ids(&mut line, &self.outs);
        let _ = write!(line, " = {}(", self.op.kind().name());
        print_ids(&mut line, &self.ins);
        line.push(')');
        self.op.print_attrs(&mut line);
        if !self.scalars.is_empty() {
            line.push_str(" $");
            for &s in &self.scalars {
                line.push(' ');
                print_scalar(&mut line, s);
            }
        }
        if self.scope.0 != 0 {
            let _ = write!(line, " @{}", self.scope.0);
        }
        if self.site.0 != 0 {
            let _ = write!(line, " #{}", self.site.0);
        }
        f.write_str(&line)
    }
}

impl FromStr for Instr {
    type Err = OpError;

    fn from_str(line: &str) -> Result<Instr, OpError> {
        let mut p = Parser::new(line);
        let mut outs = Outs::new();
        while !p.accept("=") {
            if !outs.is_empty() {
                p.expect(",")?;
            }
            outs.push(p.id()?);
        }
        let name = p.word()?;
        let kind = crate::OpKind::from_name(name).ok_or_else(|| p.error(format!("unknown op '{name}'")))?;
        p.expect("(")?;
        let mut ins = Ins::new();
        while !p.accept(")") {
            if !ins.is_empty() {
                p.expect(",")?;
            }
            ins.push(p.id()?);
        }
        let op = Op::parse_attrs(kind, &mut p)?;
        let mut scalars = Scalars::new();
        if p.accept("$") {
            p.spaces();
            while !p.rest().is_empty() && !p.rest().starts_with(['@', '#']) {
                scalars.push(p.scalar()?);
                p.spaces();
            }
        }
        let scope = ScopeId(if p.accept("@") { p.integer()? } else { 0 });
        let site = SiteId(if p.accept("#") { p.integer()? } else { 0 });
        p.spaces();
        if !p.rest().is_empty() {
            return Err(p.error(format!("unexpected '{}'", p.rest())));
        }
        Ok(Instr { op, outs, ins, scalars, scope, site })
    }
}
