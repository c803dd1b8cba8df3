//! How much memory there is, and how users say how much of it GT may have.

/// Bytes from `4GiB`, `500MB`, `80%` or a plain number.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let factor = match text[split..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        "%" if number <= 100.0 => available() as f64 / 100.0,
        _ => return None,
    };
    let bytes = number * factor;
    (bytes.is_finite() && bytes >= 1.0).then_some(bytes as u64)
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
    fn sizes_as_people_write_them() {
        assert_eq!(parse("1024"), Some(1024));
        assert_eq!(parse("2GiB"), Some(2 << 30));
        assert_eq!(parse("1.5 MB"), Some(1_500_000));
        assert_eq!(parse("50%"), Some((available() as f64 * 0.5) as u64));
        for bad in ["", "-1", "GiB", "1XB", "120%", "0", "nan"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
