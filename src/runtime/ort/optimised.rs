//! The graph as ONNX Runtime executes it on the CPU, after all of its optimisations.

use ::ort::session::Session;
use ::ort::session::builder::SessionBuilder;
use anyhow::Context;

use super::Params;
use super::host::{CPU, Host, plain};
use super::place::Place;
use crate::runtime::onnx_file;
use crate::runtime::onnx_proto::NodeProto;

/// Its nodes. `commit` loads the model, from wherever it is.
pub(super) fn nodes(
    host: &Host,
    params: &Params,
    commit: impl FnOnce(&mut SessionBuilder) -> ::ort::Result<Session>,
) -> anyhow::Result<Vec<NodeProto>> {
    let folder = tempfile::Builder::new().prefix("optimised-").tempdir_in(".").context("failed to make a folder")?;
    let written = folder.path().join("optimised.onnx");
    let place = Place::new(CPU, "cpu", "cpu");
    let mut builder = place.builder(host, params.threads)?.with_optimized_model_path(&written).map_err(plain)?;
    // Weights go beside the graph: a message of protobuf ends at 2 GiB.
    for (key, value) in [
        ("session.optimized_model_external_initializers_file_name", "weights"),
        ("session.optimized_model_external_initializers_min_size_in_bytes", "1024"),
    ] {
        builder = builder.with_config_entry(key, value).map_err(plain)?;
    }
    commit(&mut builder).map_err(plain)?;
    Ok(onnx_file::read(&written)?.graph.unwrap_or_default().node)
}
