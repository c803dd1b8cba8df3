//! `gt data bench`: how fast a data set comes, and how well it is mixed.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use gt_data::{
    BatchSpec, Cut, DataError, Elem, Kind, OrderSpec, Position, ReportSpec, RowPart, Run, RunSpec, Shuffle, Source,
    shuffle_report,
};
use gt_ir::DType;

use super::progress::Watched;
use super::{InDoubt, Input, at_least_one, stop};
use crate::{size, table};

/// Measure how fast a data set loads and how well it is shuffled
///
/// Measures every combination of --shuffle, --batch-size and --num-workers.
/// DESIGN EFFECT AT 0.01: how much more batch means vary than with a full
/// shuffle, if labels within a block correlate by 0.01. About 1 is ideal.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    input: Input,
    /// Shuffle modes to measure, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "off,pool")]
    shuffle: Vec<ShuffleKind>,
    /// Numbers of threads to measure, in addition to the main one, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "0,1,2")]
    num_workers: Vec<usize>,
    /// Batch sizes to measure, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "256", value_parser = at_least_one())]
    batch_size: Vec<u64>,
    /// Number of blocks that --shuffle pool mixes at a time
    #[arg(long, default_value_t = 128)]
    pool: usize,
    /// Memory limit for blocks and batches, such as 2GiB
    #[arg(long, default_value = "2GiB", value_parser = size::parse)]
    memory_budget: u64,
    /// Maximum time per measurement, in seconds; a measurement ends after one epoch
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShuffleKind {
    /// Samples in the order of the files
    Off,
    /// Blocks in random order, each shuffled within
    Files,
    /// Samples of --pool blocks mixed at a time
    Pool,
    /// All samples in random order
    Full,
}

impl ShuffleKind {
    fn shuffle(self, pool: usize) -> Shuffle {
        match self {
            ShuffleKind::Off => Shuffle::Off,
            ShuffleKind::Files => Shuffle::Pool { blocks: 1, lanes: 1 },
            ShuffleKind::Pool => Shuffle::Pool { blocks: pool, lanes: 16 },
            ShuffleKind::Full => Shuffle::Full,
        }
    }
}

struct Measured {
    samples_per_s: f64,
    first_s: f64,
    peak_bytes: u64,
}

fn measure(
    source: &Arc<dyn Source>,
    args: &BenchArgs,
    shuffle: Shuffle,
    batch_size: usize,
    threads: usize,
) -> anyhow::Result<Measured> {
    let mut batch = BatchSpec::plain(source.fields());
    for output in &mut batch.outputs {
        let field = &source.fields()[output.field];
        if !matches!(field.kind, Kind::Text { .. }) && field.elem != Elem::F64 {
            output.dtype = DType::F32;
        }
    }
    let spec = RunSpec {
        order: OrderSpec { seed: 0, shuffle },
        epoch: 0,
        start: Position::default(),
        cut: Cut::every(batch_size),
        batch,
        threads,
        prefetch: 2 * threads.max(1),
        memory_budget: args.memory_budget,
        skip_errors: args.input.skip_errors,
        part: RowPart::default(),
    };
    let begun = Instant::now();
    let mut run = Run::start(source.clone(), spec)?;
    let (mut samples, mut first_s) = (0, 0.0);
    while let Some((batch, _)) = run.next(&stop::is_asked)? {
        // Where batches are always ready, nobody waits, and nobody asks.
        if stop::is_asked() {
            return Err(DataError::Interrupted.into());
        }
        if samples == 0 {
            first_s = begun.elapsed().as_secs_f64();
        }
        samples += batch.samples;
        if begun.elapsed() > Duration::from_secs_f64(args.seconds) {
            break;
        }
    }
    let took = begun.elapsed().as_secs_f64();
    Ok(Measured { samples_per_s: samples as f64 / took, first_s, peak_bytes: run.stats().peak_bytes })
}

pub(crate) fn run(args: &BenchArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let source = args.input.open(InDoubt::Warn)?;
    let lens: Vec<u32> = source.blocks().iter().map(|b| b.samples).collect();
    let mut rows = Vec::new();
    for kind in &args.shuffle {
        let shuffle = kind.shuffle(args.pool);
        for &batch_size in &args.batch_size {
            let batch_size = usize::try_from(batch_size)?;
            let spec = ReportSpec { order: OrderSpec { seed: 0, shuffle }, epoch: 0, batch_size, correlation: 0.01 };
            let report = shuffle_report(&spec, &lens, None);
            for &threads in &args.num_workers {
                let what = format!("{kind:?}, batch size {batch_size}, {threads} threads").to_lowercase();
                let watched = Watched::on_terminal(source.clone(), &what, args.input.quiet);
                let m = measure(&watched, args, shuffle, batch_size, threads)?;
                rows.push(vec![
                    format!("{kind:?}").to_lowercase(),
                    batch_size.to_string(),
                    threads.to_string(),
                    format!("{:.0}", m.samples_per_s),
                    format!("{:.3}", m.first_s),
                    size::show(m.peak_bytes),
                    format!("{:.3}", report.whole.design_effect),
                ]);
            }
        }
    }
    let titles =
        ["SHUFFLE", "BATCH_SIZE", "NUM_WORKERS", "SAMPLES/S", "FIRST BATCH (S)", "MEMORY", "DESIGN EFFECT AT 0.01"];
    table::write(out, &titles, &rows)?;
    Ok(())
}
