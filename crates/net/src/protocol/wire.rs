//! How fields become bytes.

use gt_ir::attr::Attr;
use gt_ir::codec::{Reader, put_varint};
use gt_ir::{OpError, Shape, TensorId, TensorType};

use crate::NetError;

/// Something a message is made of. `'a` is the life of the bytes it is read from.
pub trait Wire<'a>: Sized {
    /// Appends the binary form.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads the binary form.
    fn get(r: &mut Reader<'a>) -> Result<Self, OpError>;
}

/// The bytes of a message.
pub fn encode<'a>(message: &impl Wire<'a>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    message.put(&mut out);
    out
}

/// The message of these bytes, all of them (PROTO-2).
///
/// # Errors
/// When they are not one.
pub fn decode<'a, M: Wire<'a>>(bytes: &'a [u8]) -> Result<M, NetError> {
    let mut r = Reader::new(bytes);
    let message = M::get(&mut r).map_err(|e| NetError::Malformed { reason: e.to_string() })?;
    match r.left() {
        0 => Ok(message),
        left => Err(NetError::Malformed { reason: format!("{left} unexpected bytes after a message") }),
    }
}

/// Makes an enum of messages, its codes written out: a code is never used again for something else.
macro_rules! messages {
    ($(#[$meta:meta])* pub enum $name:ident $(<$life:lifetime>)? {
        $($(#[$vmeta:meta])* $code:literal => $variant:ident { $($(#[$fmeta:meta])* $field:ident : $ty:ty),* $(,)? }),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name $(<$life>)? {
            $($(#[$vmeta])* $variant { $($(#[$fmeta])* $field: $ty),* }),*
        }

        impl messages!(@static $name $($life)?) {
            /// The fields and codes of every message: what must not change without a new version of the protocol.
            pub const SCHEMA: &'static str = concat!(
                stringify!($name), "\n",
                $("  ", stringify!($code), " ", stringify!($variant), $(" ", stringify!($field), ": ", stringify!($ty), ";",)* "\n",)*
            );
        }

        impl<'a> $crate::protocol::Wire<'a> for messages!(@type $name $($life)?) {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant { $($field),* } => {
                        out.push($code);
                        $($crate::protocol::Wire::put($field, out);)*
                    })*
                }
            }

            fn get(r: &mut gt_ir::codec::Reader<'a>) -> Result<Self, gt_ir::OpError> {
                Ok(match r.byte()? {
                    $($code => Self::$variant { $($field: $crate::protocol::Wire::get(r)?),* },)*
                    code => {
                        let name = stringify!($name);
                        return Err(gt_ir::OpError::malformed(format!("unknown {name} message {code}")));
                    }
                })
            }
        }
    };
    (@static $name:ident) => { $name };
    (@static $name:ident $life:lifetime) => { $name<'_> };
    (@type $name:ident) => { $name };
    (@type $name:ident $life:lifetime) => { $name<'a> };
}
pub(super) use messages;

/// Makes a struct that is a field of messages.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[$fmeta])* pub $field: $ty),* }

        impl $name {
            /// The fields; see the schemas of messages.
            pub const SCHEMA: &'static str =
                concat!(stringify!($name), $(" ", stringify!($field), ": ", stringify!($ty), ";",)* "\n");
        }

        impl<'a> $crate::protocol::Wire<'a> for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::protocol::Wire::put(&self.$field, out);)*
            }
            fn get(r: &mut gt_ir::codec::Reader<'a>) -> Result<Self, gt_ir::OpError> {
                Ok($name { $($field: $crate::protocol::Wire::get(r)?),* })
            }
        }
    };
}
pub(super) use record;

impl Wire<'_> for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, *self);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, OpError> {
        r.varint()
    }
}

impl Wire<'_> for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, *self as u64);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, OpError> {
        r.small()
    }
}

impl Wire<'_> for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, OpError> {
        match r.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(OpError::malformed(format!("{other} is not a valid boolean"))),
        }
    }
}

impl<'a> Wire<'a> for &'a [u8] {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        out.extend_from_slice(self);
    }
    fn get(r: &mut Reader<'a>) -> Result<Self, OpError> {
        let len = r.count(1)?;
        r.take(len)
    }
}

impl Wire<'_> for String {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_bytes().put(out);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, OpError> {
        let len = r.count(1)?;
        let bytes = r.take(len)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| OpError::malformed("a text field is not valid UTF-8"))
    }
}

/// Bytes of the message's own. Not `Vec<u8>`, whose items would go one by one.
impl Wire<'_> for Box<[u8]> {
    fn put(&self, out: &mut Vec<u8>) {
        (&**self).put(out);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, OpError> {
        let len = r.count(1)?;
        r.take(len).map(Box::from)
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn get(r: &mut Reader<'a>) -> Result<Self, OpError> {
        bool::get(r)?.then(|| T::get(r)).transpose()
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        self.iter().for_each(|item| item.put(out));
    }
    fn get(r: &mut Reader<'a>) -> Result<Self, OpError> {
        let n = r.list(1, size_of::<T>())?;
        (0..n).map(|_| T::get(r)).collect()
    }
}

impl<'a, A: Wire<'a>, B: Wire<'a>> Wire<'a> for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn get(r: &mut Reader<'a>) -> Result<Self, OpError> {
        Ok((A::get(r)?, B::get(r)?))
    }
}

impl Wire<'_> for TensorId {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, OpError> {
        r.varint().map(TensorId)
    }
}

impl Wire<'_> for TensorType {
    fn put(&self, out: &mut Vec<u8>) {
        self.dtype.encode(out);
        self.shape.encode(out);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, OpError> {
        let dtype = Attr::decode(r)?;
        let shape: Shape = Attr::decode(r)?;
        Ok(TensorType { dtype, shape })
    }
}
