//! One optimizer step for many tensors: every element is read and written once, whatever the arithmetic.
//!
//! UPDATE-1: elements are loaded in chunks before their places are written, so a result may lie where its old value lies.
//! UPDATE-2: operations and their order are those of the op's expansion, so the bits are too.

use std::ops::{Add, Div, Mul, Neg, Sub};

use gt_ir::ops::{Update, UpdateKind};

use super::{Dst, Src};
use crate::pool::Pool;
use crate::simd::instantiate;

const CHUNK: usize = 16;
/// Elements of one unit of work.
const UNIT: usize = 16 << 10;
/// Fewer elements than this do not pay for waking a helper.
const WORTH_SHARING: usize = 32 << 10;
/// A parameter and its states.
const MOST: usize = 4;

/// What an update is computed in.
trait Real:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    const ZERO: Self;
    fn of(x: f64) -> Self;
    fn root(self) -> Self;
    fn is_nan(self) -> bool;
}

macro_rules! real {
    ($($t:ty),*) => {$(
        impl Real for $t {
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn root(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
        }
    )*};
}
real!(f32, f64);

/// One stretch of one tensor.
struct Stretch {
    gradient: *const u8,
    from: [*const u8; MOST],
    to: [*mut u8; MOST],
    len: usize,
}

/// The numbers of a step.
struct Numbers {
    scalars: [f64; 6],
    maximize: bool,
    centered: bool,
    states: usize,
}

trait StepLoop {
    unsafe fn run(stretch: *const Stretch, numbers: *const Numbers);
}
instantiate!(step_kernel, StepLoop, (stretch: *const Stretch, numbers: *const Numbers));

/// The arithmetic of one kind: the parameter and its states before and after.
trait Step<T: Real> {
    fn new(numbers: &Numbers) -> Self;
    fn step(&self, gradient: T, values: &mut [T; MOST]);
}

struct Elements<T, S>(std::marker::PhantomData<(T, S)>);

impl<T: Real, S: Step<T>> StepLoop for Elements<T, S> {
    #[inline(always)]
    unsafe fn run(stretch: *const Stretch, numbers: *const Numbers) {
        // SAFETY: the caller gives both.
        let (stretch, numbers) = unsafe { (&*stretch, &*numbers) };
        let step = S::new(numbers);
        let parts = 1 + numbers.states;
        let whole = stretch.len / CHUNK * CHUNK;
        for at in (0..whole).step_by(CHUNK) {
            // SAFETY: the caller gives `len` elements of the gradient and of `parts` values, and room for as many results.
            unsafe {
                let gradient = stretch.gradient.cast::<T>().add(at).cast::<[T; CHUNK]>().read();
                let mut values = [[T::ZERO; CHUNK]; MOST];
                for part in 0..parts {
                    values[part] = stretch.from[part].cast::<T>().add(at).cast::<[T; CHUNK]>().read();
                }
                for k in 0..CHUNK {
                    let mut one = [values[0][k], values[1][k], values[2][k], values[3][k]];
                    step.step(gradient[k], &mut one);
                    for part in 0..MOST {
                        values[part][k] = one[part];
                    }
                }
                for part in 0..parts {
                    stretch.to[part].cast::<T>().add(at).cast::<[T; CHUNK]>().write(values[part]);
                }
            }
        }
        for at in whole..stretch.len {
            // SAFETY: as above.
            unsafe {
                let mut one = [T::ZERO; MOST];
                for part in 0..parts {
                    one[part] = *stretch.from[part].cast::<T>().add(at);
                }
                step.step(*stretch.gradient.cast::<T>().add(at), &mut one);
                for part in 0..parts {
                    *stretch.to[part].cast::<T>().add(at) = one[part];
                }
            }
        }
    }
}

/// The gradient as the arithmetic sees it.
struct Pull<T> {
    decay: T,
    decays: bool,
    maximize: bool,
}

impl<T: Real> Pull<T> {
    fn new(numbers: &Numbers) -> Self {
        let decay = numbers.scalars[1];
        Pull { decay: T::of(decay), decays: decay != 0.0, maximize: numbers.maximize }
    }

    #[inline(always)]
    fn on(&self, p: T, g: T) -> T {
        let g = if self.maximize { -g } else { g };
        if self.decays { g + p * self.decay } else { g }
    }
}

struct Sgd<T, const NESTEROV: bool> {
    pull: Pull<T>,
    lr: T,
    momentum: T,
    fresh: T,
    has_state: bool,
}

impl<T: Real, const NESTEROV: bool> Step<T> for Sgd<T, NESTEROV> {
    #[inline(always)]
    fn new(x: &Numbers) -> Self {
        let [lr, _, momentum, fresh, ..] = x.scalars.map(T::of);
        Sgd { pull: Pull::new(x), lr, momentum, fresh, has_state: x.states == 1 }
    }
    #[inline(always)]
    fn step(&self, g: T, v: &mut [T; MOST]) {
        let g = self.pull.on(v[0], g);
        let mut along = g;
        if self.has_state {
            v[1] = v[1] * self.momentum + g * self.fresh;
            along = if NESTEROV { g + v[1] * self.momentum } else { v[1] };
        }
        v[0] = v[0] - along * self.lr;
    }
}

struct Adam<T, const DECOUPLED: bool> {
    pull: Pull<T>,
    shrink: T,
    keep: [T; 2],
    take: [T; 2],
    level: T,
    eps: T,
    size: T,
    amsgrad: bool,
}

impl<T: Real, const DECOUPLED: bool> Step<T> for Adam<T, DECOUPLED> {
    #[inline(always)]
    fn new(x: &Numbers) -> Self {
        let [lr, decay, beta1, beta2, eps, step] = x.scalars;
        let pull = Pull { decays: decay != 0.0 && !DECOUPLED, ..Pull::new(x) };
        Adam {
            pull,
            shrink: T::of(1.0 - lr * decay),
            keep: [T::of(beta1), T::of(beta2)],
            take: [T::of(1.0 - beta1), T::of(1.0 - beta2)],
            level: T::of((1.0 - beta2.powf(step)).sqrt()),
            eps: T::of(eps),
            size: T::of(lr / (1.0 - beta1.powf(step))),
            amsgrad: x.states == 3,
        }
    }
    #[inline(always)]
    fn step(&self, g: T, v: &mut [T; MOST]) {
        let g = self.pull.on(v[0], g);
        let p = if DECOUPLED { v[0] * self.shrink } else { v[0] };
        v[1] = v[1] * self.keep[0] + g * self.take[0];
        v[2] = v[2] * self.keep[1] + g * g * self.take[1];
        let mut second = v[2];
        if self.amsgrad {
            // A NaN on either side stays one.
            let larger = if v[3] > second || v[3].is_nan() { v[3] } else { second };
            (v[3], second) = (larger, larger);
        }
        v[0] = p - v[1] / (second.root() / self.level + self.eps) * self.size;
    }
}

struct Adagrad<T> {
    pull: Pull<T>,
    eps: T,
    size: T,
}

impl<T: Real> Step<T> for Adagrad<T> {
    #[inline(always)]
    fn new(x: &Numbers) -> Self {
        let [lr, _, lr_decay, eps, step, _] = x.scalars;
        Adagrad { pull: Pull::new(x), eps: T::of(eps), size: T::of(lr / (1.0 + (step - 1.0) * lr_decay)) }
    }
    #[inline(always)]
    fn step(&self, g: T, v: &mut [T; MOST]) {
        let g = self.pull.on(v[0], g);
        v[1] = v[1] + g * g;
        v[0] = v[0] - g / (v[1].root() + self.eps) * self.size;
    }
}

struct RmsProp<T> {
    pull: Pull<T>,
    lr: T,
    keep: T,
    take: T,
    momentum: T,
    eps: T,
    centered: bool,
    /// Where the momentum lies, if there is one.
    speed: usize,
}

impl<T: Real> Step<T> for RmsProp<T> {
    #[inline(always)]
    fn new(x: &Numbers) -> Self {
        let [lr, _, alpha, momentum, eps, _] = x.scalars;
        let speed = if x.states > 1 + x.centered as usize { x.states } else { 0 };
        let [lr, keep, take, momentum, eps] = [lr, alpha, 1.0 - alpha, momentum, eps].map(T::of);
        RmsProp { pull: Pull::new(x), lr, keep, take, momentum, eps, centered: x.centered, speed }
    }
    #[inline(always)]
    fn step(&self, g: T, v: &mut [T; MOST]) {
        let g = self.pull.on(v[0], g);
        v[1] = v[1] * self.keep + g * g * self.take;
        let mut spread = v[1];
        if self.centered {
            v[2] = v[2] * self.keep + g * self.take;
            spread = spread - v[2] * v[2];
        }
        let mut along = g / (spread.root() + self.eps);
        match self.speed {
            2 => {
                along = v[2] * self.momentum + along;
                v[2] = along;
            }
            3 => {
                along = v[3] * self.momentum + along;
                v[3] = along;
            }
            _ => {}
        }
        v[0] = v[0] - along * self.lr;
    }
}

fn kernel<T: Real>(kind: UpdateKind) -> unsafe fn(*const Stretch, *const Numbers) {
    match kind {
        UpdateKind::Sgd => step_kernel::<Elements<T, Sgd<T, false>>>(),
        UpdateKind::Nesterov => step_kernel::<Elements<T, Sgd<T, true>>>(),
        UpdateKind::Adam => step_kernel::<Elements<T, Adam<T, false>>>(),
        UpdateKind::AdamW => step_kernel::<Elements<T, Adam<T, true>>>(),
        UpdateKind::Adagrad => step_kernel::<Elements<T, Adagrad<T>>>(),
        UpdateKind::RmsProp => step_kernel::<Elements<T, RmsProp<T>>>(),
    }
}

/// Updates every tensor. Operands and results are packed, in the order of the op's inputs and outputs; a result may lie
/// where the value it replaces lies.
pub fn update(pool: &Pool, op: &Update, scalars: &[f64], ins: &[Src], outs: &[Dst]) {
    let n = op.tensors(ins.len()).unwrap_or(0);
    let states = op.states as usize;
    let mut numbers = Numbers { scalars: [0.0; 6], maximize: op.maximize, centered: op.centered, states };
    numbers.scalars[..scalars.len()].copy_from_slice(scalars);
    let size = ins.first().map_or(4, |i| i.layout.dtype.size());
    let kernel = if size == 8 { kernel::<f64>(op.kind) } else { kernel::<f32>(op.kind) };

    let mut units: Vec<Stretch> = Vec::new();
    let mut total = 0;
    for i in 0..n {
        let numel = ins[i].layout.shape.numel();
        total += numel;
        for start in (0..numel).step_by(UNIT) {
            let at = |src: &Src| src.ptr.wrapping_add((src.layout.offset + start) * size);
            let mut unit = Stretch {
                gradient: at(&ins[n + i]),
                from: [std::ptr::null(); MOST],
                to: [std::ptr::null_mut(); MOST],
                len: UNIT.min(numel - start),
            };
            for part in 0..=states {
                let old = if part == 0 { i } else { (1 + part) * n + i };
                unit.from[part] = at(&ins[old]);
                let out = &outs[part * n + i];
                unit.to[part] = out.ptr.wrapping_add((out.layout.offset + start) * size);
            }
            units.push(unit);
        }
    }
    // SAFETY: KERNEL-3; units are different elements.
    let work = |unit: &Stretch| unsafe { kernel(unit, &numbers) };
    if total < WORTH_SHARING || pool.threads() == 1 {
        return units.iter().for_each(work);
    }
    let units = Units(&units);
    let chunks = (total / UNIT + 1).min(pool.threads() * 4).min(units.0.len());
    // About two thirds of a nanosecond for an element.
    pool.run(chunks, total * 2 / 3, &|c| {
        let units = &units;
        units.0[units.0.len() * c / chunks..units.0.len() * (c + 1) / chunks].iter().for_each(work);
    });
}

/// Stretches that threads share.
struct Units<'a>(&'a [Stretch]);

// SAFETY: addresses of different elements (KERNEL-3).
unsafe impl Sync for Units<'_> {}
