//! What a loader elsewhere says of a batch before it is given: everything but the numbers in it.
//!
//! On the wire: the length of a JSON text, the text, then the strings of text columns one after another, whose lengths the
//! text tells. Strings are for programs, so they go to who reads them; numbers stay where they are.

use gt_ir::codec::{Reader, put_varint};
use serde::{Deserialize, Serialize};

use crate::batch::{Batch, Entry};
use crate::error::{DataError, Result};
use crate::run::{Position, Stats};

/// An entry of a batch, as it is announced.
#[derive(Clone, Debug, PartialEq)]
pub enum Announced {
    /// A tensor: the next of those that the batch has.
    Tensor,
    /// A string for each sample of the part.
    Text {
        /// Whether they are text.
        utf8: bool,
        /// The strings.
        rows: Vec<Vec<u8>>,
    },
}

/// What came of asking for a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// There is one.
    Batch {
        /// How many samples it has, those of other parts included.
        samples: usize,
        /// The place behind it.
        position: Position,
        /// Its entries, by name.
        entries: Vec<(String, Announced)>,
    },
    /// The epoch has ended.
    End,
    /// There will be none.
    Failed {
        /// Why.
        error: DataError,
        /// Whether the files could not be opened at all.
        opening: bool,
    },
}

/// What a loader says of its next batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Announcement {
    /// What came of it.
    pub outcome: Outcome,
    /// What was counted so far.
    pub stats: Stats,
}

#[derive(Serialize, Deserialize)]
enum Said {
    Batch { samples: usize, position: Position, entries: Vec<(String, SaidEntry)> },
    End,
    Failed { error: DataError, opening: bool },
}

#[derive(Serialize, Deserialize)]
enum SaidEntry {
    Tensor,
    Text { utf8: bool, lens: Vec<usize> },
}

impl Outcome {
    /// The announcement of a batch.
    pub fn of(batch: &Batch, position: Position) -> Outcome {
        let entry = |entry: &Entry| match entry {
            Entry::Tensor { .. } => Announced::Tensor,
            Entry::Text { utf8, rows } => Announced::Text { utf8: *utf8, rows: rows.clone() },
        };
        let entries = batch.entries.iter().map(|(name, of)| (name.clone(), entry(of))).collect();
        Outcome::Batch { samples: batch.of, position, entries }
    }

    /// What came of a batch whose parts were made by several, and whose word that is: who failed, or the first.
    ///
    /// # Errors
    /// When they do not speak of the same batch.
    pub fn joined(parts: impl IntoIterator<Item = Outcome>) -> Result<(usize, Outcome)> {
        let mut joined: Option<Outcome> = None;
        let mut agree = true;
        for (number, part) in parts.into_iter().enumerate() {
            if let Outcome::Failed { .. } = part {
                return Ok((number, part));
            }
            match &mut joined {
                None => joined = Some(part),
                Some(whole) => agree &= whole.join(part),
            }
        }
        match joined {
            Some(whole) if agree => Ok((0, whole)),
            _ => Err(malformed(&"the workers that make the parts of this batch disagree about its contents")),
        }
    }

    /// Adds the strings of the next part; whether it is one of the same batch.
    fn join(&mut self, next: Outcome) -> bool {
        let (own, other) = match (self, next) {
            (Outcome::End, Outcome::End) => return true,
            (
                Outcome::Batch { samples, position, entries },
                Outcome::Batch { samples: of_next, position: at_next, entries: others },
            ) if (*samples, *position, entries.len()) == (of_next, at_next, others.len()) => {
                ((*samples, entries), others)
            }
            _ => return false,
        };
        let (samples, entries) = own;
        entries.iter_mut().zip(other).all(|((name, entry), (next_name, next))| match (entry, next) {
            (Announced::Tensor, Announced::Tensor) => *name == next_name,
            (Announced::Text { rows, .. }, Announced::Text { rows: more, .. }) => {
                // A batch that is whole on each worker has been told whole.
                if rows.len() < samples {
                    rows.extend(more);
                }
                *name == next_name && rows.len() <= samples
            }
            _ => false,
        })
    }
}

impl Announcement {
    /// The binary form.
    ///
    /// # Errors
    /// When a number in it cannot be written.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut strings = Vec::new();
        let said = match &self.outcome {
            Outcome::Batch { samples, position, entries } => {
                let mut entry = |entry: &Announced| match entry {
                    Announced::Tensor => SaidEntry::Tensor,
                    Announced::Text { utf8, rows } => {
                        rows.iter().for_each(|row| strings.extend_from_slice(row));
                        SaidEntry::Text { utf8: *utf8, lens: rows.iter().map(Vec::len).collect() }
                    }
                };
                let entries = entries.iter().map(|(name, of)| (name.clone(), entry(of))).collect();
                Said::Batch { samples: *samples, position: *position, entries }
            }
            Outcome::End => Said::End,
            Outcome::Failed { error, opening } => Said::Failed { error: error.clone(), opening: *opening },
        };
        let text = serde_json::to_vec(&(said, self.stats)).map_err(|e| malformed(&e))?;
        let mut out = Vec::with_capacity(text.len() + strings.len() + 8);
        put_varint(&mut out, text.len() as u64);
        out.extend_from_slice(&text);
        out.extend_from_slice(&strings);
        Ok(out)
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// When the bytes are not one.
    pub fn decode(bytes: &[u8]) -> Result<Announcement> {
        let mut reader = Reader::new(bytes);
        let text = reader.count(1).and_then(|len| reader.take(len)).map_err(|e| malformed(&e))?;
        let (said, stats): (Said, Stats) = serde_json::from_slice(text).map_err(|e| malformed(&e))?;
        let mut entry = |entry: SaidEntry| match entry {
            SaidEntry::Tensor => Ok(Announced::Tensor),
            SaidEntry::Text { utf8, lens } => {
                let rows = lens.into_iter().map(|len| reader.take(len).map(<[u8]>::to_vec));
                Ok(Announced::Text {
                    utf8,
                    rows: rows.collect::<std::result::Result<_, _>>().map_err(|e| malformed(&e))?,
                })
            }
        };
        let outcome = match said {
            Said::Batch { samples, position, entries } => {
                let entries = entries.into_iter().map(|(name, of)| Ok((name, entry(of)?))).collect::<Result<_>>()?;
                Outcome::Batch { samples, position, entries }
            }
            Said::End => Outcome::End,
            Said::Failed { error, opening } => Outcome::Failed { error, opening },
        };
        match reader.left() {
            0 => Ok(Announcement { outcome, stats }),
            left => Err(malformed(&format!("{left} unexpected bytes follow the message"))),
        }
    }
}

fn malformed(why: &dyn std::fmt::Display) -> DataError {
    DataError::Internal(format!("the announcement of a batch: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn announcements() -> Vec<Announcement> {
        let stats = Stats { read_s: 0.25, batches: 3, ..Stats::default() };
        let text = Announced::Text { utf8: true, rows: vec![b"one".to_vec(), vec![], vec![0xff, 0]] };
        let entries =
            vec![("x".into(), Announced::Tensor), ("caption".into(), text), ("lengths".into(), Announced::Tensor)];
        let position = Position { position: 1 << 50, batch: 7 };
        let failed = DataError::Corrupt { path: "/a.parquet".into(), why: "it ends".into() };
        [
            Outcome::Batch { samples: 3, position, entries },
            Outcome::End,
            Outcome::Failed { error: failed, opening: true },
        ]
        .map(|outcome| Announcement { outcome, stats })
        .into()
    }

    #[test]
    fn announcements_come_back_from_their_bytes() {
        for said in announcements() {
            let bytes = said.encode().unwrap();
            assert_eq!(Announcement::decode(&bytes).unwrap(), said);
            // Cut anywhere it is none.
            (0..bytes.len()).for_each(|len| assert!(Announcement::decode(&bytes[..len]).is_err(), "{len}"));
        }
    }

    #[test]
    fn parts_of_a_batch_are_joined_in_order() {
        let text = |rows: &[&str]| Announced::Text {
            utf8: true,
            rows: rows.iter().map(|row| row.as_bytes().to_vec()).collect(),
        };
        let part = |rows: &[&str], position| Outcome::Batch {
            samples: 3,
            position: Position { position, batch: 0 },
            entries: vec![("x".into(), Announced::Tensor), ("s".into(), text(rows))],
        };
        let whole = part(&["a", "b", "c"], 3);
        assert_eq!(Outcome::joined([part(&["a", "b"], 3), part(&["c"], 3)]).unwrap(), (0, whole.clone()));
        assert_eq!(Outcome::joined([whole.clone(), whole.clone()]).unwrap(), (0, whole.clone()));
        assert_eq!(Outcome::joined([Outcome::End, Outcome::End]).unwrap(), (0, Outcome::End));
        let failed = Outcome::Failed { error: DataError::Interrupted, opening: false };
        assert_eq!(Outcome::joined([whole.clone(), failed.clone()]).unwrap(), (1, failed));
        for other in [part(&["c"], 4), Outcome::End] {
            assert!(Outcome::joined([part(&["a", "b"], 3), other]).is_err());
        }
        assert!(Outcome::joined([]).is_err());
    }

    proptest! {
        #[test]
        fn noise_is_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Announcement::decode(&bytes);
        }
    }
}
