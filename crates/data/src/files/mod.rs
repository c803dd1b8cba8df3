//! Where bytes come from: files of this machine, and objects behind a URL.
//!
//! FILES-1: a [`Location`] says where; an [`OpenFile`] reads. Nothing else of the crate knows whether a file is here or far away.
//! FILES-2: what was opened is recognised by its [`Stamp`]. A file that has another one when it is read is an error that
//!          names it, so no block is ever made of two versions.
//! FILES-3: every wait for a server ends: with an answer, after a few tries, or when the caller is interrupted.

mod access;
mod expand;
mod file_url;
mod location;
mod named;
mod open_file;
mod parallel;
mod part_folder;
mod public_addresses;
mod remote_error;
mod remote_store;
mod sequential;
mod source_files;
mod stamp;
mod url_pattern;

pub use access::FileAccess;
pub use expand::expand;
pub(crate) use expand::list_names;
pub(crate) use file_url::{is_url, local_path};
pub use location::Location;
pub(crate) use location::identity;
pub use named::Named;
pub(crate) use open_file::OpenFile;
pub(crate) use parallel::in_parallel;
pub(crate) use part_folder::PartFolder;
pub use remote_store::interruptible;
pub(crate) use sequential::Sequential;
pub use source_files::SourceFiles;
pub use stamp::Stamp;
