//! Windows that repeat, as they come by wire: a template, and bindings of occurrences.

use gt_ir::codec::Reader;
use gt_stream::{Bindings, Checker, Template};

use crate::running::run_window;

/// A template, and behind it bindings until the bytes end.
pub fn template(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    let Ok(template) = Template::decode(&mut reader) else { return false };
    let mut again = Vec::new();
    template.encode(&mut again);
    let decoded = Template::decode(&mut Reader::new(&again)).expect("what was encoded can be decoded");
    assert!(decoded.is(&template), "equal recipes are one");
    let mut checker = Checker::default();
    for _ in 0..4 {
        let Ok(bindings) = Bindings::decode(&mut reader) else { break };
        if let Ok(occurrence) = checker.bind(template.clone(), bindings) {
            run_window(&occurrence);
        }
    }
    true
}
