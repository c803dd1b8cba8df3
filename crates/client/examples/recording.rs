//! Records small operations for a link that runs nothing. Counts what recording alone costs, in instructions of the processor:
//!
//! ```text
//! cargo build --release -p gt-client --example recording
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/recording add 0
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/recording add 20000
//! ```
//! One operation costs the difference of the two counts, divided by 20,000.

use gt_client::link::{Link, WaitError};
use gt_client::session::{Cuts, Session, set_starter};
use gt_client::{HostTensor, Result, RunAhead, Tensor};
use gt_ir::TensorId;
use gt_stream::Occurrence;

struct Nobody;

impl Link for Nobody {
    fn send(&self, _: Occurrence, _: &dyn Fn() -> bool) -> Result<(), WaitError> {
        Ok(())
    }
    fn read(&self, _: TensorId, _: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        Err(WaitError::Interrupted)
    }
    fn synchronize(&self, _: &dyn Fn() -> bool) -> Result<(), WaitError> {
        Ok(())
    }
    fn wake(&self) {}
    fn close(&self) {}
    fn is_full(&self) -> bool {
        false
    }
}

fn record(what: &str, count: usize, x: &Tensor) -> Result<()> {
    for _ in 0..count {
        match what {
            "add" => drop(x.add(x)?),
            "add_" => x.add_(1.0)?,
            "matmul" => drop(x.matmul(x)?),
            other => panic!("there is no {other}; there are add, add_ and matmul"),
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    set_starter(|| {
        Ok(Session {
            link: Box::new(Nobody),
            owner: Box::new(()),
            name: "a test".into(),
            seat: Default::default(),
            batch_size: None,
            cuts: Cuts::NEAR,
            join_after: None,
            loops: None,
            waits: false,
            debug: None,
            ahead: RunAhead::default(),
        })
    });
    let (what, count) = (std::env::args().nth(1), std::env::args().nth(2));
    let x = Tensor::zeros(&[16, 16], None)?;
    record(&what.unwrap_or_else(|| "add".into()), count.and_then(|n| n.parse().ok()).unwrap_or(20_000), &x)
}
