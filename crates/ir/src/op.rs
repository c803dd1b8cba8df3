//! The table: every op once, with its wire code. All that walks ops walks this.

use crate::attr::Attrs;
use crate::codec::Reader;
use crate::hash::StreamHasher;
use crate::ops::*;
use crate::text::Parser;
use crate::{Composite, DType, OpError, Primitive, Sample};

/// How an op's attributes lie in [`Op`]: in place, or behind a pointer where they are many bytes. Ops are moved
/// several times on their way into the stream, and most of them are small.
macro_rules! place {
    ($name:ident) => { $name };
    ($name:ident $place:ident) => { $place<$name> };
}

macro_rules! table {
    (
        $($code:literal $name:ident $text:literal $($place:ident)?),* ;
        composites: $($composite:ident),* $(,)?
    ) => {
        /// An op with its attributes.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Op { $($name(place!($name $($place)?))),* }

        /// Which op, without attributes. The discriminants are wire codes and never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum OpKind { $($name = $code),* }

        impl OpKind {
            /// Every op.
            pub const ALL: &'static [OpKind] = &[$(OpKind::$name),*];

            /// The name in the text form.
            pub const fn name(self) -> &'static str {
                match self { $(OpKind::$name => $text),* }
            }

            /// The op of a wire code.
            pub fn from_code(code: u8) -> Option<OpKind> {
                match code { $($code => Some(OpKind::$name),)* _ => None }
            }

            /// The table-test instances for elements of `dtype`.
            pub fn samples(self, dtype: DType) -> Vec<Sample> {
                match self { $(OpKind::$name => <$name as Primitive>::samples(dtype)),* }
            }
        }

        impl Op {
            /// Which op this is.
            pub fn kind(&self) -> OpKind {
                match self { $(Op::$name(_) => OpKind::$name),* }
            }

            /// What the op answers about itself.
            #[inline]
            pub fn primitive(&self) -> &dyn Primitive {
                match self { $(Op::$name(op) => { let op: &$name = op; op }),* }
            }

            /// The expansion, if the op is one that has one.
            pub fn composite(&self) -> Option<&dyn Composite> {
                match self {
                    $(Op::$composite(op) => Some(op),)*
                    _ => None,
                }
            }

            /// Appends the wire code and the attributes.
            pub fn encode(&self, out: &mut Vec<u8>) {
                out.push(self.kind() as u8);
                match self { $(Op::$name(op) => <$name as Attrs>::encode(op, out)),* }
            }

            /// Reads a wire code and its attributes.
            pub fn decode(r: &mut Reader<'_>) -> Result<Op, OpError> {
                let code = r.byte()?;
                match OpKind::from_code(code) {
                    $(Some(OpKind::$name) => <$name as Attrs>::decode(r).map(Op::from),)*
                    None => Err(OpError::malformed(format!("unknown op code {code}"))),
                }
            }

            /// Appends the attributes as text.
            pub fn print_attrs(&self, out: &mut String) {
                match self { $(Op::$name(op) => <$name as Attrs>::print(op, out)),* }
            }

            /// Reads the attributes of `kind` from text.
            pub fn parse_attrs(kind: OpKind, p: &mut Parser<'_>) -> Result<Op, OpError> {
                match kind { $(OpKind::$name => <$name as Attrs>::parse(p).map(Op::from)),* }
            }

            /// Feeds the op and its attributes to the hash.
            pub fn feed(&self, h: &mut StreamHasher) {
                h.word(self.kind() as u64);
                match self { $(Op::$name(op) => <$name as Attrs>::hash(op, h)),* }
            }
        }

        $(impl From<$name> for Op {
            #[inline]
            fn from(op: $name) -> Op { Op::$name(op.into()) }
        })*
    };
}

table! {
    1 Fill "fill" Box,
    2 Iota "iota" Box,
    3 Random "random" Box,
    4 Upload "upload" Box,
    10 Unary "unary",
    11 Binary "binary",
    12 Compare "compare",
    13 Select "select",
    14 Cast "cast",
    20 Reduce "reduce",
    21 ArgReduce "arg_reduce",
    22 Scan "scan",
    23 Sort "sort",
    24 Matmul "matmul",
    30 Reshape "reshape" Box,
    31 Permute "permute" Box,
    32 Broadcast "broadcast" Box,
    33 Slice "slice" Box,
    34 UpdateSlice "update_slice" Box,
    35 Pad "pad" Box,
    36 Concat "concat",
    40 Take "take",
    41 Put "put",
    42 Gather "gather",
    43 Scatter "scatter",
    50 Write "write",
    51 Check "check",
    60 Attention "attention",
    61 AttentionGrad "attention_grad",
    62 CrossEntropy "cross_entropy",
    63 CrossEntropyGrad "cross_entropy_grad",
    64 Update "update";
    composites: Attention, AttentionGrad, CrossEntropy, CrossEntropyGrad, Update,
}

// A window moves its instructions around: what every one of them carries stays small.
const _: () = assert!(size_of::<Op>() <= 16);

impl OpKind {
    /// The op of that name.
    pub fn from_name(name: &str) -> Option<OpKind> {
        OpKind::ALL.iter().copied().find(|k| k.name() == name)
    }
}

impl Op {
    /// What users and logs call it: `add` rather than `binary`.
    pub fn display_name(&self) -> &'static str {
        match self {
            Op::Unary(op) => op.kind.name(),
            Op::Binary(op) => op.kind.name(),
            Op::Compare(op) => op.kind.name(),
            Op::Reduce(op) => op.kind.name(),
            Op::ArgReduce(op) => op.kind.name(),
            Op::Scan(op) => op.kind.name(),
            Op::Update(op) => op.kind.name(),
            other => other.kind().name(),
        }
    }
}
