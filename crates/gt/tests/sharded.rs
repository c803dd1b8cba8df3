//! Tensors under signals, on a group of workers in this process.

use gt::signal::{self, ShardConfig, SignalConfig, Workers};
use gt::{Result, Tensor};

fn numbers(shape: &[usize]) -> Result<Tensor> {
    let len: usize = shape.iter().product();
    let data: Vec<f32> = (0..len).map(|n| (n % 17) as f32 - 8.0).collect();
    Tensor::from_slice(&data, shape)
}

/// What is computed: a product, something elementwise, a sum over what is cut.
fn step(x: &Tensor, w: &Tensor) -> Result<(Tensor, Tensor)> {
    let y = x.matmul(w)?.mul(0.5)?;
    let total = y.sum(&[0], false, None)?;
    Ok((y, total))
}

#[test]
fn a_group_gives_what_one_worker_gives_and_counts_what_moved() -> Result<()> {
    gt::install();
    let (x, w) = (numbers(&[11, 6])?, numbers(&[6, 5])?);
    let (y, total) = step(&x, &w)?;
    let (alone, alone_total) = (y.to_vec::<f32>()?, total.to_vec::<f32>()?);
    // Tensors that exist are carried over.
    gt::gpu_workers(3)?;
    let rows = ShardConfig::along(0, Workers::All).unwrap();
    gt::register_config("rows", SignalConfig { shard: vec![rows], ..SignalConfig::default() })?;
    for _ in 0..8 {
        signal::enter("rows", None)?;
        let (y, total) = step(&x, &w)?;
        signal::exit("rows")?;
        assert_eq!(y.to_vec::<f32>()?, alone);
        let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
        assert!(total.to_vec::<f32>()?.iter().zip(&alone_total).all(close));
    }
    gt::synchronize()?;
    let stats = gt::stats()?;
    assert_eq!(stats.iter().map(|s| s.worker.as_str()).collect::<Vec<_>>(), ["worker_0", "worker_1", "worker_2"]);
    assert!(stats.iter().all(|s| s.moved_bytes_out + s.moved_bytes_in > 0 && s.windows > 0), "{stats:?}");
    assert!(gt::memory()?.live_bytes > 0);
    gt::empty_cache()?;
    // Smaller again: what the others had comes along.
    signal::enter("rows", None)?;
    let far = x.mul(-1.0)?;
    signal::exit("rows")?;
    gt::gpu_workers(2)?;
    assert_eq!(far.to_vec::<f32>()?, x.to_vec::<f32>()?.iter().map(|v| -v).collect::<Vec<_>>());
    gt::shutdown();
    Ok(())
}
