//! The server's seal on the address of a worker.
//!
//! SEAL-1: clients tell workers whom to connect to, by the descriptions of workers that they have from the server. A worker connects only
//! where its server has sealed the description: otherwise a client could have it connect to any address that it can reach.

use ring::hmac;

use crate::Secret;
use crate::protocol::{WorkerInfo, encode};

impl WorkerInfo {
    /// The same with a seal, which only those who know the key can make. What changes while a worker runs is not sealed.
    #[must_use]
    pub fn sealed(mut self, key: &Secret) -> WorkerInfo {
        self.seal = hmac::sign(&mac_key(key), &self.sealed_bytes()).as_ref().into();
        self
    }

    /// Whether the seal was made with this key, of this name and these addresses.
    pub fn is_sealed_by(&self, key: &Secret) -> bool {
        hmac::verify(&mac_key(key), &self.sealed_bytes(), &self.seal).is_ok()
    }

    fn sealed_bytes(&self) -> Vec<u8> {
        let fixed =
            WorkerInfo { engine: String::new(), threads: 0, memory_limit: 0, seal: Box::default(), ..self.clone() };
        encode(&fixed)
    }
}

fn mac_key(key: &Secret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> WorkerInfo {
        WorkerInfo {
            index: 1,
            id: "worker_1".to_string(),
            unix: None,
            tcp: Some("10.0.0.2:9001".to_string()),
            fingerprint: None,
            host: "there".to_string(),
            engine: "cpu".to_string(),
            threads: 2,
            memory_limit: 1,
            seal: Box::default(),
        }
    }

    #[test]
    fn a_seal_holds_for_one_key_one_name_and_one_set_of_addresses() {
        let (key, other) = (Secret::from_bytes(b"a key"), Secret::from_bytes(b"another"));
        let sealed = info().sealed(&key);
        assert!(sealed.is_sealed_by(&key));
        assert!(!sealed.is_sealed_by(&other) && !info().is_sealed_by(&key));
        assert!(WorkerInfo { threads: 8, memory_limit: 7, ..sealed.clone() }.is_sealed_by(&key), "they change");
        for changed in [
            WorkerInfo { index: 2, ..sealed.clone() },
            WorkerInfo { id: "worker_2".to_string(), ..sealed.clone() },
            WorkerInfo { unix: Some("/run/another.sock".to_string()), ..sealed.clone() },
            WorkerInfo { tcp: Some("127.0.0.1:22".to_string()), ..sealed.clone() },
            WorkerInfo { fingerprint: Some(Box::from([1])), ..sealed.clone() },
            WorkerInfo { host: "here".to_string(), ..sealed.clone() },
        ] {
            assert!(!changed.is_sealed_by(&key), "{changed:?}");
        }
    }
}
