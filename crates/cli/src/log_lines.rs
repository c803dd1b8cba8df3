//! Where a server's lines go.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use gt_dispatcher::Log;
use gt_observe::Debug;

/// Lines with the time in front, to a file if there is one, to stderr otherwise. With `debug` they are on stderr in any case, as
/// `GT_DEBUG_DISPATCHER` has them.
pub(crate) fn open(path: Option<&Path>, debug: Debug) -> anyhow::Result<Log> {
    let file = match path {
        Some(path) => {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            Some(Mutex::new(opened.with_context(|| format!("--log-file {}", path.display()))?))
        }
        None => None,
    };
    Ok(Log::new(move |text| {
        // Names in lines come from peers: one line stays one line.
        let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        debug.print(|| &text);
        if file.is_some() || !debug.is_on() {
            write_line(file.as_ref(), &text);
        }
    }))
}

fn write_line(file: Option<&Mutex<File>>, text: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let line = format!("{}.{:03} {text}\n", now.as_secs(), now.subsec_millis());
    // A log that cannot be written must not end a server.
    let _ = match file.map(Mutex::lock) {
        Some(Ok(mut file)) => file.write_all(line.as_bytes()),
        Some(Err(_)) => Ok(()),
        None => std::io::stderr().write_all(line.as_bytes()),
    };
}
