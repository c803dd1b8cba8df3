//! What goes to every worker of a group: placed windows, and templates of them.

use gt_ir::codec::Reader;
use gt_shard::{LocalStep, Lowerer, PlacedBindings, PlacedTemplate, PlacedWindow};

use crate::running::run_window;

/// Workers that lower it: a mesh may name any number.
const WORKERS: u32 = 4;

/// Placed windows one after the other, for the same workers.
pub fn window(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    let mut lowerers: Vec<Lowerer> = (0..WORKERS).map(Lowerer::new).collect();
    let mut decoded = false;
    for _ in 0..4 {
        let Ok(window) = PlacedWindow::decode(&mut reader) else { break };
        decoded = true;
        let mut again = Vec::new();
        window.encode(&mut again);
        assert_eq!(PlacedWindow::decode(&mut Reader::new(&again)).as_ref(), Ok(&window), "CODEC-2");
        // What the worker that takes an upload makes room for.
        let _ = window.upload_shares();
        for lowerer in &mut lowerers {
            lowerer.window(&window).into_iter().for_each(|steps| run_steps(&steps));
        }
    }
    decoded
}

/// A template of a placed window, and bindings behind it.
pub fn template(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    let Ok(template) = PlacedTemplate::decode(&mut reader) else { return false };
    let mut lowerers: Vec<Lowerer> = (0..WORKERS).map(Lowerer::new).collect();
    lowerers.retain_mut(|lowerer| lowerer.define(1, template.clone()).is_ok());
    for _ in 0..4 {
        let Ok(bindings) = PlacedBindings::decode(&mut reader) else { break };
        for lowerer in &mut lowerers {
            lowerer.replay(1, &bindings).into_iter().for_each(|steps| run_steps(&steps));
        }
    }
    true
}

fn run_steps(steps: &[LocalStep]) {
    for step in steps {
        if let LocalStep::Run { window, .. } = step {
            run_window(window);
        }
    }
}
