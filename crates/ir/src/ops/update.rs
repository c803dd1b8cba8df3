//! One optimizer step for many tensors at once.

use smallvec::SmallVec;

use crate::attr::{choice, op_struct};
use crate::rows::{BinaryKind, UnaryKind};
use crate::*;

choice! {
    /// The arithmetic of an update. `g` is the gradient, `p` the parameter, `lr` and so on the scalars, in the order in which
    /// they are listed.
    pub enum UpdateKind {
        /// `lr, weight_decay, momentum, fresh`: `b = momentum * b + fresh * g`; `p -= lr * b`. Without a state `p -= lr * g`.
        Sgd = "sgd",
        /// `lr, weight_decay, momentum, fresh`: as `sgd`, then `p -= lr * (g + momentum * b)`.
        Nesterov = "nesterov",
        /// `lr, weight_decay, beta1, beta2, eps, step`; weight decay is added to the gradient.
        Adam = "adam",
        /// The same scalars; weight decay shrinks the parameter.
        AdamW = "adamw",
        /// `lr, weight_decay, lr_decay, eps, step`.
        Adagrad = "adagrad",
        /// `lr, weight_decay, alpha, momentum, eps`.
        RmsProp = "rmsprop",
    }
}

op_struct! {
    /// Ins: n parameters, n gradients, then `states` times n states. Outs: n parameters, then the states. Nothing is
    /// written in place here: a [`crate::ops::Write`] follows.
    pub struct Update {
        /// Which arithmetic.
        kind: UpdateKind,
        /// States of each parameter. Sgd: none, or the momentum. Adam: first and second moment, and the largest second
        /// one with amsgrad. Rmsprop: the squares, then the mean if `centered`, then the momentum if there is one.
        states: u8,
        /// Rmsprop around the mean.
        centered: bool,
        /// Against the gradient's sign.
        maximize: bool,
    }
}

impl UpdateKind {
    /// How many scalars it has.
    pub const fn scalars(self) -> usize {
        match self {
            UpdateKind::Sgd | UpdateKind::Nesterov => 4,
            UpdateKind::Adam | UpdateKind::AdamW => 6,
            UpdateKind::Adagrad | UpdateKind::RmsProp => 5,
        }
    }
}

impl Update {
    /// How many parameters an instruction with so many inputs updates; `None` where the number does not come out even.
    pub fn tensors(&self, ins: usize) -> Option<usize> {
        let each = 2 + self.states as usize;
        (ins > 0 && ins.is_multiple_of(each)).then_some(ins / each)
    }

    fn states_fit(&self) -> bool {
        match self.kind {
            UpdateKind::Sgd => self.states <= 1,
            UpdateKind::Nesterov | UpdateKind::Adagrad => self.states == 1,
            UpdateKind::Adam | UpdateKind::AdamW => self.states == 2 || self.states == 3,
            UpdateKind::RmsProp => (1 + self.centered as u8..=2 + self.centered as u8).contains(&self.states),
        }
    }
}

/// What the scalars amount to.
struct Numbers<'a>(&'a [Scalar]);

impl Numbers<'_> {
    fn get(&self, i: usize) -> f64 {
        self.0[i].as_f64()
    }
}

impl Primitive for Update {
    fn name(&self) -> &'static str {
        "update"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        let n = self.tensors(ins.len()).filter(|_| self.states_fit());
        let n = n.ok_or_else(|| {
            OpError::malformed(format!("update: {} inputs do not match {} states", ins.len(), self.states))
        })?;
        for (i, ty) in ins.iter().enumerate() {
            if *ty != ins[i % n] || !ty.dtype.is_float() {
                return Err(OpError::shape(format!(
                    "update: a parameter has type {}, but its gradient or state has type {ty}",
                    ins[i % n]
                )));
            }
        }
        Ok(ins[..n].iter().chain(&ins[2 * n..]).copied().collect())
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        self.kind.scalars()
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, _: &GradCx<'_>, _: &mut dyn Emit) -> Result<Grads, OpError> {
        Err(OpError::argument("update is differentiated through its expansion"))
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        let elements = outs.iter().fold(0u64, |sum, t| sum.saturating_add(t.numel() as u64));
        Cost { flops: elements.saturating_mul(6), bytes: moved_bytes(ins.iter().chain(outs)) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        if !dtype.is_float() {
            return Vec::new();
        }
        let case = |op: Update, scalars: &[f64]| {
            let shapes: [&[usize]; 3] = [&[3, 4], &[], &[5]];
            let ins: Vec<SampleIn> = (0..2 + op.states as usize)
                // Second moments are squares, and every state may be one.
                .flat_map(|part| shapes.map(|s| input(dtype, s, if part < 2 { Domain::Any } else { Domain::Positive })))
                .collect();
            Sample::new(op, &ins).with(&scalars.iter().map(|&x| Scalar::F64(x)).collect::<Vec<_>>())
        };
        let op = |kind, states| Update { kind, states, centered: false, maximize: false };
        vec![
            case(op(UpdateKind::Sgd, 0), &[0.1, 0.0, 0.0, 1.0]),
            case(op(UpdateKind::Sgd, 1), &[0.1, 0.01, 0.9, 0.5]),
            case(op(UpdateKind::Nesterov, 1), &[0.1, 0.01, 0.9, 1.0]),
            case(op(UpdateKind::Adam, 2), &[0.01, 0.1, 0.9, 0.99, 1e-3, 3.0]),
            case(op(UpdateKind::AdamW, 2), &[0.01, 0.1, 0.9, 0.99, 1e-3, 3.0]),
            case(Update { maximize: true, ..op(UpdateKind::AdamW, 3) }, &[0.01, 0.1, 0.9, 0.99, 1e-3, 1.0]),
            case(op(UpdateKind::Adagrad, 1), &[0.1, 0.0, 0.01, 1e-3, 2.0]),
            case(op(UpdateKind::RmsProp, 1), &[0.1, 0.1, 0.9, 0.0, 1e-3]),
            case(op(UpdateKind::RmsProp, 2), &[0.1, 0.0, 0.9, 0.5, 1e-3]),
            case(Update { centered: true, ..op(UpdateKind::RmsProp, 3) }, &[0.1, 0.0, 0.125, 0.5, 2.0]),
        ]
    }
}

impl Composite for Update {
    fn expand(&self, ins: &[Val], scalars: &[Scalar], e: &mut dyn Emit) -> Result<SmallVec<[Val; 2]>, OpError> {
        let n = self
            .tensors(ins.len())
            .ok_or_else(|| OpError::malformed("update: the number of inputs does not divide evenly"))?;
        let mut outs: Vec<SmallVec<[Val; 4]>> = Vec::new();
        for i in 0..n {
            let states: SmallVec<[Val; 3]> = (0..self.states as usize).map(|s| ins[(2 + s) * n + i]).collect();
            outs.push(self.one(e, ins[i], ins[n + i], &states, &Numbers(scalars))?);
        }
        Ok((0..1 + self.states as usize).flat_map(|part| outs.iter().map(move |o| o[part])).collect())
    }
    fn has_grad(&self) -> bool {
        false
    }
}

impl Update {
    /// The new parameter and states of one tensor.
    fn one(
        &self,
        e: &mut dyn Emit,
        p: Val,
        g: Val,
        states: &[Val],
        x: &Numbers<'_>,
    ) -> Result<SmallVec<[Val; 4]>, OpError> {
        let (lr, decay) = (x.get(0), x.get(1));
        let mut g = if self.maximize { e.neg(g)? } else { g };
        if decay != 0.0 && self.kind != UpdateKind::AdamW {
            let pull = e.mul(p, decay)?;
            g = e.add(g, pull)?;
        }
        let mix = |e: &mut dyn Emit, old: Val, keep: f64, new: Val, take: f64| {
            let (old, new) = (e.mul(old, keep)?, e.mul(new, take)?);
            e.add(old, new)
        };
        let walk = |e: &mut dyn Emit, p: Val, along: Val, by: f64| {
            let step = e.mul(along, by)?;
            e.sub(p, step)
        };
        let mut outs: SmallVec<[Val; 4]> = SmallVec::new();
        match self.kind {
            UpdateKind::Sgd | UpdateKind::Nesterov => {
                let (momentum, fresh) = (x.get(2), x.get(3));
                let mut along = g;
                if let [old] = states {
                    let new = mix(e, *old, momentum, g, fresh)?;
                    along = new;
                    if self.kind == UpdateKind::Nesterov {
                        let ahead = e.mul(new, momentum)?;
                        along = e.add(g, ahead)?;
                    }
                    outs.push(new);
                }
                outs.insert(0, walk(e, p, along, lr)?);
            }
            UpdateKind::Adam | UpdateKind::AdamW => {
                let (beta1, beta2, eps, step) = (x.get(2), x.get(3), x.get(4), x.get(5));
                let p = if self.kind == UpdateKind::AdamW { e.mul(p, 1.0 - lr * decay)? } else { p };
                let first = mix(e, states[0], beta1, g, 1.0 - beta1)?;
                let square = e.unary(UnaryKind::Square, g)?;
                let second = mix(e, states[1], beta2, square, 1.0 - beta2)?;
                let largest = match states.get(2) {
                    Some(&before) => Some(e.binary(BinaryKind::Max, before, second)?),
                    None => None,
                };
                let root = e.unary(UnaryKind::Sqrt, largest.unwrap_or(second))?;
                let root = e.mul(root, 1.0 / (1.0 - beta2.powf(step)).sqrt())?;
                let root = e.add(root, eps)?;
                let along = e.div(first, root)?;
                outs.extend([walk(e, p, along, lr / (1.0 - beta1.powf(step)))?, first, second]);
                outs.extend(largest);
            }
            UpdateKind::Adagrad => {
                let (lr_decay, eps, step) = (x.get(2), x.get(3), x.get(4));
                let square = e.unary(UnaryKind::Square, g)?;
                let sum = e.add(states[0], square)?;
                let root = e.unary(UnaryKind::Sqrt, sum)?;
                let root = e.add(root, eps)?;
                let along = e.div(g, root)?;
                outs.extend([walk(e, p, along, lr / (1.0 + (step - 1.0) * lr_decay))?, sum]);
            }
            UpdateKind::RmsProp => {
                let (alpha, momentum, eps) = (x.get(2), x.get(3), x.get(4));
                let square = e.unary(UnaryKind::Square, g)?;
                let squares = mix(e, states[0], alpha, square, 1.0 - alpha)?;
                let mut spread = squares;
                let mut rest = states[1..].iter();
                let mut mean = None;
                if self.centered
                    && let Some(&old) = rest.next()
                {
                    let new = mix(e, old, alpha, g, 1.0 - alpha)?;
                    let level = e.unary(UnaryKind::Square, new)?;
                    spread = e.sub(squares, level)?;
                    mean = Some(new);
                }
                let root = e.unary(UnaryKind::Sqrt, spread)?;
                let root = e.add(root, eps)?;
                let mut along = e.div(g, root)?;
                let mut speed = None;
                if let Some(&old) = rest.next() {
                    let kept = e.mul(old, momentum)?;
                    along = e.add(kept, along)?;
                    speed = Some(along);
                }
                outs.extend([walk(e, p, along, lr)?, squares]);
                outs.extend(mean.into_iter().chain(speed));
            }
        }
        Ok(outs)
    }
}
