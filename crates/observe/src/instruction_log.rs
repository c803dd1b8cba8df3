//! The instruction log: one line an event, seven columns.
//!
//! ```text
//!   0.123456s | #0042 | RECV         | CLIENT:127.0.0.1:53124 | BinaryOp        |     117B | result=42 op=add left=0 right=1
//! ```
//! LOG-1: the source and the command are one word each, so that columns can be cut by spaces.
//! LOG-2: lines of one log are numbered without gaps in the order they are written.
//! LOG-3: a forked child writes nothing: it has a copy of the lines that wait, and they are its parent's.

use std::fmt::{self, Display};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::log_file;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer came.
    Connect,
    /// A peer went.
    Disconnect,
    /// An instruction arrived.
    Recv,
    /// Something was sent to a client.
    Send,
    /// Something was sent to a worker.
    WorkerSend,
    /// Something came from a worker.
    WorkerRecv,
    /// A plan ran.
    Exec,
    /// A plan was compiled.
    Compile,
    /// A known template was run again.
    Replay,
    /// Something failed.
    Error,
}

impl Event {
    /// The word in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Event::Connect => "CONNECT",
            Event::Disconnect => "DISCONNECT",
            Event::Recv => "RECV",
            Event::Send => "SEND",
            Event::WorkerSend => "WORKER_SEND",
            Event::WorkerRecv => "WORKER_RECV",
            Event::Exec => "EXEC",
            Event::Compile => "COMPILE",
            Event::Replay => "REPLAY",
            Event::Error => "ERROR",
        }
    }
}

/// Bytes as people read them: `137B`, `12.3KB`, `3.81MB`.
pub fn format_size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut size = bytes as f64;
    let mut unit = "B";
    for next in ["KB", "MB", "GB", "TB"] {
        size /= 1024.0;
        unit = next;
        if size < 999.5 {
            break;
        }
    }
    let digits = if size < 9.995 {
        2
    } else if size < 99.95 {
        1
    } else {
        0
    };
    format!("{size:.digits$}{unit}")
}

struct Inner {
    out: Option<Box<dyn Write + Send>>,
    sequence: u64,
}

/// Writes the log. Whoever logs holds an `Option` of it: without one, nothing is formatted.
pub struct InstructionLog {
    inner: Mutex<Inner>,
    start: Instant,
    process: u32,
}

impl fmt::Debug for InstructionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstructionLog")
    }
}

impl InstructionLog {
    /// A log in a new file, or in place of an older one that nobody writes any more.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self::to(Box::new(BufWriter::with_capacity(1 << 16, log_file::open(path)?))))
    }

    /// A log to any writer.
    pub fn to(out: Box<dyn Write + Send>) -> Self {
        let inner = Mutex::new(Inner { out: Some(out), sequence: 0 });
        InstructionLog { inner, start: Instant::now(), process: std::process::id() }
    }

    /// Writes one line.
    pub fn write(&self, event: Event, source: &str, command: &str, size_bytes: u64, details: impl Display) {
        let mut inner = self.lock();
        let (seconds, sequence) = (self.start.elapsed().as_secs_f64(), inner.sequence);
        inner.sequence += 1;
        let Some(out) = inner.out.as_mut().filter(|_| self.is_own()) else { return };
        // A full disk must not stop the program that is being watched.
        let _ = writeln!(
            out,
            "{seconds:>10.6}s | #{sequence:04} | {:<12} | {source:<22} | {command:<15} | {:>8} | {}",
            event.name(),
            format_size(size_bytes),
            OneColumn(details),
        );
    }

    /// Hands everything written so far to the system.
    pub fn flush(&self) {
        if self.is_own()
            && let Some(out) = &mut self.lock().out
        {
            let _ = out.flush();
        }
    }

    /// Whether this process made it. A forked child did not (LOG-3).
    fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while a line was written leaves at worst half a line.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A text without line ends, other control characters and column borders: details may hold text of another process.
struct OneColumn<T>(T);

impl<T: Display> Display for OneColumn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Cleaned<'a, 'b>(&'a mut fmt::Formatter<'b>);
        impl fmt::Write for Cleaned<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                let is_border = |c: char| c == '|' || c.is_control();
                let mut parts = text.split(is_border);
                self.0.write_str(parts.next().unwrap_or_default())?;
                parts.try_for_each(|part| {
                    self.0.write_str("?")?;
                    self.0.write_str(part)
                })
            }
        }
        fmt::write(&mut Cleaned(f), format_args!("{}", self.0))
    }
}

impl Drop for InstructionLog {
    fn drop(&mut self) {
        self.flush();
        if !self.is_own() {
            // A buffer that is dropped writes out what it holds (LOG-3).
            std::mem::forget(self.lock().out.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Sheet(Arc<Mutex<Vec<u8>>>);

    impl Write for Sheet {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_aligned_like_the_examples() {
        let sheet = Sheet::default();
        let log = InstructionLog::to(Box::new(sheet.clone()));
        for _ in 0..42 {
            log.write(Event::Recv, "x", "x", 0, "");
        }
        let details = "result=42 op=add left=0 right=1";
        log.write(Event::Recv, "CLIENT:127.0.0.1:53124", "BinaryOp", 117, details);
        log.write(Event::WorkerSend, "WORKER:worker_0", "WorkerBinaryOp", 152, "op=add result=42");
        let text = String::from_utf8(sheet.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let examples = [
            "  0.123456s | #0042 | RECV         | CLIENT:127.0.0.1:53124 | BinaryOp        |     117B | result=42 op=add left=0 right=1",
            "  0.125012s | #0043 | WORKER_SEND  | WORKER:worker_0        | WorkerBinaryOp  |     152B | op=add result=42",
        ];
        for (line, example) in lines[42..].iter().zip(examples) {
            assert_eq!(line[11..], example[11..]);
            assert_eq!(line.find('s'), example.find('s'));
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(words[8], example.split_whitespace().nth(8).unwrap());
        }
    }

    #[test]
    fn a_failure_that_another_process_describes_could_write_lines_of_its_own() {
        let sheet = Sheet::default();
        let log = InstructionLog::to(Box::new(sheet.clone()));
        log.write(Event::Error, "WORKER:worker_0", "Failure", 0, "bad\n  0.1s | #0001 | RECV \u{1b}[31m");
        let text = String::from_utf8(sheet.0.lock().unwrap().clone()).unwrap();
        assert!(text.ends_with("bad?  0.1s ? #0001 ? RECV ?[31m\n"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn sizes_have_three_digits() {
        let cases = [
            (0, "0B"),
            (137, "137B"),
            (999, "999B"),
            (1023, "1023B"),
            (1024, "1.00KB"),
            (12_595, "12.3KB"),
            (3_995_075, "3.81MB"),
            (1 << 30, "1.00GB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(format_size(bytes), text);
        }
    }
}
