//! Whether a model in half precision is computed in it: `half`, the probe, and what a run on the CPU says of its own model.
//!
//! A provider takes a node only with a kernel for its types, and a strict session has every node on its provider. The
//! CPU's is the exception: where it has no kernel, ONNX Runtime puts casts around the node and computes in fp32. So the
//! graph is read as it was after all that, and a cast in it, of which the model has none, tells.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::Params;
use super::declared::all_nodes;
use super::host::CPU;
use super::place::Bench;
use super::run::{model_file, run_at};
use crate::runtime::onnx_proto::NodeProto;
use crate::runtime::refusal::Refusal;
use crate::runtime::{Job, JobOutput, JobStatus};

pub(super) fn half(job: &Job, params: &Params) -> Result<JobOutput> {
    let bench = Bench::open(params)?;
    let output = run_at(job, &bench)?;
    if bench.place.provider != CPU {
        return Ok(output);
    }
    let nodes = bench.nodes(&model_file(job.artefact()?)?)?;
    let casts = nodes.iter().filter(|node| node.op_type() == "Cast").count();
    if casts > 0 {
        let reason = format!(
            "ONNX Runtime {} has no such kernels on the CPU: it put {casts} casts into the model and computes in fp32",
            bench.host.version
        );
        return Err(Refusal::with_facts(
            JobStatus::Unsupported,
            reason,
            json!({"casts": casts}),
        ));
    }
    Ok(output)
}

/// What ONNX Runtime calls the tensors that it casts for a node without a kernel for their type.
const CAST: &str = "InsertedPrecisionFreeCast_";

/// The remark on a run of an fp16 model on the CPU, if it was not all computed in fp16.
pub(super) fn cast_to_fp32(bench: &Bench<'_>, model: &Path) -> Result<Option<String>> {
    // Those in loops and branches count: they are most of the work, where there are some.
    let nodes = all_nodes(&bench.nodes(model)?);
    let nodes: Vec<_> = nodes
        .iter()
        .filter(|node| node.op_type() != "Cast")
        .collect();
    let is_forced = |node: &&&NodeProto| {
        node.input
            .iter()
            .chain(&node.output)
            .any(|name| name.starts_with(CAST))
    };
    let forced = nodes.iter().filter(is_forced).count();
    Ok((forced > 0).then(|| {
        format!(
            "ONNX Runtime {} has no fp16 kernels on this CPU for {forced} of the model's {} nodes, and computed them in fp32",
            bench.host.version,
            nodes.len()
        )
    }))
}
