//! `gt data cache`: a data set as arrays that need no decoding.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};
use gt_data::{BatchSpec, write_cache};
use gt_ir::DType;

use super::{Input, steps};

/// Write a data set as arrays that need no decoding; gt.data.CachedDataset opens the folder
#[derive(Args, Debug)]
pub(crate) struct CacheArgs {
    #[command(flatten)]
    input: Input,
    /// The folder to write, which must not be there yet, or be empty
    output: PathBuf,
    /// Write columns as these changes leave them: COLUMN:STEP[=NUMBER],… such as charge:log10 or time:sub=1e4,div=3e4.
    /// Without any, as they are
    #[arg(long = "after-transforms", value_name = "CHANGE", num_args = 0..=1, value_parser = steps::parse)]
    after_transforms: Vec<steps::ColumnSteps>,
    /// The dtype of every number
    #[arg(long, value_parser = |name: &str| DType::from_name(name).ok_or("not a dtype: float32, int64, …"))]
    dtype: Option<DType>,
    /// Items that a sample has at most
    #[arg(long)]
    max_len: Option<usize>,
    /// How columns of lists lie: all items one after another
    #[arg(long, value_enum, default_value_t = Layout::Packed)]
    layout: Layout,
    /// Threads beside the main one
    #[arg(long, default_value_t = 1)]
    num_workers: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Layout {
    Packed,
}

pub(crate) fn run(args: &CacheArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let source = args.input.open_watched("cache")?;
    let mut spec = BatchSpec::plain(source.fields());
    for output in &mut spec.outputs {
        if let Some(dtype) = args.dtype {
            output.dtype = dtype;
        }
        output.max_len = args.max_len;
    }
    for (column, steps) in &args.after_transforms {
        let Some(output) = spec.outputs.iter_mut().find(|o| o.name == *column) else {
            bail!("there is no column {column:?}");
        };
        output.steps.clone_from(steps);
    }
    spec.check(source.fields())?;
    let Layout::Packed = args.layout;
    let samples = write_cache(&source, &spec, &args.output, args.num_workers, &super::stop::is_asked)?;
    drop(source);
    writeln!(out, "{samples} samples in {}", args.output.display())?;
    Ok(())
}
