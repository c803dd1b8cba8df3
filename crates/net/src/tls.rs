//! TLS over the sockets of this crate.
//!
//! A server shows a certificate, usually one it made itself; a client knows it by its fingerprint or by a file of
//! certificates. Nobody trusts the system's authorities: GT's servers are not web sites.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, ServerConfig, ServerConnection};

use crate::NetError;
use crate::socket::{Moved, Socket};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn credentials(what: &str, reason: impl ToString) -> NetError {
    NetError::Credentials { what: what.to_string(), reason: reason.to_string() }
}

/// The SHA-256 of a certificate: what a client compares.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        let mut out = [0; 32];
        out.copy_from_slice(digest.as_ref());
        Fingerprint(out)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = NetError;

    /// Reads 64 hexadecimal digits, with or without colons between the bytes.
    fn from_str(text: &str) -> Result<Fingerprint, NetError> {
        let wrong = || credentials("fingerprint", "expected 64 hexadecimal digits");
        let digits: Vec<u8> = text.trim().bytes().filter(|&b| b != b':').collect();
        let mut out = [0; 32];
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(wrong());
        }
        for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Fingerprint(out))
    }
}

/// A certificate and its key, as PEM text.
#[derive(Clone)]
pub struct Identity {
    /// The certificate: anyone may see it, and clients may be given it.
    pub certificate_pem: String,
    /// The key: the server's own.
    pub key_pem: String,
}

impl Identity {
    /// Makes a certificate for these host names and addresses, signed by itself.
    pub fn generate(names: &[String]) -> Result<Identity, NetError> {
        let made = rcgen::generate_simple_self_signed(names).map_err(|e| credentials("certificate", e))?;
        Ok(Identity { certificate_pem: made.cert.pem(), key_pem: made.signing_key.serialize_pem() })
    }

    /// The fingerprint that clients pin.
    pub fn fingerprint(&self) -> Result<Fingerprint, NetError> {
        let certificate = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes());
        Ok(Fingerprint::of(&certificate.map_err(|e| credentials("certificate", e))?))
    }
}

/// TLS of the side that listens.
#[derive(Clone)]
pub struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// Shows this certificate to whoever connects.
    pub fn new(identity: &Identity) -> Result<ServerTls, NetError> {
        let chain = CertificateDer::pem_slice_iter(identity.certificate_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| credentials("certificate", e))?;
        let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).map_err(|e| credentials("key", e))?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(|b| b.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|e| credentials("certificate", e))?;
        Ok(ServerTls(Arc::new(config)))
    }

    pub(crate) fn accept(&self) -> Result<Box<TlsStream>, NetError> {
        let connection = ServerConnection::new(self.0.clone()).map_err(|e| NetError::Tls { reason: e.to_string() })?;
        Ok(Box::new(TlsStream(connection.into())))
    }
}

/// TLS of the side that connects.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: Option<String>,
}

impl ClientTls {
    /// Trusts the one certificate with this fingerprint, whatever names it bears.
    pub fn pinned(fingerprint: Fingerprint) -> Result<ClientTls, NetError> {
        let provider = provider();
        let verifier = Arc::new(Pinned { fingerprint, provider: provider.clone() });
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| credentials("TLS", e))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(ClientTls { config: Arc::new(config), name: None })
    }

    /// Trusts certificates that are in this PEM text or signed by one that is. `name` is what they must be made out to;
    /// without it, the host connected to.
    pub fn trusting(certificates_pem: &str, name: Option<String>) -> Result<ClientTls, NetError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(certificates_pem.as_bytes()) {
            let certificate = certificate.map_err(|e| credentials("certificates", e))?;
            roots.add(certificate).map_err(|e| credentials("certificates", e))?;
        }
        if roots.is_empty() {
            return Err(credentials("certificates", "the file contains no certificate"));
        }
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|e| credentials("TLS", e))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(ClientTls { config: Arc::new(config), name })
    }

    pub(crate) fn connect(&self, host: &str) -> Result<Box<TlsStream>, NetError> {
        let name = self.name.as_deref().unwrap_or(host).to_string();
        let name = ServerName::try_from(name).map_err(|e| credentials("server name", e))?;
        let connection =
            ClientConnection::new(self.config.clone(), name).map_err(|e| NetError::Tls { reason: e.to_string() })?;
        Ok(Box::new(TlsStream(connection.into())))
    }
}

/// Accepts one certificate.
#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let shown = Fingerprint::of(end_entity);
        match shown == self.fingerprint {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(rustls::Error::General(format!(
                "the server's certificate has fingerprint {shown}, expected {}",
                self.fingerprint
            ))),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// One side of a TLS connection; it holds no socket.
pub(crate) struct TlsStream(rustls::Connection);

impl TlsStream {
    pub(crate) fn connection(&mut self) -> &mut rustls::Connection {
        &mut self.0
    }

    /// Sends everything TLS wants to send, until the socket would block.
    pub(crate) fn flush(&mut self, socket: &Socket) -> Result<Moved, NetError> {
        let mut sent = 0;
        while self.0.wants_write() {
            match self.0.write_tls(&mut AsWrite(socket)) {
                Ok(n) => sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Moved::WouldBlock),
                Err(e) => return Err(NetError::lost(e)),
            }
        }
        Ok(Moved::Bytes(sent))
    }

    /// Receives plain bytes: 0 at the end of the stream.
    pub(crate) fn receive(&mut self, socket: &Socket, into: &mut [u8]) -> Result<Moved, NetError> {
        loop {
            match self.0.reader().read(into) {
                Ok(n) => return Ok(Moved::Bytes(n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(NetError::lost(e)),
            }
            match self.0.read_tls(&mut AsRead(socket)) {
                Ok(0) => return Ok(Moved::Bytes(0)),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Moved::WouldBlock),
                Err(e) => return Err(NetError::lost(e)),
            }
            if let Err(error) = self.0.process_new_packets() {
                let _ = self.flush(socket); // the alert says to the other side what was wrong
                return Err(NetError::Tls { reason: error.to_string() });
            }
        }
    }
}

fn would_block() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}

struct AsRead<'a>(&'a Socket);

impl Read for AsRead<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.receive(into, &mut Default::default()).map_err(io::Error::other)? {
            Moved::Bytes(n) => Ok(n),
            Moved::WouldBlock => Err(would_block()),
        }
    }
}

struct AsWrite<'a>(&'a Socket);

impl Write for AsWrite<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.0.send(slices, None).map_err(io::Error::other)? {
            Moved::Bytes(n) => Ok(n),
            Moved::WouldBlock => Err(would_block()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
