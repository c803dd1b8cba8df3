//! Where a server's lines go.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;
use chrono::Local;
use gt_dispatcher::Log;
use gt_observe::{Debug, output};

/// Lines with the local time in front, to a file if there is one, to stderr otherwise. With `debug` they are on stderr in any case, as
/// `GT_DEBUG_DISPATCHER` has them.
pub(crate) fn open(path: Option<&Path>, debug: Debug) -> anyhow::Result<Log> {
    let file = match path.filter(|path| output::may_write(path)) {
        Some(path) => {
            let opened = output::append(path);
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
    let line = format!("{} {text}\n", Local::now().format("%Y-%m-%d %H:%M:%S%.3f"));
    // A log that cannot be written must not end a server.
    let _ = match file.map(Mutex::lock) {
        Some(Ok(mut file)) => file.write_all(line.as_bytes()),
        Some(Err(_)) => Ok(()),
        None => std::io::stderr().write_all(line.as_bytes()),
    };
}
