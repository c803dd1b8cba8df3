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
}

trait StepLoop {
    unsafe fn run(stretch: *const Stretch, numbers: *const Numbers);
}
instantiate!(step_kernel, StepLoop, (stretch: *const Stretch, numbers: *const Numbers));

/// The arithmetic of one kind: the parameter and its states, `PARTS` values, before and after.
trait Step<T: Real, const PARTS: usize> {
    fn new(numbers: &Numbers) -> Self;
    fn step(&self, gradient: T, values: &mut [T; PARTS]);
}

struct Elements<T, S, const PARTS: usize>(std::marker::PhantomData<(T, S)>);

impl<T: Real, S: Step<T, PARTS>, const PARTS: usize> StepLoop for Elements<T, S, PARTS> {
    #[inline(always)]
    unsafe fn run(stretch: *const Stretch, numbers: *const Numbers) {
        // SAFETY: the caller gives both.
        let (stretch, numbers) = unsafe { (&*stretch, &*numbers) };
        let step = S::new(numbers);
        let whole = stretch.len / CHUNK * CHUNK;
        for at in (0..whole).step_by(CHUNK) {
            // SAFETY: the caller gives `len` elements of the gradient and of each value, and room for as many results.
            unsafe {
                let gradient = stretch.gradient.cast::<T>().add(at).cast::<[T; CHUNK]>().read();
                let mut values = [[T::ZERO; CHUNK]; PARTS];
                for part in 0..PARTS {
                    values[part] = stretch.from[part].cast::<T>().add(at).cast::<[T; CHUNK]>().read();
                }
                for k in 0..CHUNK {
                    let mut one: [T; PARTS] = std::array::from_fn(|part| values[part][k]);
                    step.step(gradient[k], &mut one);
                    for part in 0..PARTS {
                        values[part][k] = one[part];
                    }
                }
                for part in 0..PARTS {
                    stretch.to[part].cast::<T>().add(at).cast::<[T; CHUNK]>().write(values[part]);
                }
            }
        }
        for at in whole..stretch.len {
            // SAFETY: as above.
            unsafe {
                let mut one = [T::ZERO; PARTS];
                for part in 0..PARTS {
                    one[part] = *stretch.from[part].cast::<T>().add(at);
                }
                step.step(*stretch.gradient.cast::<T>().add(at), &mut one);
                for part in 0..PARTS {
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
}

impl<T: Real, const NESTEROV: bool, const PARTS: usize> Step<T, PARTS> for Sgd<T, NESTEROV> {
    #[inline(always)]
    fn new(x: &Numbers) -> Self {
        let [lr, _, momentum, fresh, ..] = x.scalars.map(T::of);
        Sgd { pull: Pull::new(x), lr, momentum, fresh }
    }
    #[inline(always)]
    fn step(&self, g: T, v: &mut [T; PARTS]) {
        let g = self.pull.on(v[0], g);
        let mut along = g;
        if PARTS == 2 {
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
}

impl<T: Real, const DECOUPLED: bool, const PARTS: usize> Step<T, PARTS> for Adam<T, DECOUPLED> {
    #[inline(always)]
    fn new(x: &Numbers) -> Self {
        let [lr, decay, beta1, beta2, eps, step] = x.scalars;
        let pull = Pull { decays: decay != 0.0 && !DECOUPLED, ..Pull::new(x) };
        Adam {
            pull,
            shrink: T::of(1.0 - lr * decay),
            keep: [T::of(beta1), T::of(beta2)],
            take: [T::of(1.0 - beta1), T::of(1.0 - beta2)],
            level: T::of(1.0 / (1.0 - beta2.powf(step)).sqrt()),
            eps: T::of(eps),
            size: T::of(lr / (1.0 - beta1.powf(step))),
        }
    }
    #[inline(always)]
    fn step(&self, g: T, v: &mut [T; PARTS]) {
        let g = self.pull.on(v[0], g);
        let p = if DECOUPLED { v[0] * self.shrink } else { v[0] };
        v[1] = v[1] * self.keep[0] + g * self.take[0];
        v[2] = v[2] * self.keep[1] + g * g * self.take[1];
        let mut second = v[2];
        if PARTS == 4 {
            // The largest so far; a NaN on either side stays one.
            let larger = if v[3] > second || v[3].is_nan() { v[3] } else { second };
            (v[3], second) = (larger, larger);
        }
        v[0] = p - v[1] / (second.root() * self.level + self.eps) * self.size;
    }
}

struct Adagrad<T> {
    pull: Pull<T>,
    eps: T,
    size: T,
}

impl<T: Real> Step<T, 2> for Adagrad<T> {
    #[inline(always)]
    fn new(x: &Numbers) -> Self {
        let [lr, _, lr_decay, eps, step, _] = x.scalars;
        Adagrad { pull: Pull::new(x), eps: T::of(eps), size: T::of(lr / (1.0 + (step - 1.0) * lr_decay)) }
    }
    #[inline(always)]
    fn step(&self, g: T, v: &mut [T; 2]) {
        let g = self.pull.on(v[0], g);
        v[1] = v[1] + g * g;
        v[0] = v[0] - g / (v[1].root() + self.eps) * self.size;
    }
}

struct RmsProp<T, const CENTERED: bool> {
    pull: Pull<T>,
    lr: T,
    keep: T,
    take: T,
    momentum: T,
    eps: T,
}

impl<T: Real, const CENTERED: bool, const PARTS: usize> Step<T, PARTS> for RmsProp<T, CENTERED> {
    #[inline(always)]
    fn new(x: &Numbers) -> Self {
        let [lr, _, alpha, momentum, eps, _] = x.scalars;
        let [lr, keep, take, momentum, eps] = [lr, alpha, 1.0 - alpha, momentum, eps].map(T::of);
        RmsProp { pull: Pull::new(x), lr, keep, take, momentum, eps }
    }
    #[inline(always)]
    fn step(&self, g: T, v: &mut [T; PARTS]) {
        let g = self.pull.on(v[0], g);
        v[1] = v[1] * self.keep + g * g * self.take;
        let mut spread = v[1];
        if CENTERED {
            v[2] = v[2] * self.keep + g * self.take;
            spread = spread - v[2] * v[2];
        }
        let mut along = g / (spread.root() + self.eps);
        // A momentum is the last of the states.
        if PARTS > 2 + CENTERED as usize {
            along = v[PARTS - 1] * self.momentum + along;
            v[PARTS - 1] = along;
        }
        v[0] = v[0] - along * self.lr;
    }
}

fn kernel<T: Real>(op: &Update) -> unsafe fn(*const Stretch, *const Numbers) {
    // A kernel has as many values as it needs: with fewer known than there may be, they would be kept in memory.
    macro_rules! of {
        ($step:ty, $($states:literal => $parts:literal),+ ; $most:literal) => {
            match op.states {
                $($states => step_kernel::<Elements<T, $step, $parts>>(),)+
                _ => step_kernel::<Elements<T, $step, $most>>(),
            }
        };
    }
    match op.kind {
        UpdateKind::Sgd => of!(Sgd<T, false>, 0 => 1; 2),
        UpdateKind::Nesterov => of!(Sgd<T, true>, 0 => 1; 2),
        UpdateKind::Adam => of!(Adam<T, false>, 2 => 3; 4),
        UpdateKind::AdamW => of!(Adam<T, true>, 2 => 3; 4),
        UpdateKind::Adagrad => step_kernel::<Elements<T, Adagrad<T>, 2>>(),
        UpdateKind::RmsProp if op.centered => of!(RmsProp<T, true>, 2 => 3; 4),
        UpdateKind::RmsProp => of!(RmsProp<T, false>, 1 => 2; 3),
    }
}

/// Updates every tensor. Operands and results are packed, in the order of the op's inputs and outputs; a result may lie
/// where the value it replaces lies.
pub fn update(pool: &Pool, op: &Update, scalars: &[f64], ins: &[Src], outs: &[Dst]) {
    let n = op.tensors(ins.len()).unwrap_or(0);
    let states = op.states as usize;
    let mut numbers = Numbers { scalars: [0.0; 6], maximize: op.maximize };
    numbers.scalars[..scalars.len()].copy_from_slice(scalars);
    let size = ins.first().map_or(4, |i| i.layout.dtype.size());
    let kernel = if size == 8 { kernel::<f64>(op) } else { kernel::<f32>(op) };

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
