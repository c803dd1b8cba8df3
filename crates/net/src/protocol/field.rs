//! How the fields of messages are written and read, and the macros that declare messages.

use gt_ir::codec::{Reader, put_varint};
use gt_ir::{OpError, TensorId};

use crate::Secret;

/// Something that can be part of a message. What is read may borrow from the bytes it was read from.
pub(crate) trait Field<'a>: Sized {
    /// What [`super::wire_types`] calls it.
    const NAME: &'static str;
    /// Appends the binary form.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads the binary form.
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError>;
    /// The name with what it holds: `list of text`.
    fn describe() -> String {
        Self::NAME.to_string()
    }
}

/// A type that [`super::wire_types`] prints.
pub(crate) trait Message {
    /// Appends the declaration.
    fn declare(out: &mut String);
}

/// Declares an enum of messages: each variant has its code on the wire.
macro_rules! wire_enum {
    ($(#[$doc:meta])* pub enum $name:ident $(<$lt:lifetime>)? {
        $($(#[$vdoc:meta])* $code:literal = $variant:ident { $($(#[$fdoc:meta])* $field:ident : $ty:ty),* $(,)? }),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name $(<$lt>)? { $($(#[$vdoc])* $variant { $($(#[$fdoc])* $field: $ty),* }),* }

        impl<'a> $crate::protocol::field::Field<'a> for $name $(<$lt>)? {
            const NAME: &'static str = stringify!($name);
            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant { $($field),* } => {
                        out.push($code);
                        $($crate::protocol::field::Field::encode($field, out);)*
                    })*
                }
            }
            fn decode(r: &mut gt_ir::codec::Reader<'a>) -> Result<Self, gt_ir::OpError> {
                Ok(match r.byte()? {
                    $($code => $name::$variant { $($field: $crate::protocol::field::Field::decode(r)?),* },)*
                    code => {
                        let reason = format!(concat!("no ", stringify!($name), " has code {}"), code);
                        return Err(gt_ir::OpError::malformed(reason));
                    }
                })
            }
        }

        impl $(<$lt>)? $crate::protocol::field::Message for $name $(<$lt>)? {
            fn declare(out: &mut String) {
                out.push_str(concat!(stringify!($name), "\n"));
                $(
                    out.push_str(concat!("  ", $code, " ", stringify!($variant)));
                    $(
                        out.push_str(concat!(" ", stringify!($field), ":"));
                        out.push_str(&<$ty as $crate::protocol::field::Field>::describe());
                    )*
                    out.push('\n');
                )*
            }
        }

        impl $(<$lt>)? $name $(<$lt>)? {
            /// Appends the binary form.
            pub fn encode(&self, out: &mut Vec<u8>) {
                $crate::protocol::field::Field::encode(self, out);
            }

            /// The binary form.
            pub fn to_bytes(&self) -> Vec<u8> {
                let mut out = Vec::with_capacity(64);
                self.encode(&mut out);
                out
            }

            /// Reads one whole message.
            pub fn decode(bytes: $crate::protocol::field::message_bytes!($($lt)?)) -> Result<Self, $crate::NetError> {
                $crate::protocol::decode_all(bytes)
            }
        }
    };
}
pub(crate) use wire_enum;

/// The bytes that a message is read from, with the lifetime of what it borrows.
macro_rules! message_bytes {
    () => {
        &[u8]
    };
    ($lt:lifetime) => {
        &$lt[u8]
    };
}
pub(crate) use message_bytes;

/// Declares a part of messages.
macro_rules! wire_struct {
    ($(#[$doc:meta])* pub struct $name:ident { $($(#[$fdoc:meta])* $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[$fdoc])* pub $field: $ty),* }

        impl<'a> $crate::protocol::field::Field<'a> for $name {
            const NAME: &'static str = stringify!($name);
            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::protocol::field::Field::encode(&self.$field, out);)*
            }
            fn decode(r: &mut gt_ir::codec::Reader<'a>) -> Result<Self, gt_ir::OpError> {
                Ok($name { $($field: $crate::protocol::field::Field::decode(r)?),* })
            }
        }

        impl $crate::protocol::field::Message for $name {
            fn declare(out: &mut String) {
                out.push_str(stringify!($name));
                $(
                    out.push_str(concat!(" ", stringify!($field), ":"));
                    out.push_str(&<$ty as $crate::protocol::field::Field>::describe());
                )*
                out.push('\n');
            }
        }
    };
}
pub(crate) use wire_struct;

impl<'a> Field<'a> for u64 {
    const NAME: &'static str = "number";
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, *self);
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        r.varint()
    }
}

/// Numbers that are shorter than 64 bits in memory and as short as they can be on the wire.
macro_rules! short_number {
    ($($ty:ty = $name:literal),*) => {
        $(impl<'a> Field<'a> for $ty {
            const NAME: &'static str = $name;
            fn encode(&self, out: &mut Vec<u8>) {
                put_varint(out, *self as u64);
            }
            fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
                <$ty>::try_from(r.varint()?).map_err(|_| OpError::malformed(concat!("a number does not fit ", $name)))
            }
        })*
    };
}
short_number!(u32 = "number32", u16 = "number16");

impl<'a> Field<'a> for bool {
    const NAME: &'static str = "bool";
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        match r.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            b => Err(OpError::malformed(format!("{b} is not a bool"))),
        }
    }
}

/// A digest: sixteen bytes that look random, so that a varint would only be longer.
impl<'a> Field<'a> for u128 {
    const NAME: &'static str = "digest";
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        let bytes = r.take(16)?.first_chunk().ok_or_else(|| OpError::malformed("a digest has 16 bytes"))?;
        Ok(u128::from_le_bytes(*bytes))
    }
}

impl<'a> Field<'a> for &'a [u8] {
    const NAME: &'static str = "bytes";
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        out.extend_from_slice(self);
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        let len = r.count(1)?;
        r.take(len)
    }
}

impl<'a> Field<'a> for String {
    const NAME: &'static str = "text";
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_bytes().encode(out);
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        let bytes = <&[u8]>::decode(r)?;
        let text = std::str::from_utf8(bytes).map_err(|_| OpError::malformed("a text is not UTF-8"))?;
        Ok(text.to_string())
    }
}

impl<'a> Field<'a> for Secret {
    const NAME: &'static str = "secret";
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_bytes().encode(out);
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        <&[u8]>::decode(r).map(Secret::from_bytes)
    }
}

impl<'a> Field<'a> for TensorId {
    const NAME: &'static str = "id";
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0);
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        r.varint().map(TensorId)
    }
}

impl<'a, T: Field<'a>> Field<'a> for Option<T> {
    const NAME: &'static str = "optional";
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        bool::decode(r)?.then(|| T::decode(r)).transpose()
    }
    fn describe() -> String {
        format!("optional({})", T::describe())
    }
}

impl<'a, T: Field<'a>> Field<'a> for Vec<T> {
    const NAME: &'static str = "list";
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        self.iter().for_each(|item| item.encode(out));
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        let n = r.count(1)?;
        // Grown as items are read: a count is only believed as far as its items have come.
        let mut out = Vec::new();
        for _ in 0..n {
            out.push(T::decode(r)?);
        }
        Ok(out)
    }
    fn describe() -> String {
        format!("list({})", T::describe())
    }
}
