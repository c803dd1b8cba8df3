//! Samples with everything that their files say of them.
//!
//! STORED-1: what is written anew keeps what GT itself does not read: nulls, structs, types of dates and times.

use std::sync::Arc;

use arrow_array::{RecordBatch, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::interleave::interleave;

use crate::batch::Picked;
use crate::block::Block;
use crate::error::{DataError, Result};
use crate::field::Field;
use crate::parquet::{arrow_type, batch_of};

/// The samples of a block as rows of Arrow's arrays.
#[derive(Clone, Debug)]
pub struct StoredRows(pub(crate) RecordBatch);

impl StoredRows {
    /// A block as rows, where nothing more is known of its samples.
    pub(crate) fn of_block(fields: &[Field], block: &Block) -> Result<StoredRows> {
        let picked = (0..block.samples as u32).map(|row| Picked { block, row, id: 0, piece: 0 });
        batch_of(fields, &schema_of(fields), &picked.collect::<Vec<_>>()).map(StoredRows)
    }

    /// The same rows with nulls where `valid` says so, for each column.
    pub(crate) fn with_nulls(&self, valid: Vec<Vec<bool>>) -> Result<StoredRows> {
        let nullable = |f: &Arc<arrow_schema::Field>| f.as_ref().clone().with_nullable(true);
        let schema = Schema::new(self.0.schema().fields().iter().map(nullable).collect::<Vec<_>>());
        let columns = self.0.columns().iter().zip(valid).map(|(column, valid)| {
            let data = column.to_data().into_builder().nulls(Some(NullBuffer::from(valid)));
            data.build().map(make_array)
        });
        let columns = columns.collect::<std::result::Result<Vec<_>, ArrowError>>();
        let rows = columns.and_then(|columns| RecordBatch::try_new(Arc::new(schema), columns));
        rows.map(StoredRows).map_err(|e| DataError::Internal(format!("the columns do not match: {e}")))
    }

    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    /// The same rows with the columns of a schema, in its order, or why they do not have them.
    pub(crate) fn fitted(&self, schema: &SchemaRef) -> std::result::Result<StoredRows, String> {
        let mut columns = Vec::with_capacity(schema.fields().len());
        for wanted in schema.fields() {
            let name = wanted.name();
            let column = self.0.column_by_name(name).ok_or_else(|| format!("there is no column {name:?}"))?;
            if column.data_type() != wanted.data_type() {
                let (found, wanted) = (column.data_type(), wanted.data_type());
                return Err(format!("column {name:?} is {found}, but {wanted} in earlier files"));
            }
            if !wanted.is_nullable() && column.null_count() > 0 {
                return Err(format!("column {name:?} holds nulls, but is declared without nulls in earlier files"));
            }
            columns.push(column.clone());
        }
        if let Some(more) = self.0.schema().fields().iter().find(|f| schema.index_of(f.name()).is_err()) {
            return Err(format!("column {:?} is not in earlier files", more.name()));
        }
        RecordBatch::try_new(schema.clone(), columns).map(StoredRows).map_err(|e| e.to_string())
    }
}

/// Rows of several blocks, each by the number of its block and of its row in there. All have this schema.
pub(crate) fn picked_rows(schema: &SchemaRef, blocks: &[&StoredRows], rows: &[(usize, usize)]) -> Result<RecordBatch> {
    let column = |n: usize| interleave(&blocks.iter().map(|b| b.0.column(n).as_ref()).collect::<Vec<_>>(), rows);
    let columns = (0..schema.fields().len()).map(column).collect::<std::result::Result<Vec<_>, ArrowError>>();
    columns.and_then(|columns| RecordBatch::try_new(schema.clone(), columns)).map_err(|e| {
        DataError::Argument(format!("the rows of a row group cannot be joined: {e}; try smaller row groups"))
    })
}

/// The schema that fields are written with.
pub(crate) fn schema_of(fields: &[Field]) -> SchemaRef {
    let columns = fields.iter().map(|f| arrow_schema::Field::new(&f.name, arrow_type(f), false));
    Arc::new(Schema::new(columns.collect::<Vec<_>>()))
}
