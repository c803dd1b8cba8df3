//! How a server is named, found and entered: what several commands share.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use gt_net::{Address, ClientTls, Connection, Io, Limits, NetError, Receiver, Secret};

/// How long a server may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

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

    /// The best way to the server from here.
    pub(crate) fn address(&self) -> Address {
        let near = self.unix().filter(|address| matches!(address, Address::Unix(path) if path.exists()));
        near.unwrap_or_else(|| self.tcp())
    }

    /// Connects to the server; what can be mended is said.
    pub(crate) fn connect(&self, io: &Io, receiver: Box<dyn Receiver>) -> anyhow::Result<Connection> {
        let address = self.address();
        let tls = self.tls()?.filter(|_| address == self.tcp());
        let connected = io.connect(&address, tls.as_ref(), Limits::default(), receiver, PATIENCE, &|| false);
        connected.map_err(|error| match error {
            NetError::Unreachable { .. } => {
                anyhow!("no server: {error}. Start one with: gt server -p {}", self.port)
            }
            NetError::NotGt { .. } | NetError::Closed | NetError::Lost { .. } if self.fingerprint.is_none() => {
                anyhow!("{address} does not answer as a GT server: {error}. If it uses TLS, give its --fingerprint")
            }
            other => anyhow!("{address}: {other}"),
        })
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
