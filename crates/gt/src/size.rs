//! Sizes as people write them.

/// Bytes from `4GiB`, `500MB` or a plain number.
///
/// ```
/// assert_eq!(gt::parse_size("4KiB"), Some(4096));
/// assert_eq!(gt::parse_size("four"), None);
/// ```
pub fn parse_size(text: &str) -> Option<u64> {
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
        _ => return None,
    };
    let bytes = number * factor;
    (bytes.is_finite() && bytes < u64::MAX as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [("0", 0), ("1024", 1024), (" 4GiB", 4 << 30), ("1.5 MB", 1_500_000), ("2k", 2000)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for wrong in ["", "GiB", "-1", "4XB", "1e400", "many", "nan", "50%", "99999999999999999999"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }
}
