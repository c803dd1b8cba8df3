//! What is recorded under signals: scopes on instructions, and the values a window meets.

use gt_client::autograd::{self, BackwardOptions};
use gt_client::link::{Link, WaitError};
use gt_client::session::{Cuts, Session, set_starter};
use gt_client::signal::{self, SignalConfig};
use gt_client::{Error, HostTensor, Result, RunAhead, Tensor};
use gt_ir::shard::Split;
use gt_ir::{OpKind, ScopeId, TensorId, Window};
use gt_shard::{PlacedStep, Placer};
use gt_stream::Occurrence;
use parking_lot::{Mutex, MutexGuard};

static SENT: Mutex<Vec<Window>> = Mutex::new(Vec::new());
static ALONE: Mutex<()> = Mutex::new(());
const WORKERS: usize = 4;

/// Keeps what it is sent.
struct Recording;

impl Link for Recording {
    fn send(&self, window: Occurrence, _: &dyn Fn() -> bool) -> Result<(), WaitError> {
        let window = window.window();
        SENT.lock().push(window);
        Ok(())
    }
    fn read(&self, _: TensorId, _: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        Err(WaitError::Interrupted)
    }
    fn synchronize(&self, _: &dyn Fn() -> bool) -> Result<(), WaitError> {
        Ok(())
    }
    fn wake(&self) {}
    fn is_full(&self) -> bool {
        false
    }
    fn close(&self) {}
    fn workers(&self) -> Vec<String> {
        group(WORKERS)
    }
}

fn group(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("worker_{i}")).collect()
}

/// One test at a time: signals belong to the process.
fn alone(yaml: &str) -> MutexGuard<'static, ()> {
    let guard = ALONE.lock();
    set_starter(|| {
        Ok(Session {
            link: Box::new(Recording),
            owner: Box::new(()),
            name: "nobody".into(),
            seat: Default::default(),
            batch_size: None,
            cuts: Cuts::NEAR,
            join_after: None,
            loops: None,
            waits: false,
            debug: None,
            ahead: RunAhead::default(),
        })
    });
    signal::load_text(yaml, "test.yaml").unwrap();
    gt_client::cut().unwrap();
    SENT.lock().clear();
    guard
}

/// What was recorded since the last call.
fn windows() -> Vec<Window> {
    gt_client::cut().unwrap();
    std::mem::take(&mut SENT.lock())
}

fn names(windows: &[Window]) -> Vec<(OpKind, String)> {
    let name = |scope| signal::name(scope).unwrap_or_default();
    windows.iter().flat_map(|w| &w.instrs).map(|i| (i.op.kind(), name(i.scope))).collect()
}

fn ones(shape: &[usize]) -> Tensor {
    Tensor::full(shape, 1.0, None).unwrap()
}

fn within<T>(signal: &str, f: impl FnOnce() -> T) -> T {
    signal::enter(signal, None).unwrap();
    let out = f();
    signal::exit(signal).unwrap();
    out
}

const STAGES: &str = "
data: {shard: {axis: 0}}
stage_1: {shard: {axis: 0, workers: [0, 1]}, backward: back_1}
back_1: {shard: {axis: 0, workers: [2, 3]}}
hot: {compile: true}
far: {shard: {axis: 0, workers: [1, 9]}}
";

#[test]
fn instructions_carry_the_innermost_scope() {
    let _alone = alone(STAGES);
    let x = ones(&[4, 2]);
    let y = within("data", || {
        let y = (&x + &x).unwrap();
        let z = within("stage_1", || (&y + &y).unwrap());
        within("nothing is known of this", || (&z + &z).unwrap())
    });
    let _out = (&y + &y).unwrap();
    let seen: Vec<String> = names(&windows()).into_iter().map(|(_, name)| name).collect();
    assert_eq!(seen, ["", "data", "stage_1", "data", ""]);
}

#[test]
fn a_window_meets_what_it_did_not_make() {
    let _alone = alone(STAGES);
    within("data", || ());
    let (x, w) = (ones(&[4, 2]), ones(&[2, 2]));
    w.set_requires_grad(true).unwrap();
    let before = windows();
    assert!(before.iter().all(|w| w.met.is_empty()), "it used nothing");
    let y = x.matmul(&w).unwrap();
    let _z = (&y.matmul(&w).unwrap() + &x).unwrap();
    let met: Vec<_> = windows().remove(0).met.into_iter().map(|m| (m.id, m.ty, m.is_state)).collect();
    let expected = [(x.id().unwrap(), x.ty(), false), (w.id().unwrap(), w.ty(), true)];
    assert_eq!(met, expected, "each once, at its first use");
}

#[test]
fn a_parameter_made_in_the_window_that_uses_it_is_met_as_state() {
    let _alone = alone(STAGES);
    within("data", || ());
    windows();
    let given = |shape: &[usize]| Tensor::from_slice(&vec![1.0f32; shape.iter().product()], shape).unwrap();
    let (x, w) = (given(&[8, 4]), given(&[4, 4]));
    w.set_requires_grad(true).unwrap();
    let loss = within("data", || x.matmul(&w).unwrap().sum(&[], false, None).unwrap());
    loss.backward().unwrap();
    let mut placer = Placer::new(0);
    let layouts = |scope| signal::layout(scope, &group(WORKERS));
    let recorded = windows();
    assert_eq!(recorded[0].met.iter().map(|m| (m.id, m.is_state)).collect::<Vec<_>>(), [(w.id().unwrap(), true)]);
    let placed: Vec<_> = recorded.iter().map(|window| placer.window(window, &layouts).unwrap()).collect();
    let splits = placed[0].steps.iter().find_map(|step| match step {
        PlacedStep::Run { instr, ins, .. } if instr.op.kind() == OpKind::Matmul => {
            Some(ins.iter().map(|(_, at)| placed[0].placements[*at as usize].splits[0]).collect::<Vec<_>>())
        }
        _ => None,
    });
    assert_eq!(splits.unwrap(), [Split::shard(0), Split::Replicate], "data is split, a parameter is whole");
}

#[test]
fn what_is_written_to_a_parameter_is_state() {
    let _alone = alone(STAGES);
    within("data", || ());
    let w = ones(&[2, 2]);
    w.set_requires_grad(true).unwrap();
    let turned = w.detach().transpose(0, 1).unwrap();
    autograd::no_grad(|| w.add_(&ones(&[2, 2]))).unwrap();
    windows();
    let _y = (&w + &turned).unwrap();
    let met = windows().remove(0).met;
    assert!(!met.is_empty() && met.iter().all(|m| m.is_state), "{met:?}");
}

#[test]
fn gradients_follow_the_signal_for_them() {
    let _alone = alone(STAGES);
    let w = ones(&[2, 2]);
    w.set_requires_grad(true).unwrap();
    let x = ones(&[4, 2]);
    let y = within("stage_1", || x.matmul(&w).unwrap());
    let loss = within("data", || y.sum(&[], false, None).unwrap());
    windows();
    autograd::backward(&[loss], &[None], BackwardOptions::default()).unwrap();
    let seen = names(&windows());
    assert!(seen.iter().all(|(kind, name)| name == if *kind == OpKind::Matmul { "back_1" } else { name }), "{seen:?}");
    assert!(seen.iter().any(|(kind, _)| *kind == OpKind::Matmul), "{seen:?}");
    assert!(seen.iter().all(|(_, name)| name == "data" || name == "back_1"), "{seen:?}");
    assert!(w.grad().unwrap().is_state(), "a gradient goes with its parameter");
}

#[test]
fn an_override_of_the_signal_for_gradients() {
    let _alone = alone(STAGES);
    let w = ones(&[2, 2]);
    w.set_requires_grad(true).unwrap();
    signal::enter("stage_1", Some("data")).unwrap();
    let y = (&w * &w).unwrap().sum(&[], false, None).unwrap();
    signal::exit("stage_1").unwrap();
    windows();
    y.backward().unwrap();
    let seen = names(&windows());
    assert!(!seen.is_empty() && seen.iter().all(|(_, name)| name == "data"), "{seen:?}");
}

#[test]
fn a_compiled_scope_is_a_window_of_its_own() {
    let _alone = alone(STAGES);
    let x = ones(&[2]);
    let y = within("hot", || (&x + &x).unwrap());
    let _z = (&y + &y).unwrap();
    let lengths: Vec<usize> = windows().iter().map(|w| w.instrs.len()).collect();
    assert_eq!(lengths, [1, 1, 1]);
}

#[test]
fn a_config_loaded_later_counts_for_later_scopes() {
    let _alone = alone("data: {shard: {axis: 0, workers: [0, 1]}}");
    let first = signal::scope_of("data", None).unwrap();
    signal::load_text("data: {shard: {axis: 1, workers: [2]}}", "test.yaml").unwrap();
    let second = signal::scope_of("data", None).unwrap();
    let layout = |scope| signal::layout(scope, &group(WORKERS)).unwrap();
    assert_eq!((layout(first).mesh.workers().to_vec(), layout(first).splits[0]), (vec![0, 1], Split::shard(0)));
    assert_eq!((layout(second).mesh.workers().to_vec(), layout(second).splits[0]), (vec![2], Split::shard(1)));
    signal::load_text("data: {shard: {axis: 0, workers: [0, 1]}}", "test.yaml").unwrap();
    assert_eq!(signal::scope_of("data", None).unwrap(), first, "the same content is the same scope");
}

#[test]
fn scopes_are_left_in_order() {
    let _alone = alone(STAGES);
    signal::enter("data", None).unwrap();
    let wrong = signal::exit("stage_1").unwrap_err().to_string();
    assert!(wrong.contains("\"stage_1\"") && wrong.contains("\"data\""), "{wrong}");
    signal::exit("data").unwrap();
    assert!(signal::exit("data").unwrap_err().to_string().contains("no scope was entered"));
}

#[test]
fn strict_turns_warnings_into_errors() {
    let _alone = alone(STAGES);
    signal::set_strict(true);
    let unknown = signal::enter("nothing like it", None);
    let missing = signal::enter("far", None);
    let backward = signal::enter("data", Some("nothing"));
    signal::set_strict(false);
    for (result, says) in [(unknown, "nothing like it"), (missing, "9"), (backward, "nothing")] {
        let Err(Error::Value(message)) = result else { panic!("an error about {says}") };
        assert!(message.contains(says), "{message}");
    }
    assert!(signal::exit("data").is_err(), "nothing was entered");
    within("far", || ());
    assert_eq!(signal::layout(signal::scope_of("far", None).unwrap(), &group(4)).unwrap().mesh.workers(), [1]);
}

#[test]
fn what_is_recorded_by_itself_can_be_split() {
    let _alone = alone("");
    signal::auto_shard(true).unwrap();
    let _x = ones(&[4]);
    let seen = names(&windows());
    signal::auto_shard(false).unwrap();
    assert_eq!(seen[0].1, "auto");
}

#[test]
fn a_value_goes_to_a_worker_and_its_gradient_comes_back() {
    let _alone = alone("");
    let x = ones(&[4]);
    x.set_requires_grad(true).unwrap();
    let there = x.laid_out(signal::worker(2).unwrap()).unwrap();
    let seen = names(&windows());
    assert_eq!(seen.last(), Some(&(OpKind::Reshape, "worker:2".into())));
    there.sum(&[], false, None).unwrap().backward().unwrap();
    assert_eq!(x.grad().unwrap().shape()[..], [4]);
    let scope = signal::worker(2).unwrap();
    assert_eq!(signal::layout(scope, &group(4)).unwrap().mesh.workers(), [2]);
    assert_eq!(signal::layout(scope, &group(1)), None);
}

#[test]
fn threads_have_scopes_of_their_own() {
    let _alone = alone(STAGES);
    signal::enter("data", None).unwrap();
    let there = std::thread::spawn(signal::current).join().unwrap();
    signal::exit("data").unwrap();
    assert_eq!(there, ScopeId(0));
}

#[test]
fn a_registered_signal_outlives_a_file() {
    let _alone = alone("a: {compile: true}");
    signal::register("mine", SignalConfig::replicated(signal::Workers::All)).unwrap();
    signal::load_text("b: {compile: true}", "test.yaml").unwrap();
    assert!(signal::get("a").is_none() && signal::get("b").is_some() && signal::get("mine").is_some());
}
