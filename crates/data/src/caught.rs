//! Panics of decoders as errors.
//!
//! CAUGHT-1: a panic that is caught here prints nothing: the error says what its user has to know. Any other panic of the process
//!           is reported as before.

use std::any::Any;
use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::sync::Once;

use crate::error::{DataError, Result};
use crate::files::Named;

thread_local! {
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs what decodes a file. A decoder may panic over damage that its authors did not think of; that is the file's fault.
pub(crate) fn caught<T>(file: &(impl Named + ?Sized), decode: impl FnOnce() -> Result<T>) -> Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_CATCHING.get() {
                before(panic);
            }
        }));
    });
    let outside = IS_CATCHING.replace(true);
    let done = std::panic::catch_unwind(AssertUnwindSafe(decode));
    IS_CATCHING.set(outside);
    done.unwrap_or_else(|panic| Err(DataError::corrupt(file, format!("decoding failed: {}", said(&*panic)))))
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("the decoder stopped without a message")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_panic_is_an_error_that_names_the_file() {
        let wrong = caught(Path::new("x.arrow"), || -> Result<()> { panic!("no such {}", "thing") });
        let expected = "x.arrow: the file is corrupt or truncated: decoding failed: no such thing";
        assert_eq!(wrong.unwrap_err().to_string(), expected);
        assert!(!IS_CATCHING.get());
    }
}
