//! Trains a small classifier through the `gt` crate, with no Python: two interleaved spirals, two hidden layers.
//!
//! `cargo run --release -p gt --example mlp`

use gt::autograd::no_grad;
use gt::{DType, Result, Tensor};
use gt_ir::rows::{CompareKind, UnaryKind};

const POINTS: usize = 512;
const HIDDEN: usize = 64;
const STEPS: usize = 400;

/// Points on two spirals and the spiral each lies on.
fn spirals() -> Result<(Tensor, Tensor)> {
    let mut points = Vec::new();
    let mut labels = Vec::new();
    for i in 0..POINTS {
        let (arm, along) = (i % 2, i as f32 / POINTS as f32);
        let angle = along * 3.0 * std::f32::consts::PI + arm as f32 * std::f32::consts::PI;
        points.extend([along * angle.cos(), along * angle.sin()]);
        labels.push(arm as i64);
    }
    Ok((Tensor::from_slice(&points, &[POINTS, 2])?, Tensor::from_slice(&labels, &[POINTS])?))
}

fn layer(inputs: usize, outputs: usize) -> Result<[Tensor; 2]> {
    let weight = Tensor::randn(&[inputs, outputs], None, None)?.mul((2.0 / inputs as f64).sqrt())?.detach();
    let bias = Tensor::zeros(&[outputs], None)?;
    for t in [&weight, &bias] {
        t.set_requires_grad(true)?;
    }
    Ok([weight, bias])
}

fn logits(layers: &[[Tensor; 2]], x: &Tensor) -> Result<Tensor> {
    let mut x = x.clone();
    for (i, [weight, bias]) in layers.iter().enumerate() {
        x = x.matmul(weight)?.add(bias)?;
        if i + 1 < layers.len() {
            x = x.unary(UnaryKind::Tanh)?;
        }
    }
    Ok(x)
}

fn main() -> Result<()> {
    gt::install();
    gt::manual_seed(0);
    let (x, y) = spirals()?;
    let layers = [layer(2, HIDDEN)?, layer(HIDDEN, HIDDEN)?, layer(HIDDEN, 2)?];
    let velocity: Vec<Tensor> = layers.iter().flatten().map(|p| Tensor::zeros_of(p.ty())).collect::<Result<_>>()?;
    let picked = y.reshape(&[-1, 1])?;
    let mut last = f64::NAN;
    for step in 0..STEPS {
        let likelihood = logits(&layers, &x)?.log_softmax(-1)?.gather(1, &picked)?;
        let loss = likelihood.mean(&[], false, None)?.unary(UnaryKind::Neg)?;
        loss.backward()?;
        no_grad(|| -> Result<()> {
            for (p, v) in layers.iter().flatten().zip(&velocity) {
                if let Some(g) = p.grad() {
                    v.mul_(0.9)?;
                    v.add_(&g)?;
                    p.sub_(&v.mul(0.1)?)?;
                    p.set_grad(None)?;
                }
            }
            Ok(())
        })?;
        if step % 100 == 99 || step == 0 {
            last = loss.item()?.as_f64();
            println!("step {:>3}  loss {last:.4}", step + 1);
        }
    }
    let guess = logits(&layers, &x)?.arg_extreme(gt_ir::ops::ArgKind::Max, Some(1), false)?;
    let right = Tensor::compare(CompareKind::Eq, &guess, &y)?.to_dtype(DType::F32)?.mean(&[], false, None)?;
    println!("accuracy {:.1} %", right.item()?.as_f64() * 100.0);
    assert!(last < 0.1, "the loss should have fallen");
    Ok(())
}
