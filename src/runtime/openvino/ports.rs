//! A compiled model's inputs and outputs by the manifest's names.

use anyhow::{Context, Result, bail, ensure};

use super::api::{Compiled, Port, Request};
use crate::runtime::manifest::Manifest;
use crate::runtime::tensors::Tensors;

/// The tree and the model agree on every input by name and type, and on the outputs by number and order.
fn check(compiled: &Compiled, manifest: &Manifest, inputs: &Tensors) -> Result<()> {
    let names: Vec<_> = compiled
        .inputs()?
        .iter()
        .map(|port| port.name().unwrap_or_default())
        .collect();
    ensure!(
        names.len() == manifest.inputs.len(),
        "the manifest names {} inputs and the model takes {}: {}",
        manifest.inputs.len(),
        names.len(),
        names.join(", ")
    );
    for (index, name) in manifest.inputs.iter().enumerate() {
        let tensor = inputs
            .get(name)
            .with_context(|| format!("inputs.safetensors lacks the input `{name}`"))?;
        let port = input_port(compiled, manifest, index).with_context(|| {
            format!(
                "the model has no input `{name}`; it takes: {}",
                names.join(", ")
            )
        })?;
        let element = port.element()?;
        ensure!(
            element == tensor.element(),
            "input `{name}` is {} and the model takes {}",
            tensor.element().word(),
            element.word()
        );
    }
    let ports: Vec<_> = compiled.outputs()?.iter().map(|port| port.name()).collect();
    // Of a ready file's outputs some may be compared; then its name identifies each.
    let is_part = manifest
        .outputs
        .iter()
        .all(|name| compiled.output_named(name).is_ok());
    ensure!(
        ports.len() == manifest.outputs.len() || (ports.len() > manifest.outputs.len() && is_part),
        "the manifest names {} outputs and the model makes {}",
        manifest.outputs.len(),
        ports.len()
    );
    for (name, port) in manifest
        .outputs
        .iter()
        .zip(&ports)
        .filter(|_| ports.len() == manifest.outputs.len())
    {
        // A port may have another name or none; one that bears another output's name shows that the order is wrong.
        if let Some(port) = port
            .as_ref()
            .filter(|port| *port != name && manifest.outputs.contains(port))
        {
            bail!(
                "the manifest calls `{name}` what the model calls `{port}`: its outputs are in another order"
            );
        }
    }
    Ok(())
}

/// The port of an output: by its place, where all are compared, or by its name.
pub(super) fn output_port(compiled: &Compiled, manifest: &Manifest, index: usize) -> Result<Port> {
    let mut ports = compiled.outputs()?;
    match ports.len() == manifest.outputs.len() {
        true => Ok(ports.swap_remove(index)),
        false => compiled.output_named(&manifest.outputs[index]),
    }
}

/// The port of an input by its name. One that the model hands on as an output may be left with the output's name alone: it
/// is found by its place, where that bears no other input's name.
pub(super) fn input_port(compiled: &Compiled, manifest: &Manifest, index: usize) -> Result<Port> {
    compiled
        .input_named(&manifest.inputs[index])
        .or_else(|error| {
            let port = compiled.inputs()?.into_iter().nth(index);
            let is_another = |port: &Port| {
                port.name()
                    .is_some_and(|name| manifest.inputs.contains(&name))
            };
            port.filter(|port| !is_another(port)).ok_or(error)
        })
}

/// A compiled model that can infer. Fields are dropped in this order.
pub(super) struct Runner {
    pub(super) request: Request,
    pub(super) compiled: Compiled,
}

impl Runner {
    /// Ports of a model that agrees with its manifest, ready for an inference on `inputs`.
    pub(super) fn of(compiled: Compiled, manifest: &Manifest, inputs: &Tensors) -> Result<Self> {
        check(&compiled, manifest, inputs)?;
        let mut runner = Self {
            request: compiled.request()?,
            compiled,
        };
        runner.set_inputs(manifest, inputs)?;
        Ok(runner)
    }

    fn set_inputs(&mut self, manifest: &Manifest, inputs: &Tensors) -> Result<()> {
        for (index, name) in manifest.inputs.iter().enumerate() {
            let port = input_port(&self.compiled, manifest, index)?;
            self.request
                .set_input(&port, &inputs[name])
                .with_context(|| format!("input `{name}`"))?;
        }
        Ok(())
    }

    /// The outputs of one inference.
    pub(super) fn infer(&mut self, manifest: &Manifest, inputs: &Tensors) -> Result<Tensors> {
        self.set_inputs(manifest, inputs)?;
        self.request.infer()?;
        self.outputs(manifest)
    }

    /// The outputs from the memory that the last inference wrote.
    pub(super) fn outputs(&self, manifest: &Manifest) -> Result<Tensors> {
        let output = |(index, name): (usize, &String)| {
            let tensor = output_port(&self.compiled, manifest, index)
                .and_then(|port| self.request.output(&port));
            Ok((
                name.clone(),
                tensor.with_context(|| format!("output `{name}`"))?,
            ))
        };
        manifest.outputs.iter().enumerate().map(output).collect()
    }
}
