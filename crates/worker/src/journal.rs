//! What the instruction log says of a session.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use gt_ir::{Failure, Instr, Op, OpKind, SiteId, TensorId, Window, codec};
use gt_observe::{Event, InstructionLog};
use gt_plan::Plan;

use crate::{SessionConfig, SiteNames};

/// Writes one session's lines.
pub struct Journal {
    log: Arc<InstructionLog>,
    source: String,
    /// Whose session it is.
    client: String,
    site_names: Option<SiteNames>,
}

/// The command column: a family of ops is one command, its member the `op=` of the details.
fn command(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Fill | OpKind::Iota | OpKind::Random | OpKind::Upload => "CreateTensor",
        OpKind::Unary => "UnaryOp",
        OpKind::Binary => "BinaryOp",
        OpKind::Compare => "CompareOp",
        OpKind::Select => "SelectOp",
        OpKind::Cast => "CastOp",
        OpKind::Reduce => "ReduceOp",
        OpKind::ArgReduce => "ArgReduceOp",
        OpKind::Scan => "ScanOp",
        OpKind::Sort => "SortOp",
        OpKind::Matmul => "MatmulOp",
        OpKind::Reshape => "ReshapeOp",
        OpKind::Permute => "PermuteOp",
        OpKind::Broadcast => "BroadcastOp",
        OpKind::Slice => "SliceOp",
        OpKind::UpdateSlice => "UpdateSliceOp",
        OpKind::Pad => "PadOp",
        OpKind::Concat => "ConcatOp",
        OpKind::Take => "TakeOp",
        OpKind::Put => "PutOp",
        OpKind::Gather => "GatherOp",
        OpKind::Scatter => "ScatterOp",
        OpKind::Write => "WriteOp",
        OpKind::Check => "CheckOp",
        OpKind::Attention | OpKind::AttentionGrad => "AttentionOp",
        OpKind::CrossEntropy | OpKind::CrossEntropyGrad => "CrossEntropyOp",
        OpKind::Update => "UpdateOp",
    }
}

/// An id without the `%`, as the log's columns want it.
fn number(id: TensorId) -> String {
    id.to_string().trim_start_matches('%').to_string()
}

fn details(instr: &Instr) -> String {
    let list = |ids: &[TensorId]| ids.iter().map(|&id| number(id)).collect::<Vec<_>>().join(",");
    let mut out = format!("result={} op={}", list(&instr.outs), instr.op.display_name());
    let _ = match (&instr.op, &instr.ins[..]) {
        (_, []) => Ok(()),
        (Op::Binary(_) | Op::Compare(_) | Op::Matmul(_), [left, right]) => {
            write!(out, " left={} right={}", number(*left), number(*right))
        }
        (_, [input]) => write!(out, " input={}", number(*input)),
        (_, inputs) => write!(out, " inputs={}", list(inputs)),
    };
    if let Op::Fill(_) | Op::Iota(_) | Op::Random(_) | Op::Upload(_) = &instr.op
        && let Ok(types) = instr.op.primitive().infer(&[])
    {
        let _ = write!(out, " type={}", types[0].to_string().replace(' ', ""));
    }
    out
}

impl Journal {
    /// Lines of the session that `config` names, on the worker of that name.
    pub fn new(log: Arc<InstructionLog>, worker: &str, config: &SessionConfig) -> Journal {
        let (source, client) = (format!("WORKER:{worker}"), format!("CLIENT:{}", config.name));
        Journal { log, source, client, site_names: config.site_names.clone() }
    }

    /// A source line, by name if there is one.
    fn site(&self, site: SiteId) -> String {
        match &self.site_names {
            Some(names) if site.0 != 0 => names(site),
            _ => format!("#{}", site.0),
        }
    }

    /// One line for each instruction, and one for each free.
    pub fn received(&self, window: &Window) {
        let mut payloads = window.uploads.iter().peekable();
        for (at, instr) in window.instrs.iter().enumerate() {
            let mut size = instr.encoded_len();
            if let Some(payload) = payloads.next_if(|p| p.instr as usize == at) {
                size += payload.bytes.len();
            }
            self.log.write(Event::Recv, &self.client, command(instr.op.kind()), size as u64, details(instr));
        }
        for &id in &window.frees {
            let mut encoded = Vec::with_capacity(10);
            codec::put_varint(&mut encoded, id.0);
            let details = format!("id={}", number(id));
            self.log.write(Event::Recv, &self.client, "FreeTensor", encoded.len() as u64, details);
        }
    }

    /// A window went to a worker by a connection: one line, as it was one message.
    pub fn passed_on(&self, window: &Window, worker: &str) {
        let mut encoded = Vec::new();
        window.encode(&mut encoded);
        let (name, details) = match &window.instrs[..] {
            [one] => (format!("Worker{}", command(one.op.kind())), details(one)),
            all => ("WorkerWindow".to_string(), format!("instrs={} frees={}", all.len(), window.frees.len())),
        };
        self.log.write(Event::WorkerSend, &format!("WORKER:{worker}"), &name, encoded.len() as u64, details);
    }

    /// A value came from a worker by a connection.
    pub fn came_back(&self, id: TensorId, bytes: usize, worker: &str) {
        let details = format!("id={}", number(id));
        self.log.write(Event::WorkerRecv, &format!("WORKER:{worker}"), "TensorData", bytes as u64, details);
    }

    /// A plan ran.
    pub(crate) fn executed(&self, plan: &Plan, site: SiteId, took: Duration) {
        let details = format!(
            "dur_us={} instrs={} steps={} plan={:016x} site={}",
            took.as_micros(),
            plan.instrs_run(),
            plan.steps.len(),
            (plan.hash >> 64) as u64,
            self.site(site)
        );
        self.log.write(Event::Exec, &self.source, "RunPlan", 0, details);
    }

    /// A plan was compiled.
    pub(crate) fn compiled(&self, plan: &Plan, took: Duration) {
        let details = format!(
            "dur_us={} instrs={} kept={} plan={:016x}",
            took.as_micros(),
            plan.instrs.len(),
            plan.instrs_run(),
            (plan.hash >> 64) as u64
        );
        self.log.write(Event::Compile, &self.source, "CompilePlan", 0, details);
    }

    /// A value was read.
    pub fn sent(&self, id: TensorId, bytes: usize) {
        self.log.write(Event::Send, &self.client, "TensorData", bytes as u64, format!("id={}", number(id)));
    }

    /// A failure where it arose.
    pub fn error(&self, failure: &Failure) {
        let details = format!("op={} site={} message={failure}", failure.op, self.site(failure.site));
        self.log.write(Event::Error, &self.source, "Failure", 0, details);
    }

    /// Hands everything written so far to the system.
    pub fn flush(&self) {
        self.log.flush();
    }
}
