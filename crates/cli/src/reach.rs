//! How a server is named, found and entered: what several commands share.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use gt_net::{Address, ClientTls, Secret};

/// Which server.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReachArgs {
    /// The server's host.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: String,

    /// The server's port.
    #[arg(short, long, default_value_t = 9000)]
    pub(crate) port: u16,

    /// A file with the server's token, which is asked for beyond loopback. GT_TOKEN may hold the token itself instead.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// The fingerprint of the server's certificate, as `gt server --tls` printed it. The connection is encrypted then.
    #[arg(long, value_name = "HEX")]
    pub(crate) fingerprint: Option<String>,
}

impl ReachArgs {
    /// Where the server is over a network.
    pub(crate) fn tcp(&self) -> Address {
        Address::Tcp { host: self.host.clone(), port: self.port }
    }

    /// Where it listens for processes of this user on its host, if that may be this one.
    pub(crate) fn unix(&self) -> Option<Address> {
        // Who names a certificate wants TLS, which the socket of a host has no need for.
        let is_local = self.tcp().is_local() && self.fingerprint.is_none();
        is_local.then(|| gt_net::server_socket(self.port).ok()).flatten().map(Address::Unix)
    }

    pub(crate) fn token(&self) -> anyhow::Result<Option<Secret>> {
        token(self.token_file.as_ref())
    }

    pub(crate) fn tls(&self) -> anyhow::Result<Option<ClientTls>> {
        let Some(text) = &self.fingerprint else { return Ok(None) };
        let pinned = text.parse().and_then(ClientTls::pinned);
        Ok(Some(pinned.context("--fingerprint")?))
    }
}

/// The token of a file, or of `GT_TOKEN`. Warns when others can read the file.
pub(crate) fn token(file: Option<&PathBuf>) -> anyhow::Result<Option<Secret>> {
    if let Some(path) = file {
        let (secret, warning) = Secret::read(path).context("--token-file")?;
        if let Some(warning) = warning {
            eprintln!("gt: warning: {warning}");
        }
        return Ok(Some(secret));
    }
    match std::env::var("GT_TOKEN") {
        Ok(text) if !text.is_empty() => Ok(Some(Secret::from_text("GT_TOKEN", &text)?)),
        _ => Ok(None),
    }
}
