//! Something between two workers that breaks, or falls silent.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::*};
use std::time::Duration;

/// How often those who wait look whether all is over.
const POLL: Duration = Duration::from_millis(5);

#[derive(Default)]
struct Shared {
    /// Connections, and those that were cut.
    opened: AtomicUsize,
    cuts: AtomicUsize,
    /// Passes nothing on any more, and says nothing.
    is_silent: AtomicBool,
    /// Passes nothing on for now: what comes waits, as it does where a network is gone for a while.
    is_paused: AtomicBool,
    is_over: AtomicBool,
    /// Of the next number in the sequence of lengths.
    chance: AtomicU64,
}

/// Passes bytes on to a port.
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Cuts each connection after some bytes, from `least` to three times as many.
    pub fn cutting(target: u16, least: i64) -> Proxy {
        Proxy::start(target, Some(least))
    }

    /// Passes everything on.
    pub fn faithful(target: u16) -> Proxy {
        Proxy::start(target, None)
    }

    fn start(target: u16, least: Option<i64>) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        std::thread::spawn(move || {
            while !of_thread.is_over.load(Acquire) {
                of_thread.wait_while_paused();
                match listener.accept() {
                    Ok((near, _)) => of_thread.begin(near, target, least),
                    Err(_) => std::thread::sleep(POLL),
                }
            }
        });
        Proxy { port, shared }
    }

    pub fn cuts(&self) -> usize {
        self.shared.cuts.load(Acquire)
    }

    pub fn connections(&self) -> usize {
        self.shared.opened.load(Acquire)
    }

    /// A network that is gone for a while: connections stay, new ones get no answer. Nothing passes once this returns.
    pub fn pause(&self, is_paused: bool) {
        self.shared.is_paused.store(is_paused, Release);
        // A thread that was reading already passes on what it gets.
        std::thread::sleep(3 * POLL);
    }

    /// Nothing more passes, and nobody hears of it.
    pub fn fall_silent(&self) {
        self.shared.is_silent.store(true, Release);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Release);
    }
}

impl Shared {
    fn wait_while_paused(&self) {
        while self.is_paused.load(Acquire) && !self.is_over.load(Acquire) {
            std::thread::sleep(POLL);
        }
    }

    fn begin(self: &Arc<Self>, near: TcpStream, target: u16, least: Option<i64>) {
        let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) else { return };
        self.opened.fetch_add(1, AcqRel);
        near.set_nonblocking(false).unwrap();
        let chance = self.chance.fetch_add(0x9e37_79b9_7f4a_7c15, AcqRel) >> 33;
        let left = Arc::new(AtomicI64::new(least.map_or(i64::MAX, |least| least + chance as i64 % (2 * least))));
        for (from, to) in [(&near, &far), (&far, &near)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let (shared, left) = (self.clone(), left.clone());
            from.set_read_timeout(Some(POLL)).unwrap();
            std::thread::spawn(move || shared.pass_on(from, to, &left));
        }
    }

    fn pass_on(&self, mut from: TcpStream, mut to: TcpStream, left: &AtomicI64) {
        let mut bytes = vec![0; 16 << 10];
        while !self.is_over.load(Acquire) {
            self.wait_while_paused();
            let len = match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock) => continue,
                Err(_) => break,
            };
            if self.is_silent.load(Acquire) {
                continue;
            }
            let before = left.fetch_sub(len as i64, AcqRel);
            if before <= len as i64 {
                // In the middle of whatever this is; the other direction loses what is on its way.
                let _ = to.write_all(&bytes[..before.max(0) as usize]);
                if before > 0 {
                    self.cuts.fetch_add(1, AcqRel);
                }
                break;
            }
            if to.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}
