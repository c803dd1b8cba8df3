//! Attributes: the static fields of an op, written and read the same way everywhere.
//!
//! An op's struct is made by `op_struct!`, which derives from its fields the binary form, the
//! text form and the hash. A new kind of field implements [`Attr`] once.

use std::fmt::Write as _;

use crate::codec::Reader;
use crate::hash::StreamHasher;
use crate::text::Parser;
use crate::{AxisSet, Counts, DType, MAX_RANK, OpError, Shape, Steps};

/// One field of an op.
pub trait Attr: Sized {
    /// Appends the binary form.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads the binary form; no input may panic or over-allocate.
    fn decode(r: &mut Reader<'_>) -> Result<Self, OpError>;
    /// Appends the text form.
    fn print(&self, out: &mut String);
    /// Reads the text form.
    fn parse(p: &mut Parser<'_>) -> Result<Self, OpError>;
    /// Feeds the hash.
    fn hash(&self, h: &mut StreamHasher);
}

/// The fields of an op together.
pub trait Attrs: Sized {
    /// Appends the binary form of every field.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads every field.
    fn decode(r: &mut Reader<'_>) -> Result<Self, OpError>;
    /// Appends ` name=value` for every field.
    fn print(&self, out: &mut String);
    /// Reads ` name=value` for every field, in order.
    fn parse(p: &mut Parser<'_>) -> Result<Self, OpError>;
    /// Feeds every field to the hash.
    fn hash(&self, h: &mut StreamHasher);
}

/// Makes an op's struct and its [`Attrs`].
macro_rules! op_struct {
    ($(#[$doc:meta])* pub struct $name:ident { $($(#[$fdoc:meta])* $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[$fdoc])* pub $field: $ty),* }

        #[allow(unused_variables)]
        impl $crate::attr::Attrs for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::attr::Attr::encode(&self.$field, out);)*
            }
            fn decode(r: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::OpError> {
                Ok($name { $($field: $crate::attr::Attr::decode(r)?),* })
            }
            fn print(&self, out: &mut String) {
                $(out.push_str(concat!(" ", stringify!($field), "="));
                $crate::attr::Attr::print(&self.$field, out);)*
            }
            fn parse(p: &mut $crate::text::Parser<'_>) -> Result<Self, $crate::OpError> {
                Ok($name { $($field: { p.field(stringify!($field))?; $crate::attr::Attr::parse(p)? }),* })
            }
            fn hash(&self, h: &mut $crate::hash::StreamHasher) {
                $($crate::attr::Attr::hash(&self.$field, h);)*
            }
        }
    };
}
pub(crate) use op_struct;

/// Makes an enum of named choices that is an [`Attr`]; its order gives the wire codes.
macro_rules! choice {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// Every choice, in wire order.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// The name in the text form.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
            /// The choice of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|c| c.name() == name)
            }
        }

        impl $crate::attr::Attr for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                out.push(*self as u8);
            }
            fn decode(r: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::OpError> {
                let code = r.byte()?;
                Self::ALL.get(code as usize).copied().ok_or_else(|| {
                    $crate::OpError::malformed(format!(concat!("no ", stringify!($name), " has code {}"), code))
                })
            }
            fn print(&self, out: &mut String) {
                out.push_str(self.name());
            }
            fn parse(p: &mut $crate::text::Parser<'_>) -> Result<Self, $crate::OpError> {
                let word = p.word()?;
                Self::from_name(word).ok_or_else(|| p.error(format!(concat!("no ", stringify!($name), " is called '{}'"), word)))
            }
            fn hash(&self, h: &mut $crate::hash::StreamHasher) {
                h.word(*self as u64);
            }
        }
    };
}
pub(crate) use choice;

impl Attr for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn decode(r: &mut Reader<'_>) -> Result<Self, OpError> {
        match r.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            b => Err(OpError::malformed(format!("{b} is not a boolean"))),
        }
    }
    fn print(&self, out: &mut String) {
        let _ = write!(out, "{self}");
    }
    fn parse(p: &mut Parser<'_>) -> Result<Self, OpError> {
        match p.word()? {
            "true" => Ok(true),
            "false" => Ok(false),
            w => Err(p.error(format!("'{w}' is not true or false"))),
        }
    }
    fn hash(&self, h: &mut StreamHasher) {
        h.word(*self as u64);
    }
}

/// An axis.
impl Attr for u8 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
    fn decode(r: &mut Reader<'_>) -> Result<Self, OpError> {
        r.byte()
    }
    fn print(&self, out: &mut String) {
        let _ = write!(out, "{self}");
    }
    fn parse(p: &mut Parser<'_>) -> Result<Self, OpError> {
        p.integer()
    }
    fn hash(&self, h: &mut StreamHasher) {
        h.word(*self as u64);
    }
}

impl Attr for DType {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn decode(r: &mut Reader<'_>) -> Result<Self, OpError> {
        let code = r.byte()?;
        DType::from_code(code).ok_or_else(|| OpError::malformed(format!("unknown dtype code {code}")))
    }
    fn print(&self, out: &mut String) {
        out.push_str(self.name());
    }
    fn parse(p: &mut Parser<'_>) -> Result<Self, OpError> {
        let word = p.word()?;
        DType::from_name(word).ok_or_else(|| p.error(format!("unknown dtype '{word}'")))
    }
    fn hash(&self, h: &mut StreamHasher) {
        h.word(*self as u64);
    }
}

/// What a pad adds.
impl Attr for Counts {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.rank() as u8);
        self.iter().for_each(|&d| crate::codec::put_varint(out, d as u64));
    }
    fn decode(r: &mut Reader<'_>) -> Result<Self, OpError> {
        let rank = r.rank()?;
        (0..rank).map(|_| r.varint().map(|d| d as usize)).collect()
    }
    fn print(&self, out: &mut String) {
        let _ = write!(out, "{self}");
    }
    fn parse(p: &mut Parser<'_>) -> Result<Self, OpError> {
        p.list()
    }
    fn hash(&self, h: &mut StreamHasher) {
        h.word(self.rank() as u64);
        self.iter().for_each(|&d| h.word(d as u64));
    }
}

/// A list of extents, in the form of [`Counts`].
impl Attr for Shape {
    fn encode(&self, out: &mut Vec<u8>) {
        Counts::encode(self, out);
    }
    fn decode(r: &mut Reader<'_>) -> Result<Self, OpError> {
        Shape::try_from(<Counts as Attr>::decode(r)?).map_err(|e| OpError::malformed(e.to_string()))
    }
    fn print(&self, out: &mut String) {
        Counts::print(self, out);
    }
    fn parse(p: &mut Parser<'_>) -> Result<Self, OpError> {
        Shape::try_from(<Counts as Attr>::parse(p)?).map_err(|e| p.error(e.to_string()))
    }
    fn hash(&self, h: &mut StreamHasher) {
        Attr::hash(&**self, h);
    }
}

/// A list of signed numbers that shape the code: permutations, steps.
impl Attr for Steps {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.rank() as u8);
        self.iter().for_each(|&d| crate::codec::put_signed(out, d));
    }
    fn decode(r: &mut Reader<'_>) -> Result<Self, OpError> {
        let rank = r.rank()?;
        (0..rank).map(|_| r.signed()).collect()
    }
    fn print(&self, out: &mut String) {
        let _ = write!(out, "{self}");
    }
    fn parse(p: &mut Parser<'_>) -> Result<Self, OpError> {
        p.list()
    }
    fn hash(&self, h: &mut StreamHasher) {
        h.word(self.rank() as u64);
        self.iter().for_each(|&d| h.word(d as u64));
    }
}

impl Attr for AxisSet {
    fn encode(&self, out: &mut Vec<u8>) {
        crate::codec::put_varint(out, self.0 as u64);
    }
    fn decode(r: &mut Reader<'_>) -> Result<Self, OpError> {
        let bits = r.varint()?;
        if bits >> MAX_RANK != 0 {
            return Err(OpError::malformed(format!("{bits:#x} is not a valid set of axes (at most {MAX_RANK})")));
        }
        Ok(AxisSet(bits as u16))
    }
    fn print(&self, out: &mut String) {
        let axes: Steps = self.iter().map(|a| a as i64).collect();
        let _ = write!(out, "{axes}");
    }
    fn parse(p: &mut Parser<'_>) -> Result<Self, OpError> {
        let axes: Steps = p.list()?;
        axes.iter().try_fold(AxisSet::default(), |set, &a| match usize::try_from(a) {
            Ok(a) if a < MAX_RANK => Ok(AxisSet(set.0 | 1 << a)),
            _ => Err(p.error(format!("{a} is not a valid axis"))),
        })
    }
    fn hash(&self, h: &mut StreamHasher) {
        h.word(self.0 as u64);
    }
}
