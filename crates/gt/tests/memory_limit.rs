//! The memory limit is known before the worker's engine has started.

use gt::Tensor;

#[test]
fn a_worker_that_is_starting_has_the_configured_limit() {
    gt::install();
    let configured = gt::memory_limit_bytes();
    let x = Tensor::full(&[3], 1.0, None).unwrap();
    // The worker's thread now starts beside this one.
    for _ in 0..10_000 {
        assert_eq!(gt::memory_limit_bytes(), configured);
    }
    assert_eq!(x.sum(&[], false, None).unwrap().item().unwrap().as_f64(), 3.0);
    assert_eq!(gt::memory_limit_bytes(), configured);
}
