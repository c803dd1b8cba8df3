//! Where a process listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::NetError;

/// A place to listen at or connect to: `unix:/path`, `host:port` or `[::1]:port`; `tcp://` may stand in front of the last two.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// A socket file on this host.
    Unix(PathBuf),
    /// A host, by name or number, and a port; listening at port 0 takes any that is free.
    Tcp {
        /// Name or number, without brackets.
        host: String,
        /// Port.
        port: u16,
    },
}

/// The longest path that a socket file may have (`sun_path`, with its final zero).
const UNIX_PATH_BYTES: usize = 107;

impl FromStr for Address {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Address, NetError> {
        let wrong = |reason: &str| NetError::Address { text: text.to_string(), reason: reason.to_string() };
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.len() {
                0 => Err(wrong("expected a path after `unix:`")),
                n if n > UNIX_PATH_BYTES => Err(wrong("a socket path can have at most 107 bytes")),
                _ if path.contains('\0') => Err(wrong("a path cannot contain a zero byte")),
                _ => Ok(Address::Unix(PathBuf::from(path))),
            };
        }
        let text = text.strip_prefix("tcp://").unwrap_or(text);
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(wrong(&format!("GT does not support {scheme}; write host:port without {scheme}://")));
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:").ok_or_else(|| wrong("expected [address]:port"))?,
            None => text.rsplit_once(':').ok_or_else(|| wrong("expected host:port or unix:/path"))?,
        };
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        if host.contains(':') && !text.starts_with('[') {
            return Err(wrong("write an IPv6 address in brackets, such as [::1]:9000"));
        }
        if !host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:%".contains(&b)) {
            return Err(wrong("a host name can contain only letters, digits, dots and dashes"));
        }
        let port = port.parse().map_err(|_| wrong("the port must be a number from 0 to 65535"))?;
        Ok(Address::Tcp { host: host.to_string(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl Address {
    /// Whether only processes of this host can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp { host, .. } => {
                host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_print_as_they_are_read() {
        for text in ["unix:/run/gt.sock", "localhost:9000", "10.0.0.7:0", "[::1]:9000", "node-3.cluster:65535"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_address_may_begin_with_tcp() {
        assert_eq!("tcp://10.0.0.7:9000".parse::<Address>().unwrap().to_string(), "10.0.0.7:9000");
        assert_eq!("tcp://[::1]:9000".parse::<Address>().unwrap().to_string(), "[::1]:9000");
        let error = "https://10.0.0.7:9000".parse::<Address>().unwrap_err().to_string();
        assert!(error.contains("without https://") && !error.contains("IPv6"), "{error}");
    }

    #[test]
    fn what_is_no_address_is_named() {
        let long = format!("unix:/{}", "x".repeat(107));
        for text in [
            "",
            "9000",
            "host:",
            ":9000",
            "host:99999",
            "::1:9000",
            "[::1]9000",
            "[::1",
            "unix:",
            "a b:1",
            "h/x:1",
            &long,
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains("is not a valid address"), "{text}: {error}");
        }
    }

    #[test]
    fn loopback_is_local() {
        for (text, local) in
            [("unix:/x", true), ("127.0.0.1:1", true), ("[::1]:1", true), ("0.0.0.0:1", false), ("host:1", false)]
        {
            assert_eq!(text.parse::<Address>().unwrap().is_local(), local, "{text}");
        }
    }
}
