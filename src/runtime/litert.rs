//! The LiteRT runtime: a .tflite model on the CPU, by the C library of the wheel `ai-edge-litert`.
//!
//! LiteRT gives what XNNPACK takes to XNNPACK, and the rest to kernels of its own, on the same CPU. Which operators those
//! are is counted by LiteRT's profiler, in an inference of a model that is compiled once more for it.

mod api;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use api::{Compiled, Failure, Model, Port, Table};

use super::generation;
use super::manifest::Manifest;
use super::measure::{self, MeasureParams};
use super::refusal::Refusal;
use super::tensors::{self, Tensors};
use super::{InstalledPath, Job, JobOutput, cpu};

pub fn execute(job: &Job, progress: &dyn Fn(&str)) -> JobOutput {
    job.perform("litert", &[("run", run)], progress)
}

const SYNC: &str = "LiteRtRunCompiledModel, which returns when the outputs are complete";
const DEVICE: &str = "cpu";
/// How the folder with the metadata of the wheel begins.
const WHEEL: &str = "ai_edge_litert-";

/// The parameters of `run`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// libLiteRt.so
    #[serde(skip_serializing_if = "InstalledPath::is_open")]
    pub library: InstalledPath,
    pub device: String,
    #[serde(with = "measure::wanted")]
    pub measure: Option<MeasureParams>,
    #[serde(default)]
    pub options: Options,
}

/// The options of a target.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The threads of XNNPACK; as many as the process may use where nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_threads: Option<NonZero<usize>>,
}

impl Options {
    /// The options as a spec has them.
    pub fn of(given: &serde_json::Map<String, Value>) -> Result<Self> {
        Self::deserialize(given).context("an option of LiteRT is wrong")
    }
}

fn run(job: &Job, progress: &dyn Fn(&str)) -> Result<JobOutput> {
    let params: Params = job.params()?;
    ensure!(
        params.device == DEVICE,
        "LiteRT has no device `{}` here; known: `{DEVICE}`",
        params.device
    );
    let threads = params
        .options
        .num_threads
        .map_or_else(std::thread::available_parallelism, Ok);
    let threads = threads
        .context("the system does not say how many threads there are")?
        .get();
    let tree = job.artefact()?;
    let manifest = Manifest::read(tree)?;
    let inputs = tensors::read(&tree.join(tensors::INPUTS))?;
    let version = version(&params.library)?;

    let clock = Instant::now();
    let table = Rc::new(Table::load(&params.library)?);
    let runtime_seconds = clock.elapsed().as_secs_f64();

    progress("compiling");
    let load = || {
        let model = Rc::new(Model::read(Rc::clone(&table), &tree.join("model.tflite"))?);
        let ports = Ports::of(&model, &manifest)?;
        let mut compiled = model.compile(threads, false)?;
        ports.set_inputs(&mut compiled, &inputs)?;
        Ok(Session { ports, compiled })
    };
    let (
        Session {
            ports,
            mut compiled,
        },
        (),
        timings,
    ) = measure::run(params.measure.as_ref(), load, |session| {
        Ok(session.compiled.run()?)
    })
    .map_err(classified)?;

    // Read after the last inference, so that a session that corrupts its state is noticed.
    tensors::write(&job.out.join(tensors::OUTPUTS), &ports.outputs(&compiled)?)?;
    let mut infer = |inputs: &Tensors| {
        ports.set_inputs(&mut compiled, inputs)?;
        compiled.run()?;
        ports.outputs(&compiled)
    };
    tensors::run_control(tree, &job.out, &mut infer)?;
    generation::run(job, tree, &mut infer)?;

    let mut profiled = compiled
        .of
        .compile(threads, true)
        .map_err(|failure| classified(failure.into()))?;
    ports.set_inputs(&mut profiled, &inputs)?;
    let placed = Placed::of(&profiled.profile()?)?;
    ensure!(
        placed.half == 0,
        "XNNPACK computes {} operators in fp16, and was not told to",
        placed.half
    );
    let mut facts = json!({
        "litert": version,
        "device": {"id": DEVICE},
        "threads": threads,
        "outside_xnnpack": placed.outside,
        "seconds": {"start_runtime": runtime_seconds},
    });
    if let Some(facts) = facts.as_object_mut() {
        cpu::note(facts);
        if manifest
            .rest
            .get("precision")
            .is_some_and(|precision| precision == "fp16")
        {
            let note = format!(
                "LiteRT {version} widens the fp16 weights, and computed all operators in fp32"
            );
            facts.insert("cast_to_fp32".to_owned(), note.into());
        }
    }
    let mut raw = timings.on(SYNC, &params.device, DEVICE);
    raw.placement = placed.counts();
    Ok(JobOutput::ok(facts, Some(raw)))
}

/// The version of the wheel that holds the library, from the metadata folder beside it. The library itself does not
/// tell, and calling another version would be undefined behaviour.
fn version(library: &Path) -> Result<String> {
    let absent = |why: String| {
        Refusal::unavailable(format!(
            "LiteRT at `{}` cannot be used: {why}",
            library.display()
        ))
    };
    let site = library.ancestors().nth(2).filter(|_| library.is_file());
    let site = site.ok_or_else(|| absent("it is not there".to_owned()))?;
    let entries = site
        .read_dir()
        .with_context(|| format!("failed to read `{}`", site.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let version = names
        .filter_map(|name| {
            Some(
                name.strip_prefix(WHEEL)?
                    .strip_suffix(".dist-info")?
                    .to_owned(),
            )
        })
        .next();
    match version {
        Some(version) if version == api::VERSION => Ok(version),
        Some(other) => Err(absent(format!(
            "it is version {other}, and orch knows how to call {}",
            api::VERSION
        ))),
        None => Err(absent(format!(
            "no `{WHEEL}….dist-info` says of which version it is"
        ))),
    }
}

/// A model that can run on the inputs that it was given.
struct Session<'a> {
    ports: Ports<'a>,
    compiled: Compiled,
}

/// The positions of the manifest's inputs and outputs in the model's own order.
struct Ports<'a> {
    inputs: Vec<(&'a str, usize)>,
    outputs: Vec<(&'a str, usize)>,
}

impl<'a> Ports<'a> {
    /// The model calls its inputs by their places, and its outputs as the manifest does, or by another name of the same
    /// tensor (`shared`).
    fn of(model: &Model, manifest: &'a Manifest) -> Result<Self> {
        let shared: Vec<Vec<String>> = match manifest.rest.get("shared") {
            Some(shared) => {
                serde_json::from_value(shared.clone()).context("`shared` of the manifest")?
            }
            None => Vec::new(),
        };
        let is_same = |a: &String, b: &String| {
            a == b
                || shared
                    .iter()
                    .any(|names| names.contains(a) && names.contains(b))
        };
        let placed = |names: &'a [String], known: &[String], ports: &[Port]| {
            ensure!(
                names.len() == ports.len(),
                "the manifest names {names:?}, and the model has {ports:?}"
            );
            let found = names.iter().zip(known).map(|(name, known)| {
                // Of buffers for one tensor LiteRT fills the last.
                let index = ports.iter().rposition(|port| is_same(&port.name, known));
                let absent =
                    || format!("the model has no `{known}`, which is `{name}`; it has {ports:?}");
                Ok((name.as_str(), index.with_context(absent)?))
            });
            found.collect::<Result<Vec<_>>>()
        };
        let places: Vec<_> = (0..manifest.inputs.len())
            .map(|place| format!("args_{place}"))
            .collect();
        Ok(Self {
            inputs: placed(&manifest.inputs, &places, &model.inputs)?,
            outputs: placed(&manifest.outputs, &manifest.outputs, &model.outputs)?,
        })
    }

    fn set_inputs(&self, compiled: &mut Compiled, inputs: &Tensors) -> Result<()> {
        for (name, index) in &self.inputs {
            let tensor = inputs
                .get(*name)
                .with_context(|| format!("the inputs lack `{name}`"))?;
            let port = &compiled.of.inputs[*index];
            ensure!(
                (tensor.element(), tensor.shape()) == (port.element, &*port.shape),
                "input `{name}` is {} {:?} and the model takes {} {:?}",
                tensor.element().word(),
                tensor.shape(),
                port.element.word(),
                port.shape
            );
            compiled
                .set_input(*index, tensor)
                .with_context(|| format!("input `{name}`"))?;
        }
        Ok(())
    }

    fn outputs(&self, compiled: &Compiled) -> Result<Tensors> {
        let output =
            |(name, index): &(&str, usize)| Ok(((*name).to_owned(), compiled.output(*index)?));
        self.outputs.iter().map(output).collect()
    }
}

/// Who executed the operators of an inference.
#[derive(Debug, PartialEq)]
struct Placed {
    /// Operators of XNNPACK's own, after it joined some.
    xnnpack: u64,
    /// Those of them that compute in half precision, which XNNPACK does only on request.
    half: u64,
    /// Operators of the model that LiteRT's kernels executed, by type.
    outside: BTreeMap<String, u64>,
}

impl Placed {
    /// Reads the first table of LiteRT's profile, a line for each operator: its type first, then figures, then whose it
    /// is.
    fn of(summary: &str) -> Result<Self> {
        let mut placed = Self {
            xnnpack: 0,
            half: 0,
            outside: BTreeMap::new(),
        };
        let in_order = summary
            .lines()
            .skip_while(|line| !line.contains(" Run Order "))
            .skip(1);
        for line in in_order.take_while(|line| !line.starts_with("====")) {
            let mut words = line.split_whitespace();
            match (words.next(), words.next_back()) {
                (Some(_), Some(last)) if last.starts_with("[Delegate]:") => {
                    placed.xnnpack += 1;
                    placed.half += u64::from(line.contains("F16"));
                }
                (Some(kind), Some(last)) if last.starts_with("[Builtin]:") => {
                    *placed.outside.entry(kind.to_owned()).or_default() += 1;
                }
                _ => {}
            }
        }
        if placed.xnnpack == 0 && placed.outside.is_empty() {
            bail!("LiteRT's profile names no operator: {summary}");
        }
        Ok(placed)
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let counts = [
            ("XNNPACK", self.xnnpack),
            ("LiteRT", self.outside.values().sum()),
        ];
        counts
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    }
}

/// LiteRT's own status for a missing operator or for memory, as the status that says so.
fn classified(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref().and_then(Failure::status) {
        Some(status) => Refusal::because(status, format!("{error:#}")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::runtime::JobStatus;

    const SUMMARY: &str = "\
============== Run Order ==============
    [node type]    [start]    [first]   [avg ms]        [%]     [cdf%]   [mem KB] [times called]   [Name]
        RESHAPE      0.000      0.001      0.001     1.000%     1.000%      0.000              1   [Builtin]:0
      SELECT_V2      0.001      0.001      0.001     1.000%     2.000%      0.000              1   [Builtin]:1
      SELECT_V2      0.001      0.001      0.001     1.000%     2.000%      0.000              1   [Builtin]:9
  Delegate/Static Reshape (NC)      0.000      0.011      0.011    11.000%    28.000%      0.000              1   [Delegate]:0
  Delegate/Fully Connected (NC, F16) GEMM  0.000  0.011   0.011    11.000%    28.000%      0.000              1   [Delegate]:1

============== Top by Computation Time ==============
    [node type]    [start]    [first]   [avg ms]        [%]     [cdf%]   [mem KB] [times called]   [Name]
        RESHAPE      0.000      0.001      0.001     1.000%     1.000%      0.000              1   [Builtin]:0
";

    #[test]
    fn operators_outside_xnnpack_are_counted_once_by_type() {
        let placed = Placed::of(SUMMARY).unwrap();
        assert_eq!(
            placed.outside,
            [("RESHAPE".to_owned(), 1), ("SELECT_V2".to_owned(), 2)].into()
        );
        assert_eq!(
            placed.counts(),
            [("LiteRT".to_owned(), 3), ("XNNPACK".to_owned(), 2)].into()
        );
        assert_eq!(placed.half, 1);
    }

    #[test]
    fn a_profile_that_holds_nothing_is_an_error() {
        let error = Placed::of("===== Summary =====\n").unwrap_err().to_string();
        assert!(
            error.starts_with("LiteRT's profile names no operator"),
            "{error}"
        );
    }

    #[test]
    fn a_library_of_another_version_is_not_called() {
        let site = tempfile::tempdir().unwrap();
        let library = site.path().join("ai_edge_litert/libLiteRt.so");
        let result = || version(&library).map_err(|error| error.to_string());
        assert!(
            result()
                .unwrap_err()
                .ends_with("cannot be used: it is not there")
        );
        std::fs::create_dir(library.parent().unwrap()).unwrap();
        std::fs::write(&library, "").unwrap();
        assert!(
            result()
                .unwrap_err()
                .contains("no `ai_edge_litert-….dist-info`")
        );
        let metadata = |version: &str| {
            site.path()
                .join(format!("ai_edge_litert-{version}.dist-info"))
        };
        std::fs::create_dir(metadata("2.1.4")).unwrap();
        assert!(
            result()
                .unwrap_err()
                .contains("it is version 2.1.4, and orch knows how to call 2.3.0")
        );
        std::fs::rename(metadata("2.1.4"), metadata("2.3.0")).unwrap();
        assert_eq!(result(), Ok("2.3.0".to_owned()));
    }

    #[test]
    fn an_unknown_option_and_another_device_are_refused() {
        let job = |params: Value| Job {
            op: "run".to_owned(),
            params,
            ..Job::default()
        };
        let params = |device: &str, options: Value| {
            let measure = json!({"warmup": 0, "samples": 1, "max_seconds": 1.0});
            json!({"library": "/nowhere/libLiteRt.so", "device": device, "options": options, "measure": measure})
        };
        for (device, options, expected) in [
            ("cpu", json!({"threads": 2}), "unknown field `threads`"),
            (
                "cpu",
                json!({"num_threads": 0}),
                "invalid value: integer `0`",
            ),
            ("gpu", json!({}), "LiteRT has no device `gpu` here"),
        ] {
            let output = execute(&job(params(device, options)), &|_| ());
            assert_eq!(output.status, JobStatus::Error);
            assert!(
                output.reason.as_ref().unwrap().contains(expected),
                "{output:?}"
            );
        }
    }
}
