//! How one side of a connection shows that it knows a secret, without saying the secret.
//!
//! PROOF-1: each side sends random bytes when the connection opens. A proof is a MAC keyed with the secret, over the role that its
//! owner claims and over the random bytes of both sides. So a proof that was overheard is worth nothing on another connection, a proof
//! for one role is worth nothing for another, and who receives a proof does not learn the secret.
//! PROOF-2: checking takes the same time whatever is presented.

use ring::hmac;

use crate::{NetError, Result, Secret};

/// The random bytes of one side of a connection.
pub(crate) type Nonce = [u8; NONCE_BYTES];
pub(crate) const NONCE_BYTES: usize = 32;

/// What somebody claims to be (PROOF-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opens sessions with a server.
    Client,
    /// Looks at a server.
    Observer,
    /// Joins a server.
    Worker,
    /// Is the server that the other side was given the secret of.
    Server,
}

impl Role {
    fn name(self) -> &'static [u8] {
        match self {
            Role::Client => b"client",
            Role::Observer => b"observer",
            Role::Worker => b"worker",
            Role::Server => b"server",
        }
    }
}

/// New random bytes.
pub(crate) fn nonce() -> Result<Nonce> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|e| NetError::resource("random numbers", e))?;
    Ok(nonce)
}

/// What is signed. The names of roles have no zero byte, and the rest has a fixed length: two claims never give the same bytes.
fn claim(role: Role, prover: &Nonce, verifier: &Nonce) -> Vec<u8> {
    [b"gt proof 1\0", role.name(), b"\0", &prover[..], &verifier[..]].concat()
}

fn key(secret: &Secret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())
}

/// The proof of the side whose random bytes are `prover`.
pub(crate) fn make(secret: &Secret, role: Role, prover: &Nonce, verifier: &Nonce) -> Vec<u8> {
    hmac::sign(&key(secret), &claim(role, prover, verifier)).as_ref().to_vec()
}

/// Whether a proof is one (PROOF-2).
pub(crate) fn check(secret: &Secret, role: Role, prover: &Nonce, verifier: &Nonce, proof: &[u8]) -> bool {
    hmac::verify(&key(secret), &claim(role, prover, verifier), proof).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_serves_one_secret_one_role_one_connection_and_one_side() {
        let (secret, other) = (Secret::from_bytes(b"open sesame"), Secret::from_bytes(b"open sesam"));
        let (a, b, c) = (nonce().unwrap(), nonce().unwrap(), nonce().unwrap());
        let proof = make(&secret, Role::Client, &a, &b);
        assert!(check(&secret, Role::Client, &a, &b, &proof));
        assert!(!check(&other, Role::Client, &a, &b, &proof));
        for role in [Role::Observer, Role::Worker, Role::Server] {
            assert!(!check(&secret, role, &a, &b, &proof), "{role:?}");
        }
        assert!(!check(&secret, Role::Client, &a, &c, &proof), "replayed to another connection");
        assert!(!check(&secret, Role::Client, &b, &a, &proof), "sent back to its owner");
        assert!(!check(&secret, Role::Client, &a, &b, &proof[..31]) && !check(&secret, Role::Client, &a, &b, b""));
    }
}
