//! GPUs that the machine has and this build of GT does not use.

use std::path::Path;

use gt_observe::{Component, Debug};

use crate::config::Config;

/// What the driver of NVIDIA's GPUs shows of itself.
const TRACES: [&str; 2] = ["proc/driver/nvidia/gpus", "dev/nvidia0"];

fn has_nvidia_gpu(root: &Path) -> bool {
    TRACES.iter().any(|trace| root.join(trace).exists())
}

/// The line that says so, where there is one.
fn unused(root: &Path) -> Option<&'static str> {
    has_nvidia_gpu(root).then_some(
        "this machine has an NVIDIA GPU, but this version of GT has no GPU engine: it computes on the CPU \
         (choose the backend 'cpu' instead of 'auto' to hide this message)",
    )
}

/// Says once that the machine's GPUs are not used, if it has some: for who leaves the choice of an engine to GT.
pub fn tell_of_unused_gpus() {
    static TOLD: std::sync::Once = std::sync::Once::new();
    if let Some(line) = unused(Path::new("/")) {
        TOLD.call_once(|| gt_observe::say(format_args!("gt: {line}")));
    }
}

/// As [`tell_of_unused_gpus`], unless the user named an engine.
pub(crate) fn tell_of_unused(config: &Config) {
    if leaves_the_choice(config) {
        tell_of_unused_gpus();
    }
}

fn leaves_the_choice(config: &Config) -> bool {
    !config.backend_is_chosen && config.backend.name == "cpu"
}

/// Says once, under `GT_VERBOSE`, that a tensor that was asked to be on a GPU is not.
pub fn tell_of_hint() {
    static TOLD: std::sync::Once = std::sync::Once::new();
    TOLD.call_once(|| {
        let verbose = Config::from_env().is_ok_and(|config| config.verbose);
        Debug::new(Component::Client, verbose)
            .print(|| "device 'cuda' is only a hint: this session has no GPU, so its tensors stay on the CPU");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_without_an_engine_is_told_of() {
        let root = std::env::temp_dir().join(format!("gt-gpus-{}", std::process::id()));
        assert_eq!(unused(&root), None);
        std::fs::create_dir_all(root.join("dev")).unwrap();
        std::fs::write(root.join("dev/nvidia0"), "").unwrap();
        assert!(unused(&root).is_some_and(|line| line.contains("on the CPU")));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn only_a_session_that_leaves_the_choice_is_told() {
        let config = |backend: Option<&str>| {
            Config::read(&|name| backend.filter(|_| name == "GT_BACKEND").map(String::from)).unwrap()
        };
        assert!(leaves_the_choice(&config(None)) && leaves_the_choice(&config(Some("auto"))));
        assert!(!leaves_the_choice(&config(Some("cpu"))) && !leaves_the_choice(&config(Some("reference"))));
    }
}
