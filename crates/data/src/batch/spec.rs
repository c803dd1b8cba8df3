//! What a batch is made of.

use gt_ir::DType;
use serde::{Deserialize, Serialize};

use crate::error::{DataError, Result};
use crate::field::{Field, Kind};
use crate::travel::{bits, dtype_name};

/// One step of a column's expression, on every number of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Step {
    Add(#[serde(with = "bits")] f64),
    Mul(#[serde(with = "bits")] f64),
    Div(#[serde(with = "bits")] f64),
    Pow(#[serde(with = "bits")] f64),
    Clip(#[serde(with = "bits")] f64, #[serde(with = "bits")] f64),
    Log,
    Log1p,
    Log10,
    Exp,
    Sqrt,
    Abs,
    Sin,
    Cos,
    Tanh,
    Floor,
    Round,
}

impl Step {
    /// Applies the step to one number.
    #[inline]
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Step::Add(c) => x + c,
            Step::Mul(c) => x * c,
            Step::Div(c) => x / c,
            Step::Pow(c) => x.powf(c),
            Step::Clip(low, high) => x.max(low).min(high),
            Step::Log => x.ln(),
            Step::Log1p => x.ln_1p(),
            Step::Log10 => x.log10(),
            Step::Exp => x.exp(),
            Step::Sqrt => x.sqrt(),
            Step::Abs => x.abs(),
            Step::Sin => x.sin(),
            Step::Cos => x.cos(),
            Step::Tanh => x.tanh(),
            Step::Floor => x.floor(),
            Step::Round => x.round_ties_even(),
        }
    }
}

/// One entry of a batch: a column, perhaps changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Its name in the batch.
    pub name: String,
    /// Which field of the source it comes from.
    pub field: usize,
    /// The dtype of the tensor. Text has none.
    #[serde(with = "dtype_name")]
    pub dtype: DType,
    /// What happens to every number, in order.
    pub steps: Vec<Step>,
    /// Items a sample has at most.
    pub max_len: Option<usize>,
    /// What fills the rest of a row.
    #[serde(with = "bits")]
    pub pad_value: f64,
    /// Rows are as long as the next multiple of this.
    pub multiple: usize,
}

impl Output {
    /// A column as it is.
    pub fn plain(field: usize, of: &Field) -> Output {
        let dtype = of.elem.dtype();
        Output { name: of.name.clone(), field, dtype, steps: vec![], max_len: None, pad_value: 0.0, multiple: 1 }
    }
}

/// How samples of different lengths become one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Collate {
    /// Rows as long as the longest, with `lengths` and `mask`.
    Padded,
    /// One after another, with `cu_seqlens`.
    Packed,
}

/// What happens to a sample that is longer than `max_len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outliers {
    /// Its first items are kept.
    Truncate,
    /// Random ones are kept, in order: the same ones in every epoch and for every column.
    Subsample,
    /// It becomes several rows of the batch, one after another, each with the next items; columns of one item repeat.
    Split,
}

/// What a batch is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchSpec {
    /// Its entries.
    pub outputs: Vec<Output>,
    /// How different lengths become one tensor.
    pub collate: Collate,
    /// Whether each ragged column has its own lengths, under its own name. Otherwise they must agree.
    pub lengths_each: bool,
    /// What happens to long samples.
    pub outliers: Outliers,
    /// Whether `sample_id` is one of the entries.
    pub sample_ids: bool,
    /// Keys the choice of [`Outliers::Subsample`].
    pub seed: u64,
}

impl BatchSpec {
    /// Every field as it is, padded.
    pub fn plain(fields: &[Field]) -> BatchSpec {
        BatchSpec {
            outputs: fields.iter().enumerate().map(|(i, f)| Output::plain(i, f)).collect(),
            collate: Collate::Padded,
            lengths_each: false,
            outliers: Outliers::Truncate,
            sample_ids: false,
            seed: 0,
        }
    }

    /// Whether the entries can be made of these fields.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub fn check(&self, fields: &[Field]) -> Result<()> {
        let wrong = |why: String| Err(DataError::Argument(why));
        if self.outputs.is_empty() {
            return wrong("a batch needs at least one column".into());
        }
        let mut names: Vec<String> = self.outputs.iter().map(|o| o.name.clone()).collect();
        names.extend(self.made_names(fields));
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            return wrong(format!("two entries of the batch have the name {:?}", twice[0]));
        }
        let mut max_lens = Vec::new();
        for output in &self.outputs {
            let Some(field) = fields.get(output.field) else {
                return wrong(format!("{:?} is computed from a column that does not exist", output.name));
            };
            let text = matches!(field.kind, Kind::Text { .. });
            if text && !output.steps.is_empty() {
                return wrong(format!("column {:?} holds {field}, but expressions need numbers", field.name));
            }
            if output.multiple == 0 || output.max_len == Some(0) {
                return wrong(format!("max_len and pad_to_multiple_of of {:?} must be at least 1", output.name));
            }
            if field.kind == Kind::Ragged {
                max_lens.push(output.max_len);
            }
        }
        if self.lengths_each && self.outliers == Outliers::Split {
            return wrong(
                "outliers=\"split\" cuts all columns of a sample alike, so it cannot be combined with ragged=\"each\""
                    .into(),
            );
        }
        if self.outliers == Outliers::Split && max_lens.windows(2).any(|w| w[0] != w[1]) {
            return wrong(
                "outliers=\"split\" cuts all columns of a sample alike, so every column needs the same max_len".into(),
            );
        }
        Ok(())
    }

    /// How many items of a sample count towards a batch: those of the first ragged column.
    pub(crate) fn sample_len(&self, fields: &[Field], block: &crate::block::Block, row: u32) -> usize {
        let ragged = self.outputs.iter().find(|o| fields[o.field].kind == Kind::Ragged);
        ragged.map_or(1, |o| {
            let len = block.columns[o.field].len(row);
            match (o.max_len, self.outliers) {
                (None, _) => len,
                // Its rows are as long as the longest: so a batch never costs more than this says.
                (Some(max), Outliers::Split) if len > max => len.next_multiple_of(max),
                (Some(max), _) => len.min(max),
            }
        })
    }

    /// Whether samples must know their number: for `sample_id`, and for thinning out.
    pub(crate) fn needs_ids(&self) -> bool {
        self.sample_ids || self.outliers == Outliers::Subsample
    }

    /// The column by which samples are split into rows, and how long a row may be.
    pub(super) fn splits(&self, fields: &[Field]) -> Option<(usize, usize)> {
        if self.outliers != Outliers::Split {
            return None;
        }
        let ragged = self.outputs.iter().find(|o| fields[o.field].kind == Kind::Ragged)?;
        Some((ragged.field, ragged.max_len?))
    }

    /// Names of the entries that are made beside the columns.
    fn made_names(&self, fields: &[Field]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for prefix in self.length_prefixes(fields) {
            match self.collate {
                Collate::Padded => names.extend([format!("{prefix}lengths"), format!("{prefix}mask")]),
                Collate::Packed => names.push(format!("{prefix}cu_seqlens")),
            }
        }
        if self.sample_ids {
            names.push("sample_id".into());
        }
        names
    }

    /// Whether a ragged column is cut as the first one is, and so has its lengths.
    pub(super) fn is_cut_as(&self, output: &Output, first: &Output) -> bool {
        !self.lengths_each && output.max_len == first.max_len
    }

    /// What the names of lengths begin with: nothing for the first ragged column and those that are cut as it is; the column's name
    /// for the others, or for all.
    fn length_prefixes(&self, fields: &[Field]) -> Vec<String> {
        let ragged = |o: &&Output| fields.get(o.field).is_some_and(|f| f.kind == Kind::Ragged);
        let columns: Vec<&Output> = self.outputs.iter().filter(ragged).collect();
        let Some(first) = columns.first() else { return Vec::new() };
        let others = columns.iter().filter(|o| !self.is_cut_as(o, first)).map(|o| format!("{}_", o.name));
        (!self.lengths_each).then(String::new).into_iter().chain(others).collect()
    }
}
