//! Which rows of flat files make a sample: a table of events, as options of the data commands.

use std::sync::Arc;

use anyhow::bail;
use clap::{ArgGroup, Args};
use gt_data::{
    EventTable, FileAccess, Format, ParquetOptions, ParquetSource, RangeEnd, Source, SourceSpec, TableBeside,
};

/// The table, and which of its columns say what.
#[derive(Args, Debug, Default)]
#[command(group = ArgGroup::new("event_end").args(["last", "end", "length"]))]
pub(super) struct EventArgs {
    /// Parquet file with one row per sample, naming its range of rows in FILES
    ///
    /// Each row of the table is a sample: a range of rows of the files. Needs
    /// --first and one of --last, --end and --length.
    #[arg(long, value_name = "TABLE", requires = "first", requires = "event_end", verbatim_doc_comment)]
    events: Vec<String>,
    /// Table column with the first row of each sample, counted from the start of its file
    #[arg(long, value_name = "COLUMN", requires = "events")]
    first: Option<String>,
    /// Table column with the last row of each sample
    #[arg(long, value_name = "COLUMN", requires = "events")]
    last: Option<String>,
    /// Table column with the row after the last row of each sample
    #[arg(long, value_name = "COLUMN", requires = "events")]
    end: Option<String>,
    /// Table column with the number of rows of each sample
    #[arg(long, value_name = "COLUMN", requires = "events")]
    length: Option<String>,
    /// Table column that identifies the file of each sample; not needed with one file
    #[arg(long, value_name = "COLUMN", requires = "events", requires = "file_pattern")]
    file_column: Option<String>,
    /// File names, with {} for the value of --file-column, such as 'train/batch_{}.parquet'
    #[arg(long, value_name = "PATTERN", requires = "file_column")]
    file_pattern: Option<String>,
    /// Table columns to add to the samples, separated by commas
    ///
    /// By default, all columns that the options above do not name and that the
    /// files do not have.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', requires = "events", verbatim_doc_comment)]
    event_columns: Option<Vec<String>>,
    /// Treat each row as a sample, even if a file nearby looks like a table of events
    #[arg(long, conflicts_with = "events")]
    rows: bool,
}

impl EventArgs {
    /// The data set that these files and the table make, if there is a table.
    pub(super) fn source(&self, files: &[String], options: &ParquetOptions) -> anyhow::Result<Option<SourceSpec>> {
        let Some(mut table) = self.table()? else { return Ok(None) };
        if self.event_columns.is_none() {
            table.columns = other_columns(&table, files, options)?;
        }
        Ok(Some(SourceSpec::Parquet { patterns: files.to_vec(), options: options.clone(), events: Some(table) }))
    }

    fn table(&self) -> anyhow::Result<Option<EventTable>> {
        if self.events.is_empty() {
            return Ok(None);
        }
        let column = |name: &Option<String>| name.clone();
        let end = None
            .or_else(|| column(&self.last).map(RangeEnd::Last))
            .or_else(|| column(&self.end).map(RangeEnd::End))
            .or_else(|| column(&self.length).map(RangeEnd::Length));
        let (Some(first), Some(end)) = (column(&self.first), end) else {
            bail!("--events needs --first and one of --last, --end or --length");
        };
        let file = column(&self.file_column).zip(column(&self.file_pattern));
        if let Some((_, pattern)) = file.as_ref().filter(|(_, pattern)| !pattern.contains("{}")) {
            bail!("--file-pattern must contain {{}} in place of the file number, but got {pattern:?}");
        }
        let columns = self.event_columns.clone().unwrap_or_default();
        Ok(Some(EventTable { patterns: self.events.clone(), first, end, file, columns }))
    }

    /// The warning about rows of one event that would become separate samples without being asked to.
    pub(super) fn doubt(
        &self,
        files: &[String],
        options: &ParquetOptions,
        source: &Arc<dyn Source>,
    ) -> anyhow::Result<Option<String>> {
        let format = Format::of(files)?;
        let has_rows = matches!(format, Format::Parquet | Format::Arrow | Format::Jsonl | Format::Npy);
        if self.rows || !self.events.is_empty() || !has_rows {
            return Ok(None);
        }
        let beside = match options.columns {
            Some(_) => {
                TableBeside::find(&*gt_data::open(files, &ParquetOptions { columns: None, ..options.clone() })?)?
            }
            None => TableBeside::find(&**source)?,
        };
        Ok(beside.map(|beside| format!("{}. If each row is a sample, pass --rows", found(&beside, format))))
    }
}

/// What a table is, and how to use it.
fn found(beside: &TableBeside, format: Format) -> String {
    let (how, end) = match &beside.end {
        RangeEnd::Last(column) => ("--last", column),
        RangeEnd::End(column) => ("--end", column),
        RangeEnd::Length(column) => ("--length", column),
    };
    let path = beside.path.display();
    let holds = match &beside.first {
        Some(first) => format!("its columns {first:?} and {end:?} hold row numbers of these files"),
        None => format!("the numbers in its column {end:?} add up to the number of rows of these files"),
    };
    let what_to_do = match &beside.first {
        _ if format != Format::Parquet => "convert these files first, since --events needs Parquet files".to_owned(),
        Some(first) => {
            format!(
                "pass --events {path} --first {first} {how} {end} (with several files also --file-column and --file-pattern)"
            )
        }
        None => format!(
            "add a column with the first row of each event to the table, and pass --events {path} --first COLUMN {how} {end}"
        ),
    };
    format!("{path} looks like a table of events: {holds}. To keep the rows of an event together, {what_to_do}")
}

/// The columns of a table that neither place events nor are in the files too.
fn other_columns(table: &EventTable, files: &[String], options: &ParquetOptions) -> anyhow::Result<Vec<String>> {
    let (RangeEnd::Last(end) | RangeEnd::End(end) | RangeEnd::Length(end)) = &table.end;
    let all = ParquetOptions { columns: None, ..options.clone() };
    let open = |files: &[String], options| ParquetSource::open(&FileAccess::everything(), files, options);
    let (of_table, of_files) = (open(&table.patterns, &all)?, open(files, options)?);
    let is_other = |name: &String| {
        *name != table.first
            && name != end
            && table.file.as_ref().is_none_or(|(column, _)| name != column)
            && of_files.fields().iter().all(|field| field.name != *name)
    };
    Ok(of_table.fields().iter().map(|field| field.name.clone()).filter(is_other).collect())
}
