//! The tch worker: one TorchScript module on one torch device, in an executable of its own because it links libtorch.
//!
//! Speaks the job protocol like every worker (docs/design/jobs.md); knows nothing of specs, plans or the store.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use orch::device::{Lease, shown, vram};
use orch::runtime::control::declared::Declared;
use orch::runtime::control::{self, Witness};
use orch::runtime::generation;
use orch::runtime::loops::{Component, Loop};
use orch::runtime::manifest::Manifest;
use orch::runtime::measure::{self, MeasureParams};
use orch::runtime::refusal::Refusal;
use orch::runtime::serve::serve_one;
use orch::runtime::tensors::{self, Element, Infer, Tensor as HostTensor, Tensors};
use orch::runtime::torch::Params;
use orch::runtime::{Job, JobOutput, JobStatus, RawMeasure};
use serde::Deserialize;
use serde_json::{Value, json};
use tch::{CModule, Cuda, Device, IValue, Kind, Tensor, jit, utils};

unsafe extern "C" {
    /// The release of libtorch's C interface for compiled models: `major << 56 | minor << 48 | patch << 40`.
    safe fn aoti_torch_abi_version() -> u64;
}

fn main() -> ExitCode {
    serve_one(|job, progress| {
        job.perform("torch", &[("run", run), ("reference", reference)], progress)
    })
}

fn run(job: &Job, progress: &dyn Fn(&str)) -> Result<JobOutput> {
    let mut params: Params = job.params()?;
    let device = device(&params.device, params.lease.as_ref()).map_err(|error| {
        // CUDA's driver reports better why there is none than libtorch.
        let nvidia = params
            .lease
            .as_mut()
            .filter(|lease| lease.id.starts_with("cuda"));
        nvidia
            .and_then(|lease| shown::nvidia(lease).err())
            .map_or(error, Refusal::unavailable)
    })?;
    let nvidia = params
        .lease
        .as_mut()
        .filter(|lease| device.is_cuda() && lease.id.starts_with("cuda"));
    let shown = nvidia
        .map(shown::nvidia)
        .transpose()
        .map_err(Refusal::unavailable)?;
    if let Some(threads) = params.threads {
        ensure!(
            threads > 0,
            "`threads` is 0; give a number, or leave it out for torch's own choice"
        );
        utils::set_num_threads(i32::try_from(threads)?);
    }
    let tree = job.artefact()?;
    // The profiling executor specialises the graph anew in each of the first calls, up to a second each.
    jit::f_set_profiling_mode(false)?;
    let meter = params
        .lease
        .as_ref()
        .map(|lease| vram::Meter::start(lease, params.measure.is_some()));
    let _no_grad = tch::no_grad_guard();
    progress(&format!("loading onto {}", name(device)));
    let (modules, timings) = match Loop::read(tree)? {
        Some(looped) => run_loop(job, tree, &looped, &params, device)?,
        None => run_one(job, tree, &params, device)?,
    };
    let state = meter
        .as_ref()
        .filter(|_| params.measure.is_some())
        .and_then(vram::Meter::state);

    let actual = params
        .lease
        .as_ref()
        .map_or_else(|| name(device), |lease| lease.id.clone());
    let mut raw = timings.on(sync(device), &params.device, &actual);
    raw.placement.insert(actual, 1);
    raw.device = state;
    let mut facts = versions();
    if let Some(lease) = &params.lease {
        facts["device"] = json!({"id": lease.id, "name": lease.name, "uuid": lease.uuid});
        if let Some(shown) = shown {
            facts["cuda"] = json!(shown);
        }
        // Read while the module lives: libtorch keeps what it allocated, so this is the most that it held.
        if let Some(held) = meter.and_then(|meter| meter.held()) {
            raw.peak_device_bytes = Some(held.bytes);
            facts["device_memory"] = json!(held);
        }
    }
    let parameters = modules
        .iter()
        .map(|module| Ok(module.named_parameters()?.len()));
    facts["parameters"] = Value::from(parameters.sum::<Result<usize>>()?);
    facts["profiling_executor"] = Value::from(false);
    if device.is_cuda() {
        facts["gpu_runtime"] = Value::from(if utils::has_hip() { "HIP" } else { "CUDA" });
        facts["tf32"] = Value::from("off (NVIDIA_TF32_OVERRIDE=0)");
        facts["cudnn_benchmark"] = Value::from(false);
    }
    Ok(JobOutput::ok(facts, Some(raw)))
}

/// Measures one module, and writes its outputs.
fn run_one(
    job: &Job,
    tree: &Path,
    params: &Params,
    device: Device,
) -> Result<(Vec<CModule>, RawMeasure)> {
    let manifest = Manifest::read(tree)?;
    let inputs = tensors::read(&tree.join(tensors::INPUTS))?;
    let load = || load(&tree.join("model.pt"), &manifest, &inputs, device);
    let infer = |(module, inputs): &mut (CModule, Vec<IValue>)| {
        let outputs = module.forward_is(inputs)?;
        wait(device, &outputs)?;
        Ok(outputs)
    };
    let ((module, _), outputs, timings) =
        measure::run(params.measure.as_ref(), load, infer).map_err(classified)?;

    tensors::write(
        &job.out.join(tensors::OUTPUTS),
        &named(outputs, &manifest, device)?,
    )?;
    let mut again = |inputs: &Tensors| called(&module, &manifest, inputs, device);
    tensors::run_control(tree, &job.out, again)?;
    generation::run(job, tree, &mut again)?;
    Ok((vec![module], timings))
}

/// The same of a module for each component, and the loop that calls them.
fn run_loop(
    job: &Job,
    tree: &Path,
    looped: &Loop,
    params: &Params,
    device: Device,
) -> Result<(Vec<CModule>, RawMeasure)> {
    let inputs = tensors::read(&tree.join(tensors::INPUTS))?;
    let components = looped.components(tree)?;
    let open = |component: &Component| {
        let own = tensors::read(&component.tree.join(tensors::INPUTS))?;
        load(
            &component.tree.join("model.pt"),
            &component.manifest,
            &own,
            device,
        )
        .map(|(module, _)| module)
    };
    let infer = |module: &mut CModule, manifest: &Manifest, inputs: &Tensors| {
        called(module, manifest, inputs, device)
    };
    let (mut modules, outputs, timings) = looped
        .measure(&components, &inputs, params.measure.as_ref(), open, infer)
        .map_err(classified)?;
    looped.write(job, tree, outputs, |inputs| {
        looped.run_loaded(&mut modules, inputs, infer)
    })?;
    Ok((
        modules.into_values().map(|(_, module)| module).collect(),
        timings,
    ))
}

fn called(
    module: &CModule,
    manifest: &Manifest,
    inputs: &Tensors,
    device: Device,
) -> Result<Tensors> {
    let outputs = module.forward_is(&placed(manifest, inputs, device)?)?;
    wait(device, &outputs)?;
    named(outputs, manifest, device)
}

const BY: Witness = Witness {
    name: "torch cpu",
    is_tested: true,
};

/// `reference`: what a ready module gives on the control's inputs, on the CPU.
fn reference(job: &Job, _: &dyn Fn(&str)) -> Result<JobOutput> {
    let tree = job.artefact()?;
    jit::f_set_profiling_mode(false)?;
    let _no_grad = tch::no_grad_guard();
    let start = |manifest: &Manifest| {
        let manifest = manifest.clone();
        let module = CModule::load_on_device(tree.join("model.pt"), Device::Cpu)
            .context("failed to load model.pt")?;
        Ok(
            Box::new(move |inputs: &Tensors| called(&module, &manifest, inputs, Device::Cpu))
                as Box<Infer<'_>>,
        )
    };
    let mut facts = versions();
    facts["reference"] = Value::Object(control::reference(
        tree,
        &job.out,
        &BY,
        &Declared::default(),
        start,
    )?);
    Ok(JobOutput::ok(facts, None))
}

/// The module with every parameter on the device, and its inputs there in the module's own order.
fn load(
    path: &Path,
    manifest: &Manifest,
    inputs: &Tensors,
    device: Device,
) -> Result<(CModule, Vec<IValue>)> {
    ensure!(
        path.is_file(),
        "no TorchScript module at `{}`",
        path.display()
    );
    let module = CModule::load_on_device(path, device).context("failed to load model.pt")?;
    for (parameter, tensor) in module.named_parameters()? {
        let found = tensor.device();
        ensure!(
            found == device,
            "parameter `{parameter}` is on {}, not on {}",
            name(found),
            name(device)
        );
    }
    let placed = placed(manifest, inputs, device)?;
    wait(device, &IValue::None)?;
    Ok((module, placed))
}

/// The inputs on the device, in the module's own order.
fn placed(manifest: &Manifest, inputs: &Tensors, device: Device) -> Result<Vec<IValue>> {
    let placed = manifest.inputs.iter().map(|input| {
        let tensor = inputs
            .get(input)
            .with_context(|| format!("the artefact's tensors lack the input `{input}`"))?;
        Ok(IValue::Tensor(
            to_device(tensor, device).with_context(|| format!("input `{input}`"))?,
        ))
    });
    placed.collect()
}

/// What the module returned, under the manifest's names, from the device that was requested.
fn named(outputs: IValue, manifest: &Manifest, device: Device) -> Result<Tensors> {
    let outputs = flat(outputs)?;
    ensure!(
        outputs.len() == manifest.outputs.len(),
        "the manifest names {} outputs and the module returns {}",
        manifest.outputs.len(),
        outputs.len()
    );
    let mut files = Tensors::new();
    for (output, tensor) in manifest.outputs.iter().zip(&outputs) {
        let found = tensor.device();
        ensure!(
            found == device,
            "output `{output}` is on {}, and the run was asked onto {}",
            name(found),
            name(device)
        );
        files.insert(
            output.clone(),
            to_host(tensor).with_context(|| format!("output `{output}`"))?,
        );
    }
    Ok(files)
}

/// The device of that name, ready for use, or why it is not there.
fn device(wanted: &str, lease: Option<&Lease>) -> Result<Device> {
    match wanted.split_once(':').unwrap_or((wanted, "0")) {
        ("cpu", "0") => Ok(Device::Cpu),
        ("mps", "0") => mps(),
        (vendor @ ("cuda" | "rocm"), number) => {
            let number = number
                .parse()
                .with_context(|| format!("device `{wanted}` has no number behind its colon"))?;
            lease
                .map_or(Ok(()), Lease::check)
                .map_err(anyhow::Error::msg)?;
            let device = gpu(if lease.is_some() { 0 } else { number })?;
            // Both builds of torch call their devices `cuda`; which vendor's they are only the build shows.
            let (is, of) = if utils::has_hip() {
                ("rocm", "AMD's GPUs (HIP)")
            } else {
                ("cuda", "NVIDIA's GPUs (CUDA)")
            };
            if vendor != is {
                let why = format!(
                    "`{wanted}` was asked for, and this libtorch is built for {of}; name a torch of the other build with ORCH_PYTHON"
                );
                return Err(Refusal::unavailable(why));
            }
            Ok(device)
        }
        _ => bail!(
            "torch has no device `{wanted}` here; known: `cpu`, `cuda:<number>`, `rocm:<number>`, `mps`"
        ),
    }
}

fn gpu(index: usize) -> Result<Device> {
    // cuDNN convolves fp32 in TF32 unless set otherwise, which no fp32 tolerance survives; tch cannot set it.
    // SAFETY: no other thread of this process runs yet: neither orch's serving nor libtorch starts one before this.
    unsafe { std::env::set_var("NVIDIA_TF32_OVERRIDE", "0") };
    load_gpu_library().map_err(Refusal::unavailable)?;
    let count = usize::try_from(Cuda::device_count()).unwrap_or(0);
    if !Cuda::is_available() || count == 0 {
        return Err(Refusal::unavailable(
            "libtorch has CUDA and finds no device: is a driver installed, and does CUDA_VISIBLE_DEVICES name one?",
        ));
    }
    if index >= count {
        return Err(Refusal::unavailable(format!(
            "torch sees {count} CUDA devices, so there is no cuda:{index}"
        )));
    }
    Ok(Device::Cuda(index))
}

/// The linker drops libtorch_cuda from the executable, which names no symbol of it; loaded by hand it registers itself.
/// A ROCm build of torch serves as `cuda` from libtorch_hip.
fn load_gpu_library() -> Result<(), String> {
    let mut errors = Vec::new();
    for library in ["libtorch_cuda.so", "libtorch_hip.so"] {
        // SAFETY: libtorch's own initialisers run, of the same release as the linked part.
        match unsafe { Library::open(Some(library), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => {
                // Its registrations point into it for the rest of the process.
                std::mem::forget(library);
                return Ok(());
            }
            Err(error) => errors.push(
                std::error::Error::source(&error).map_or(error.to_string(), |e| e.to_string()),
            ),
        }
    }
    Err(format!(
        "this libtorch has no CUDA that loads: {}",
        errors.join("; ")
    ))
}

fn mps() -> Result<Device> {
    if !utils::has_mps() {
        return Err(Refusal::unavailable(
            "this libtorch has no MPS: it needs macOS on Apple silicon",
        ));
    }
    // With it set, operators that MPS lacks run on the CPU without a word, and no output tensor shows it.
    if std::env::var("PYTORCH_ENABLE_MPS_FALLBACK").is_ok_and(|value| value != "0") {
        bail!("PYTORCH_ENABLE_MPS_FALLBACK is set, which lets operators run on the CPU; unset it");
    }
    Ok(Device::Mps)
}

/// Waits until the device has computed the outputs.
fn wait(device: Device, outputs: &IValue) -> Result<()> {
    match device {
        Device::Cuda(index) => Cuda::synchronize(i64::try_from(index)?),
        // tch has no call that waits for MPS; reading one element does, because a stream works in order.
        Device::Mps => {
            if let Some(tensor) = first(outputs).filter(|tensor| tensor.numel() > 0) {
                let _waited = tensor
                    .f_reshape([-1])?
                    .f_narrow(0, 0, 1)?
                    .f_to_device(Device::Cpu)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn sync(device: Device) -> &'static str {
    match device {
        Device::Cuda(_) => "torch::cuda::synchronize after the call",
        Device::Mps => "one element of the first output copied to the host after the call",
        _ => "synchronous call",
    }
}

fn first(value: &IValue) -> Option<&Tensor> {
    match value {
        IValue::Tensor(tensor) => Some(tensor),
        IValue::Tuple(items) => items.iter().find_map(first),
        IValue::TensorList(tensors) => tensors.first(),
        _ => None,
    }
}

/// What the module returned, as tensors in order.
fn flat(value: IValue) -> Result<Vec<Tensor>> {
    match value {
        IValue::Tensor(tensor) => Ok(vec![tensor]),
        IValue::TensorList(tensors) => Ok(tensors),
        IValue::Tuple(items) => {
            let items = items.into_iter().map(flat).collect::<Result<Vec<_>>>()?;
            Ok(items.into_iter().flatten().collect())
        }
        other => bail!("the module returns something else than tensors: {other:?}"),
    }
}

/// One row a type that both sides know.
const ELEMENTS: &[(Element, Kind)] = &[
    (Element::Float64, Kind::Double),
    (Element::Float32, Kind::Float),
    (Element::Float16, Kind::Half),
    (Element::Bfloat16, Kind::BFloat16),
    (Element::Int64, Kind::Int64),
    (Element::Int32, Kind::Int),
    (Element::Int16, Kind::Int16),
    (Element::Int8, Kind::Int8),
    (Element::Uint8, Kind::Uint8),
    (Element::Bool, Kind::Bool),
];

fn to_device(tensor: &HostTensor, device: Device) -> Result<Tensor> {
    let Some((_, kind)) = ELEMENTS
        .iter()
        .copied()
        .find(|row| row.0 == tensor.element())
    else {
        let reason = format!(
            "TorchScript modules here take no tensors of {}",
            tensor.element().word()
        );
        return Err(Refusal::because(JobStatus::Unsupported, reason));
    };
    let shape = tensor
        .shape()
        .iter()
        .map(|size| i64::try_from(*size))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Tensor::f_from_data_size(tensor.bytes(), &shape, kind)?.f_to_device(device)?)
}

fn to_host(tensor: &Tensor) -> Result<HostTensor> {
    let kind = tensor.f_kind()?;
    let Some((element, _)) = ELEMENTS.iter().find(|row| row.1 == kind) else {
        bail!("torch's type {kind:?} has no counterpart in safetensors files here");
    };
    let tensor = tensor.f_to_device(Device::Cpu)?.f_contiguous()?;
    let shape = tensor
        .size()
        .into_iter()
        .map(usize::try_from)
        .collect::<Result<Vec<_>, _>>()?;
    let mut bytes = vec![0; tensor.numel() * element.size()];
    tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
    HostTensor::new(*element, shape, bytes)
}

/// Torch's own word for memory or for a missing operator, as the status that says so.
fn classified(error: anyhow::Error) -> anyhow::Error {
    // The rest of torch's message is its C++ stack.
    let text = format!("{error:#}");
    let lines: Vec<_> = text
        .lines()
        .take_while(|line| !line.starts_with("Exception raised from"))
        .collect();
    let message = lines.join(" ");
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let status = if says(&[
        "out of memory",
        "can't allocate memory",
        "not enough memory",
    ]) {
        JobStatus::Oom
    } else if says(&[
        "Could not run 'aten::",
        "not currently implemented for",
        "not implemented for the MPS",
    ]) {
        JobStatus::Unsupported
    } else {
        JobStatus::Error
    };
    Refusal::because(status, format!("failed to run the module: {message}"))
}

fn name(device: Device) -> String {
    match device {
        Device::Cpu => "cpu".to_owned(),
        Device::Cuda(index) => format!("cuda:{index}"),
        Device::Mps => "mps".to_owned(),
        Device::Vulkan => "vulkan".to_owned(),
    }
}

fn versions() -> Value {
    let abi = aoti_torch_abi_version();
    json!({
        "torch": format!("{}.{}.{}", abi >> 56, abi >> 48 & 0xff, abi >> 40 & 0xff),
        "threads": utils::get_num_threads(),
        "interop_threads": utils::get_num_interop_threads(),
        "mkl": utils::has_mkl(),
        "onednn": utils::has_mkldnn(),
        "openmp": utils::has_openmp(),
    })
}
