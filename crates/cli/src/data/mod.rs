//! `gt data`: a group of commands over data sets in files, one file each.

mod bench;
mod cache;
mod index;
mod progress;
mod shuffle;
mod steps;

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::Context;
use clap::{Args, Subcommand};
use gt_data::{ParquetOptions, Source, interruptible};
use signal_hook::consts::{SIGINT, SIGTERM};

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
    /// Files, folders, patterns such as 'train/*.parquet', or URLs of them (s3, gs, az, http, https)
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

/// Set by Ctrl-C once a command looks for it.
static STOPPED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// What says that Ctrl-C was pressed, so that a command can end without leaving anything half-written.
fn stop() -> anyhow::Result<fn() -> bool> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, STOPPED.clone()).context("signals")?;
    }
    Ok(is_stopped)
}

pub(crate) fn run(args: DataArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    interruptible(is_stopped, || match args.what {
        What::Index(args) => index::run(&args, out),
        What::Shuffle(args) => shuffle::run(&args, out),
        What::Cache(args) => cache::run(&args, out),
        What::Bench(args) => bench::run(&args, out),
    })
}
