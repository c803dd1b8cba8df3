//! The `gt` command: one file a command.
//!
//! A library as well as a binary, as the Python package has the same command: it calls [`main`] from its extension and says
//! how a worker is started there.
//!
//! CLI-1: what a user can mend ends with one line on stderr that says how, and exit code 1; wrong arguments with 2, as
//!        everywhere; an interrupted server drains and ends with 0, a data command with what a shell reports for the signal.
//! CLI-2: stdout has what was asked for; warnings and mistakes go to stderr.

mod bench;
mod bench_net;
mod children;
mod data;
mod ending;
mod log_lines;
mod plan;
mod reach;
mod server;
mod size;
mod status;
mod table;
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What starts a worker where this executable is the `gt` command.
///
/// # Errors
/// When the system does not say which file it is.
pub fn own_worker_command() -> std::io::Result<Vec<OsString>> {
    Ok(vec![std::env::current_exe()?.into_os_string(), "worker".into()])
}

/// GT: run the tensor operations of Python scripts on local or remote workers
///
/// A script records operations, a server routes them, and workers run them.
///
/// Examples:
///   gt server -p 9000 --workers 1                 start a server with one worker
///   GT_ADDRESS=127.0.0.1:9000 python train.py     run a script on that worker
///   gt status -p 9000                             show workers and sessions
///
/// To use other machines, see `gt server --help` and `gt worker --help`.
#[derive(Parser)]
#[command(name = "gt", version, verbatim_doc_comment)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Server(server::ServerArgs),
    Worker(worker::WorkerArgs),
    Status(status::StatusArgs),
    Plan(plan::PlanArgs),
    Bench(bench::BenchArgs),
    Data(data::DataArgs),
}

/// Runs the command that `args` say, the program's name first. `worker_command` is what starts a worker, without its
/// arguments: `gt worker`, or `python -m gt.worker`.
pub fn main(args: impl IntoIterator<Item = OsString>, worker_command: &[OsString]) -> ExitCode {
    ExitCode::from(run(args, worker_command))
}

/// As [`main`], for programs that end by themselves: the exit code as a number.
pub fn run(args: impl IntoIterator<Item = OsString>, worker_command: &[OsString]) -> u8 {
    let arguments = match Arguments::try_parse_from(args) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version come this way too. Where they cannot be printed, nobody is there to read.
            let _ = error.print();
            return error.exit_code() as u8;
        }
    };
    for (_, said) in gt::variable_warnings() {
        gt_observe::say(format_args!("gt: warning: {said}"));
    }
    let done = match arguments.command {
        Command::Server(args) => server::run(args, worker_command),
        Command::Worker(args) => worker::run(args),
        Command::Plan(args) => plan::run(args, worker_command),
        Command::Status(args) => status::run(&args, &mut std::io::stdout().lock()),
        Command::Bench(args) => bench::run(args, &mut std::io::stdout().lock()),
        Command::Data(args) => data::run(args, &mut std::io::stdout().lock()),
    };
    match done {
        Ok(()) => 0,
        Err(error) => match error.downcast_ref::<ending::Ended>() {
            Some(ended) => ended.0,
            None => {
                gt_observe::say(format_args!("gt: {error:#}"));
                1
            }
        },
    }
}
