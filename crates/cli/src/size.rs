//! Sizes as people write and read them.

/// Bytes from `4GiB`, `500MB` or a plain number.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let wrong = || format!("{text:?} is not a size: write 4GiB, 500MB or a number of bytes");
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        _ => return Err(wrong()),
    };
    let bytes = number * factor;
    match bytes.is_finite() && bytes < u64::MAX as f64 {
        true => Ok(bytes as u64),
        false => Err(wrong()),
    }
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
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [("0", 0), ("1024", 1024), ("4GiB", 4 << 30), ("1.5 MB", 1_500_000), ("2k", 2000)] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "GiB", "-1", "4XB", "1e400", "many"] {
            assert!(parse(wrong).unwrap_err().contains("is not a size"), "{wrong}");
        }
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
