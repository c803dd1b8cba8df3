//! Which addresses the user of a process allows: `s3://bucket/train/*`, `https://*.example.org/data/*`.
//!
//! URLPATTERN-1: scheme, host and path are compared one by one, so that no part of an address can pass for another.

use super::file_url::{FileUrl, is_url};
use crate::error::{DataError, Result};

/// `*` in a host stands for anything but the end of it; in a path also for slashes.
#[derive(Debug)]
pub(super) struct UrlPattern {
    scheme: String,
    host: glob::Pattern,
    path: glob::Pattern,
    /// What every path that fits begins with.
    begins: String,
}

impl UrlPattern {
    /// Reads one. A pattern without a path, or with one that ends in a slash, means everything below.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn parse(text: &str) -> Result<UrlPattern> {
        let wrong = |why: &str| {
            DataError::Argument(format!("{text:?} is not a URL pattern such as s3://bucket/train/*: {why}"))
        };
        if !is_url(text) {
            return Err(wrong("it must start with s3://, gs://, az://, http:// or https://"));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() || host.contains('@') {
            return Err(wrong("it names no host or bucket"));
        }
        let everything = if path.is_empty() || path.ends_with('/') { "*" } else { "" };
        let path = format!("{path}{everything}");
        let pattern = |part: &str| glob::Pattern::new(part).map_err(|e| wrong(e.msg));
        Ok(UrlPattern {
            scheme: scheme.to_owned(),
            host: pattern(&host.to_ascii_lowercase())?,
            begins: path[..path.find(['*', '?', '[']).unwrap_or(path.len())].to_owned(),
            path: pattern(&path)?,
        })
    }

    /// Whether it means an object of a store.
    pub(super) fn fits(&self, url: &FileUrl, path: &str) -> bool {
        self.fits_store(url) && is_straight(path) && self.path.matches(path)
    }

    /// Whether it may mean something in a folder of a store.
    pub(super) fn fits_below(&self, url: &FileUrl, folder: &str) -> bool {
        self.fits_store(url) && is_straight(folder) && folder.starts_with(self.begins.trim_end_matches('/'))
    }

    /// Whether it may mean something in a store.
    pub(super) fn fits_store(&self, url: &FileUrl) -> bool {
        url.host().is_some_and(|(scheme, host)| scheme == self.scheme && self.host.matches(&host))
    }
}

/// Whether a path goes down only.
fn is_straight(path: &str) -> bool {
    path.split('/').all(|part| part != ".." && part != ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, url: &str) -> bool {
        let url = FileUrl::parse(url).unwrap();
        UrlPattern::parse(pattern).unwrap().fits(&url, &url.path)
    }

    #[test]
    fn addresses_fit_patterns_part_by_part() {
        for (pattern, url) in [
            ("s3://bucket/train/*", "s3://bucket/train/a/b.parquet"),
            ("s3://bucket", "s3://bucket/x"),
            ("https://data.example.org/sets/", "https://data.example.org/sets/a/b"),
            ("https://*.example.org/*", "https://a.b.example.org/x"),
            ("http://host:8080/*", "http://host:8080/x"),
            ("https://host/*", "https://HOST:443/x?token=1"),
        ] {
            assert!(fits(pattern, url), "{pattern} {url}");
        }
        for (pattern, url) in [
            ("s3://bucket/train/*", "s3://bucket/test/a"),
            ("s3://bucket/train/*", "s3://bucket-too/train/a"),
            ("s3://bucket/train/*", "gs://bucket/train/a"),
            ("s3://bucket/train/*", "s3://bucket/train/../secret"),
            ("https://*.example.org/*", "https://evil.net/.example.org/x"),
            ("https://*.example.org/*", "http://a.example.org/x"),
            ("https://data.example.org/*", "https://data.example.org@evil.net/x"),
            ("https://data.example.org/*", "https://data.example.org:444/x"),
            ("https://data.example.org/*", "https://data.example.org.evil.net/x"),
            ("https://host/pub/*", "https://host/pub/%2e%2e/x"),
            ("https://host/pub/*", "https://host/pub/%2e%2e%2fx"),
        ] {
            assert!(!fits(pattern, url), "{pattern} {url}");
        }
    }

    #[test]
    fn a_text_that_is_no_pattern_is_an_error() {
        for bad in ["bucket/*", "ftp://host/*", "s3://", "https://me@host/*", "s3://b/[", "file:///data"] {
            let error = UrlPattern::parse(bad).unwrap_err().to_string();
            assert!(error.contains("pattern"), "{error}");
        }
    }

    #[test]
    fn folders_are_listed_where_something_may_be_meant() {
        let pattern = UrlPattern::parse("s3://b/train/x-*").unwrap();
        let below = |folder: &str| pattern.fits_below(&FileUrl::parse(&format!("s3://b/{folder}")).unwrap(), folder);
        assert!(below("train/x-1") && !below("train") && !below("") && !below("test"));
        let all = UrlPattern::parse("s3://b/train/").unwrap();
        assert!(all.fits_below(&FileUrl::parse("s3://b/train").unwrap(), "train"));
    }
}
