//! The context binary of a QNN artefact, and what goes into it and comes out: by the small ONNX file around it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::runtime::manifest::Manifest;
use crate::runtime::onnx_file;
use crate::runtime::onnx_proto::ValueInfoProto;
use crate::runtime::tensors::Element;

pub(super) struct Described {
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) shape: Vec<usize>,
}

pub(super) struct Prepared {
    pub(super) binary: PathBuf,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<Described>,
}

/// Reads the artefact. A model that is not one context as a whole is refused: its rest would run elsewhere.
pub(super) fn read(artefact: &Path, manifest: &Manifest) -> Result<Prepared> {
    let name = manifest
        .rest
        .get("model")
        .and_then(|name| name.as_str())
        .unwrap_or("model_ctx.onnx");
    let path = artefact.join(name);
    let graph = onnx_file::read(&path)?.graph.unwrap_or_default();
    let [node] = graph.node.as_slice() else {
        bail!(
            "`{name}` holds {} nodes, and a phone runs exactly one: the context",
            graph.node.len()
        );
    };
    let operator = node.op_type();
    ensure!(
        operator == "EPContext",
        "`{name}` holds the operator `{operator}`, and no context binary"
    );
    let attribute = |wanted: &str| node.attribute.iter().find(|given| given.name() == wanted);
    ensure!(
        attribute("embed_mode").and_then(|mode| mode.i).unwrap_or(1) == 0,
        "`{name}` holds its context within itself; it must lie beside (`ep.context_embed_mode` 0)"
    );
    let file =
        attribute("ep_cache_context").and_then(|file| String::from_utf8(file.s.clone()?).ok());
    let file = file.with_context(|| format!("`{name}` does not name its context binary"))?;
    ensure!(
        Path::new(&file)
            .file_name()
            .is_some_and(|own| own == &*file),
        "`{name}` keeps its context in `{file}`"
    );
    let binary = artefact.join(&file);
    ensure!(
        binary.is_file(),
        "the context binary `{}` is not there",
        binary.display()
    );
    let outputs = graph
        .output
        .iter()
        .map(described)
        .collect::<Result<Vec<_>>>()?;
    let inputs: Vec<_> = graph
        .input
        .iter()
        .filter_map(|input| input.name.clone())
        .collect();
    for name in inputs
        .iter()
        .chain(outputs.iter().map(|output| &output.name))
    {
        // A list of inputs has no quoting, and outputs are files of this name.
        let plain = !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        ensure!(
            plain,
            "qnn-net-run cannot be told of a tensor `{name}`: letters, digits, `_`, `.`, `-` it can"
        );
    }
    Ok(Prepared {
        binary,
        inputs,
        outputs,
    })
}

fn described(value: &ValueInfoProto) -> Result<Described> {
    let name = value.name().to_owned();
    let tensor = value.tensor();
    let number = tensor
        .and_then(|tensor| tensor.elem_type)
        .unwrap_or_default();
    let element = Element::of_onnx(number)
        .with_context(|| format!("output `{name}` has ONNX's element type {number}"))?;
    let dims = tensor
        .and_then(|tensor| tensor.shape.as_ref())
        .map(|shape| &shape.dim);
    let dims = dims.with_context(|| format!("output `{name}` tells no shape"))?;
    let shape: Option<Vec<usize>> = dims
        .iter()
        .map(|dim| usize::try_from(dim.dim_value?).ok())
        .collect();
    let shape = shape
        .with_context(|| format!("output `{name}` has an open size, and a context has none"))?;
    Ok(Described {
        name,
        element,
        shape,
    })
}
