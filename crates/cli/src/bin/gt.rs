//! The `gt` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    match gt_cli::own_worker_command() {
        Ok(worker) => gt_cli::main(std::env::args_os(), &worker),
        Err(error) => {
            eprintln!("gt: cannot tell which file this program is: {error}");
            ExitCode::FAILURE
        }
    }
}
