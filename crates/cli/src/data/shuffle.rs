//! `gt data shuffle`: a data set written anew in random order.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use gt_data::{ShuffleFiles, shuffle_files};
use gt_observe::output;

use super::{Input, at_least_one};
use crate::size;

/// Write a data set in random order, as Parquet files
///
/// Samples keep all their columns, or those that --columns names, with their
/// types and nulls. With --events, a sample is an event: its rows become lists.
/// Decoded data stays within --memory-budget.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ShuffleArgs {
    #[command(flatten)]
    input: Input,
    /// Folder to write; must be new or empty
    output: PathBuf,
    /// Number of files to write (default: as many as there are now)
    #[arg(long = "files", value_name = "N", conflicts_with = "rows_per_file", value_parser = at_least_one())]
    files_out: Option<u64>,
    /// Number of samples in each file
    #[arg(long, value_parser = at_least_one())]
    rows_per_file: Option<u64>,
    /// Number of samples in each row group
    #[arg(long, default_value_t = 4096, value_parser = at_least_one())]
    rows_per_group: u64,
    /// Seed of the random order
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Memory limit for decoded data, such as 2GiB
    #[arg(long, default_value = "2GiB", value_parser = size::parse)]
    memory_budget: u64,
}

pub(crate) fn run(args: &ShuffleArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if !output::may_write(&args.output) {
        return Ok(());
    }
    let source = args.input.open_watched("shuffle")?;
    let samples: u64 = source.blocks().iter().map(|b| b.samples as u64).sum();
    let mut files: Vec<u32> = source.blocks().iter().map(|b| b.file).collect();
    files.sort_unstable();
    files.dedup();
    let files = args.files_out.unwrap_or(files.len() as u64).max(1);
    let how = ShuffleFiles {
        rows_per_file: args.rows_per_file.unwrap_or_else(|| samples.div_ceil(files)).max(1),
        rows_per_group: usize::try_from(args.rows_per_group).unwrap_or(usize::MAX),
        seed: args.seed,
        memory_budget: args.memory_budget,
    };
    let written = shuffle_files(&source, &args.output, &how, &super::stop::is_asked)?;
    drop(source);
    writeln!(out, "{samples} samples in {written} files in {}", args.output.display())?;
    Ok(())
}
