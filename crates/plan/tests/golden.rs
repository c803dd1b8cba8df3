//! Windows and the plans they become, as text files anyone can read and add to.
//!
//! A file has `input` lines, instructions, `free` lines and a `mode` line; below `----` is the plan.
//! `GT_GOLDEN=write cargo test -p gt-plan` records the plans anew.

use std::collections::BTreeMap;
use std::path::Path;

use gt_ir::attr::Attr;
use gt_ir::{DType, TensorId, TensorType, Window, text::Parser};
use gt_plan::{PlanOptions, build, text, verify};
use gt_stream::Occurrence;

fn id(text: &str) -> TensorId {
    TensorId(text.trim().trim_start_matches('%').parse().expect("an id"))
}

fn ty(text: &str) -> TensorType {
    let (dtype, _) = text.split_once('[').expect("a type like f32[2, 3]");
    let shape = Attr::parse(&mut Parser::new(&text[dtype.len()..])).expect("extents");
    TensorType { dtype: DType::from_name(dtype).expect("a dtype"), shape }
}

fn plan_of(source: &str) -> String {
    let mut window = Window::default();
    let mut inputs = BTreeMap::new();
    let mut options = PlanOptions::default();
    for line in source.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("//")) {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("input", rest) => {
                let (name, text) = rest.split_once(' ').expect("input %0 f32[2]");
                inputs.insert(id(name), ty(text.trim()));
            }
            ("free", rest) => window.frees.extend(rest.split_whitespace().map(id)),
            ("mode", "compiled") => options.compiled = true,
            ("mode", "separate") => options.fusion = false,
            _ => window.instrs.push(line.parse().unwrap_or_else(|e| panic!("{line}: {e}"))),
        }
    }
    let occurrence = Occurrence::of(window).expect("an occurrence");
    let types: Vec<TensorType> = occurrence.bindings().inputs.iter().map(|id| inputs[id]).collect();
    let plan = build(occurrence.recipe(), &types, options).expect("a plan");
    verify(&plan).expect("a valid plan");
    text::print(&plan)
}

#[test]
fn plans_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 8, "the golden files are missing");
    let write = std::env::var("GT_GOLDEN").is_ok_and(|v| v == "write");
    let mut wrong = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let (source, expected) = text.split_once("----\n").unwrap_or((&text, ""));
        let plan = plan_of(source);
        if write {
            std::fs::write(&path, format!("{source}----\n{plan}")).unwrap();
        } else if plan != expected {
            wrong.push(format!("{}:\n{plan}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "these plans changed (GT_GOLDEN=write records them):\n{}", wrong.join("\n"));
}
