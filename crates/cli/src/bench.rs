//! `gt bench`: a group of commands, one file each.

use std::io::Write;

use clap::{Args, Subcommand};

use crate::bench_net;

/// Measure network performance
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Net(bench_net::NetArgs),
}

pub(crate) fn run(args: BenchArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    match args.what {
        What::Net(args) => bench_net::run(&args, out),
    }
}
