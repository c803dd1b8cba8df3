//! Failures and types of tensors on the wire.

use gt_ir::attr::Attr;
use gt_ir::codec::Reader;
use gt_ir::{DType, Failure, FailureKind, OpError, Shape, SiteId, TensorType};

use super::field::{Field, Message};

impl<'a> Field<'a> for TensorType {
    const NAME: &'static str = "type";
    fn encode(&self, out: &mut Vec<u8>) {
        Attr::encode(&self.dtype, out);
        Attr::encode(&self.shape, out);
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        let (dtype, shape) = (<DType as Attr>::decode(r)?, <Shape as Attr>::decode(r)?);
        match shape.checked_numel().and_then(|n| n.checked_mul(dtype.size())) {
            Some(_) => Ok(TensorType { dtype, shape }),
            None => Err(OpError::malformed(format!("a tensor of shape {shape} is too large to exist"))),
        }
    }
}

impl<'a> Field<'a> for SiteId {
    const NAME: &'static str = "site";
    fn encode(&self, out: &mut Vec<u8>) {
        Field::encode(&self.0, out);
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        <u32 as Field>::decode(r).map(SiteId)
    }
}

/// Bytes and the line that made them.
impl<'a> Field<'a> for (u64, SiteId) {
    const NAME: &'static str = "holder";
    fn encode(&self, out: &mut Vec<u8>) {
        Field::encode(&self.0, out);
        Field::encode(&self.1, out);
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        Ok((Field::decode(r)?, Field::decode(r)?))
    }
}

impl<'a> Field<'a> for FailureKind {
    const NAME: &'static str = "kind";
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self {
            FailureKind::Index => 1,
            FailureKind::Value => 2,
            FailureKind::Memory => 3,
            FailureKind::WorkerLost => 4,
            FailureKind::Internal => 5,
        });
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        Ok(match r.byte()? {
            1 => FailureKind::Index,
            2 => FailureKind::Value,
            3 => FailureKind::Memory,
            4 => FailureKind::WorkerLost,
            5 => FailureKind::Internal,
            code => return Err(OpError::malformed(format!("no kind of failure has code {code}"))),
        })
    }
}

impl<'a> Field<'a> for Failure {
    const NAME: &'static str = "Failure";
    fn encode(&self, out: &mut Vec<u8>) {
        let Failure { kind, message, op, ins, worker, site, holders } = self;
        kind.encode(out);
        Field::encode(message, out);
        Field::encode(op, out);
        Field::encode(ins, out);
        Field::encode(worker, out);
        site.encode(out);
        Field::encode(holders, out);
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, OpError> {
        Ok(Failure {
            kind: Field::decode(r)?,
            message: Field::decode(r)?,
            op: Field::decode(r)?,
            ins: Field::decode(r)?,
            worker: Field::decode(r)?,
            site: Field::decode(r)?,
            holders: Field::decode(r)?,
        })
    }
}

impl Message for Failure {
    fn declare(out: &mut String) {
        out.push_str(
            "Failure kind:kind message:text op:text ins:list(type) worker:text site:site holders:list(holder)\n",
        );
    }
}
