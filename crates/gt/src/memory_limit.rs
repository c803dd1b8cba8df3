//! How much memory there is, and how users say how much of it GT may have.

use crate::size::parse_size;

/// Bytes from `4GiB`, `500MB`, `80%` or a plain number; none at all is no limit.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let bytes = match text.trim().strip_suffix('%') {
        Some(percent) => {
            let percent: f64 = percent.trim().parse().ok().filter(|percent| (0.0..=100.0).contains(percent))?;
            (available() as f64 / 100.0 * percent) as u64
        }
        None => parse_size(text)?,
    };
    (bytes > 0).then_some(bytes)
}

/// What this process may use: the smaller of the machine's memory and its control group's limit.
pub(crate) fn available() -> u64 {
    let group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok())
        .min();
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| text.lines().find_map(|l| l.strip_prefix("MemTotal:").map(str::to_owned)))
        .and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok())
        .map(|kib| kib * 1024);
    // Where neither can be read, a limit that stops a runaway program and nothing else.
    let fallback = 1 << 40;
    group.unwrap_or(fallback).min(machine.unwrap_or(fallback))
}

#[cfg(test)]
mod tests {
    use super::{available, parse};

    #[test]
    fn limits_are_sizes_or_parts_of_what_there_is() {
        assert_eq!(parse("2GiB"), Some(2 << 30));
        assert_eq!(parse("50%"), Some((available() as f64 / 100.0 * 50.0) as u64));
        for bad in ["", "1XB", "120%", "-3%", "%", "nan%", "0", "0%"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
