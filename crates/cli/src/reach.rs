//! How a server is named, found and entered: what several commands share.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use gt_net::{Address, ClientTls, Connection, Io, Limits, NetError, Receiver, Secret};

/// How long a server may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 9000;

/// Which server.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReachArgs {
    /// Host name or address of the server
    #[arg(long, default_value = DEFAULT_HOST)]
    pub(crate) host: String,

    /// Port of the server
    #[arg(short, long, default_value_t = DEFAULT_PORT)]
    pub(crate) port: u16,

    /// Fingerprint of the server's TLS certificate, as printed by the server; turns on TLS
    #[arg(long, value_name = "HEX")]
    pub(crate) fingerprint: Option<String>,
}

/// What a client or an observer shows.
#[derive(Args, Clone, Debug)]
pub(crate) struct TokenArgs {
    /// File with the server's token, if the server requires one
    ///
    /// The variable GT_TOKEN can hold the token itself instead.
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    pub(crate) fn token(&self) -> anyhow::Result<Option<Secret>> {
        CLIENT_TOKEN.read(self.token_file.as_ref())
    }
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

    /// The options that name the server, unless commands find it by default.
    pub(crate) fn options(&self) -> String {
        let host = if self.host == DEFAULT_HOST { String::new() } else { format!(" --host {}", self.host) };
        let port = if self.port == DEFAULT_PORT { String::new() } else { format!(" -p {}", self.port) };
        host + &port
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
            NetError::Unreachable { .. } | NetError::NobodyListens { .. } => {
                anyhow!("cannot reach the server: {error}. Start one with: gt server -p {}", self.port)
            }
            NetError::NotGt { .. } | NetError::Closed | NetError::Lost { .. } if self.fingerprint.is_none() => {
                anyhow!("{address} does not answer as a GT server: {error}. If it uses TLS, pass its --fingerprint")
            }
            other => anyhow!("{address}: {other}"),
        })
    }

    pub(crate) fn tls(&self) -> anyhow::Result<Option<ClientTls>> {
        let Some(text) = &self.fingerprint else { return Ok(None) };
        let pinned = text.parse().and_then(ClientTls::pinned);
        Ok(Some(pinned.context("--fingerprint")?))
    }
}

/// A token, and where users put it. Never on a command line: other users of the machine can read those.
pub(crate) struct TokenPlace {
    pub(crate) option: &'static str,
    pub(crate) variable: &'static str,
}

/// What clients show.
pub(crate) const CLIENT_TOKEN: TokenPlace = TokenPlace { option: "--token-file", variable: "GT_TOKEN" };
/// What workers show.
pub(crate) const WORKER_TOKEN: TokenPlace = TokenPlace { option: "--worker-token-file", variable: "GT_WORKER_TOKEN" };

impl TokenPlace {
    /// The token of a file, or of the variable. Warns when others can read the file.
    pub(crate) fn read(&self, file: Option<&PathBuf>) -> anyhow::Result<Option<Secret>> {
        if let Some(path) = file {
            let (secret, warning) = Secret::read(path).context(self.option)?;
            if let Some(warning) = warning {
                gt_observe::say(format_args!("gt: warning: {warning}"));
            }
            return Ok(Some(secret));
        }
        match std::env::var(self.variable) {
            Ok(text) if !text.trim().is_empty() => Ok(Some(Secret::from_text(self.variable, &text)?)),
            _ => Ok(None),
        }
    }
}
