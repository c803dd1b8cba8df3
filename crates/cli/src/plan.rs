//! `gt plan`: what a script would do under its signals, without doing it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;
use gt_observe::output::PLAN_WORKERS;

use crate::children::without_warnings;

/// Show the transfers and memory of a script on several workers, without computing
///
/// Runs the script with workers that compute nothing. For each line of the
/// script, prints where its tensors are stored and what the workers send to each
/// other, and how much memory each worker needs.
///
/// Every number that the script reads is zero. GT itself writes no files, and
/// files that exist keep their content when the script opens them to write or
/// append. New files that the script opens itself are written.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PlanArgs {
    /// Script to run
    script: PathBuf,
    /// YAML file that configures signals (default: GT_CONFIG)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Number of workers, even if the script requests another number
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: u32,
    /// Print every instruction, not only transfers
    #[arg(long)]
    explain: bool,
    /// Arguments for the script
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// The interpreter that has GT: the one that starts workers, where that is one.
fn interpreter(worker_command: &[OsString]) -> OsString {
    match worker_command {
        [python, module, ..] if module == "-m" => python.clone(),
        _ => "python3".into(),
    }
}

pub(crate) fn run(args: PlanArgs, worker_command: &[OsString]) -> anyhow::Result<()> {
    let python = interpreter(worker_command);
    let mut command = Command::new(&python);
    command.arg(&args.script).args(&args.arguments);
    command.env(PLAN_WORKERS, args.workers.to_string()).env("GT_PLAN_EXPLAIN", (args.explain as u8).to_string());
    if let Some(config) = &args.config {
        command.env("GT_CONFIG", config);
    }
    // A plan is this process's own.
    command.env_remove("GT_ADDRESS");
    without_warnings(&mut command);
    let status = command.status().with_context(|| format!("cannot start {}", python.display()))?;
    if !status.success() {
        // Whether it read values, which are zeros, the script says itself.
        bail!("{} failed with {status}", args.script.display());
    }
    Ok(())
}
