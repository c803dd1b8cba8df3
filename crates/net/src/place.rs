//! Where this process is: which host, and where processes of this user on it meet.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{NetError, Result};

/// How long after its name has come to be a socket has its listener.
const SURELY_LISTENS: Duration = Duration::from_secs(1);

/// The name of this host while it runs. Two processes with the same one share memory, if they also share files.
pub fn host_id() -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_string());
    read("/proc/sys/kernel/random/boot_id").or_else(|| read("/etc/machine-id")).unwrap_or_default()
}

/// The user that this process runs as.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The directory for sockets of this user, made if need be: `$XDG_RUNTIME_DIR/gt`, or `gt-<uid>` where temporary files go.
///
/// # Errors
/// When it cannot be made, or is somebody else's.
pub fn runtime_directory() -> Result<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let user = rustix::process::getuid().as_raw();
    let path = match std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty()) {
        Some(directory) => PathBuf::from(directory).join("gt"),
        None => std::env::temp_dir().join(format!("gt-{user}")),
    };
    let wrong = |reason: String| NetError::Unreachable { address: path.display().to_string(), reason };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(|e| wrong(e.to_string()))?;
    let found = std::fs::symlink_metadata(&path).map_err(|e| wrong(e.to_string()))?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        return Err(wrong("the folder must belong to this user and be closed to others (chmod 700)".to_string()));
    }
    Ok(path)
}

/// Where the server of a port listens for processes of this user on its host.
///
/// # Errors
/// As [`runtime_directory`].
pub fn server_socket(port: u16) -> Result<PathBuf> {
    Ok(runtime_directory()?.join(format!("server-{port}.sock")))
}

/// Removes the sockets in a directory whose process was killed: those of the names that [`server_socket`] and [`process_socket`] give,
/// where nobody listens. Anything that stands in the way is left to the next one who tries.
pub fn remove_stale_sockets(directory: &Path) {
    remove_stale(directory, SURELY_LISTENS);
}

/// Processes of containers may share the directory without seeing each other: their names say nothing, so it is asked whether somebody
/// listens. Between a name and its listener lies a moment.
fn remove_stale(directory: &Path, surely_listens: Duration) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_suffix(".sock")) else { continue };
        let of_process = match rest.split('-').collect::<Vec<_>>()[..] {
            ["server", port] => port.parse::<u16>().ok().map(|_| None),
            ["worker" | "group", process, count] => {
                count.parse::<u64>().ok().and_then(|_| process.parse::<u32>().ok()).map(Some)
            }
            _ => None,
        };
        let Some(process) = of_process else { continue };
        let is_new = entry
            .metadata()
            .and_then(|m| m.modified())
            .map_or(true, |at| at.elapsed().map_or(true, |age| age < surely_listens));
        let runs = process.is_some_and(|process| Path::new(&format!("/proc/{process}")).exists());
        let is_refused = || {
            let tried = std::os::unix::net::UnixStream::connect(entry.path());
            tried.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
        };
        if !is_new && !runs && is_refused() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The name of a socket of this process: `worker-<process>-<count>.sock`.
pub fn process_socket(directory: &Path, what: &str) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    directory.join(format!("{what}-{}-{}.sock", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn killed_processes_left_their_sockets_behind() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        // A dropped listener leaves its file, as a killed process does. No process has such a number.
        let gone = ["worker-4294967294-0.sock", "group-4294967294-3.sock", "server-65000.sock"];
        let names_of_others = ["worker-x-0.sock", "server-1-2.sock", "notes.sock", "worker-4294967294-0.log"];
        for name in gone.iter().chain(&names_of_others) {
            drop(UnixListener::bind(at(name)).unwrap());
        }
        let own = process_socket(directory.path(), "worker");
        drop(UnixListener::bind(&own).unwrap());
        let _elsewhere = UnixListener::bind(at("worker-4294967293-0.sock")).unwrap();
        let _server = UnixListener::bind(at("server-65001.sock")).unwrap();
        remove_stale_sockets(directory.path());
        assert!(gone.iter().all(|name| at(name).exists()), "they might be about to listen");
        remove_stale(directory.path(), Duration::ZERO);
        assert!(gone.iter().all(|name| !at(name).exists()));
        let others = names_of_others.iter().map(|name| at(name));
        let living = ["worker-4294967293-0.sock", "server-65001.sock"].map(at);
        assert!(others.chain(living).chain([own]).all(|path| path.exists()));
    }

    #[test]
    fn the_directory_is_private() {
        use std::os::unix::fs::MetadataExt;
        let path = super::runtime_directory().unwrap();
        assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o077, 0);
        assert_eq!(super::host_id(), super::host_id());
    }
}
