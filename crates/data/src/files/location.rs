//! Where a file lies: a path of this machine, or an object of a store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::path::Path as ObjectPath;

use super::file_url::{FileUrl, is_url, local_path};
use super::remote_store::RemoteStore;
use super::{FileAccess, Named, OpenFile, Stamp};
use crate::error::{DataError, Result};

/// Where a file lies.
#[derive(Clone, Debug)]
pub struct Location(Place);

#[derive(Clone, Debug)]
enum Place {
    Local(PathBuf, FileAccess),
    Remote(RemoteFile),
}

/// An object of a store.
#[derive(Clone, Debug)]
pub(super) struct RemoteFile {
    pub store: Arc<RemoteStore>,
    pub path: ObjectPath,
    url: String,
    /// What a listing said of it, which spares a question.
    listed: Option<Stamp>,
}

#[cfg(test)]
impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Location {
        Location::local(path, &FileAccess::everything())
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Local(path, _) => path.display().fmt(f),
            Place::Remote(object) => f.write_str(&object.url),
        }
    }
}

impl Named for Location {
    fn name(&self) -> String {
        self.to_string()
    }
}

impl Location {
    /// The file or folder that a path or a URL names, whether it is there or not.
    ///
    /// # Errors
    /// When it is a URL of no store that can be reached, or of one that may not be asked.
    pub fn of(text: &str, access: &FileAccess) -> Result<Location> {
        if !is_url(text) {
            return Ok(Location::local(PathBuf::from(local_path(text)?.into_owned()), access));
        }
        let url = FileUrl::parse(text)?;
        let path = url.path.clone();
        Location::in_store(&Arc::new(RemoteStore::open(url, access)?), &path, None)
    }

    /// A file of this machine; whether it may be opened shows when it is.
    pub(crate) fn local(path: PathBuf, access: &FileAccess) -> Location {
        Location(Place::Local(path, access.clone()))
    }

    /// An object by its name in a store.
    pub(super) fn in_store(store: &Arc<RemoteStore>, path: &str, listed: Option<Stamp>) -> Result<Location> {
        store.access().check_url(store.url(), path)?;
        let (url, path) = (store.url().of(path), store.url().object(path)?);
        Ok(Location(Place::Remote(RemoteFile { store: store.clone(), path, url, listed })))
    }

    /// A file of this folder.
    pub(crate) fn join(&self, name: &str) -> Result<Location> {
        match &self.0 {
            Place::Local(folder, access) => Ok(Location::local(folder.join(name), access)),
            Place::Remote(folder) => Location::in_store(&folder.store, &format!("{}/{name}", folder.path), None),
        }
    }

    /// The name without the folders.
    pub(crate) fn file_name(&self) -> Vec<u8> {
        match &self.0 {
            Place::Local(path, _) => path.file_name().unwrap_or_default().as_encoded_bytes().to_vec(),
            Place::Remote(object) => object.path.filename().unwrap_or_default().as_bytes().to_vec(),
        }
    }

    /// The path or URL as text, where it is text.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.0 {
            Place::Local(path, _) => path.to_str(),
            Place::Remote(object) => Some(&object.url),
        }
    }

    /// Bytes that no other file has, from whatever folder one looks.
    pub(crate) fn absolute(&self) -> Vec<u8> {
        match &self.0 {
            Place::Local(path, _) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                path.into_os_string().into_encoded_bytes()
            }
            Place::Remote(object) => object.url.clone().into_bytes(),
        }
    }

    /// The same for two names of one file, as far as that can be known.
    pub(crate) fn identity(&self) -> PathBuf {
        match &self.0 {
            Place::Local(path, access) => access.canonical(path),
            Place::Remote(object) => PathBuf::from(&object.url),
        }
    }

    /// The file's stamp as it is now.
    pub(crate) fn stamp(&self) -> Result<Stamp> {
        match &self.0 {
            Place::Local(path, access) => access.stamp(path),
            Place::Remote(object) => match &object.listed {
                Some(listed) => Ok(listed.clone()),
                None => object.store.head(&object.path),
            },
        }
    }

    /// Opens the file as it is now.
    pub(crate) fn open(&self) -> Result<OpenFile> {
        match &self.0 {
            Place::Local(path, access) => {
                let file = access.open(path)?;
                let stamp = Stamp::from_metadata(&file.metadata().map_err(|e| DataError::io(path, &e))?);
                Ok(OpenFile::local(path.clone(), file, stamp))
            }
            Place::Remote(object) => Ok(OpenFile::remote(object.clone(), self.stamp()?)),
        }
    }

    /// Opens the file as it was when it had this stamp (FILES-2). Of an object nothing is asked yet: each answer is compared.
    pub(crate) fn open_as(&self, stamp: &Stamp) -> Result<OpenFile> {
        match &self.0 {
            Place::Local(..) => {
                let opened = self.open()?;
                match opened.stamp() == stamp {
                    true => Ok(opened),
                    false => Err(super::remote_error::changed(&self.to_string())),
                }
            }
            Place::Remote(object) => Ok(OpenFile::remote(object.clone(), stamp.clone())),
        }
    }
}

impl RemoteFile {
    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

/// What [`Location::identity`] gives for the file that a path or a URL names, without asking a store.
pub(crate) fn identity(text: &str, access: &FileAccess) -> PathBuf {
    match is_url(text).then(|| FileUrl::parse(text)) {
        Some(Ok(url)) => PathBuf::from(url.of(&url.path)),
        _ => access.canonical(Path::new(local_path(text).as_deref().unwrap_or(text))),
    }
}
