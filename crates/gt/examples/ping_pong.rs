//! How long a value takes from one worker to another, and what that is in bytes a second.
//!
//! ```text
//! cargo run --release -p gt --example ping_pong
//! ```

use std::time::Instant;

use gt::{Result, Tensor, signal};

/// Sends a tensor to and fro, so often; seconds a way.
fn hops(len_bytes: usize, count: usize) -> Result<f64> {
    let there = [signal::worker(0)?, signal::worker(1)?];
    let mut x = Tensor::zeros(&[len_bytes / 4], None)?;
    x.to_vec::<f32>()?;
    let started = Instant::now();
    for hop in 0..count {
        let _on = signal::under(there[(hop + 1) % 2]);
        // Something is made of it each time, or there would be no reason to move it.
        x = x.mul(-1.0)?;
    }
    // Waits for the last one without reading all of it.
    x.narrow(0, 0, 1)?.to_vec::<f32>()?;
    Ok(started.elapsed().as_secs_f64() / count as f64)
}

fn main() -> Result<()> {
    gt::install();
    gt::gpu_workers(2)?;
    for (len_bytes, count) in [(4 << 10, 400), (64 << 10, 400), (1 << 20, 100), (16 << 20, 20)] {
        hops(len_bytes, count / 4)?;
        let best = (0..3).map(|_| hops(len_bytes, count)).collect::<Result<Vec<_>>>()?;
        let seconds = best.into_iter().fold(f64::INFINITY, f64::min);
        println!("{:>8} KiB: {:>8.1} us, {:.2} GB/s", len_bytes >> 10, seconds * 1e6, len_bytes as f64 / seconds / 1e9);
    }
    gt::shutdown();
    Ok(())
}
