//! Columns that divide the rows of files among events, known by their values.
//!
//! TILING-1: ranges divide rows if each begins where the one before ended, or anew at row 0 with the next file, and some file, or all
//!           files together, end with a range. Lengths divide rows if they add up to the rows of all files.
//! TILING-2: a table with as many rows as the files is none of events: each row would be its own.

use crate::parquet::events::RangeEnd;

/// A column of integers and its name.
pub(super) type Numbers = (String, Vec<i64>);

/// How columns of a table divide rows: the column of an event's first row, where there is one, and that of its end.
pub(super) fn found(columns: &[Numbers], rows_of_files: &[u64]) -> Option<(Option<String>, RangeEnd)> {
    let all_rows: u64 = rows_of_files.iter().sum();
    let rows = columns.first().map_or(0, |(_, values)| values.len());
    if rows < 2 || rows as u64 >= all_rows {
        return None;
    }
    ranges(columns, rows_of_files).or_else(|| {
        let adds_up = |values: &[i64]| {
            let sum = values.iter().try_fold(0u64, |sum, &n| sum.checked_add(u64::try_from(n).ok()?));
            sum == Some(all_rows)
        };
        let (name, _) = columns.iter().find(|(_, values)| adds_up(values))?;
        Some((None, RangeEnd::Length(name.clone())))
    })
}

fn ranges(columns: &[Numbers], rows_of_files: &[u64]) -> Option<(Option<String>, RangeEnd)> {
    let kinds: [fn(String) -> RangeEnd; 3] = [RangeEnd::End, RangeEnd::Last, RangeEnd::Length];
    for (first, starts) in columns.iter().filter(|(_, starts)| starts.contains(&0)) {
        for (other, ends) in columns.iter().filter(|(name, _)| name != first) {
            let found =
                kinds.iter().map(|kind| kind(other.clone())).find(|kind| divides(starts, ends, kind, rows_of_files));
            if let Some(kind) = found {
                return Some((Some(first.clone()), kind));
            }
        }
    }
    None
}

/// Whether the ranges divide rows, as they stand or in ascending order.
fn divides(starts: &[i64], ends: &[i64], kind: &RangeEnd, rows_of_files: &[u64]) -> bool {
    let end = |(&start, &end): (&i64, &i64)| match kind {
        RangeEnd::Last(_) => (start, end.saturating_add(1)),
        RangeEnd::End(_) => (start, end),
        RangeEnd::Length(_) => (start, start.saturating_add(end)),
    };
    let mut ranges: Vec<(i64, i64)> = starts.iter().zip(ends).map(end).collect();
    if is_chain(&ranges, rows_of_files) {
        return true;
    }
    ranges.sort_unstable();
    is_chain(&ranges, rows_of_files)
}

fn is_chain(ranges: &[(i64, i64)], rows_of_files: &[u64]) -> bool {
    let all_rows: u64 = rows_of_files.iter().sum();
    let ends_a_file = |end: i64| u64::try_from(end).is_ok_and(|end| end == all_rows || rows_of_files.contains(&end));
    let follows = |(before, after): (&(i64, i64), &(i64, i64))| after.0 == before.1 || after.0 == 0;
    let in_row = ranges.iter().zip(&ranges[1..]).all(follows);
    let last_of_file = |at: usize| ranges.get(at + 1).is_none_or(|next| next.0 == 0);
    let ends_one = || ranges.iter().enumerate().any(|(at, range)| last_of_file(at) && ends_a_file(range.1));
    // One range for each file says nothing of rows that belong together: it may be any number that agrees.
    let has_long_chain = || ranges.iter().any(|range| range.0 > 0);
    ranges.first().is_some_and(|range| range.0 == 0)
        && ranges.iter().all(|range| range.0 <= range.1)
        && in_row
        && has_long_chain()
        && ends_one()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(columns: &[(&str, &[i64])], rows_of_files: &[u64]) -> Option<(Option<String>, RangeEnd)> {
        let columns: Vec<Numbers> = columns.iter().map(|(name, values)| (name.to_string(), values.to_vec())).collect();
        found(&columns, rows_of_files)
    }

    #[test]
    fn ranges_are_known_by_their_values() {
        let ranges = |kind: RangeEnd| Some((Some("a".to_string()), kind));
        let end = RangeEnd::End("b".into());
        assert_eq!(of(&[("a", &[0, 3, 5]), ("b", &[3, 5, 9])], &[9]), ranges(end.clone()));
        assert_eq!(of(&[("b", &[9, 3, 5]), ("a", &[5, 0, 3])], &[9]), ranges(end.clone()));
        assert_eq!(of(&[("a", &[0, 3, 0, 1]), ("b", &[3, 5, 1, 4])], &[5, 4]), ranges(end));
        assert_eq!(of(&[("a", &[0, 3, 5]), ("b", &[2, 4, 8])], &[9]), ranges(RangeEnd::Last("b".into())));
        assert_eq!(of(&[("a", &[0, 3, 5]), ("b", &[3, 2, 4])], &[9]), ranges(RangeEnd::Length("b".into())));
    }

    #[test]
    fn lengths_are_known_by_their_sum() {
        let found = Some((None, RangeEnd::Length("n".to_string())));
        assert_eq!(of(&[("id", &[7, 8, 9]), ("n", &[3, 2, 4])], &[5, 4]), found);
        assert_eq!(of(&[("n", &[3, 2, 5])], &[9]), None);
        assert_eq!(of(&[("n", &[3, 2, -1, 5])], &[9]), None);
    }

    #[test]
    fn numbers_that_divide_nothing_are_no_ranges() {
        assert_eq!(of(&[("a", &[0, 4, 6]), ("b", &[3, 5, 9])], &[9]), None);
        assert_eq!(of(&[("a", &[0, 3, 5]), ("b", &[3, 5, 8])], &[9]), None);
        // As many rows as the files.
        assert_eq!(of(&[("a", &[0, 1, 2]), ("b", &[1, 2, 3])], &[3]), None);
        // A count for each file.
        assert_eq!(of(&[("a", &[0, 0]), ("b", &[5, 6])], &[5, 4]), None);
    }
}
