//! Workers that share a host, and each one's part of its cores and memory.
//!
//! SHARE-1: a worker that was not told how much to take gets an equal part of what the others leave that were told. Parts change
//!          when workers come and go.
//! SHARE-2: who is there is known from locked files in the user's runtime directory. A lock ends with its process, however that
//!          ends, and so does the worker's claim.
//! SHARE-3: a worker that holds values keeps as much memory as it has needed so far: what runs on it does not fail because
//!          another worker starts.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use gt_observe::output;
use parking_lot::Mutex;

/// How the names of those files end.
const ENDING: &str = ".share";

/// What a worker was told to take; none where it takes its part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) threads: Option<usize>,
    pub(crate) memory_bytes: Option<u64>,
}

/// What a worker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) threads: usize,
    pub(crate) memory_bytes: u64,
}

/// A worker's place among those of this host. It is given up when this is dropped.
pub(crate) struct HostShare {
    claim: Claim,
    /// All there is for workers.
    whole: Part,
    /// None where the runtime directory cannot be used: the worker is alone then, as far as it can know.
    place: Option<Place>,
    last: Mutex<Vec<Claim>>,
}

struct Place {
    folder: PathBuf,
    path: PathBuf,
    /// Its lock says that the worker is there (SHARE-2).
    _file: File,
}

impl HostShare {
    /// Takes a place in the runtime directory.
    pub(crate) fn take(claim: Claim, whole: Part) -> HostShare {
        let place = gt_net::runtime_directory().ok().and_then(|folder| Place::take(&folder, &claim).ok());
        HostShare { claim, whole, place, last: Mutex::default() }
    }

    /// This worker's part, as the others are there now. `needed_bytes` is the most it has needed, if it holds values (SHARE-3).
    pub(crate) fn part(&self, needed_bytes: Option<u64>) -> Part {
        let mut others = self.last.lock();
        if let Some(place) = &self.place
            && let Ok(found) = place.others()
        {
            *others = found;
        }
        let part = part_of(&self.claim, &others, self.whole);
        match self.claim.memory_bytes {
            Some(_) => part,
            None => Part {
                memory_bytes: part.memory_bytes.max(needed_bytes.unwrap_or(0)).min(self.whole.memory_bytes),
                ..part
            },
        }
    }
}

/// SHARE-1. Those who were told to take more than there is leave the others half of an equal part.
fn part_of(claim: &Claim, others: &[Claim], whole: Part) -> Part {
    let all = others.len() as u64 + 1;
    let equal = |whole: u64, taken: Vec<Option<u64>>| {
        let sharing = taken.iter().filter(|taken| taken.is_none()).count() as u64 + 1;
        let left = whole.saturating_sub(taken.into_iter().flatten().fold(0, u64::saturating_add));
        (left / sharing).max(whole / all / 2)
    };
    let threads = equal(whole.threads as u64, others.iter().map(|c| c.threads.map(|n| n as u64)).collect());
    let memory_bytes = equal(whole.memory_bytes, others.iter().map(|c| c.memory_bytes).collect());
    Part {
        threads: claim.threads.unwrap_or(threads as usize).max(1),
        memory_bytes: claim.memory_bytes.unwrap_or(memory_bytes).max(1),
    }
}

impl Claim {
    fn text(&self) -> String {
        let word = |n: Option<u64>| n.map_or_else(|| "-".to_string(), |n| n.to_string());
        format!("{} {}\n", word(self.threads.map(|n| n as u64)), word(self.memory_bytes))
    }

    /// A text that cannot be read is that of a worker of another version, which takes its part.
    fn read(text: &str) -> Claim {
        let mut words = text.split_whitespace().map(|word| word.parse::<u64>().ok());
        let (threads, memory_bytes) = (words.next().flatten(), words.next().flatten());
        Claim { threads: threads.and_then(|n| usize::try_from(n).ok()), memory_bytes }
    }
}

impl Place {
    fn take(folder: &Path, claim: &Claim) -> std::io::Result<Place> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("worker-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = folder.join(format!("{name}{ENDING}"));
        // It gets its name when it is locked: one without a lock is taken for a dead worker's.
        let beside = folder.join(format!("{name}.taking"));
        output::write(&beside, claim.text().as_bytes())?;
        let file = File::open(&beside)?;
        file.lock()?;
        output::rename(&beside, &path)?;
        Ok(Place { folder: folder.to_owned(), path, _file: file })
    }

    /// What the others claim. Files of workers that are dead are removed.
    fn others(&self) -> std::io::Result<Vec<Claim>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path == self.path || !path.to_string_lossy().ends_with(ENDING) {
                continue;
            }
            // It may go at any moment.
            let Ok(file) = File::open(&path) else { continue };
            match file.try_lock_shared() {
                Ok(()) => _ = output::remove_file(&path),
                Err(_) => found.push(Claim::read(&std::fs::read_to_string(&path).unwrap_or_default())),
            }
        }
        Ok(found)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = output::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Part = Part { threads: 8, memory_bytes: 80 };

    fn share(folder: &Path, claim: Claim) -> HostShare {
        HostShare { claim, whole: WHOLE, place: Some(Place::take(folder, &claim).unwrap()), last: Mutex::default() }
    }

    #[test]
    fn workers_that_start_one_by_one_share_their_host() {
        let folder = tempfile::tempdir().unwrap();
        let first = share(folder.path(), Claim::default());
        assert_eq!(first.part(None), WHOLE);
        let second = share(folder.path(), Claim::default());
        for worker in [&first, &second] {
            assert_eq!(worker.part(None), Part { threads: 4, memory_bytes: 40 });
        }
        // One that was told takes that, and the others share the rest.
        let told = share(folder.path(), Claim { threads: Some(2), memory_bytes: Some(20) });
        assert_eq!(told.part(None), Part { threads: 2, memory_bytes: 20 });
        assert_eq!(first.part(None), Part { threads: 3, memory_bytes: 30 });
        // What runs there keeps what it has needed.
        assert_eq!(first.part(Some(50)).memory_bytes, 50);
        drop((second, told));
        assert_eq!(first.part(None), WHOLE);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_worker_that_was_killed_takes_no_part() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("worker-1-0.share");
        std::fs::write(&file, "- -\n").unwrap();
        let worker = share(folder.path(), Claim::default());
        assert_eq!(worker.part(None), WHOLE);
        assert!(!file.exists());
    }

    #[test]
    fn those_who_take_everything_leave_the_others_something() {
        let greedy = Claim { threads: Some(8), memory_bytes: Some(800) };
        assert_eq!(part_of(&Claim::default(), &[greedy], WHOLE), Part { threads: 2, memory_bytes: 20 });
        let many = vec![Claim::default(); 20];
        assert_eq!(part_of(&Claim::default(), &many, WHOLE), Part { threads: 1, memory_bytes: 3 });
    }
}
