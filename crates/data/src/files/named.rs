//! What a file is called in errors.

use std::path::{Path, PathBuf};

/// Something that has a name users know it by.
pub trait Named {
    /// The name.
    fn name(&self) -> String;
}

impl Named for Path {
    fn name(&self) -> String {
        self.display().to_string()
    }
}

impl Named for PathBuf {
    fn name(&self) -> String {
        self.display().to_string()
    }
}
