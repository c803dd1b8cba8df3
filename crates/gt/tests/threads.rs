//! Threads that use, overwrite and drop the same tensors.

use std::sync::mpsc::channel;
use std::time::Duration;

use gt::{Result, Tensor, synchronize};

const TIMES: usize = 1000;

/// Each thread records with a value of its own that it does not hold, while the other replaces it: a free that went out
/// before the instruction would make it one on a value that nobody knows (SHOWN-3).
fn used_while_overwritten() -> Result<()> {
    let x = Tensor::zeros(&[4], None)?;
    let part = x.narrow(0, 1, 2)?;
    let write_and_use = move || -> Result<Tensor> {
        let mut seen = Tensor::zeros(&[2], None)?;
        for _ in 0..TIMES {
            x.add_(1.0)?;
            let twice = x.add(&x)?;
            seen = part.add(&part)?.add(&twice.narrow(0, 1, 2)?)?;
        }
        Ok(seen)
    };
    let other = std::thread::spawn(write_and_use.clone());
    let (own, other) = (write_and_use()?, other.join().expect("the other thread ends")?);
    for seen in [own, other] {
        let seen = seen.to_vec::<f32>()?;
        assert!(seen[0] == seen[1] && (4.0..=8.0 * TIMES as f32).contains(&seen[0]), "{seen:?}");
    }
    synchronize()
}

/// Values made by one thread are used and dropped by another.
fn handed_over() -> Result<()> {
    let (give, take) = channel::<Tensor>();
    let taker = std::thread::spawn(move || -> Result<f32> {
        let mut sum = Tensor::zeros(&[], None)?;
        for t in take {
            sum = sum.add(&t)?;
        }
        Ok(sum.to_vec::<f32>()?[0])
    });
    for i in 0..200 {
        let one = Tensor::full(&[], f64::from(i), None)?;
        let made = one.add(&one)?;
        give.send(made.clone()).expect("the taker takes");
        let _ = made.add(&one)?;
    }
    drop(give);
    assert_eq!(taker.join().expect("the taker ends")?, (0..200).map(|i| 2.0 * i as f32).sum::<f32>());
    Ok(())
}

#[test]
fn threads_share_tensors() {
    gt::install();
    let (done, wait) = channel();
    std::thread::spawn(move || done.send(used_while_overwritten().and_then(|()| handed_over())));
    wait.recv_timeout(Duration::from_secs(100)).expect("it ends").expect("nothing fails");
}
