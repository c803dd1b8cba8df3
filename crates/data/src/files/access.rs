//! Which files and addresses may be opened for whoever names them.
//!
//! ACCESS-1: every file, folder and address of a data set is reached through a [`FileAccess`]. Who opens files for somebody else
//!           passes one that holds only what its user allows.
//! ACCESS-2: what is checked is what is opened: a path is resolved once, to a descriptor, and it is that descriptor's own path
//!           that has to lie below an allowed folder. Links that change meanwhile change nothing.
//! ACCESS-3: a client that may not open a path does not learn whether the path exists. So a link that cannot be followed is refused
//!           like one that leads out, and `..` is taken out of a path as text: no folder outside is looked at to resolve it.

use std::fs::{File, Metadata};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::file_url::FileUrl;
use super::url_pattern::UrlPattern;
use super::{Named, Stamp};
use crate::error::{DataError, Result};

/// Folders of the system whose files stand for processes and devices.
const SYSTEM_FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// What may be opened.
#[derive(Clone, Debug)]
pub struct FileAccess(Option<Arc<Allowed>>);

#[derive(Debug)]
struct Allowed {
    /// Without links.
    folders: Vec<PathBuf>,
    urls: Vec<UrlPattern>,
}

impl FileAccess {
    /// Whatever this process may open: for programs that read their own files.
    pub fn everything() -> FileAccess {
        FileAccess(None)
    }

    /// Files below these folders, and objects whose addresses fit these patterns. For a process that reads for others.
    ///
    /// # Errors
    /// When a folder is not there, or a pattern is none.
    pub fn only(folders: &[PathBuf], urls: &[String]) -> Result<FileAccess> {
        let folders = folders.iter().map(|folder| {
            let real = folder.canonicalize().map_err(|e| DataError::io(folder.as_path(), &e))?;
            match real.is_dir() {
                true => Ok(real),
                false => Err(DataError::Argument(format!("{} is not a folder", folder.display()))),
            }
        });
        let folders = folders.collect::<Result<_>>()?;
        let urls = urls.iter().map(|pattern| UrlPattern::parse(pattern)).collect::<Result<_>>()?;
        Ok(FileAccess(Some(Arc::new(Allowed { folders, urls }))))
    }

    /// Whether some things may not be opened.
    pub(super) fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Opens a file to read it.
    pub(super) fn open(&self, path: &Path) -> Result<File> {
        let io = |e: std::io::Error| DataError::io(path, &e);
        let Some(allowed) = &self.0 else { return File::open(path).map_err(io) };
        let reached = allowed.reach(path)?;
        if !reached.metadata().map_err(io)?.is_file() {
            return Err(DataError::Io { path: path.name(), why: "not a regular file".into() });
        }
        File::open(descriptor_path(&reached)).map_err(io)
    }

    /// What the system says of a file or folder.
    pub(super) fn metadata(&self, path: &Path) -> Result<Metadata> {
        let found = match &self.0 {
            None => std::fs::metadata(path),
            Some(allowed) => allowed.reach(path)?.metadata(),
        };
        found.map_err(|e| DataError::io(path, &e))
    }

    /// The same path for two names of one file, as far as that can be known.
    pub(super) fn canonical(&self, path: &Path) -> PathBuf {
        let real = match &self.0 {
            None => path.canonicalize().ok(),
            Some(allowed) => allowed.reach(path).ok().and_then(|reached| descriptor_target(&reached)),
        };
        real.unwrap_or_else(|| path.to_path_buf())
    }

    /// The stamp of a file.
    pub(super) fn stamp(&self, path: &Path) -> Result<Stamp> {
        let meta = self.metadata(path)?;
        match meta.is_file() {
            true => Ok(Stamp::from_metadata(&meta)),
            false => Err(DataError::Io { path: path.name(), why: "not a regular file".into() }),
        }
    }

    /// Whether a path is a folder; what is not there is none.
    ///
    /// # Errors
    /// When it may not be opened.
    pub(super) fn is_dir(&self, path: &Path) -> Result<bool> {
        match &self.0 {
            None => Ok(path.is_dir()),
            Some(allowed) => match allowed.reach(path) {
                Ok(reached) => Ok(reached.metadata().is_ok_and(|meta| meta.is_dir())),
                Err(DataError::Missing { .. }) => Ok(false),
                Err(error) => Err(error),
            },
        }
    }

    /// What lies in a folder.
    pub(super) fn list(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let io = |e: std::io::Error| DataError::io(folder, &e);
        let entries = match &self.0 {
            None => std::fs::read_dir(folder),
            // The descriptor has to stay open while it is listed.
            Some(allowed) => {
                let reached = allowed.reach(folder)?;
                return std::fs::read_dir(descriptor_path(&reached))
                    .map_err(io)?
                    .map(|entry| Ok(folder.join(entry.map_err(io)?.file_name())))
                    .collect();
            }
        };
        entries.map_err(io)?.map(|entry| Ok(entry.map_err(io)?.path())).collect()
    }

    /// Whether anything of a store may be asked for; where that is a web server, whether it is one that others may be asked about.
    ///
    /// # Errors
    /// When it may not.
    pub(super) fn check_store(&self, url: &FileUrl) -> Result<()> {
        match &self.0 {
            Some(allowed) if url.is_private() || !allowed.urls.iter().any(|pattern| pattern.fits_store(url)) => {
                Err(not_served(&url.of(&url.path), "--data-url"))
            }
            _ => Ok(()),
        }
    }

    /// Whether an object may be asked for. `path` may be a pattern, or a folder that is listed.
    ///
    /// # Errors
    /// When it may not.
    pub(super) fn check_url(&self, url: &FileUrl, path: &str) -> Result<()> {
        match &self.0 {
            Some(allowed) if !allowed.urls.iter().any(|pattern| pattern.fits(url, path)) => {
                Err(not_served(&url.of(path), "--data-url"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a folder may be listed: something in it may be asked for.
    ///
    /// # Errors
    /// When it may not.
    pub(super) fn check_listing(&self, url: &FileUrl, folder: &str) -> Result<()> {
        match &self.0 {
            Some(allowed) if !allowed.urls.iter().any(|pattern| pattern.fits_below(url, folder)) => {
                Err(not_served(&url.of(folder), "--data-url"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a server may send a request on to another address.
    pub(super) fn allows_address(&self, address: &url::Url) -> bool {
        let Some(allowed) = &self.0 else { return true };
        FileUrl::parse(address.as_str()).is_ok_and(|url| allowed.urls.iter().any(|p| p.fits(&url, &url.path)))
    }
}

impl Allowed {
    /// A descriptor of what lies at a path, which can be asked about and opened again, and nothing else. Opening it has no effect
    /// on devices and pipes (ACCESS-2).
    fn reach(&self, path: &Path) -> Result<File> {
        let refused = || not_served(&path.name(), "--data-root");
        let absolute = without_parents(&std::path::absolute(path).map_err(|_| refused())?);
        match rustix::fs::open(&absolute, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(descriptor) => match self.holds(&descriptor) {
                true => Ok(File::from(descriptor)),
                false => Err(refused()),
            },
            // A link to nothing (ACCESS-3).
            Err(_) if absolute.symlink_metadata().is_ok_and(|entry| entry.is_symlink()) => Err(refused()),
            // That nothing is there is for those to know who may look into the folder above (ACCESS-3).
            Err(error) => match absolute.parent().map(|above| self.reach(above)) {
                Some(Ok(_) | Err(DataError::Missing { .. })) => Err(DataError::io(path, &error.into())),
                _ => Err(refused()),
            },
        }
    }

    /// Whether an open file or folder lies below an allowed one.
    fn holds(&self, descriptor: &OwnedFd) -> bool {
        let Some(real) = descriptor_target(descriptor) else { return false };
        self.folders.iter().any(|folder| real.starts_with(folder))
            && !SYSTEM_FOLDERS.iter().any(|system| real.starts_with(system))
    }
}

/// A path without `..`, each of which takes away the name before it (ACCESS-3).
fn without_parents(path: &Path) -> PathBuf {
    let mut straight = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = straight.pop(),
            part => straight.push(part),
        }
    }
    straight
}

/// Where an open file or folder lies.
fn descriptor_target(descriptor: &impl AsRawFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).ok()
}

fn descriptor_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn not_served(path: &str, option: &'static str) -> DataError {
    DataError::NotServed { path: path.to_owned(), option: option.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn refuses(access: &FileAccess, path: &Path) {
        for found in
            [access.open(path).err(), access.metadata(path).err(), access.is_dir(path).err(), access.list(path).err()]
        {
            assert!(matches!(found, Some(DataError::NotServed { .. })), "{}: {found:?}", path.display());
        }
    }

    #[test]
    fn only_what_lies_below_an_allowed_folder_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("data"), dir.path().join("secret"));
        for folder in [&root, &outside] {
            std::fs::create_dir_all(folder.join("below")).unwrap();
            std::fs::write(folder.join("below/file"), b"x").unwrap();
        }
        std::fs::write(dir.path().join("data-too"), b"x").unwrap();
        symlink(&outside, root.join("out")).unwrap();
        symlink(outside.join("below/file"), root.join("file-out")).unwrap();
        symlink("below/file", root.join("file-in")).unwrap();
        symlink(&root, dir.path().join("link-to-data")).unwrap();
        let access = FileAccess::only(&[dir.path().join("link-to-data")], &[]).unwrap();
        for inside in ["below/file", "file-in", "below/../below/file", "../data/below/file"] {
            access.open(&root.join(inside)).unwrap();
        }
        access.open(&dir.path().join("link-to-data/below/file")).unwrap();
        assert!(access.is_dir(&root.join("below")).unwrap());
        assert_eq!(access.list(&root.join("below")).unwrap(), [root.join("below/file")]);
        for outside in ["out/below/file", "file-out", "../secret/below/file", "out/../../../../etc/passwd"] {
            refuses(&access, &root.join(outside));
        }
        for outside in ["data-too", "secret", "", "secret/nothing", "nothing/at/all"] {
            refuses(&access, &dir.path().join(outside));
        }
        for system in ["/etc/passwd", "/etc/nothing", "/proc/self/environ", "/proc/self/root/etc/passwd", "/dev/null"] {
            refuses(&access, Path::new(system));
        }
        // Inside, what is not there is said to be missing.
        let missing = access.open(&root.join("below/nothing/more")).unwrap_err();
        assert!(matches!(missing, DataError::Missing { .. }), "{missing}");
    }

    #[test]
    fn what_lies_behind_a_link_out_of_the_folder_does_not_show() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("data"), dir.path().join("outside"));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir_all(outside.join("there")).unwrap();
        std::fs::write(outside.join("file"), b"x").unwrap();
        std::fs::write(root.join("own"), b"x").unwrap();
        for (link, target) in [("to-file", "file"), ("to-nothing", "nothing"), ("to-folder", ".")] {
            symlink(outside.join(target), root.join(link)).unwrap();
        }
        let access = FileAccess::only(std::slice::from_ref(&root), &[]).unwrap();
        for probe in ["to-file", "to-nothing", "to-folder/file", "to-folder/nothing", "to-nothing/below"] {
            refuses(&access, &root.join(probe));
        }
        // A folder outside that is only passed through, too.
        let through = |folder: &str| access.open(&outside.join(folder).join("../../data/own")).is_ok();
        assert_eq!(through("there"), through("nothing"));
        let through = |folder: &str| access.open(&root.join("to-folder").join(folder).join("../../own")).is_ok();
        assert_eq!(through("there"), through("nothing"));
    }

    #[test]
    fn files_of_processes_and_devices_are_not_opened_even_below_the_root_folder() {
        let access = FileAccess::only(&["/".into()], &[]).unwrap();
        access.open(Path::new("/etc/passwd")).unwrap();
        for system in ["/proc/self/environ", "/proc/self/root/proc/version", "/sys/kernel/mm", "/dev/null", "/dev"] {
            refuses(&access, Path::new(system));
        }
    }

    #[test]
    fn pipes_and_links_that_change_are_not_followed_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        std::fs::create_dir(&root).unwrap();
        let pipe = root.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let access = FileAccess::only(std::slice::from_ref(&root), &[]).unwrap();
        // Opening it would wait for a writer.
        assert!(access.open(&pipe).unwrap_err().to_string().contains("not a regular file"));
        // A link that points in and out by turns is never read when it points out.
        let (inside, outside, link) = (root.join("inside"), dir.path().join("outside"), root.join("link"));
        std::fs::write(&inside, b"in").unwrap();
        std::fs::write(&outside, b"out").unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let beside = root.join("beside");
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    for target in [&inside, &outside] {
                        symlink(target, &beside).unwrap();
                        std::fs::rename(&beside, &link).unwrap();
                    }
                }
            });
            let mut opened = 0;
            for _ in 0..20_000 {
                if let Ok(mut file) = access.open(&link) {
                    let mut text = String::new();
                    std::io::Read::read_to_string(&mut file, &mut text).unwrap();
                    assert_eq!(text, "in");
                    opened += 1;
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(opened > 0, "it was never opened");
        });
    }

    #[test]
    fn addresses_that_are_allowed_are_asked_and_no_others() {
        let patterns = ["http://192.0.2.1/data/*".to_string(), "s3://bucket/train/*".to_string()];
        let access = FileAccess::only(&[], &patterns).unwrap();
        for (allowed, folder) in [("http://192.0.2.1/data/x.npy", "data"), ("s3://bucket/train/x.npy", "train")] {
            let url = FileUrl::parse(allowed).unwrap();
            access.check_store(&url).unwrap();
            access.check_url(&url, &url.path).unwrap();
            access.check_listing(&url, folder).unwrap();
            assert!(access.allows_address(&url::Url::parse(allowed).unwrap()), "{allowed}");
        }
        for refused in ["http://192.0.2.1/x.npy", "http://192.0.2.2/data/x.npy", "s3://bucket/x.npy"] {
            let url = FileUrl::parse(refused).unwrap();
            let found = access.check_store(&url).and_then(|()| access.check_url(&url, &url.path));
            assert!(matches!(found, Err(DataError::NotServed { .. })), "{refused}: {found:?}");
            assert!(!access.allows_address(&url::Url::parse(refused).unwrap()), "{refused}");
        }
    }

    #[test]
    fn nothing_at_all_may_be_allowed() {
        let access = FileAccess::only(&[], &[]).unwrap();
        refuses(&access, Path::new("/etc/passwd"));
        refuses(&access, Path::new("/"));
        assert!(FileAccess::only(&["/nowhere".into()], &[]).is_err());
        assert!(FileAccess::only(&["/etc/passwd".into()], &[]).is_err());
    }
}
