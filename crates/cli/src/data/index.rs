//! `gt data index`: what a data set holds; the index is kept for the next time.

use std::io::Write;
use std::time::Instant;

use clap::Args;

use super::{InDoubt, Input};
use crate::{size, table};

/// Print what a data set contains, and cache its index
///
/// The index is kept in GT_CACHE_DIR, so that the data set opens faster the next
/// time.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct IndexArgs {
    #[command(flatten)]
    input: Input,
}

pub(crate) fn run(args: &IndexArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let begun = Instant::now();
    let source = args.input.open(InDoubt::Warn)?;
    let took = begun.elapsed();
    let blocks = source.blocks();
    let samples: u64 = blocks.iter().map(|b| b.samples as u64).sum();
    let memory: u64 = blocks.iter().map(|b| b.memory_bytes).sum();
    let mut files: Vec<u32> = blocks.iter().map(|b| b.file).collect();
    files.dedup();
    writeln!(
        out,
        "{samples} samples in {} files, {} blocks; {} in memory; indexed in {:.3} s",
        files.len(),
        blocks.len(),
        size::show(memory),
        took.as_secs_f64()
    )?;
    let rows: Vec<Vec<String>> = source.fields().iter().map(|f| vec![f.name.clone(), f.to_string()]).collect();
    table::write(out, &["COLUMN", "TYPE"], &rows)?;
    for (_, why) in source.unread() {
        writeln!(out, "not read: {why}")?;
    }
    if let (Some(least), Some(most)) = (blocks.iter().map(|b| b.samples).min(), blocks.iter().map(|b| b.samples).max())
    {
        writeln!(out, "blocks of {least} to {most} samples")?;
    }
    Ok(())
}
