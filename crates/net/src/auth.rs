//! Secrets: the tokens that a server asks for, and the secrets it gives to sessions and workers.
//!
//! AUTH-1: comparing takes the same time whatever is presented: neither its length nor its first wrong byte shows.
//! AUTH-2: a secret is in no log: it prints as stars. Tokens are in no message either: see `proof.rs`.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ring::digest::{SHA256, digest};
use ring::hmac;
use subtle::ConstantTimeEq;

use crate::NetError;

/// The longest token that a file may hold.
const MAX_SECRET_BYTES: usize = 4096;

/// Something that only those who may enter know.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// 256 random bits, as hexadecimal text that can be written to a file.
    pub fn random() -> Result<Secret, NetError> {
        let mut bits = [0u8; 32];
        getrandom::fill(&mut bits).map_err(|e| NetError::resource("random numbers", e))?;
        let text: String = bits.iter().map(|b| format!("{b:02x}")).collect();
        Ok(Secret(text.into_bytes().into()))
    }

    /// What somebody presented, or what was given to this process: taken as it is.
    pub fn from_bytes(bytes: &[u8]) -> Secret {
        Secret(bytes.into())
    }

    /// A secret as a user wrote it; white space around it is not part of it.
    pub fn from_text(what: &str, text: &str) -> Result<Secret, NetError> {
        let wrong = |reason: String| NetError::Credentials { what: what.to_string(), reason };
        match text.trim() {
            "" => Err(wrong("it is empty".to_string())),
            text if text.len() > MAX_SECRET_BYTES => Err(wrong(format!("it has more than {MAX_SECRET_BYTES} bytes"))),
            text => Ok(Secret(text.as_bytes().into())),
        }
    }

    /// Reads a token file. The second value is what the user should be warned of: others can read it too.
    pub fn read(path: &Path) -> Result<(Secret, Option<String>), NetError> {
        let name = path.display().to_string();
        let wrong = |e: std::io::Error| NetError::Credentials { what: name.clone(), reason: e.to_string() };
        let file = std::fs::File::open(path).map_err(wrong)?;
        let mode = file.metadata().map_err(wrong)?.permissions().mode() & 0o777;
        let mut text = String::new();
        file.take(MAX_SECRET_BYTES as u64 + 2).read_to_string(&mut text).map_err(wrong)?;
        let warning =
            (mode & 0o077 != 0).then(|| format!("other users can read {name} (mode {mode:03o}); run chmod 600 on it"));
        Ok((Secret::from_text(&name, &text)?, warning))
    }

    /// The secret itself, to be sent to who asks for it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Another secret, made of this one for one purpose; it does not lead back.
    pub(crate) fn derive(&self, purpose: &str) -> Secret {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        Secret(hmac::sign(&key, &[b"gt key 1\0", purpose.as_bytes()].concat()).as_ref().into())
    }

    /// Whether somebody knows it (AUTH-1).
    pub fn matches(&self, presented: &[u8]) -> bool {
        let (ours, theirs) = (digest(&SHA256, &self.0), digest(&SHA256, presented));
        ours.as_ref().ct_eq(theirs.as_ref()).into()
    }
}

/// AUTH-1.
impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.matches(&other.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn random_secrets_differ_and_match_themselves() {
        let (a, b) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert!(a.matches(a.as_bytes()) && !a.matches(b.as_bytes()));
        assert!(!a.matches(&a.as_bytes()[..63]) && !a.matches(b""));
        assert_eq!(a.as_bytes().len(), 64);
        assert!(!format!("{a:?}").contains(std::str::from_utf8(a.as_bytes()).unwrap()));
    }

    #[test]
    fn token_files_are_trimmed_checked_and_warned_of() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "  open sesame  ").unwrap();
        let mode = |mode| std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).unwrap();
        mode(0o600);
        let (secret, warning) = Secret::read(file.path()).unwrap();
        assert_eq!((secret.as_bytes(), warning), (&b"open sesame"[..], None));
        mode(0o644);
        assert!(Secret::read(file.path()).unwrap().1.unwrap().contains("chmod 600"));
        file.as_file().set_len(0).unwrap();
        assert!(Secret::read(file.path()).unwrap_err().to_string().contains("empty"));
        file.as_file().set_len(1 << 20).unwrap();
        assert!(Secret::read(file.path()).unwrap_err().to_string().contains("more than"));
        assert!(Secret::read(Path::new("/nowhere/token")).is_err());
    }
}
