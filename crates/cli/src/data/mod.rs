//! `gt data`: a group of commands over data sets in files, one file each.

mod bench;
mod cache;
mod index;
mod progress;
mod shuffle;
mod steps;
mod stop;

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use clap::{Args, Subcommand};
use gt_data::{ParquetOptions, Source, interruptible};
use signal_hook::consts::SIGPIPE;

use crate::ending::{Ended, of_signal};

/// Look at, rewrite and measure data sets in files.
#[derive(Args, Debug)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Index(index::IndexArgs),
    Shuffle(shuffle::ShuffleArgs),
    Cache(cache::CacheArgs),
    Bench(bench::BenchArgs),
}

/// Which data set.
#[derive(Args, Debug)]
pub(crate) struct Input {
    /// Files, folders, patterns such as 'train/*.parquet', or URLs of them (file, s3, gs, az, http, https)
    #[arg(required = true)]
    files: Vec<String>,
    /// Columns to read, with commas between them; all by default
    #[arg(long, value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Leave out files that cannot be read
    #[arg(long)]
    skip_errors: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Reads a count that cannot be zero.
fn at_least_one() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..)
}

impl Input {
    fn open(&self) -> anyhow::Result<Arc<dyn Source>> {
        let options = ParquetOptions {
            columns: self.columns.clone(),
            skip_errors: self.skip_errors,
            ..ParquetOptions::default()
        };
        let shown = !self.quiet && std::io::stderr().is_terminal();
        if shown {
            eprint!("looking at the files…");
        }
        let opened = gt_data::open(&self.files, &options);
        if shown {
            eprint!("\r\x1b[K");
        }
        let source = opened?;
        for (_, why) in source.left_out() {
            eprintln!("gt: left out {why}");
        }
        Ok(source)
    }

    /// Opens the data set, and shows on a terminal how much of it has been read.
    fn open_watched(&self, what: &str) -> anyhow::Result<Arc<dyn Source>> {
        Ok(progress::Watched::on_terminal(self.open()?, what, self.quiet))
    }
}

pub(crate) fn run(args: DataArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    stop::listen()?;
    let done = interruptible(stop::is_asked, || match args.what {
        What::Index(args) => index::run(&args, out),
        What::Shuffle(args) => shuffle::run(&args, out),
        What::Cache(args) => cache::run(&args, out),
        What::Bench(args) => bench::run(&args, out),
    });
    let is_unread = |e: &anyhow::Error| {
        e.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    };
    done.map_err(|error| match stop::signal() {
        Some(signal) => Ended(of_signal(signal)).into(),
        // Whoever read the output has enough of it.
        None if is_unread(&error) => Ended(of_signal(SIGPIPE as usize)).into(),
        None => error,
    })
}
