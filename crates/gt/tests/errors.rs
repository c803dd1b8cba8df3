//! Errors of a Rust program name its own lines.

use gt::{Error, Tensor};

#[test]
fn a_failure_names_the_line_that_recorded_it() {
    gt::install();
    let x = Tensor::full(&[3, 2], 1.0, None).unwrap();
    let rows = Tensor::full(&[1], 7i64, None).unwrap();
    let line = line!() + 1;
    let picked = x.index(&[gt::Index::Tensor(rows)]).unwrap();
    let sum = picked.sum(&[], false, None).unwrap();
    let error = sum.item().unwrap_err();
    let Error::Failed(failed) = &error else { panic!("it is {error:?}") };
    assert_eq!(failed.site.as_deref(), Some(format!("{}:{line}", file!()).as_str()), "{error}");
}

#[test]
fn wrong_use_is_an_error_at_the_call() {
    gt::install();
    let (a, b) = (Tensor::full(&[2, 3], 1.0, None).unwrap(), Tensor::full(&[4, 5], 1.0, None).unwrap());
    let message = a.matmul(&b).unwrap_err().to_string();
    assert!(message.contains("2x3") && message.contains("4x5"), "{message}");
    let message = a.add(&b).unwrap_err().to_string();
    assert!(message.contains('3') && message.contains('5'), "{message}");
}
