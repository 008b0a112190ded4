//! `half`: whether a model in half precision is computed in it.
//!
//! A provider takes a node only with a kernel for its types, and a strict session has every node on its provider. The
//! CPU's is the exception: where it has no kernel, ONNX Runtime puts casts around the node and computes in fp32. So the
//! graph is asked for as it was after all that, and a cast in it, of which the model has none, tells.

use serde_json::json;

use super::host::{CPU, plain};
use super::place::Place;
use super::run::{model_file, run_at};
use super::{Failure, Params, tree};
use crate::runtime::{Job, JobOutput, JobStatus, onnx_file};

pub(super) fn half(job: &Job, params: &Params) -> Result<JobOutput, Failure> {
    let (host, place) = Place::open(params)?;
    let output = run_at(job, params, &host, &place)?;
    if place.provider != CPU {
        return Ok(output);
    }
    let model = model_file(tree(job, "artefact")?)?;
    let written = job.out.join("optimised.onnx");
    let mut builder = place.builder(&host, params.threads)?.with_optimized_model_path(&written).map_err(plain)?;
    builder.commit_from_file(&model).map_err(plain)?;
    let casts = onnx_file::operators(&written)?.into_iter().filter(|operator| operator == "Cast").count();
    if casts > 0 {
        let reason = format!(
            "ONNX Runtime {} has no such kernels on the CPU: it put {casts} casts into the model and computes in fp32",
            host.version
        );
        return Err(Failure { facts: json!({"casts": casts}), ..Failure::new(JobStatus::Unsupported, reason) });
    }
    Ok(output)
}
