//! Parquet: a sample is a row, or a range of rows that an event table names.

mod arrays;
mod beside;
mod events;
mod footer;
mod index;
mod plain;
mod rows;
mod schema;
mod source;
mod stored;
mod tiling;
mod write;

pub use arrays::NullValue;
pub(crate) use arrays::Pieces;
pub use beside::TableBeside;
pub use events::{EventSource, EventTable, RangeEnd};
pub(crate) use schema::{arrow_type, field};
pub(crate) use source::named_once;
pub use source::{ParquetOptions, ParquetSource};
pub use write::ParquetWriter;
pub(crate) use write::batch_of;
