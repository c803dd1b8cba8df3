//! `gt data`: a group of commands over data sets in files, one file each.

mod bench;
mod cache;
mod events;
mod index;
mod progress;
mod shuffle;
mod steps;
mod stop;

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use anyhow::bail;
use clap::{Args, Subcommand};
use gt_data::{FileAccess, ParquetOptions, Source, interruptible};
use signal_hook::consts::SIGPIPE;

use crate::ending::{Ended, of_signal};

/// Inspect, rewrite and benchmark data sets in files
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
    /// Files, folders or patterns such as 'train/*.parquet', also as URLs (file, s3, gs, az, http, https)
    #[arg(required = true)]
    files: Vec<String>,
    /// Columns to read, separated by commas (default: all)
    #[arg(long, value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Skip files that cannot be read
    #[arg(long)]
    skip_errors: bool,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    events: events::EventArgs,
}

/// What a command does where rows of different events may be taken for samples.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InDoubt {
    /// It only looks at them: it says so.
    Warn,
    /// What it writes would no longer tell which rows belong together: it refuses.
    Refuse,
}

/// Reads a count that cannot be zero.
fn at_least_one() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..)
}

impl Input {
    fn open(&self, in_doubt: InDoubt) -> anyhow::Result<Arc<dyn Source>> {
        let options = ParquetOptions {
            columns: self.columns.clone(),
            skip_errors: self.skip_errors,
            ..ParquetOptions::default()
        };
        let shown = !self.quiet && std::io::stderr().is_terminal();
        if shown {
            eprint!("indexing files…");
        }
        let opened = self.opened(&options);
        if shown {
            eprint!("\r\x1b[K");
        }
        let (source, doubt) = opened?;
        match doubt {
            Some(doubt) if in_doubt == InDoubt::Refuse => bail!("{doubt}"),
            Some(doubt) => gt_observe::say(format_args!("gt: warning: {doubt}")),
            None => {}
        }
        for (_, why) in source.left_out() {
            gt_observe::say(format_args!("gt: warning: skipped {why}"));
        }
        Ok(source)
    }

    fn opened(&self, options: &ParquetOptions) -> anyhow::Result<(Arc<dyn Source>, Option<String>)> {
        if let Some(spec) = self.events.source(&self.files, options)? {
            return Ok((spec.open(&FileAccess::everything())?, None));
        }
        let source = gt_data::open(&self.files, options)?;
        let doubt = self.events.doubt(&self.files, options, &source)?;
        Ok((source, doubt))
    }

    /// Opens the data set, and shows on a terminal how much of it has been read.
    fn open_watched(&self, what: &str) -> anyhow::Result<Arc<dyn Source>> {
        Ok(progress::Watched::on_terminal(self.open(InDoubt::Refuse)?, what, self.quiet))
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
