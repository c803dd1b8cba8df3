//! How many files and connections this process may have open.

use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit, setrlimit};

/// What most systems allow at least.
const USUAL: u64 = 1024;
/// More than this is never needed.
const MOST: u64 = 1 << 20;

/// How many descriptors this process may have. The first call raises the limit as far as the system lets it.
///
/// ```
/// assert!(gt_net::most_descriptors() > 0);
/// ```
pub fn most_descriptors() -> usize {
    static RAISED: OnceLock<usize> = OnceLock::new();
    *RAISED.get_or_init(|| {
        let mut limit = getrlimit(Resource::Nofile);
        let most = limit.maximum.unwrap_or(MOST).min(MOST);
        if limit.current.is_some_and(|current| current < most) {
            limit.current = Some(most);
            // Without it, there are as many as before.
            let _ = setrlimit(Resource::Nofile, limit);
        }
        let current = getrlimit(Resource::Nofile).current.unwrap_or(MOST).min(MOST);
        usize::try_from(current).unwrap_or(USUAL as usize)
    })
}
