//! Loops: what calls the components of a model that is made of several. The head of `python/orch_py/generate/loops.py` says what a
//! loop may hold.
//!
//! It knows neither runtimes nor what a loop is good for: whoever runs it brings the components.

mod ops;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use super::manifest::Manifest;
use super::measure::{self, MeasureParams};
use super::tensors::{self, Tensors};
use super::{Job, RawMeasure, generation};
use crate::base::Bug;

/// The file of a model, and of an artefact, with components.
pub const FILE: &str = "loop.json";
pub const CONSTANTS: &str = "loop.safetensors";
/// The folder in those trees that has a folder for each component.
pub const COMPONENTS: &str = "components";

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    outputs: Vec<String>,
    /// The output that is text.
    #[serde(default)]
    generates: Option<String>,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Step {
    Call(Call),
    Compute(ops::Compute),
}

#[derive(Debug, Clone, Deserialize)]
struct Call {
    call: String,
    /// Values by the component's inputs.
    with: BTreeMap<String, String>,
    /// The component's outputs by the values that they become.
    gives: BTreeMap<String, String>,
}

/// A loop with its constants.
#[derive(Debug, Clone)]
pub struct Loop {
    written: Written,
    constants: Tensors,
}

#[derive(Debug)]
pub struct Component {
    pub name: String,
    pub tree: PathBuf,
    pub manifest: Manifest,
}

/// Components by name, each with what a runtime made of it.
pub type Loaded<'c, S> = BTreeMap<&'c str, (&'c Component, S)>;

impl Loop {
    /// The loop of an artefact; None where that is one model.
    pub fn read(tree: &Path) -> anyhow::Result<Option<Self>> {
        let path = tree.join(FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("failed to read `{}`", path.display()))?;
        let written = serde_json::from_str(&text)
            .with_context(|| format!("`{}` is no loop", path.display()))?;
        Ok(Some(Self {
            written,
            constants: tensors::read(&tree.join(CONSTANTS))?,
        }))
    }

    /// All that it calls, in the order of their names.
    pub fn components(&self, tree: &Path) -> anyhow::Result<Vec<Component>> {
        let calls = self.written.steps.iter().filter_map(|step| match step {
            Step::Call(call) => Some(call.call.as_str()),
            Step::Compute(_) => None,
        });
        let names: BTreeSet<_> = calls.collect();
        let component = |name: &str| {
            let tree = tree.join(COMPONENTS).join(name);
            let manifest = Manifest::read(&tree).with_context(|| format!("component `{name}`"))?;
            Ok(Component {
                name: name.to_owned(),
                tree,
                manifest,
            })
        };
        names.into_iter().map(component).collect()
    }

    /// Its outputs on `inputs`. `call` gives the outputs of a component, by name, on exactly these tensors.
    fn run(
        &self,
        inputs: &Tensors,
        mut call: impl FnMut(&str, Tensors) -> anyhow::Result<Tensors>,
    ) -> anyhow::Result<Tensors> {
        let mut values = inputs.clone();
        values.extend(self.constants.clone());
        for (number, step) in self.written.steps.iter().enumerate() {
            take(step, &mut values, &mut call)
                .with_context(|| format!("step {} of the loop", number + 1))?;
        }
        let outputs = self.written.outputs.iter();
        outputs
            .map(|name| Ok((name.clone(), find(&values, name)?.clone())))
            .collect()
    }

    /// Loads every component by `open`, and measures the whole loop. `infer` gives a component's outputs on exactly its inputs.
    pub fn measure<'c, S>(
        &self,
        components: &'c [Component],
        inputs: &Tensors,
        params: Option<&MeasureParams>,
        open: impl Fn(&Component) -> anyhow::Result<S>,
        infer: impl Fn(&mut S, &Manifest, &Tensors) -> anyhow::Result<Tensors>,
    ) -> anyhow::Result<(Loaded<'c, S>, Tensors, RawMeasure)> {
        let open = |component: &'c Component| {
            let session =
                open(component).with_context(|| format!("component `{}`", component.name))?;
            Ok((component.name.as_str(), (component, session)))
        };
        let load = || components.iter().map(open).collect::<anyhow::Result<_>>();
        measure::run(params, load, |loaded| {
            self.run_loaded(loaded, inputs, &infer)
        })
    }

    /// Its outputs on `inputs`, by components that are loaded.
    pub fn run_loaded<S>(
        &self,
        loaded: &mut Loaded<'_, S>,
        inputs: &Tensors,
        infer: impl Fn(&mut S, &Manifest, &Tensors) -> anyhow::Result<Tensors>,
    ) -> anyhow::Result<Tensors> {
        self.run(inputs, |name, given| {
            let (component, session) = loaded
                .get_mut(name)
                .context(Bug::new("every component was loaded"))?;
            infer(session, &component.manifest, &taken(component, given)?)
        })
    }

    /// Writes the outputs of a run, and runs the loop on the control's inputs.
    pub fn write(
        &self,
        job: &Job,
        artefact: &Path,
        mut outputs: Tensors,
        mut again: impl FnMut(&Tensors) -> anyhow::Result<Tensors>,
    ) -> anyhow::Result<()> {
        let text = |outputs: &mut Tensors| {
            self.written
                .generates
                .as_ref()
                .and_then(|name| outputs.remove(name))
        };
        if let Some(tokens) = text(&mut outputs) {
            generation::write(
                &job.out,
                tokens,
                &generation::Decoded::without_cache(generation::IN_A_LOOP),
            )?;
        }
        tensors::write(&job.out.join(tensors::OUTPUTS), &outputs)?;
        tensors::run_control(artefact, &job.out, |inputs| {
            let mut outputs = again(inputs)?;
            text(&mut outputs);
            Ok(outputs)
        })
    }
}

fn take(
    step: &Step,
    values: &mut Tensors,
    call: &mut impl FnMut(&str, Tensors) -> anyhow::Result<Tensors>,
) -> anyhow::Result<()> {
    let Call {
        call: component,
        with,
        gives,
    } = match step {
        Step::Call(call) => call,
        Step::Compute(compute) => {
            let made = compute.run(values)?;
            values.insert(compute.gives.clone(), made);
            return Ok(());
        }
    };
    let given = with
        .iter()
        .map(|(name, value)| Ok((name.clone(), find(values, value)?.clone())));
    let given = given.collect::<anyhow::Result<_>>()?;
    let mut made = call(component, given).with_context(|| format!("component `{component}`"))?;
    for (value, name) in gives {
        let tensor = made
            .remove(name)
            .with_context(|| format!("component `{component}` gives no `{name}`"))?;
        values.insert(value.clone(), tensor);
    }
    Ok(())
}

fn find<'t>(values: &'t Tensors, name: &str) -> anyhow::Result<&'t tensors::Tensor> {
    values
        .get(name)
        .with_context(|| format!("there is no value `{name}`"))
}

/// How an exporter calls an input that has the name of an output (`python/orch_py/export/onnx_routes.py`).
const RENAMED: &str = "input.";

/// What the component takes of what the loop gives it: an exporter leaves out inputs that change nothing.
fn taken(component: &Component, mut given: Tensors) -> anyhow::Result<Tensors> {
    let one = |name: &String| {
        let own = given
            .remove(name)
            .or_else(|| given.remove(name.strip_prefix(RENAMED)?));
        let tensor = own
            .with_context(|| format!("its artefact takes {name}, which the loop does not give"))?;
        Ok((name.clone(), tensor))
    };
    component.manifest.inputs.iter().map(one).collect()
}

#[cfg(test)]
mod tests;
