//! Where this process is: which host, and where processes of this user on it meet.

use std::path::PathBuf;

use crate::{NetError, Result};

/// The name of this host while it runs. Two processes with the same one share memory, if they also share files.
pub fn host_id() -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_string());
    read("/proc/sys/kernel/random/boot_id").or_else(|| read("/etc/machine-id")).unwrap_or_default()
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
        return Err(wrong("it must be a directory of this user that nobody else may enter".to_string()));
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

#[cfg(test)]
mod tests {
    #[test]
    fn the_directory_is_private() {
        use std::os::unix::fs::MetadataExt;
        let path = super::runtime_directory().unwrap();
        assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o077, 0);
        assert_eq!(super::host_id(), super::host_id());
    }
}
