//! `gt plan`: what a script would do under its signals, without doing it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;

/// Runs a script against workers that compute nothing, and prints, line by line, where its values lie, what travels between
/// workers, and how much memory each of them needs. Every number that the script reads is zero.
#[derive(Args)]
pub(crate) struct PlanArgs {
    /// The script.
    script: PathBuf,
    /// Signals; GT_CONFIG otherwise.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How many workers there are, whatever the script asks for.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: u32,
    /// Every instruction, not only what travels.
    #[arg(long)]
    explain: bool,
    /// Arguments of the script.
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
    command.env("GT_PLAN_WORKERS", args.workers.to_string()).env("GT_PLAN_EXPLAIN", (args.explain as u8).to_string());
    if let Some(config) = &args.config {
        command.env("GT_CONFIG", config);
    }
    // A plan is this process's own.
    command.env_remove("GT_ADDRESS");
    let status = command.status().with_context(|| format!("{} could not be started", python.display()))?;
    if !status.success() {
        bail!("{} ended with {status}", args.script.display());
    }
    Ok(())
}
