//! What a worker costs beside its engine: per instruction of a known window, and per read.

use std::time::Instant;

use gt_engine_check::Null;
use gt_ir::{Instr, TensorId, Window};
use gt_stream::Occurrence;
use gt_worker::{SessionConfig, WorkerConfig, WorkerHandle};

fn window(first: u64, length: u64, carried: u64) -> Occurrence {
    let line = |i: u64| {
        let last = if i == 0 { carried } else { first + i - 1 };
        format!("%{} = binary(%{last}) kind=mul scalar=right $ 0.5", first + i)
            .parse::<Instr>()
            .expect("an instruction")
    };
    let mut frees: Vec<TensorId> = (first..first + length - 1).map(TensorId).collect();
    frees.push(TensorId(carried));
    of(Window { instrs: (0..length).map(line).collect(), frees, ..Window::default() })
}

fn of(window: Window) -> Occurrence {
    Occurrence::of(window).expect("an occurrence")
}

fn main() {
    let never = || false;
    let worker = WorkerHandle::spawn(|| Null, WorkerConfig::default()).open(SessionConfig::default());
    let fill = "%0 = fill() dtype=f32 shape=[4] $ 1.0".parse().expect("an instruction");
    worker.send(of(Window { instrs: vec![fill], ..Window::default() }), &never).expect("room");
    let (length, rounds) = (256, 2000);
    let windows: Vec<Occurrence> = (0..rounds).map(|i| window(1 + i * length, length, i * length)).collect();
    let start = Instant::now();
    for w in windows {
        worker.send(w, &never).expect("room");
    }
    worker.synchronize(&never).expect("a good end");
    let each = start.elapsed().as_nanos() as f64 / (rounds * length) as f64;
    let stats = worker.stats();
    let planning = stats.planning_ns as f64 / (rounds * length) as f64;
    println!("{each:.1} ns an instruction, of which {planning:.1} before the engine; {} hits", stats.plan_hits);

    let mut next = 1 + rounds * length;
    let (mut windows, reads) = (Vec::new(), 5000);
    for _ in 0..reads {
        windows.push(window(next, 4, next - 1));
        next += 4;
    }
    let mut id = 1 + rounds * length + 3;
    let start = Instant::now();
    for w in windows {
        worker.send(w, &never).expect("room");
        worker.read(TensorId(id), &never).expect("a value");
        id += 4;
    }
    println!("{:.1} us a window of 4 with a read", start.elapsed().as_secs_f64() * 1e6 / reads as f64);
}
