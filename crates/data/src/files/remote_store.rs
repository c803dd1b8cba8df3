//! A store of objects: a bucket, a container, a web server.
//!
//! REMOTE-1: a store has no thread of its own. Whoever waits for an answer moves the requests of all who wait, so reader
//!           threads share connections, and an idle store costs nothing.
//! REMOTE-2: a forked child neither uses nor closes the connections of its parent.

use std::cell::RefCell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt,
    RetryConfig,
};
use tokio::runtime::Runtime;

use super::file_url::{FileUrl, Scheme};
use super::public_addresses::PublicConnector;
use super::remote_error::{changed, explained};
use super::{FileAccess, Stamp};
use crate::error::{DataError, Result};

/// How often a wait looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a server may say nothing in the middle of an answer.
const SILENCE: &str = "10 seconds";
/// Tries after the first, and how long they may take in all.
const RETRIES: usize = 4;
const RETRYING: Duration = Duration::from_secs(20);
/// A longer range is asked for in pieces, several at a time.
const PIECE_BYTES: u64 = 8 << 20;
const AT_ONCE: usize = 8;

type Hook = Rc<dyn Fn() -> bool>;

thread_local! {
    static INTERRUPTED: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Runs `f`; waits for servers that it makes on this thread end with [`DataError::Interrupted`] once `interrupted` says so.
pub fn interruptible<R>(interrupted: impl Fn() -> bool + 'static, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<Hook>);
    impl Drop for Restore {
        fn drop(&mut self) {
            INTERRUPTED.set(self.0.take());
        }
    }
    let _restore = Restore(INTERRUPTED.replace(Some(Rc::new(interrupted))));
    f()
}

/// Whether waits of this thread are to end.
pub(super) fn is_interrupted() -> bool {
    let hook = INTERRUPTED.with_borrow(Clone::clone);
    hook.is_some_and(|interrupted| interrupted())
}

/// A store that is open.
#[derive(Debug)]
pub(crate) struct RemoteStore {
    url: FileUrl,
    access: FileAccess,
    process: u32,
    /// Dropped before the runtime that its connections live on.
    store: ManuallyDrop<Arc<dyn ObjectStore>>,
    runtime: ManuallyDrop<Runtime>,
}

impl RemoteStore {
    /// Opens the store of a URL, with what the environment says of its credentials and its address. Whether an object may be asked
    /// for is checked object by object.
    pub(super) fn open(url: FileUrl, access: &FileAccess) -> Result<RemoteStore> {
        let io = |why: String| DataError::Io { path: url.store.clone(), why };
        // Another part of the process may have chosen one before; any will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|e| io(format!("the network cannot be used: {e}")))?;
        access.check_store(&url)?;
        let store = connect(&url, access).map_err(|e| explained(&url.store, url.scheme, &e))?;
        Ok(RemoteStore {
            url,
            access: access.clone(),
            process: std::process::id(),
            store: ManuallyDrop::new(store),
            runtime: ManuallyDrop::new(runtime),
        })
    }

    pub(super) fn url(&self) -> &FileUrl {
        &self.url
    }

    pub(super) fn access(&self) -> &FileAccess {
        &self.access
    }

    /// What the store says of an object.
    pub(super) fn head(&self, path: &ObjectPath) -> Result<Stamp> {
        let meta = self.wait(path.as_ref(), self.store.head(path))?;
        Ok(Stamp::from_object(&meta))
    }

    /// The objects below a folder, or directly in it.
    pub(super) fn list(&self, folder: &ObjectPath, deep: bool) -> Result<Vec<ObjectMeta>> {
        let listed = async {
            match deep {
                true => self.store.list(Some(folder)).try_collect().await,
                false => self.store.list_with_delimiter(Some(folder)).await.map(|found| found.objects),
            }
        };
        self.wait(folder.as_ref(), listed)
    }

    /// Ranges of an object that was opened with this stamp (FILES-2). None may be empty.
    pub(super) fn read(&self, path: &ObjectPath, stamp: &Stamp, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let pieces: Vec<(usize, Range<u64>)> = ranges
            .iter()
            .enumerate()
            .flat_map(|(n, range)| {
                let starts = (range.start..range.end).step_by(PIECE_BYTES as usize);
                starts.map(move |at| (n, at..(at + PIECE_BYTES).min(range.end)))
            })
            .collect();
        let fetch = |(n, range): (usize, Range<u64>)| async move {
            let options = GetOptions {
                range: Some(GetRange::Bounded(range.clone())),
                if_match: stamp.condition(),
                ..GetOptions::default()
            };
            let got = self.store.get_opts(path, options).await?;
            let same = Stamp::from_object(&got.meta) == *stamp;
            let bytes = if same { got.bytes().await? } else { Bytes::new() };
            Ok((n, range, same.then_some(bytes)))
        };
        let got: Vec<(usize, Range<u64>, Option<Bytes>)> =
            self.wait(path.as_ref(), futures_util::stream::iter(pieces).map(fetch).buffered(AT_ONCE).try_collect())?;
        let mut out: Vec<Vec<Bytes>> = vec![Vec::new(); ranges.len()];
        for (n, range, bytes) in got {
            let bytes = bytes.ok_or_else(|| changed(&self.url.of(path.as_ref())))?;
            if bytes.len() as u64 != range.end - range.start {
                return Err(DataError::Corrupt {
                    path: self.url.of(path.as_ref()),
                    why: "the file ends too early".into(),
                });
            }
            out[n].push(bytes);
        }
        Ok(out.into_iter().map(joined).collect())
    }

    /// Waits for an answer (FILES-3).
    fn wait<T>(&self, path: &str, answer: impl Future<Output = object_store::Result<T>>) -> Result<T> {
        let url = || self.url.of(path);
        if self.process != std::process::id() {
            let why = "the data set was opened before the process was forked; open it again in the child";
            return Err(DataError::Io { path: url(), why: why.into() });
        }
        self.runtime.block_on(async {
            let mut answer = std::pin::pin!(answer);
            loop {
                match tokio::time::timeout(LOOK_EVERY, &mut answer).await {
                    Ok(answered) => return answered.map_err(|e| explained(&url(), self.url.scheme, &e)),
                    Err(_) if is_interrupted() => return Err(DataError::Interrupted),
                    Err(_) => {}
                }
            }
        })
    }
}

impl Drop for RemoteStore {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        // SAFETY: both are taken here, once, and nothing uses a value after its drop.
        let (store, runtime) = unsafe { (ManuallyDrop::take(&mut self.store), ManuallyDrop::take(&mut self.runtime)) };
        drop(store);
        // A name that is still being looked up is not waited for.
        runtime.shutdown_background();
    }
}

/// Pieces of a range as one.
fn joined(pieces: Vec<Bytes>) -> Bytes {
    match <[Bytes; 1]>::try_from(pieces) {
        Ok([one]) => one,
        Err(many) => many.concat().into(),
    }
}

fn connect(url: &FileUrl, access: &FileAccess) -> object_store::Result<Arc<dyn ObjectStore>> {
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRYING, backoff: BackoffConfig::default() };
    let (silence, bucket) = (ClientConfigKey::ReadTimeout, url.bucket());
    Ok(match url.scheme {
        Scheme::S3 => {
            let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
            if builder.get_config_value(&AmazonS3ConfigKey::Client(silence)).is_none() {
                builder = builder.with_config(AmazonS3ConfigKey::Client(silence), SILENCE);
            }
            if builder.get_config_value(&AmazonS3ConfigKey::Endpoint).is_some_and(|e| is_loopback(&e)) {
                builder = builder
                    .with_allow_http(true)
                    .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::NoSystemCertificates), "true");
            }
            Arc::new(builder.build()?)
        }
        Scheme::Google => {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(retry);
            if builder.get_config_value(&GoogleConfigKey::Client(silence)).is_none() {
                builder = builder.with_config(GoogleConfigKey::Client(silence), SILENCE);
            }
            Arc::new(builder.build()?)
        }
        Scheme::Azure => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket).with_retry(retry);
            if builder.get_config_value(&AzureConfigKey::Client(silence)).is_none() {
                builder = builder.with_config(AzureConfigKey::Client(silence), SILENCE);
            }
            Arc::new(builder.build()?)
        }
        Scheme::Http => {
            let options = ClientOptions::new()
                .with_allow_http(url.store.starts_with("http://"))
                .with_no_system_certificates(is_loopback(&url.store))
                .with_config(silence, SILENCE);
            let builder = HttpBuilder::new().with_url(&url.store).with_client_options(options).with_retry(retry);
            Arc::new(match access.is_limited() {
                true => builder.with_http_connector(PublicConnector(access.clone())).build()?,
                false => builder.build()?,
            })
        }
    })
}

/// Whether an address is this machine's own, without TLS: nobody else hears what is said there, and no certificates are
/// needed.
fn is_loopback(address: &str) -> bool {
    let Ok(address) = url::Url::parse(address) else { return false };
    address.scheme() == "http"
        && match address.host() {
            Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
            Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
            Some(url::Host::Domain(name)) => name == "localhost",
            None => false,
        }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use super::*;

    /// A web server that sends a request for `/n/x` on to the n-th of these addresses, and has `/x` itself.
    fn serve(server: &TcpListener, targets: &[String], done: &AtomicBool) {
        while !done.load(SeqCst) {
            let Ok((stream, _)) = server.accept() else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            let _ = answer(stream, targets);
        }
    }

    fn answer(mut stream: TcpStream, targets: &[String]) -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head);
        let number = head.split('/').nth(1).and_then(|part| part.parse::<usize>().ok());
        let answer = match number {
            Some(number) => format!("302 Found\r\nLocation: {}\r\nContent-Length: 0", targets[number]),
            None => "200 OK\r\nContent-Length: 7".to_owned(),
        };
        write!(stream, "HTTP/1.1 {answer}\r\nConnection: close\r\n\r\n")
    }

    /// What a request becomes that a server sends on to each of these addresses, where these patterns are allowed.
    fn sent_on(targets: &[String], patterns: &[String]) -> Vec<Result<u64>> {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let base = format!("http://{}", server.local_addr().unwrap());
        let access = FileAccess::only(&[], patterns).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The server stands for one elsewhere: here only where it sends the request is judged, not where it is.
        let ask = |path: &str| {
            let url = FileUrl::parse(&format!("{base}/{path}")).unwrap();
            let store = connect(&url, &access).unwrap();
            let answered = runtime.block_on(store.head(&ObjectPath::from(path)));
            answered.map(|meta| meta.size).map_err(|e| explained(&base, url.scheme, &e))
        };
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| serve(&server, targets, &done));
            // Without a redirection it answers, so it is the redirection that is refused.
            let plain = ask("x");
            let sent_on = (0..targets.len()).map(|number| ask(&format!("{number}/x"))).collect();
            done.store(true, SeqCst);
            assert!(matches!(plain, Ok(7)), "{plain:?}");
            sent_on
        })
    }

    #[test]
    fn a_server_that_was_allowed_sent_requests_on_to_this_host_and_its_cloud() {
        let inner = TcpListener::bind("127.0.0.1:0").unwrap();
        inner.set_nonblocking(true).unwrap();
        let port = inner.local_addr().unwrap().port();
        let targets = [
            format!("http://127.0.0.1:{port}/x"),
            format!("http://localhost:{port}/x"),
            format!("http://[::ffff:127.0.0.1]:{port}/x"),
            format!("http://2130706433:{port}/x"),
            format!("http://0.0.0.0:{port}/x"),
            "http://169.254.169.254/latest/meta-data/".to_string(),
            "/".to_string(),
        ];
        let outcomes = sent_on(&targets, &["http://*/*".to_string(), "http://*:*/*".to_string()]);
        for (target, outcome) in targets.iter().zip(outcomes) {
            assert!(matches!(outcome, Err(DataError::NotServed { .. })), "{target}: {outcome:?}");
        }
        assert!(inner.accept().is_err_and(|e| e.kind() == ErrorKind::WouldBlock), "this host was asked");
    }

    #[test]
    fn a_server_that_was_allowed_sent_requests_on_to_one_that_was_not() {
        // Addresses for examples: nobody is there, and nobody must be asked.
        let targets = ["http://192.0.2.1/x", "http://192.0.2.2/other/x", "https://192.0.2.2/data/x"].map(String::from);
        let outcomes = sent_on(&targets, &["http://127.0.0.1:*/*".to_string(), "http://192.0.2.2/data/*".to_string()]);
        for (target, outcome) in targets.iter().zip(outcomes) {
            assert!(matches!(outcome, Err(DataError::NotServed { .. })), "{target}: {outcome:?}");
        }
    }
}
