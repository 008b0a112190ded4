//! Running a model of several: a compiled model for each component, and the loop that calls them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::{RunParams, Session, classified, load, ports};
use crate::openvino::Core;
use crate::runtime::Job;
use crate::runtime::loops::{self, Component, Loop};
use crate::runtime::measure::{self, Timings};
use crate::runtime::tensors::{self, Tensors};

type Sessions<'c> = BTreeMap<&'c str, (&'c Component, Session)>;

/// Measures the whole loop, and writes its outputs. Gives the sessions that it used.
pub(super) fn run(
    job: &Job,
    core: &Core,
    tree: &Path,
    looped: &Loop,
    params: &RunParams,
    properties: &[(String, String)],
) -> Result<(Vec<Session>, Timings)> {
    let inputs = tensors::read(&tree.join(tensors::INPUTS))?;
    let components = looped.components(tree)?;
    let open = |component: &Component| {
        let own = tensors::read(&component.tree.join(tensors::INPUTS))?;
        load(core, &component.tree, &component.manifest, &own, params, properties)
            .with_context(|| format!("component `{}`", component.name))
    };
    let load =
        || components.iter().map(|component| Ok((component.name.as_str(), (component, open(component)?)))).collect();
    let (mut sessions, outputs, timings) =
        measure::run(params.measure.as_ref(), load, |sessions| once(looped, sessions, &inputs))
            .map_err(|error| classified(error, "failed to run the model"))?;
    looped.write(job, tree, outputs, |inputs| once(looped, &mut sessions, inputs))?;
    Ok((sessions.into_values().map(|(_, session)| session).collect(), timings))
}

fn once(looped: &Loop, sessions: &mut Sessions<'_>, inputs: &Tensors) -> Result<Tensors> {
    looped.run(inputs, |name, given| {
        let (component, Session { request, compiled, .. }) =
            sessions.get_mut(name).context("BUG: every component was loaded")?;
        ports::set_inputs(request, compiled, &component.manifest, &loops::taken(component, given)?)?;
        request.infer()?;
        ports::outputs(request, compiled, &component.manifest)
    })
}
