//! The `gt` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    match gt_cli::Host::this_executable() {
        Ok(host) => gt_cli::main(std::env::args_os(), &host),
        Err(error) => {
            eprintln!("gt: cannot tell which file this program is: {error}");
            ExitCode::FAILURE
        }
    }
}
