//! `gt data cache`: a data set as arrays that need no decoding.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};
use gt_data::{BatchSpec, write_cache};
use gt_ir::DType;
use gt_observe::output;

use super::{Input, steps};

/// Write a data set as arrays that need no decoding
///
/// Open the folder that this writes with gt.data.CachedDataset.
#[derive(Args, Debug)]
pub(crate) struct CacheArgs {
    #[command(flatten)]
    input: Input,
    /// Folder to write; must be new or empty
    output: PathBuf,
    /// Steps to apply to a column before it is written; repeatable
    ///
    /// Written as COLUMN:STEP,STEP…, such as charge:log10 or time:sub=1e4,div=3e4.
    /// Steps are add=N, sub=N, mul=N, div=N, pow=N, clip=LOW:HIGH, log, log1p,
    /// log10, exp, sqrt, abs, sin, cos, tanh, floor and round. Columns without
    /// steps are written unchanged.
    #[arg(
        long = "after-transforms",
        value_name = "COLUMN:STEPS",
        num_args = 0..=1,
        value_parser = steps::parse,
        verbatim_doc_comment
    )]
    after_transforms: Vec<steps::ColumnSteps>,
    /// Dtypes of columns, such as charge=float32,label=int64
    ///
    /// A dtype without a column applies to every other numeric column, labels
    /// included.
    #[arg(long, value_name = "[COLUMN=]DTYPE", value_delimiter = ',', value_parser = column_dtype, verbatim_doc_comment)]
    dtype: Vec<(Option<String>, DType)>,
    /// Maximum number of items in a list; longer lists are truncated
    #[arg(long)]
    max_len: Option<usize>,
    /// Layout of list columns
    #[arg(long, value_enum, default_value_t = Layout::Packed)]
    layout: Layout,
    /// Number of threads in addition to the main one
    #[arg(long, default_value_t = 1)]
    num_workers: usize,
}

/// Reads `float32` or `charge=float32`.
fn column_dtype(text: &str) -> Result<(Option<String>, DType), String> {
    let (column, name) = text.rsplit_once('=').map_or((None, text), |(column, name)| (Some(column.to_owned()), name));
    let dtype = DType::from_name(name)
        .ok_or_else(|| format!("{name:?} is not a dtype; use a name such as float32 or int64"))?;
    Ok((column, dtype))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Layout {
    /// The items of all lists, one list after another
    Packed,
}

pub(crate) fn run(args: &CacheArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if !output::may_write(&args.output) {
        return Ok(());
    }
    let source = args.input.open_watched("cache")?;
    let mut spec = BatchSpec::plain(source.fields());
    for output in &mut spec.outputs {
        let named = args.dtype.iter().find(|(column, _)| column.as_ref() == Some(&output.name));
        if let Some((_, dtype)) = named.or_else(|| args.dtype.iter().find(|(column, _)| column.is_none())) {
            output.dtype = *dtype;
        }
        output.max_len = args.max_len;
    }
    for column in args.dtype.iter().filter_map(|(column, _)| column.as_ref()) {
        if !spec.outputs.iter().any(|output| output.name == *column) {
            bail!("--dtype names column {column:?}, which the data set does not have");
        }
    }
    for (column, steps) in &args.after_transforms {
        let Some(output) = spec.outputs.iter_mut().find(|o| o.name == *column) else {
            bail!("--after-transforms names column {column:?}, which the data set does not have");
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
