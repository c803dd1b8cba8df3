//! The `gt` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    match gt_cli::own_worker_command() {
        Ok(worker) => gt_cli::main(std::env::args_os(), &worker),
        Err(error) => {
            gt_observe::say(format_args!("gt: cannot find the path of this executable: {error}"));
            ExitCode::FAILURE
        }
    }
}
