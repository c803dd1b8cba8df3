//! Einstein summation: operands are brought to (batch, free, summed) form and multiplied pair by pair.

use std::fmt;

use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// A label: a letter, or an axis of the ellipsis counted from the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Letter(letter) => write!(f, "'{letter}'"),
            Label::Ellipsis(_) => f.write_str("'...'"),
        }
    }
}

fn bad(message: impl Into<String>) -> Error {
    Error::Argument(format!("einsum(): {}", message.into()))
}

/// Labels of a subscript for an operand of `rank`, or (`None`) for the output with an ellipsis of `wide` axes.
fn labels(text: &str, rank: Option<usize>, wide: usize) -> Result<Vec<Label>> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let letters = text.replace("...", "").chars().count();
    if let Some(c) = text.replace("...", "").chars().find(|c| !c.is_ascii_alphabetic()) {
        return Err(bad(format!("invalid subscript given, '{c}' is not a letter in [a-zA-Z]")));
    }
    let covered = match rank {
        Some(rank) if !text.contains("...") && rank != letters => {
            return Err(bad(format!(
                "the number of subscripts in the equation ({letters}) does not match the number of dimensions ({rank}) for an \
                 operand and no ellipsis was given"
            )));
        }
        Some(rank) => rank.checked_sub(letters).ok_or_else(|| bad("more subscripts than dimensions"))?,
        None => wide,
    };
    let mut out = Vec::new();
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("...") {
            out.extend((0..covered).rev().map(Label::Ellipsis));
            rest = after;
        } else {
            out.push(Label::Letter(c));
            rest = &rest[1..];
        }
    }
    Ok(out)
}

/// A tensor with a label per axis, each once.
struct Operand {
    tensor: Tensor,
    labels: Vec<Label>,
}

impl Operand {
    /// Takes diagonals until every label stands once.
    #[track_caller]
    fn new(tensor: &Tensor, mut labels: Vec<Label>) -> Result<Operand> {
        let mut tensor = tensor.clone();
        while let Some((i, j)) = (0..labels.len())
            .flat_map(|i| (i + 1..labels.len()).map(move |j| (i, j)))
            .find(|&(i, j)| labels[i] == labels[j])
        {
            if tensor.shape()[i] != tensor.shape()[j] {
                return Err(bad(format!(
                    "subscript {} is repeated for an operand but the sizes don't match",
                    labels[i]
                )));
            }
            tensor = tensor.diagonal(0, i as i64, j as i64)?;
            let label = labels[i];
            labels.remove(j);
            labels.remove(i);
            labels.push(label);
        }
        Ok(Operand { tensor, labels })
    }

    #[track_caller]
    fn extent(&self, label: Label) -> usize {
        self.labels.iter().position(|&l| l == label).map_or(1, |i| self.tensor.shape()[i])
    }

    /// Sums away labels that nobody else wants.
    #[track_caller]
    fn reduce(self, keep: impl Fn(Label) -> bool) -> Result<Operand> {
        let gone: Vec<i64> = (0..self.labels.len()).filter(|&i| !keep(self.labels[i])).map(|i| i as i64).collect();
        if gone.is_empty() {
            return Ok(self);
        }
        let tensor = self.tensor.sum(&gone, false, None)?;
        let labels = self.labels.into_iter().filter(|&l| keep(l)).collect();
        Ok(Operand { tensor, labels })
    }

    /// The axes in the order of `order`; labels it lacks become axes of extent 1.
    #[track_caller]
    fn arranged(&self, order: &[Label]) -> Result<Tensor> {
        let have: Vec<i64> =
            order.iter().filter_map(|l| self.labels.iter().position(|m| m == l).map(|i| i as i64)).collect();
        let mut out = self.tensor.permute(&have)?;
        for (i, l) in order.iter().enumerate() {
            if !self.labels.contains(l) {
                out = out.unsqueeze(i as i64)?;
            }
        }
        Ok(out)
    }
}

/// The product of two operands, summed over labels that neither the output nor a later operand wants.
fn contract(a: Operand, b: Operand, keep: impl Fn(Label) -> bool + Copy) -> Result<Operand> {
    let a_has = a.labels.clone();
    let b_has = b.labels.clone();
    let a = a.reduce(|l| keep(l) || b_has.contains(&l))?;
    let b = b.reduce(|l| keep(l) || a_has.contains(&l))?;
    let shared = |l: &Label| a.labels.contains(l) && b.labels.contains(l);
    let summed: Vec<Label> = a.labels.iter().copied().filter(|l| shared(l) && !keep(*l)).collect();
    let batch: Vec<Label> = a.labels.iter().copied().filter(|l| shared(l) && keep(*l)).collect();
    let left: Vec<Label> = a.labels.iter().copied().filter(|l| !shared(l)).collect();
    let right: Vec<Label> = b.labels.iter().copied().filter(|l| !shared(l)).collect();
    for &l in batch.iter().chain(&summed) {
        let (x, y) = (a.extent(l), b.extent(l));
        if x != y && x != 1 && y != 1 {
            return Err(bad(format!(
                "operands do not broadcast with remapped shapes: {} and {} differ at subscript {l}",
                a.tensor.shape(),
                b.tensor.shape()
            )));
        }
    }
    let size =
        |ls: &[Label], x: &Operand, y: &Operand| ls.iter().map(|&l| x.extent(l).max(y.extent(l))).collect::<Vec<_>>();
    let (bs, ls, rs, ss) = (size(&batch, &a, &b), size(&left, &a, &b), size(&right, &a, &b), size(&summed, &a, &b));
    let same = |x: &Operand| batch.iter().chain(&summed).all(|&l| x.extent(l) == a.extent(l).max(b.extent(l)));
    let order: Vec<Label> = batch.iter().chain(&left).chain(&right).copied().collect();
    if summed.is_empty() || !same(&a) || !same(&b) {
        let full: Vec<Label> = order.iter().chain(&summed).copied().collect();
        let product = a.arranged(&full)?.mul(&b.arranged(&full)?)?;
        let dims: Vec<i64> = (order.len()..full.len()).map(|i| i as i64).collect();
        let tensor = if dims.is_empty() { product } else { product.sum(&dims, false, None)? };
        return Ok(Operand { tensor, labels: order });
    }
    let n = |v: &[usize]| v.iter().product::<usize>() as i64;
    let arranged = |x: &Operand, parts: [&[Label]; 3]| x.arranged(&parts.concat());
    let x = arranged(&a, [&batch, &left, &summed])?.reshape(&[n(&bs), n(&ls), n(&ss)])?;
    let y = arranged(&b, [&batch, &summed, &right])?.reshape(&[n(&bs), n(&ss), n(&rs)])?;
    let shape: Vec<i64> = bs.iter().chain(&ls).chain(&rs).map(|&d| d as i64).collect();
    Ok(Operand { tensor: x.matmul(&y)?.reshape(&shape)?, labels: order })
}

impl Tensor {
    /// Sums of products as an equation says: `"bij,bjk->bik"`.
    #[track_caller]
    pub fn einsum(equation: &str, operands: &[&Tensor]) -> Result<Tensor> {
        let (inputs, output) = match equation.split_once("->") {
            Some((i, o)) => (i, Some(o)),
            None => (equation, None),
        };
        let parts: Vec<&str> = inputs.split(',').collect();
        if parts.len() != operands.len() || operands.is_empty() {
            return Err(bad(format!("{} operands were provided, the equation has {}", operands.len(), parts.len())));
        }
        let parsed: Vec<Vec<Label>> =
            parts.iter().zip(operands).map(|(text, t)| labels(text, Some(t.rank()), 0)).collect::<Result<_>>()?;
        let wide = parsed
            .iter()
            .flatten()
            .filter_map(|l| if let Label::Ellipsis(i) = l { Some(i + 1) } else { None })
            .max()
            .unwrap_or(0);
        let wanted = match output {
            Some(text) => labels(text, None, wide)?,
            None => {
                let all: Vec<Label> = parsed.iter().flatten().copied().collect();
                let mut once: Vec<Label> = all
                    .iter()
                    .copied()
                    .filter(|l| matches!(l, Label::Letter(_)) && all.iter().filter(|m| *m == l).count() == 1)
                    .collect();
                once.sort();
                (0..wide).rev().map(Label::Ellipsis).chain(once).collect()
            }
        };
        for (i, l) in wanted.iter().enumerate() {
            if wanted[..i].contains(l) {
                return Err(bad(format!("output subscript {l} appears more than once in the output")));
            }
            if !parsed.iter().flatten().any(|m| m == l) {
                return Err(bad(format!("output subscript {l} does not appear in the equation for any input operand")));
            }
        }
        let mut queue: Vec<Operand> =
            operands.iter().zip(parsed).map(|(t, l)| Operand::new(t, l)).collect::<Result<_>>()?;
        queue.reverse();
        let mut done = queue.pop().ok_or_else(|| bad("no operands"))?;
        while let Some(next) = queue.pop() {
            let later: Vec<Label> = queue.iter().flat_map(|o| o.labels.clone()).collect();
            done = contract(done, next, |l| wanted.contains(&l) || later.contains(&l))?;
        }
        done.reduce(|l| wanted.contains(&l))?.arranged(&wanted)
    }
}
