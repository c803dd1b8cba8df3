//! `gt data index`: what a data set holds; the index is kept for the next time.

use std::io::Write;
use std::time::Instant;

use clap::Args;

use super::Input;
use crate::{size, table};

/// Read the footers of a data set's files, keep what they say, and print it
#[derive(Args, Debug)]
pub(crate) struct IndexArgs {
    #[command(flatten)]
    input: Input,
}

pub(crate) fn run(args: &IndexArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let begun = Instant::now();
    let source = args.input.open()?;
    let took = begun.elapsed();
    let blocks = source.blocks();
    let samples: u64 = blocks.iter().map(|b| b.samples as u64).sum();
    let memory: u64 = blocks.iter().map(|b| b.memory_bytes).sum();
    let mut files: Vec<u32> = blocks.iter().map(|b| b.file).collect();
    files.dedup();
    writeln!(
        out,
        "{samples} samples in {} files, {} blocks; {} in memory; looked at in {:.3} s",
        files.len(),
        blocks.len(),
        size::show(memory),
        took.as_secs_f64()
    )?;
    let rows: Vec<Vec<String>> = source.fields().iter().map(|f| vec![f.name.clone(), f.to_string()]).collect();
    table::write(out, &["COLUMN", "HOLDS"], &rows)?;
    for (_, why) in source.unread() {
        writeln!(out, "not read: {why}")?;
    }
    if let (Some(least), Some(most)) = (blocks.iter().map(|b| b.samples).min(), blocks.iter().map(|b| b.samples).max())
    {
        writeln!(out, "blocks of {least} to {most} samples")?;
    }
    Ok(())
}
