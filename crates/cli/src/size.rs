//! Sizes as people write and read them.

/// Bytes from an argument: `4GiB`, `500MB` or a plain number.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    gt::parse_size(text).ok_or_else(|| format!("{text:?} is not a size: write 4GiB, 500MB or a number of bytes"))
}

/// The other way, for tables.
pub(crate) fn show(bytes: u64) -> String {
    let mut amount = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if amount < 1024.0 || unit == "TiB" {
            let digits = usize::from(unit != "B" && amount < 100.0);
            return format!("{amount:.digits$} {unit}");
        }
        amount /= 1024.0;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::{parse, show};

    #[test]
    fn what_is_no_size_is_named() {
        assert_eq!(parse("4GiB"), Ok(4 << 30));
        assert!(parse("4XB").unwrap_err().contains("\"4XB\" is not a size"));
    }

    #[test]
    fn sizes_are_shown_short() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (200 << 20, "200 MiB"), (4 << 30, "4.0 GiB")]
        {
            assert_eq!(show(bytes), text);
        }
        assert_eq!(show(u64::MAX), "16777216 TiB");
    }
}
