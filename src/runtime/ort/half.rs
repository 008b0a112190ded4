//! Whether a model in half precision is computed in it: `half`, the probe, and what a run on the CPU says of its own model.
//!
//! A provider takes a node only with a kernel for its types, and a strict session has every node on its provider. The
//! CPU's is the exception: where it has no kernel, ONNX Runtime puts casts around the node and computes in fp32. So the
//! graph is asked for as it was after all that, and a cast in it, of which the model has none, tells.

use std::path::Path;

use serde_json::json;

use super::host::{CPU, Host};
use super::place::Place;
use super::run::{model_file, run_at};
use super::{Failure, Params, optimised};
use crate::runtime::onnx_proto::NodeProto;
use crate::runtime::{Job, JobOutput, JobStatus};

pub(super) fn half(job: &Job, params: &Params) -> Result<JobOutput, Failure> {
    let (host, place) = Place::open(params)?;
    let output = run_at(job, params, &host, &place)?;
    if place.provider != CPU {
        return Ok(output);
    }
    let model = model_file(job.artefact()?)?;
    let nodes = optimised::nodes(&host, params, |builder| builder.commit_from_file(&model))?;
    let casts = nodes.iter().filter(|node| node.op_type() == "Cast").count();
    if casts > 0 {
        let reason = format!(
            "ONNX Runtime {} has no such kernels on the CPU: it put {casts} casts into the model and computes in fp32",
            host.version
        );
        return Err(Failure { facts: json!({"casts": casts}), ..Failure::new(JobStatus::Unsupported, reason) });
    }
    Ok(output)
}

/// What ONNX Runtime calls the tensors that it casts for a node without a kernel for their type.
const CAST: &str = "InsertedPrecisionFreeCast_";

/// What is to be said of a run of an fp16 model on the CPU, if it was not all computed in fp16.
pub(super) fn cast_to_fp32(host: &Host, params: &Params, model: &Path) -> anyhow::Result<Option<String>> {
    let nodes = optimised::nodes(host, params, |builder| builder.commit_from_file(model))?;
    let nodes: Vec<_> = nodes.iter().filter(|node| node.op_type() != "Cast").collect();
    let is_forced = |node: &&&NodeProto| node.input.iter().chain(&node.output).any(|name| name.starts_with(CAST));
    let forced = nodes.iter().filter(is_forced).count();
    Ok((forced > 0).then(|| {
        format!(
            "ONNX Runtime {} has no fp16 kernels on this CPU for {forced} of the model's {} nodes, and computed them in fp32",
            host.version,
            nodes.len()
        )
    }))
}
