//! URLs of files: which store, and which object of it.

use std::borrow::Cow;

use object_store::path::Path as ObjectPath;
use url::Url;

use super::public_addresses::names_public_host;
use crate::error::{DataError, Result};

/// The kinds of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    S3,
    Google,
    Azure,
    Http,
}

const SCHEMES: [(&str, Scheme); 5] = [
    ("s3://", Scheme::S3),
    ("gs://", Scheme::Google),
    ("az://", Scheme::Azure),
    ("http://", Scheme::Http),
    ("https://", Scheme::Http),
];

/// A URL in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileUrl {
    pub scheme: Scheme,
    /// What names the store: `s3://bucket`, or a server with the query that every request to it bears.
    pub store: String,
    /// The object's name inside, as the store spells it; may be a pattern.
    pub path: String,
}

/// Whether a path is a URL that GT reads.
pub(crate) fn is_url(text: &str) -> bool {
    SCHEMES.iter().any(|(prefix, _)| text.starts_with(prefix))
}

/// The path that a `file://` URL names; any other text as it is.
///
/// # Errors
/// When it names another machine.
pub(crate) fn local_path(text: &str) -> Result<Cow<'_, str>> {
    let Some(named) = text.strip_prefix("file://") else { return Ok(Cow::Borrowed(text)) };
    let path = named.strip_prefix("localhost").unwrap_or(named);
    match percent_decoded(path).filter(|path| path.starts_with('/')) {
        Some(path) => Ok(Cow::Owned(path)),
        None => Err(DataError::Argument(format!(
            "{text:?} does not name a file on this machine: write file:///folder/name"
        ))),
    }
}

impl FileUrl {
    /// The parts of a URL.
    ///
    /// # Errors
    /// When it names no bucket or server.
    pub(super) fn parse(text: &str) -> Result<FileUrl> {
        let wrong = |why: &dyn std::fmt::Display| DataError::Argument(format!("{text:?} is not a URL: {why}"));
        let Some(&(prefix, scheme)) = SCHEMES.iter().find(|(prefix, _)| text.starts_with(prefix)) else {
            return Err(wrong(&"GT reads s3, gs, az, http and https URLs"));
        };
        if scheme == Scheme::Http {
            let mut url = Url::parse(text).map_err(|e| wrong(&e))?;
            let decoded = percent_decoded(url.path()).ok_or_else(|| wrong(&"the path is not valid UTF-8"))?;
            let path = decoded.trim_start_matches('/').to_owned();
            url.set_path("");
            url.set_fragment(None);
            return Ok(FileUrl { scheme, store: url.to_string(), path });
        }
        // Names of objects may hold anything, so nothing in them is special but the slash.
        let (bucket, path) = text[prefix.len()..].split_once('/').unwrap_or((&text[prefix.len()..], ""));
        match bucket.is_empty() {
            true => Err(wrong(&"the URL names no bucket")),
            false => Ok(FileUrl { scheme, store: format!("{prefix}{bucket}"), path: path.to_owned() }),
        }
    }

    /// The bucket or container.
    pub(super) fn bucket(&self) -> &str {
        self.store.split_once("://").map_or("", |(_, bucket)| bucket)
    }

    /// The scheme, and the host with its port or the bucket; none where that is no plain name.
    pub(super) fn host(&self) -> Option<(&str, String)> {
        let (scheme, bucket) = self.store.split_once("://")?;
        if self.scheme != Scheme::Http {
            let is_plain = bucket.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
            return is_plain.then(|| (scheme, bucket.to_owned()));
        }
        let url = Url::parse(&self.store).ok()?;
        let host = url.host_str()?;
        Some((scheme, url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))))
    }

    /// Whether it shows that the server is this host, or a service of its network or cloud.
    pub(super) fn is_private(&self) -> bool {
        self.scheme == Scheme::Http && Url::parse(&self.store).map_or(true, |url| !names_public_host(&url))
    }

    /// The URL of an object of the same store.
    pub(super) fn of(&self, path: &str) -> String {
        if self.scheme == Scheme::Http
            && let Ok(mut url) = Url::parse(&self.store)
        {
            url.set_path(path);
            // A query may hold a signature, which is nothing for a log.
            url.set_query(None);
            return url.to_string();
        }
        format!("{}/{path}", self.store)
    }

    /// Whether the name is a pattern. In the URL of a server `?` begins the query.
    pub(super) fn is_pattern(&self) -> bool {
        match self.scheme {
            Scheme::Http => self.path.contains('*'),
            Scheme::S3 | Scheme::Google | Scheme::Azure => self.path.contains(['*', '?', '[']),
        }
    }

    /// The name as the store's library takes it.
    pub(super) fn object(&self, path: &str) -> Result<ObjectPath> {
        ObjectPath::parse(path.trim_end_matches('/'))
            .map_err(|e| DataError::Argument(format!("{}: not a valid object name: {e}", self.of(path))))
    }
}

fn percent_decoded(path: &str) -> Option<String> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = (first == b'%').then(|| after.get(..2)).flatten().filter(|h| h.iter().all(u8::is_ascii_hexdigit));
        match hex.and_then(|h| u8::from_str_radix(std::str::from_utf8(h).ok()?, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_files_are_paths() {
        for (url, path) in [
            ("file:///a%20b/x.parquet", "/a b/x.parquet"),
            ("file://localhost/x*.npy", "/x*.npy"),
            ("file", "file"),
            ("s3://b/x", "s3://b/x"),
        ] {
            assert_eq!(local_path(url).unwrap(), path);
        }
        assert!(local_path("file://server/x").unwrap_err().to_string().contains("this machine"));
    }

    #[test]
    fn urls_have_a_store_and_a_path() {
        let s3 = FileUrl::parse("s3://bucket/a b/x?[1]*.parquet").unwrap();
        assert_eq!((s3.bucket(), s3.path.as_str(), s3.is_pattern()), ("bucket", "a b/x?[1]*.parquet", true));
        assert_eq!(s3.of("c/d.npy"), "s3://bucket/c/d.npy");
        let http = FileUrl::parse("http://127.0.0.1:8080/a%20b/x.tar?token=1").unwrap();
        assert_eq!((http.path.as_str(), http.is_pattern()), ("a b/x.tar", false));
        assert_eq!(http.of("a b/x.tar"), "http://127.0.0.1:8080/a%20b/x.tar");
        assert!(http.store.contains("token=1"));
        for wrong in ["s3://", "http://", "ftp://x/y"] {
            assert!(matches!(FileUrl::parse(wrong), Err(DataError::Argument(_))), "{wrong}");
        }
    }
}
