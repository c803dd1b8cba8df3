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
use gt_client::{HostTensor, Index, Result, RunAhead, Tensor};
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

fn record(what: &str, count: usize) -> Result<()> {
    let x = &Tensor::zeros(&[16, 16], None)?;
    let (grad, row, zero) = (&x.clone().add(1.0)?, &Tensor::ones(&[16], None)?, Tensor::from_slice(&[0i64], &[1])?);
    grad.set_requires_grad(true)?;
    row.set_requires_grad(true)?;
    for _ in 0..count {
        match what {
            "add" => drop(x.add(x)?),
            "add_" => x.add_(1.0)?,
            "matmul" => drop(x.matmul(x)?),
            "add_grad" => drop(grad.add(grad)?),
            "index" => drop(x.index(&[Index::Int(3)])?),
            "tensor" => drop(Tensor::from_slice(&[0i64], &[1])?),
            "take" => drop(grad.index(&[Index::Tensor(zero.clone())])?),
            "step" => {
                let h = x.matmul(grad)?;
                let h = h.mul(&h.mul(&h)?.mean(&[-1], true, None)?.add(1e-6)?)?.mul(row)?;
                h.reshape(&[4, 64])?.sum(&[], false, None)?.backward()?;
                grad.set_grad(None)?;
                row.set_grad(None)?;
            }
            other => panic!("there is no {other}; there are add, add_, add_grad, matmul, index, tensor, take and step"),
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
    record(&what.unwrap_or_else(|| "add".into()), count.and_then(|n| n.parse().ok()).unwrap_or(20_000))
}
