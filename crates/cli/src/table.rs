//! Tables of text.

use std::io::{self, Write};

/// Writes rows under their titles, each column as wide as its widest cell. What a peer chose as its name cannot move the
/// cursor: control characters are shown as `?`.
pub(crate) fn write(out: &mut dyn Write, titles: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let clean = |cell: &str| cell.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(titles.get(column).map(|title| title.len())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", padded.join("  ").trim_end())
    };
    line(&mut titles.iter().copied())?;
    for row in &rows {
        line(&mut row.iter().map(String::as_str))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_line_up_and_names_cannot_move_the_cursor() {
        let mut out = Vec::new();
        let rows = [vec!["a".to_string(), "long".to_string()], vec!["é\x1b[2J".to_string(), "b".to_string()]];
        super::write(&mut out, &["ID", "X"], &rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "ID     X\na      long\né?[2J  b\n");
    }
}
