//! Windows that repeat, as they come by wire: a template, and bindings of occurrences.

use std::sync::Arc;

use gt_ir::codec::Reader;
use gt_plan::{Bindings, Template};

use crate::running::run_window;

/// A template, and behind it bindings until the bytes end.
pub fn template(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    let Ok(template) = Template::decode(&mut reader) else { return false };
    let _ = (
        template.len(),
        template.sites().count(),
        template.payloads().map(|(_, len)| len as u64).fold(0, u64::saturating_add),
    );
    let template = Arc::new(template);
    for _ in 0..4 {
        let Ok(bindings) = Bindings::decode(&mut reader) else { break };
        if let Ok(occurrence) = template.bind(bindings) {
            run_window(&occurrence.window());
        }
    }
    true
}
