//! QNN on a phone: Qualcomm's own `qnn-net-run` executes a context binary there, reached through `adb`.
//!
//! It knows nothing of the spec: `adb`, the SDK and the options come with the job. The figures are those of the vendor's
//! runner, read from its profile; that the accelerator computed each inference is read there too, or it is an error.

#![expect(
    clippy::disallowed_methods,
    reason = "starts the SDK's viewer of profiles"
)]

mod adb;
mod context;
mod phone;
mod profile;
mod runner;

use crate::base::fs as bfs;
use crate::base::variable;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::adb::{Adb, Late, bounded};
use self::context::Prepared;
use self::phone::{Item, Run, bundle};
use self::profile::Profile;
use self::runner::OnPhone;
use super::manifest::Manifest;
use super::measure::MeasureParams;
use super::ort::qnn;
use super::refusal::Refusal;
use super::tensors::{self, Tensor, Tensors};
use super::{InstalledPath, Job, JobOutput, RawMeasure, Times};
use crate::device::android::{self as found, Properties};
use crate::device::snapdragon::{self, Chip};

/// Options about the phone, which are not passed to the compiler.
pub const OWN_OPTIONS: &[&str] = &["htp_arch", "serial", "soc"];

/// How the device is waited for.
const SYNC: &str =
    "qnn-net-run's own figures; QnnGraph_execute returns when the outputs are complete";

pub fn execute(job: &Job, progress: &dyn Fn(&str)) -> JobOutput {
    job.perform("android", &[("run", timed)], progress)
}

/// The parameters of `run`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// The program.
    #[serde(skip_serializing_if = "InstalledPath::is_open")]
    pub adb: InstalledPath,
    /// The folder of QNN's SDK.
    #[serde(skip_serializing_if = "InstalledPath::is_open")]
    pub sdk: InstalledPath,
    pub device: String,
    #[serde(default)]
    pub options: Map<String, Value>,
    /// The seconds after which the job's parent ends this process.
    pub timeout_seconds: u64,
    #[serde(with = "super::measure::wanted")]
    pub measure: Option<MeasureParams>,
}

/// The options of a target that runs on a phone.
struct PhoneOptions {
    serial: Option<String>,
    /// The generation of the HTP, `V73`: names the libraries to bring.
    htp: String,
    /// The beginning of `ro.soc.model` that the phone must have, for the context was prepared for this chip.
    soc: String,
    performance: Option<String>,
    /// The options and their values as the compiler had them.
    checked: Vec<(String, String)>,
}

impl PhoneOptions {
    fn of(options: &Map<String, Value>) -> Result<Self> {
        let (own, rest): (Vec<_>, Vec<_>) = options
            .clone()
            .into_iter()
            .partition(|(name, _)| OWN_OPTIONS.contains(&name.as_str()));
        let own: Map<String, Value> = own.into_iter().collect();
        let checked = qnn::options(&rest.into_iter().collect()).map_err(anyhow::Error::msg)?;
        let of = |wanted: &str| {
            checked
                .iter()
                .find(|(name, _)| name == wanted)
                .map(|(_, value)| value.clone())
        };
        let number = of("soc_model")
            .and_then(|number| number.parse().ok())
            .unwrap_or_default();
        let known = snapdragon::by_model(number);
        let text = |name: &str| match own.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
            Some(other) => bail!("the option `{name}` is `{other}`; put text in quotes"),
        };
        let unknown = |name: &str, example: &str| {
            format!(
                "orch has no row for soc_model {number}: state the option `{name}`, e.g. `{example}`"
            )
        };
        let soc = text("soc")?.or_else(|| known.map(|chip| chip.soc.to_owned()));
        let htp = text("htp_arch")?.or_else(|| known.map(|chip| chip.htp.to_owned()));
        let htp = htp
            .with_context(|| unknown("htp_arch", "V73"))?
            .to_uppercase();
        let is_htp = htp
            .strip_prefix('V')
            .is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()));
        ensure!(
            is_htp,
            "the option `htp_arch` is `{htp}`; allowed: `V` and a number, e.g. `V73`"
        );
        Ok(Self {
            serial: text("serial")?,
            htp,
            soc: soc.with_context(|| unknown("soc", "SM8550"))?,
            performance: of("htp_performance_mode"),
            checked,
        })
    }

    /// Only the options are in the key, so a phone with another chip is not the requested device.
    fn fits(&self, phone: &Properties) -> Result<Option<&'static Chip>> {
        let chip = phone.chip().map_err(Refusal::unavailable)?;
        let named = |soc: &str| snapdragon::by_soc(soc).map(|chip| chip.soc);
        if phone.soc != self.soc
            && (named(&phone.soc).is_none() || named(&phone.soc) != named(&self.soc))
        {
            let reason = format!(
                "the target is for {}, and {} has a {}",
                self.soc, phone.model, phone.soc
            );
            return Err(Refusal::unavailable(reason));
        }
        Ok(chip)
    }
}

/// Ends early enough to clean up. If it were killed, the phone would have to remove the folder itself.
fn timed(job: &Job, progress: &dyn Fn(&str)) -> Result<JobOutput> {
    let params: Params = job.params()?;
    let limit = Duration::from_secs(params.timeout_seconds);
    let margin = (limit / 4).min(Duration::from_secs(10));
    let end = Instant::now() + limit;
    let done = run(job, &params, end - margin, progress);
    if done
        .as_ref()
        .is_err_and(|error| error.downcast_ref::<Late>().is_some())
    {
        // Everything is cleaned up. The parent is about to report the timeout.
        std::thread::sleep(end.saturating_duration_since(Instant::now()) + margin);
    }
    done
}

fn run(
    job: &Job,
    params: &Params,
    deadline: Instant,
    progress: &dyn Fn(&str),
) -> Result<JobOutput> {
    ensure!(
        params.device == "htp",
        "QNN on a phone has no device `{}`: write `device: htp`",
        params.device
    );
    let options = PhoneOptions::of(&params.options)?;
    let artefact = job.artefact()?;
    let manifest = Manifest::read(artefact)?;
    let prepared = context::read(artefact, &manifest)?;
    let libraries = libraries(&params.sdk, &options.htp)?;
    let inputs = tensors::read(&artefact.join("inputs.safetensors"))?;
    let scratch = tempfile::Builder::new()
        .prefix("android-")
        .tempdir_in(".")
        .context("failed to make a folder")?;

    let mut adb = Adb {
        program: params.adb.to_path_buf(),
        serial: options.serial.clone(),
        deadline,
    };
    let (properties, chip) = phone(&mut adb, &options)?;
    let (sdk, mut items) = bundle(&libraries)?;
    let binary = Item::content(&prepared.binary)?;
    let (list, tensors) = lay_out(&prepared, &inputs, scratch.path(), "input")?;
    let on_phone = OnPhone {
        sdk,
        binary: binary.to.clone(),
        list: list.to.clone(),
        out: "out",
    };
    items.extend([binary, list]);
    items.extend(tensors);
    let mut runs = vec![(
        on_phone,
        1 + params
            .measure
            .map_or(0, |measure| (measure.warmup + measure.samples) as usize),
    )];
    if let Some(inputs) = tensors::control_inputs(artefact)? {
        let (list, tensors) = lay_out(&prepared, &inputs, scratch.path(), "control")?;
        runs.push((
            OnPhone {
                list: list.to.clone(),
                out: "out-control",
                ..runs[0].0.clone()
            },
            1,
        ));
        items.push(list);
        items.extend(tensors);
    }

    let name = format!(
        "{}-{}",
        std::process::id(),
        jiff::Timestamp::now().as_nanosecond()
    );
    let run = Run::open(&adb, &name)?;
    progress("bringing files to the phone");
    let brought = run.put(&items)?;
    progress("running on the phone");
    for (on_phone, count) in &runs {
        runner::execute(&adb, &run, on_phone, *count, options.performance.as_deref())?;
        adb.pull(&format!("{}/{}", run.folder, on_phone.out), scratch.path())
            .context("failed to fetch the outputs")?;
    }
    let left = run.close().err().map(|error| format!("{error:#}"));

    let out = scratch.path().join("out");
    let profile = profile(&params.sdk, &out, deadline)?;
    profile.check(runs[0].1)?;
    for ((on_phone, _), file) in runs
        .iter()
        .zip([tensors::OUTPUTS, tensors::CONTROL_OUTPUTS])
    {
        let outputs = outputs(&scratch.path().join(on_phone.out), &prepared, &manifest)?;
        tensors::write(&job.out.join(file), &outputs)?;
    }
    let Properties {
        model,
        soc,
        release,
        ..
    } = &properties;
    let mut facts = json!({
        "phone": {"serial": adb.serial, "model": model, "soc": soc, "android": release},
        "options": options.checked.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "qnn_sdk": found::version(&params.sdk),
        "runner": "qnn-net-run, profiling level basic",
        "files": {"needed": items.len(), "brought": brought},
        "placement_by": "time on the accelerator of each inference, in the runner's profile",
    });
    if params.measure.is_some() {
        facts["accelerator_ms"] = json!(profile.accelerator_ms);
    }
    if let Some(left) = left {
        facts["left_on_phone"] = json!(left);
    }
    let htp = chip.map_or(options.htp.as_str(), |chip| chip.htp);
    Ok(JobOutput::ok(
        facts,
        Some(measured(profile, params.measure, htp, &properties.soc)),
    ))
}

/// Chooses the phone; all later commands go to it.
fn phone(adb: &mut Adb, options: &PhoneOptions) -> Result<(Properties, Option<&'static Chip>)> {
    let named = adb
        .serial
        .take()
        .or_else(|| variable::text(found::SERIAL).filter(|serial| !serial.is_empty()));
    let (good, list, stderr) =
        adb.call(&["devices", "-l"])
            .map_err(|error| match error.downcast_ref::<Late>() {
                Some(_) => error,
                None => Refusal::unavailable(format!("{error:#}")),
            })?;
    if !good {
        return Err(Refusal::unavailable(format!(
            "adb does not list its devices: {}",
            stderr.trim()
        )));
    }
    let phones = found::phones(&list);
    let phone = found::choose(&phones, named.as_deref()).map_err(Refusal::unavailable)?;
    adb.serial = Some(phone.serial.clone());
    let properties = Properties::of(&adb.do_shell(found::PROPERTIES)?);
    let chip = options.fits(&properties)?;
    Ok((properties, chip))
}

/// The runner and what it loads: the backend, its half for the CPU and its half for the HTP of this generation.
fn libraries(sdk: &Path, htp: &str) -> Result<Vec<PathBuf>> {
    let number = &htp[1..];
    let needed = [
        found::RUNNER.to_owned(),
        found::LIBRARY.to_owned(),
        "lib/aarch64-android/libQnnSystem.so".to_owned(),
        format!("lib/aarch64-android/libQnnHtpV{number}Stub.so"),
        format!("lib/hexagon-v{number}/unsigned/libQnnHtpV{number}Skel.so"),
    ];
    let paths: Vec<_> = needed.iter().map(|file| sdk.join(file)).collect();
    if let Some(missing) = paths.iter().find(|path| !path.is_file()) {
        let reason = format!(
            "QNN's SDK has no `{}`; set {} to one that knows {htp}",
            missing.display(),
            found::SDK
        );
        return Err(Refusal::unavailable(reason));
    }
    Ok(paths)
}

/// Each input as a file of its bytes, and the list that names them by the context's own names.
fn lay_out(
    prepared: &Prepared,
    inputs: &Tensors,
    scratch: &Path,
    stem: &str,
) -> Result<(Item, Vec<Item>)> {
    let given: Vec<_> = inputs.keys().map(String::as_str).collect();
    let mut words = vec![];
    let mut items = vec![];
    for (index, name) in prepared.inputs.iter().enumerate() {
        let tensor = inputs.get(name);
        let tensor = tensor
            .with_context(|| format!("the context takes `{name}`, and the inputs are {given:?}"))?;
        let path = scratch.join(format!("{stem}-{index}"));
        bfs::write_new(&path, tensor.bytes())
            .with_context(|| format!("failed to write `{}`", path.display()))?;
        let item = Item::content(&path)?;
        words.push(format!("{name}:={}", item.to));
        items.push(item);
    }
    ensure!(
        inputs.len() == items.len(),
        "the context takes {:?}, and the inputs are {given:?}",
        prepared.inputs
    );
    let path = scratch.join(format!("{stem}s.txt"));
    bfs::write_new(&path, words.join(" ") + "\n").context("failed to write the list of inputs")?;
    Ok((Item::content(&path)?, items))
}

fn profile(sdk: &Path, out: &Path, deadline: Instant) -> Result<Profile> {
    let log = out.join("qnn-profiling-data_0.log");
    ensure!(
        log.is_file(),
        "qnn-net-run left no profile (qnn-profiling-data_0.log)"
    );
    let table = out.join("profile.csv");
    let mut viewer = Command::new(sdk.join(found::VIEWER));
    viewer
        .arg("--input_log")
        .arg(&log)
        .arg("--output")
        .arg(&table);
    viewer.env("LD_LIBRARY_PATH", sdk.join("lib/x86_64-linux-clang"));
    let (good, text, stderr) = bounded(&mut viewer, deadline)?;
    ensure!(
        good,
        "qnn-profile-viewer failed: {}",
        stderr.lines().last().unwrap_or_default()
    );
    let table = std::fs::read_to_string(&table).context("qnn-profile-viewer left no table")?;
    Profile::of(&text, &table)
}

/// The outputs that were kept, under the manifest's names by position.
fn outputs(out: &Path, prepared: &Prepared, manifest: &Manifest) -> Result<Tensors> {
    let there = prepared.outputs.len();
    let named = manifest.outputs.len();
    ensure!(
        there == named,
        "the context has {there} outputs, and its manifest names {named}: {:?}",
        manifest.outputs
    );
    let mut tensors = Tensors::new();
    for (output, name) in prepared.outputs.iter().zip(&manifest.outputs) {
        let paths = [
            format!("{}_native.raw", output.name),
            format!("{}.raw", output.name),
        ];
        let path = paths
            .iter()
            .map(|file| out.join("Result_0").join(file))
            .find(|path| path.is_file());
        let path = path.with_context(|| format!("qnn-net-run left no output `{}`", output.name))?;
        let bytes =
            std::fs::read(&path).with_context(|| format!("failed to read `{}`", path.display()))?;
        let tensor = Tensor::new(output.element, output.shape.clone(), bytes);
        tensors.insert(
            name.clone(),
            tensor.with_context(|| format!("output `{name}` of the phone"))?,
        );
    }
    Ok(tensors)
}

fn measured(profile: Profile, measure: Option<MeasureParams>, htp: &str, soc: &str) -> RawMeasure {
    let times = measure.map(|measure| {
        let mut runs = profile.runs_ms.into_iter();
        let first_ms = runs
            .next()
            .expect("BUG: the number of inferences was checked");
        let warmup_ms = runs.by_ref().take(measure.warmup as usize).collect();
        Times {
            load_ms: profile.load_ms,
            first_ms,
            warmup_ms,
            samples_ms: runs.collect(),
            ..Times::default()
        }
    });
    // The process was another machine's, and the runner does not tell what it held.
    RawMeasure {
        times,
        placement: [("QnnHtp".to_owned(), 1)].into(),
        ..RawMeasure::default()
    }
    .on(SYNC, "qnn-android:htp", &format!("qnn-htp:{htp} of {soc}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::JobStatus;

    fn options_of(options: Value) -> Result<PhoneOptions> {
        PhoneOptions::of(options.as_object().unwrap())
    }

    fn phone(soc: &str) -> Properties {
        Properties::of(&format!("QTI\n{soc}\narm64-v8a\nPhone\n14\n"))
    }

    #[test]
    fn the_chip_is_named_by_the_options_and_the_phone_must_have_it() {
        let known = options_of(json!({"soc_model": 43, "htp_performance_mode": "burst"})).unwrap();
        assert_eq!(
            (
                known.htp.as_str(),
                known.soc.as_str(),
                known.performance.as_deref()
            ),
            ("V73", "SM8550", Some("burst"))
        );
        assert!(known.fits(&phone("SM8550")).is_ok() && known.fits(&phone("SM8550-AC")).is_ok());
        let other = known.fits(&phone("SM8650")).unwrap_err();
        assert_eq!(
            other.to_string(),
            "the target is for SM8550, and Phone has a SM8650"
        );
        assert_eq!(
            other.downcast_ref::<Refusal>().unwrap().status,
            JobStatus::Unavailable
        );
        assert!(known.fits(&phone("SM1")).is_err());

        let error = |options: Value| options_of(options).err().unwrap().to_string();
        assert!(
            error(json!({"soc_model": 9998})).contains("state the option `htp_arch`, e.g. `V73`")
        );
        assert!(
            error(json!({"soc_model": 9998, "htp_arch": "v90"})).contains("state the option `soc`")
        );
        assert!(
            error(json!({"soc_model": 43, "htp_arch": "73; reboot"}))
                .contains("allowed: `V` and a number")
        );
        assert!(error(json!({"soc_model": 43, "serial": 5})).contains("put text in quotes"));
        assert!(error(json!({"serial": "x"})).contains("needs the option `soc_model`"));
        assert!(
            error(json!({"soc_model": 43, "seriel": "x"})).contains("QNN has no option `seriel`")
        );
        let own =
            options_of(json!({"soc_model": 9998, "htp_arch": "v90", "soc": "SM9999"})).unwrap();
        assert_eq!(own.htp, "V90");
        assert!(own.fits(&phone("SM9999")).is_ok() && own.fits(&phone("SM9998")).is_err());
    }
}
