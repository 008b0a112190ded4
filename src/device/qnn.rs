//! QNN: Qualcomm's neural processor (HTP) on a Snapdragon, or its instruction-level emulator on Linux x86_64.
//!
//! The two are never mixed up: the emulator is `qnn:htp-emulator`, of kind [`DeviceKind::Emulator`], and its latency says
//! nothing about a chip. The vendor supports x86_64 for ahead-of-time compilation only.

use std::path::Path;

use serde_json::{Value, json};

use super::host::Host;
use super::snapdragon::{self, Chip};
use super::{Absent, Backend, Device, DeviceKind, Look, native};

/// What reports call results from the emulator.
pub const EMULATOR_LABEL: &str = "qnn-htp-emulator";

/// QNN's backend libraries and what each is good for here.
const BACKENDS: &[(&str, &str)] = &[
    ("htp", "libQnnHtp.so"),
    ("gpu", "libQnnGpu.so"),
    ("cpu", "libQnnCpu.so"),
    ("ir", "libQnnIr.so"),
    ("saver", "libQnnSaver.so"),
];

pub(super) fn look(host: &Host, _thorough: bool) -> Result<Look, Absent> {
    let (mut backend, glibc) = match (host.os.as_str(), host.arch.as_str()) {
        ("linux", "x86_64") => (emulator(), (2, 35)),
        ("linux", "aarch64") => (chip(host)?, (2, 34)),
        (os, arch) => {
            return Err(unavailable(format!(
                "no QNN package exists for {os} {arch}: it needs Linux on x86_64 (emulator) or on a Snapdragon"
            ))
            .into());
        }
    };
    host.needs_glibc("qnn", "the QNN package", glibc)?;
    let Some(library) = &host.libraries.qnn else {
        backend.fact("library", "installed on first need");
        return Ok(backend.into());
    };
    let folder = library.parent().unwrap_or(Path::new("."));
    let htp = folder.join("libQnnHtp.so");
    if let Some(missing) = [library.as_path(), &htp]
        .into_iter()
        .find(|path| !path.exists())
    {
        return Err(Backend::gone("qnn", missing, backend.facts).into());
    }
    let present: Vec<_> = BACKENDS
        .iter()
        .filter(|(_, file)| folder.join(file).exists())
        .map(|(name, _)| *name)
        .collect();
    backend
        .fact("library", library.display().to_string())
        .fact("backends", present);
    let params = json!({"htp": htp.display().to_string(), "backend": backend});
    Ok(Look {
        backend,
        query: Some(params),
    })
}

pub(super) fn query(params: &Value) -> Result<Backend, Absent> {
    let mut backend = Backend::looked(params);
    let htp = Path::new(params["htp"].as_str().unwrap_or_default());
    let identity = native::qnn::identify(htp).map_err(|why| {
        unavailable(format!("its HTP library fails: {why}"))
            .with_remedy("install the QNN package again; it must match this process's architecture")
    })?;
    backend
        .fact("sdk", identity.build)
        .fact("provider", identity.provider)
        .fact("api", identity.api);
    Ok(backend)
}

fn unavailable(why: String) -> Backend {
    Backend::unavailable("qnn", why)
}

fn emulator() -> Backend {
    let mut device = Device::new(
        "qnn:htp-emulator",
        "HTP emulator on x86_64",
        DeviceKind::Emulator,
    );
    device.fact("label", EMULATOR_LABEL);
    let mut backend = Backend::available("qnn", vec![device]);
    let note = "an emulator: outputs are meaningful, latency is not; the vendor supports x86_64 for compilation only";
    backend.fact("note", note);
    backend
}

/// A Snapdragon's own processor: the kernel offers its DSP through FastRPC.
fn chip(host: &Host) -> Result<Backend, Absent> {
    const SOC: &str = "/sys/devices/soc0";
    let node = host
        .list("/dev")
        .into_iter()
        .find(|name| name.starts_with("fastrpc-cdsp") || name == "adsprpc-smd");
    let vendor = host.text(&format!("{SOC}/family")).unwrap_or_default();
    let machine = host
        .text(&format!("{SOC}/machine"))
        .filter(|m| !m.is_empty());
    let raw = host.text(&format!("{SOC}/soc_id"));
    let raw =
        raw.ok_or_else(|| unavailable(format!("not a Snapdragon: {SOC}/soc_id does not exist")))?;
    // Other makers' boards have a soc0 too; Qualcomm's driver says so in its family, or else gives a FastRPC node.
    if !vendor.to_lowercase().contains("snapdragon")
        && !vendor.to_lowercase().contains("qualcomm")
        && node.is_none()
    {
        return Err(
            unavailable(format!("not a Snapdragon: the SoC's family is `{vendor}`")).into(),
        );
    }
    let id = raw
        .parse::<u32>()
        .map_err(|_| unavailable(format!("{SOC}/soc_id is no number: `{raw}`")))?;
    let known = snapdragon::by_id(id);
    let chip = known
        .map(Chip::name)
        .or(machine)
        .unwrap_or_else(|| format!("Snapdragon, SoC {id}"));
    let path = node.map(|node| format!("/dev/{node}")).ok_or_else(|| {
        unavailable(format!(
            "{chip} is here, but no /dev/fastrpc-cdsp* leads to its processor"
        ))
        .with_remedy(
            "enable the kernel's FastRPC driver (CONFIG_QCOM_FASTRPC) and load the CDSP firmware",
        )
    })?;
    if !host.may_use(&path) {
        let remedy = format!("let this user read and write {path}, by its group or a udev rule");
        return Err(
            unavailable(format!("this user may not read and write {path}"))
                .with_remedy(remedy)
                .into(),
        );
    }
    let mut device = Device::new("qnn:htp", format!("{chip} HTP"), DeviceKind::Hardware);
    device.fact("soc_id", id).fact("node", path);
    match known {
        Some(known) => device
            .fact("htp_arch", known.htp)
            .fact("soc_model", known.soc_model),
        None => device.fact(
            "note",
            "a SoC that orch has no row for: state its `soc_model` in the target's options",
        ),
    };
    let mut backend = Backend::available("qnn", vec![device]);
    backend.fact(
        "note",
        "detected by rules from documentation: orch has never run on this kind of machine",
    );
    Ok(backend)
}
