//! The OpenVINO runtime: an IR (or ONNX) model on exactly the device that was requested, at exactly the precision.
//!
//! Nothing is left to OpenVINO's defaults that changes what a result means: on a CPU with AVX-512 BF16 it would compute an
//! fp32 model in bf16. The requested precision is read back from the compiled model, and a difference is an error, never a result.

mod api;
mod decoder;
mod options;
mod ports;
mod profile;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use api::Compiled;
use ports::Runner;

use super::control::declared::Declared;
use super::control::{self, Witness};
use super::generation;
use super::loops::{Component, Loop};
use super::manifest::Manifest;
use super::measure::{self, MeasureParams};
use super::refusal::Refusal;
use super::tensors::{self, Infer, Tensors};
use super::{InstalledPath, Job, JobOutput, JobStatus, RawMeasure, cpu};
use crate::openvino::{self, Core, Failure};

pub fn execute(job: &Job, progress: &dyn Fn(&str)) -> JobOutput {
    job.perform(
        "openvino",
        &[
            ("run", run),
            ("reference", reference),
            ("profile", profile::profile),
        ],
        progress,
    )
}

/// How infer returns: OpenVINO's synchronous call waits for every device itself.
const SYNC: &str = "ov_infer_request_infer, which returns when the outputs are complete";

/// The parameters of `run` and `profile`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// The C library.
    #[serde(skip_serializing_if = "InstalledPath::is_open")]
    pub library: InstalledPath,
    /// OpenVINO's name of the device: `CPU`, `GPU.0`, `NPU`, `AUTO`.
    pub device: String,
    pub inference_precision: InferencePrecision,
    #[serde(with = "measure::wanted")]
    pub measure: Option<MeasureParams>,
    /// Properties by their names in lower case.
    #[serde(default)]
    pub options: Map<String, Value>,
    /// The threads of the CPU; None leaves them to OpenVINO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LibraryParams {
    library: PathBuf,
}

/// The type that a device is to compute in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InferencePrecision {
    F32,
    F16,
    Bf16,
}

impl InferencePrecision {
    pub fn named(name: &str) -> Result<Self> {
        [Self::F32, Self::F16, Self::Bf16]
            .into_iter()
            .find(|precision| precision.names().0 == name)
            .with_context(|| format!("OpenVINO computes in no `{name}`"))
    }

    /// The value of the property, and the word in a device's capabilities that promises it.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::F32 => ("f32", "FP32"),
            Self::F16 => ("f16", "FP16"),
            Self::Bf16 => ("bf16", "BF16"),
        }
    }
}

fn run(job: &Job, progress: &dyn Fn(&str)) -> Result<JobOutput> {
    let params: Params = job.params()?;
    ensure!(
        !options::spreads(&params.device),
        "device `{}` lets OpenVINO spread the work; name one device, e.g. `CPU`, `GPU.0`, `NPU` or `AUTO`",
        params.device
    );
    let mut properties = options::properties(
        &params.options,
        params.inference_precision.names().0,
        params.threads,
    )?;
    let tree = job.artefact()?;

    let clock = Instant::now();
    let version = load_library(&params.library)?;
    let core = Core::new().context("OpenVINO does not start")?;
    if options::is_auto(&params.device) {
        properties.extend(
            options::AUTO
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
    } else {
        able(&core, &version, &params.device, params.inference_precision)?;
    }
    let supported = core.property(
        params.device.split(':').next().unwrap_or_default(),
        "SUPPORTED_PROPERTIES",
    )?;
    properties.extend(options::defaults(&params.options, &supported));
    let runtime_seconds = clock.elapsed().as_secs_f64();

    progress(&format!("compiling for {}", params.device));
    let target = Target {
        core: &core,
        params: &params,
        properties: &properties,
    };
    let (mut sessions, timings) = match Loop::read(tree)? {
        Some(looped) => target.run_loop(job, tree, &looped)?,
        None => target.run_one(job, tree)?,
    };
    let devices = sessions[0].devices.join(" ");
    for session in &sessions {
        let now = execution_devices(&session.runner.compiled)?.join(" ");
        ensure!(
            now == devices,
            "the model was compiled for {devices}, and then ran on {now}"
        );
        ensure!(
            session.precision == sessions[0].precision,
            "components are computed in different precisions"
        );
    }
    // The device that AUTO chose is known now; it too must compute in the requested precision.
    let (name, capabilities) = able(&core, &version, &devices, params.inference_precision)?;
    let mut raw = timings.on(SYNC, &params.device, &devices);
    // OpenVINO compiles a model as a whole for a device, so there is one piece per device.
    raw.placement = sessions[0]
        .devices
        .iter()
        .map(|device| (device.clone(), sessions.len() as u64))
        .collect();
    let seconds = |of: fn(&Session) -> f64| sessions.iter().map(of).sum::<f64>();
    let read = seconds(|session| session.read_seconds);
    let compile = seconds(|session| session.compile_seconds);
    let dynamic = sessions.iter().any(|session| session.dynamic);
    let session = &mut sessions[0];
    let mut facts = json!({
        "openvino": version,
        "device": {"id": devices, "name": name, "capabilities": capabilities},
        "precision": session.precision,
        "requested_properties": properties.iter().cloned().collect::<BTreeMap<_, _>>(),
        "properties": std::mem::take(&mut session.properties),
        "dynamic_shapes": dynamic,
        "seconds": {"start_runtime": runtime_seconds, "read": read, "compile": compile},
    });
    if let (Some(facts), true) = (facts.as_object_mut(), devices == "CPU") {
        cpu::note(facts);
    }
    Ok(JobOutput::ok(facts, Some(raw)))
}

/// What the models of a job are compiled for, and with which properties.
struct Target<'j> {
    core: &'j Core,
    params: &'j Params,
    properties: &'j [(String, String)],
}

impl Target<'_> {
    /// Measures one model, and writes its outputs. Gives its session.
    fn run_one(&self, job: &Job, tree: &Path) -> Result<(Vec<Session>, RawMeasure)> {
        let manifest = Manifest::read(tree)?;
        let inputs = tensors::read(&tree.join(tensors::INPUTS))?;
        let measure = self.params.measure.as_ref();
        let load = || self.load(tree, &manifest, &inputs);
        let (mut session, (), timings) = measure::run(measure, load, |session| {
            Ok(session.runner.request.infer()?)
        })
        .map_err(|error| classified(error, "failed to run the model"))?;

        // Read after the last inference, so that a session that corrupts its state is noticed.
        let runner = &mut session.runner;
        tensors::write(&job.out.join(tensors::OUTPUTS), &runner.outputs(&manifest)?)?;
        let mut infer = |inputs: &Tensors| runner.infer(&manifest, inputs);
        tensors::run_control(tree, &job.out, &mut infer)?;
        let open = |of| decoder::Cached::open(of, self);
        let decoding = generation::run_with_cache(job, tree, measure, open, &mut infer)?;
        Ok((vec![session], timings.and_decoding(decoding)))
    }

    /// The same of a compiled model for each component, and the loop that calls them.
    fn run_loop(
        &self,
        job: &Job,
        tree: &Path,
        looped: &Loop,
    ) -> Result<(Vec<Session>, RawMeasure)> {
        let inputs = tensors::read(&tree.join(tensors::INPUTS))?;
        let components = looped.components(tree)?;
        let open = |Component { tree, manifest, .. }: &Component| {
            self.load(tree, manifest, &tensors::read(&tree.join(tensors::INPUTS))?)
        };
        let infer = |session: &mut Session, manifest: &Manifest, inputs: &Tensors| {
            session.runner.infer(manifest, inputs)
        };
        let (mut sessions, outputs, timings) = looped
            .measure(
                &components,
                &inputs,
                self.params.measure.as_ref(),
                open,
                infer,
            )
            .map_err(|error| classified(error, "failed to run the model"))?;
        looped.write(job, tree, outputs, |inputs| {
            looped.run_loaded(&mut sessions, inputs, infer)
        })?;
        Ok((
            sessions.into_values().map(|(_, session)| session).collect(),
            timings,
        ))
    }

    fn load(&self, tree: &Path, manifest: &Manifest, inputs: &Tensors) -> Result<Session> {
        let Self {
            core,
            params,
            properties,
        } = self;
        let clock = Instant::now();
        let ir = tree.join("model.xml");
        let onnx = tree.join("model.onnx");
        let model = if ir.is_file() {
            core.read(&ir, Some(&tree.join("model.bin")))
                .context("failed to read model.xml")?
        } else if onnx.is_file() {
            core.read(&onnx, None)
                .map_err(unread)
                .context("failed to read model.onnx")?
        } else {
            bail!(
                "`{}` holds neither model.xml nor model.onnx",
                tree.display()
            );
        };
        let dynamic = model.is_dynamic();
        let read_seconds = clock.elapsed().as_secs_f64();

        let clock = Instant::now();
        let compiled = core
            .compile(&model, &params.device, properties)
            .with_context(|| format!("failed to compile for {}", params.device))?;
        let devices = placed(&compiled, &params.device)?;
        let in_force = options::read_back(&compiled);
        options::check_in_force(properties, &in_force)?;
        let runner = Runner::of(compiled, manifest, inputs)?;
        let precision = match runner.compiled.property(options::PRECISION) {
            Ok(precision) => precision,
            // AUTO passes the hint on and does not report it; only the outputs show it.
            Err(_) if options::is_auto(&params.device) => {
                format!(
                    "{} asked, and AUTO does not tell",
                    params.inference_precision.names().0
                )
            }
            Err(error) => {
                return Err(error.context("OpenVINO does not tell the precision in force"));
            }
        };
        let compile_seconds = clock.elapsed().as_secs_f64();
        Ok(Session {
            runner,
            devices,
            precision,
            properties: in_force,
            dynamic,
            read_seconds,
            compile_seconds,
        })
    }
}

const BY: Witness = Witness {
    name: "openvino cpu",
    is_tested: true,
};

/// `reference`: what a ready IR gives on the control's inputs, on the CPU in fp32.
fn reference(job: &Job, _: &dyn Fn(&str)) -> Result<JobOutput> {
    let LibraryParams { library } = job.params()?;
    let tree = job.artefact()?;
    let version = load_library(&library)?;
    let core = Core::new().context("OpenVINO does not start")?;
    let start = |manifest: &Manifest| {
        let manifest = manifest.clone();
        let inputs = tensors::read(&tree.join(tensors::INPUTS))?;
        let mut properties =
            options::properties(&Map::new(), InferencePrecision::F32.names().0, None)?;
        properties.push(options::exact());
        let model = core.read(&tree.join("model.xml"), Some(&tree.join("model.bin")))?;
        let compiled = core.compile(&model, "CPU", &properties)?;
        let mut runner = Runner::of(compiled, &manifest, &inputs)?;
        Ok(Box::new(move |inputs: &Tensors| runner.infer(&manifest, inputs)) as Box<Infer<'_>>)
    };
    let mut facts = control::reference(tree, &job.out, &BY, &Declared::default(), start)?;
    facts.insert("openvino".to_owned(), json!(version));
    Ok(JobOutput::ok(Value::Object(facts), None))
}

/// A compiled model that can infer, and what it says of itself.
struct Session {
    runner: Runner,
    devices: Vec<String>,
    precision: String,
    properties: Map<String, Value>,
    dynamic: bool,
    read_seconds: f64,
    compile_seconds: f64,
}

/// The devices that the compiled model executes on: the one that was requested.
fn placed(compiled: &Compiled, device: &str) -> Result<Vec<String>> {
    let devices = execution_devices(compiled)?;
    let is_placed = if options::is_auto(device) {
        devices.len() == 1
    } else {
        options::is_placed(&devices, device)
    };
    ensure!(
        is_placed,
        "the model was asked onto {device}, and OpenVINO placed it on {}",
        devices.join(" ")
    );
    Ok(devices)
}

/// The devices that the compiled model reports. AUTO puts a device in brackets that is only temporary.
fn execution_devices(compiled: &Compiled) -> Result<Vec<String>> {
    let list = compiled
        .property("EXECUTION_DEVICES")
        .context("OpenVINO does not say where the model would run")?;
    Ok(list
        .split([' ', ','])
        .filter(|device| !device.is_empty())
        .map(str::to_owned)
        .collect())
}

/// Name and capabilities of a device that is there and computes in the requested precision.
fn able(
    core: &Core,
    version: &str,
    device: &str,
    precision: InferencePrecision,
) -> Result<(String, Vec<String>)> {
    let (name, capabilities) = describe(core, version, device)?;
    let capability = precision.names().1;
    if !capabilities.iter().any(|known| known == capability) {
        return Err(Refusal::unavailable(format!(
            "{name} ({device}) does not infer in {capability}; OpenVINO {version} says it can: {}",
            capabilities.join(" ")
        )));
    }
    Ok((name, capabilities))
}

fn load_library(library: &Path) -> Result<String> {
    if !library.is_file() {
        return Err(Refusal::unavailable(format!(
            "no OpenVINO library at `{}`; it comes with the Python package openvino, as openvino/libs/libopenvino_c.so.*",
            library.display()
        )));
    }
    // A file that is there and does not load is unavailable too: a library it needs is missing, or it is too old.
    openvino::load(library)
        .map_err(|error| Refusal::unavailable(format!("OpenVINO does not load: {error:#}")))
}

/// The device's own name and what it can, or why it is not there.
fn describe(core: &Core, version: &str, device: &str) -> Result<(String, Vec<String>)> {
    let absent = |error: anyhow::Error| {
        // A plugin that loads and finds nothing answers this with an empty list, and the other with an odd error.
        let family = device.split('.').next().unwrap_or(device);
        let why = match core.property(family, "AVAILABLE_DEVICES") {
            Ok(ids) if ids.trim().is_empty() => {
                format!("its {family} plugin finds no chip with a driver")
            }
            _ => format!("{error:#}"),
        };
        Refusal::unavailable(format!(
            "OpenVINO {version} has no device {device} here: {why}"
        ))
    };
    let name = core.property(device, "FULL_DEVICE_NAME").map_err(absent)?;
    let capabilities = core
        .property(device, "OPTIMIZATION_CAPABILITIES")
        .map_err(absent)?;
    Ok((
        name.trim().to_owned(),
        capabilities
            .split([' ', ','])
            .filter(|c| !c.is_empty())
            .map(str::to_owned)
            .collect(),
    ))
}

/// What OpenVINO's ONNX frontend says of a model that it does not take is its refusal: the file is a model, which others
/// have read by now.
fn unread(error: anyhow::Error) -> anyhow::Error {
    let Some(failure) = error.downcast_ref::<Failure>() else {
        return error;
    };
    let status = options::status_of(failure).unwrap_or(JobStatus::Unsupported);
    Refusal::because(
        status,
        format!("OpenVINO does not convert the model: {failure}"),
    )
}

/// OpenVINO's own word for a missing operator or for memory, as the status that says so.
fn classified(error: anyhow::Error, doing: &'static str) -> anyhow::Error {
    match error.downcast_ref::<Failure>().and_then(options::status_of) {
        Some(status) => Refusal::because(status, format!("{doing}: {error:#}")),
        None => error.context(doing),
    }
}
