//! What is made of a session's secret, so that each party knows no more than it needs.
//!
//! SESSION-KEY-1: a session's secret is known to its client and to the server. The server tells the session's worker a key that is derived
//! from it, and from that key come the two that are shown to the worker: one by the client, one by other workers of the same client. No
//! key leads back to what it was derived from. So a worker cannot speak for its sessions at the server, and a worker that may bring
//! values to a session of another worker cannot take that session's answers.

use crate::Secret;

/// What is shown to a session's worker.
#[derive(Clone, Debug)]
pub struct SessionKeys {
    /// By the session's client.
    pub client: Secret,
    /// By other workers of that client, and to a server's relay.
    pub peer: Secret,
}

impl Secret {
    /// What the server tells the worker of the session that has this secret.
    pub fn worker_key(&self) -> Secret {
        self.derive("worker")
    }
}

impl SessionKeys {
    /// For those who know the session's secret.
    pub fn of_session(secret: &Secret) -> SessionKeys {
        SessionKeys::of_worker_key(&secret.worker_key())
    }

    /// For the session's worker.
    pub fn of_worker_key(key: &Secret) -> SessionKeys {
        SessionKeys { client: key.derive("client of a worker"), peer: key.derive("peer of a worker") }
    }
}

/// Who comes to a worker for which session: what a server has to see before it passes a connection on.
#[derive(Clone, Debug)]
pub struct SessionPass {
    /// The session.
    pub session: u64,
    /// [`SessionKeys::peer`] of it.
    pub key: Secret,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_agree_on_both_sides_and_differ_from_each_other() {
        let secret = Secret::random().unwrap();
        let here = SessionKeys::of_session(&secret);
        let there = SessionKeys::of_worker_key(&Secret::from_bytes(secret.worker_key().as_bytes()));
        assert!(here.client == there.client && here.peer == there.peer);
        let all = [secret.clone(), secret.worker_key(), here.client, here.peer];
        for (i, a) in all.iter().enumerate() {
            assert!(all.iter().skip(i + 1).all(|b| a != b));
        }
    }
}
