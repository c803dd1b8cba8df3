//! The index of many Parquet files: their footers, read in parallel, kept on disk between runs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{DataError, Result};
use crate::field::Field;
use crate::files::{Location, SourceFiles, Stamp, in_parallel};
use crate::index_cache;
use crate::parquet::footer::{Footer, FooterColumn, StoredColumn, StoredFooter};

/// A file that is part of the data set.
#[derive(Debug)]
pub(crate) struct IndexedFile {
    pub location: Location,
    pub stamp: Stamp,
    pub footer: Footer,
}

/// Files and their footers.
#[derive(Debug)]
pub(crate) struct Index {
    pub files: Vec<IndexedFile>,
    /// Those that were left out.
    pub left_out: SourceFiles,
    /// How many footers came from the cache.
    pub from_cache: usize,
}

/// As it lies on disk.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    schemas: Vec<Vec<StoredColumn>>,
    files: Vec<(String, Stamp, StoredFooter)>,
}

impl Index {
    /// Looks at every file; at those that are as they were, only at their stamp.
    pub(crate) fn open(locations: &[Location], skip_errors: bool, cached: bool) -> Result<Index> {
        let key = index_cache::key("parquet", locations);
        let stored = cached.then(|| index_cache::read::<Stored>(&key)).flatten().unwrap_or_default();
        let schemas: Vec<Option<Arc<Vec<FooterColumn>>>> = stored
            .schemas
            .iter()
            .map(|s| s.iter().map(StoredColumn::column).collect::<Option<Vec<_>>>().map(Arc::new))
            .collect();
        let known: std::collections::HashMap<&str, &(String, Stamp, StoredFooter)> =
            stored.files.iter().map(|f| (f.0.as_str(), f)).collect();
        let from_cache = std::sync::atomic::AtomicUsize::new(0);
        let looked: Vec<Result<(Footer, Stamp)>> = in_parallel(locations, |_, location| {
            let stamp = location.stamp()?;
            if let Some((_, known_stamp, footer)) = location.as_text().and_then(|p| known.get(p))
                && *known_stamp == stamp
                && let Some(Some(columns)) = schemas.get(footer.schema)
                && footer.groups.iter().all(|g| g.memory_bytes.len() == columns.len())
            {
                from_cache.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                return Ok((
                    Footer { columns: columns.clone(), groups: footer.groups.clone(), paged: footer.paged },
                    stamp,
                ));
            }
            Footer::read(location)
        });
        let (mut files, mut left_out) = (Vec::with_capacity(locations.len()), SourceFiles::default());
        for (location, looked) in locations.iter().zip(looked) {
            match looked {
                Ok((footer, stamp)) => files.push(IndexedFile { location: location.clone(), stamp, footer }),
                Err(e) => left_out.leave_out(location, e, skip_errors)?,
            }
        }
        let index = Index { files, left_out, from_cache: from_cache.into_inner() };
        if cached && index.from_cache < index.files.len() {
            index_cache::write(&key, &index.stored());
        }
        Ok(index)
    }

    fn stored(&self) -> Stored {
        let mut stored = Stored::default();
        for file in &self.files {
            let columns: Vec<StoredColumn> = file.footer.columns.iter().map(StoredColumn::of).collect();
            let schema = stored.schemas.iter().position(|s| *s == columns).unwrap_or_else(|| {
                stored.schemas.push(columns);
                stored.schemas.len() - 1
            });
            let Some(path) = file.location.as_text() else { continue };
            let footer = StoredFooter { schema, groups: file.footer.groups.clone(), paged: file.footer.paged };
            stored.files.push((path.to_owned(), file.stamp.clone(), footer));
        }
        stored
    }

    /// The columns asked for, or all that can be read, as the first file has them; a file that has them differently is an
    /// error, or left out.
    pub(crate) fn select(&mut self, names: Option<&[String]>, skip_errors: bool) -> Result<Vec<Field>> {
        let mut chosen: Option<Vec<Field>> = None;
        let mut first = String::new();
        let mut kept = Vec::with_capacity(self.files.len());
        for file in self.files.drain(..) {
            let fits = match &chosen {
                None => fields_of(&file, names),
                Some(chosen) => check(&file, chosen, &first).map(|()| chosen.clone()),
            };
            match fits {
                Ok(fields) => {
                    if chosen.is_none() {
                        first = file.location.to_string();
                        chosen = Some(fields);
                    }
                    kept.push(file);
                }
                Err(e) => self.left_out.leave_out(&file.location, e, skip_errors)?,
            }
        }
        self.files = kept;
        chosen.ok_or_else(|| self.left_out.none_left())
    }

    /// Columns of the first file that GT does not read, and why.
    pub(crate) fn unread(&self) -> Vec<(String, String)> {
        let columns = self.files.iter().take(1).flat_map(|file| file.footer.columns.iter());
        columns.filter_map(|c| Some((c.name.clone(), c.field.as_ref().err()?.clone()))).collect()
    }
}

fn fields_of(file: &IndexedFile, names: Option<&[String]>) -> Result<Vec<Field>> {
    let columns = &file.footer.columns;
    let Some(names) = names else {
        let fields: Vec<Field> = columns.iter().filter_map(|c| c.field.as_ref().ok().cloned()).collect();
        return match fields.is_empty() {
            true => Err(DataError::schema(&file.location, "the file has no column of a type that GT reads")),
            false => Ok(fields),
        };
    };
    names.iter().map(|name| find(&file.location, columns, name)).collect()
}

fn find(location: &Location, columns: &[FooterColumn], name: &str) -> Result<Field> {
    match columns.iter().find(|c| c.name == *name) {
        Some(FooterColumn { field: Ok(field), .. }) => Ok(field.clone()),
        Some(FooterColumn { field: Err(why), .. }) => Err(DataError::unsupported(location, why)),
        None => {
            let there: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
            Err(DataError::schema(
                location,
                format!("there is no column {name:?}; the columns are {}", there.join(", ")),
            ))
        }
    }
}

fn check(file: &IndexedFile, chosen: &[Field], first: &str) -> Result<()> {
    for expected in chosen {
        let found = find(&file.location, &file.footer.columns, &expected.name)?;
        if found != *expected {
            let why = format!("column {:?} is {found}, but {expected} in {first}", expected.name);
            return Err(DataError::schema(&file.location, why));
        }
    }
    Ok(())
}
