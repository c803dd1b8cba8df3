//! The header of a safetensors file, for all who read such files.
//!
//! SAFETENSORS-1: nothing in a file is trusted. Every offset is checked against the file's length before anything is allocated for
//! it, so that no allocation is larger than the file.

use std::collections::BTreeMap;

use safetensors::SafeTensorError;
use safetensors::tensor::{Metadata, TensorInfo};

/// The longest header that readers of the format accept.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;
/// The header's length comes first, as a little-endian integer.
pub const LENGTH_BYTES: u64 = 8;

/// What is in a safetensors file, and where.
pub struct SafetensorsHeader {
    tensors: Metadata,
    data_start: u64,
}

/// Why there is no header.
#[derive(Debug)]
pub enum HeaderError<E> {
    /// The file cannot be read.
    Read(E),
    /// It is not a safetensors file, or only a part of one.
    Invalid(String),
}

impl SafetensorsHeader {
    /// Reads and checks the header of a file of this length; `read` fills a buffer from a position on.
    ///
    /// ```
    /// let text = br#"{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
    /// let mut file = (text.len() as u64).to_le_bytes().to_vec();
    /// file.extend_from_slice(text);
    /// file.extend_from_slice(&[7, 9]);
    /// let header = gt_data::SafetensorsHeader::read(file.len() as u64, |at, out| {
    ///     out.copy_from_slice(&file[at as usize..][..out.len()]);
    ///     Ok::<(), std::io::Error>(())
    /// })
    /// .unwrap();
    /// let (at, len) = header.bytes_of(header.tensor("x").unwrap());
    /// assert_eq!(&file[at as usize..][..len], [7, 9]);
    /// ```
    ///
    /// # Errors
    /// When `read` fails, or the header does not describe a file of this length.
    pub fn read<E>(
        len_bytes: u64,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<SafetensorsHeader, HeaderError<E>> {
        let invalid = |why: String| Err(HeaderError::Invalid(why));
        if len_bytes < LENGTH_BYTES {
            return invalid(format!("it has {len_bytes} bytes, but a valid file has at least 8"));
        }
        let mut length = [0; LENGTH_BYTES as usize];
        read(0, &mut length).map_err(HeaderError::Read)?;
        let header_bytes = u64::from_le_bytes(length);
        let follow = len_bytes - LENGTH_BYTES;
        if header_bytes > MAX_HEADER_BYTES || header_bytes > follow {
            return invalid(format!("it claims a header of {header_bytes} bytes, but only {follow} follow"));
        }
        let mut text = vec![0; header_bytes as usize];
        read(LENGTH_BYTES, &mut text).map_err(HeaderError::Read)?;
        let tensors: Metadata = match serde_json::from_slice(&text) {
            Ok(tensors) => tensors,
            Err(e) => return invalid(SafeTensorError::JsonError(e).to_string()),
        };
        let (claimed, there) = (tensors.data_len() as u64, follow - header_bytes);
        if claimed != there {
            return invalid(format!("its tensors need {claimed} bytes, but {there} follow the header"));
        }
        Ok(SafetensorsHeader { tensors, data_start: LENGTH_BYTES + header_bytes })
    }

    /// The tensors' names in the order of their bytes.
    pub fn names(&self) -> Vec<String> {
        self.tensors.offset_keys()
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.info(name)
    }

    /// Where a tensor's bytes begin in the file, and how many they are.
    pub fn bytes_of(&self, tensor: &TensorInfo) -> (u64, usize) {
        let (start, end) = tensor.data_offsets;
        (self.data_start + start as u64, end - start)
    }

    /// The texts in the file's `__metadata__`.
    pub fn texts(&self) -> BTreeMap<&str, &str> {
        let texts = self.tensors.metadata().iter().flatten();
        texts.map(|(key, text)| (key.as_str(), text.as_str())).collect()
    }
}
