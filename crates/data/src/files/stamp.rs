//! How a file is recognised.

use serde::{Deserialize, Serialize};

/// What a file is recognised by: if none of it changed, neither did the content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Its length.
    pub len_bytes: u64,
    /// When it was written, in nanoseconds since 1970. Zero for objects that have an entity tag: a copy of the same content may
    /// be younger.
    pub mtime_ns: i64,
    /// The entity tag of an object, without its quotes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

impl Stamp {
    /// The stamp in a file's metadata.
    pub fn from_metadata(meta: &std::fs::Metadata) -> Stamp {
        use std::os::unix::fs::MetadataExt;
        let mtime_ns = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
        Stamp { len_bytes: meta.len(), mtime_ns, etag: None }
    }

    /// The stamp in what a store says of an object. Listings and answers differ in the quotes around the tag.
    pub(super) fn from_object(meta: &object_store::ObjectMeta) -> Stamp {
        let etag = meta.e_tag.as_ref().map(|tag| tag.trim().trim_matches('"').to_owned()).filter(|t| !t.is_empty());
        let mtime_ns = match &etag {
            Some(_) => 0,
            None => meta.last_modified.timestamp().saturating_mul(1_000_000_000),
        };
        Stamp { len_bytes: meta.size, mtime_ns, etag }
    }

    /// The tag as a condition of a request. A weak tag cannot be one; it is compared with the answer's instead.
    pub(super) fn condition(&self) -> Option<String> {
        self.etag.as_ref().filter(|tag| !tag.starts_with("W/")).map(|tag| format!("\"{tag}\""))
    }
}
