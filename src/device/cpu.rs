//! The CPU: model, cores, instruction sets and memory, as far as this process may use them. Always there.

use super::host::Host;
use super::{Absent, Backend, Device, DeviceKind, Look, limits, mac};
use crate::base::Digest;

/// Instruction sets that matter to model inference: our name, the kernel's flag (x86 and Arm), the macOS key.
const FEATURES: &[(&str, &[&str], &str)] = &[
    ("avx", &["avx"], "hw.optional.avx1_0"),
    ("avx2", &["avx2"], "hw.optional.avx2_0"),
    ("fma", &["fma"], "hw.optional.fma"),
    ("f16c", &["f16c"], "hw.optional.f16c"),
    ("avx_vnni", &["avx_vnni"], ""),
    ("avx512f", &["avx512f"], "hw.optional.avx512f"),
    ("avx512_vnni", &["avx512_vnni"], "hw.optional.avx512vnni"),
    ("avx512_bf16", &["avx512_bf16"], ""),
    ("avx512_fp16", &["avx512_fp16"], ""),
    ("amx_tile", &["amx_tile"], ""),
    ("amx_int8", &["amx_int8"], ""),
    ("amx_bf16", &["amx_bf16"], ""),
    ("amx_fp16", &["amx_fp16"], ""),
    ("neon", &["asimd", "neon"], "hw.optional.neon"),
    ("fp16", &["asimdhp"], "hw.optional.arm.FEAT_FP16"),
    ("dotprod", &["asimddp"], "hw.optional.arm.FEAT_DotProd"),
    ("bf16", &["bf16"], "hw.optional.arm.FEAT_BF16"),
    ("i8mm", &["i8mm"], "hw.optional.arm.FEAT_I8MM"),
    ("sve", &["sve"], ""),
    ("sve2", &["sve2"], ""),
    ("sme", &["sme"], "hw.optional.arm.FEAT_SME"),
];

/// Arm's (implementer, part) of cores found in machines that run models; `/proc/cpuinfo` has no model name there.
const ARM_PARTS: &[(u32, u32, &str)] = &[
    (0x41, 0xd08, "Arm Cortex-A72"),
    (0x41, 0xd0b, "Arm Cortex-A76"),
    (0x41, 0xd0c, "Arm Neoverse N1"),
    (0x41, 0xd40, "Arm Neoverse V1"),
    (0x41, 0xd49, "Arm Neoverse N2"),
    (0x41, 0xd4b, "Arm Cortex-A78C"),
    (0x41, 0xd4f, "Arm Neoverse V2"),
    (0x51, 0x001, "Qualcomm Oryon"),
];

/// What the CPU prober and the fingerprint know of the processor and its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    pub model: String,
    /// What distinguishes it from other CPUs of the same name: its maker's numbers, the caches of its first core, a digest of
    /// all flags. `GenuineIntel 6/143/8, L1d 48K, L2 2048K, L3 107520K, flags 1a2b3c4d`; empty where the system does not tell.
    pub identity: String,
    /// Cores of the machine; None where the kernel does not say.
    pub physical: Option<u32>,
    /// Hardware threads that are online.
    pub logical: u32,
    /// Hardware threads this process may use: online, within its affinity and its control group's quota.
    pub usable: u32,
    pub memory_bytes: u64,
    /// The control group's limit, when it is below the machine's memory.
    pub memory_limit: Option<u64>,
    pub memory_available: Option<u64>,
    pub features: Vec<&'static str>,
}

impl Info {
    /// Memory that this process may use.
    pub fn usable_memory(&self) -> u64 {
        self.memory_limit.unwrap_or(self.memory_bytes)
    }
}

pub(super) fn look(host: &Host, _thorough: bool) -> Result<Look, Absent> {
    let info = read(host);
    let mut device = Device::new("cpu", info.model.as_str(), DeviceKind::Hardware);
    device.memory_bytes = Some(info.usable_memory());
    device
        .fact("cores_physical", info.physical)
        .fact("cores_logical", info.logical);
    device.fact("cores_usable", info.usable);
    device.fact("memory_available_bytes", info.memory_available);
    device
        .fact("memory_total_bytes", info.memory_bytes)
        .fact("memory_limit_bytes", info.memory_limit);
    device
        .fact("features", info.features.clone())
        .fact("instructions", instructions(&info.features));
    device.fact("precisions", precisions(&info.features));
    let mut backend = Backend::available("cpu", vec![device]);
    backend.fact("arch", host.arch.as_str());
    Ok(backend.into())
}

/// Reads the processor and the limits on this process.
pub fn read(host: &Host) -> Info {
    if host.os == "macos" {
        return mac::cpu(host, FEATURES);
    }
    let text = host.text("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &'static str| {
        text.lines().filter_map(move |line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    let online = limits::count(
        &host
            .text("/sys/devices/system/cpu/online")
            .unwrap_or_default(),
    );
    let logical = online
        .or_else(|| {
            u32::try_from(field("processor").count())
                .ok()
                .filter(|n| *n > 0)
        })
        .unwrap_or(1);
    let flags: Vec<&str> = field("flags")
        .next()
        .or_else(|| field("Features").next())
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let has = |names: &[&str]| names.iter().any(|name| flags.contains(name));
    let memory_bytes = limits::meminfo(host, "MemTotal").unwrap_or(0);
    Info {
        identity: identity(host, &text, &flags),
        model: field("model name")
            .next()
            .map(tidy)
            .or_else(|| arm(host, &text))
            .unwrap_or_else(|| format!("unknown {} CPU", host.arch)),
        physical: physical(host, &text, logical),
        logical,
        usable: limits::cores(host, logical),
        memory_bytes,
        memory_limit: limits::memory(host).filter(|limit| *limit < memory_bytes),
        memory_available: limits::meminfo(host, "MemAvailable"),
        features: FEATURES
            .iter()
            .filter(|(_, names, _)| has(names))
            .map(|(name, ..)| *name)
            .collect(),
    }
}

/// See [`Info::identity`].
fn identity(host: &Host, cpuinfo: &str, flags: &[&str]) -> String {
    let first = |name: &str| {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim())
    };
    let numbers = |names: &[&str]| {
        let known: Vec<&str> = names.iter().filter_map(|name| first(name)).collect();
        (known.len() == names.len()).then(|| known.join("/"))
    };
    let x86 = numbers(&["cpu family", "model", "stepping"])
        .map(|numbers| format!("{} {numbers}", first("vendor_id").unwrap_or("x86")));
    let arm = || {
        let names = ["CPU implementer", "CPU part", "CPU variant", "CPU revision"];
        numbers(&names).map(|numbers| format!("Arm {numbers}"))
    };
    let mut flags = flags.to_vec();
    flags.sort_unstable();
    let flags = (!flags.is_empty()).then(|| {
        let digest = Digest::of(flags.join(" ").as_bytes()).to_string();
        format!("flags {}", &digest[..8])
    });
    x86.or_else(arm)
        .into_iter()
        .chain(caches(host))
        .chain(flags)
        .collect::<Vec<_>>()
        .join(", ")
}

/// `L1d 48K`, of each cache of the first core.
fn caches(host: &Host) -> Vec<String> {
    let cache = |index: u32| {
        let of = |name: &str| {
            host.text(&format!(
                "/sys/devices/system/cpu/cpu0/cache/index{index}/{name}"
            ))
        };
        let kind = match of("type")?.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        Some(format!("L{}{kind} {}", of("level")?, of("size")?))
    };
    (0..8).map_while(cache).collect()
}

/// Intel pads its names with spaces.
fn tidy(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A name for an Arm machine: the cores it is made of, or else what the board calls itself.
fn arm(host: &Host, cpuinfo: &str) -> Option<String> {
    let number = |line: &str, key: &str| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| super::pci::hex(value))?
    };
    let mut implementer = 0;
    let mut names = vec![];
    for line in cpuinfo.lines() {
        implementer = number(line, "CPU implementer").unwrap_or(implementer);
        let Some(part) = number(line, "CPU part") else {
            continue;
        };
        let known = ARM_PARTS
            .iter()
            .find(|(i, p, _)| (*i, *p) == (implementer, part));
        let name = known.map_or_else(
            || format!("Arm core {implementer:#x}/{part:#x}"),
            |(.., name)| (*name).to_owned(),
        );
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let board = host
        .text("/proc/device-tree/model")
        .filter(|board| !board.is_empty());
    match (names.is_empty(), board) {
        (false, Some(board)) => Some(format!("{} ({board})", names.join(" + "))),
        (false, None) => Some(names.join(" + ")),
        (true, board) => board,
    }
}

/// Distinct (package, core) pairs: from `cpuinfo` on x86, from sysfs elsewhere.
fn physical(host: &Host, cpuinfo: &str, logical: u32) -> Option<u32> {
    let mut cores = std::collections::BTreeSet::new();
    let mut package = String::new();
    for line in cpuinfo.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        match key.trim() {
            "physical id" => package = value.trim().to_owned(),
            "core id" => drop(cores.insert((package.clone(), value.trim().to_owned()))),
            _ => {}
        }
    }
    if cores.is_empty() {
        for cpu in 0..logical.min(4096) {
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
            let Some(core) = host.text(&format!("{folder}/core_id")) else {
                break;
            };
            cores.insert((
                host.text(&format!("{folder}/physical_package_id"))
                    .unwrap_or_default(),
                core,
            ));
        }
    }
    u32::try_from(cores.len()).ok().filter(|n| *n > 0)
}

/// Precisions that the instruction sets compute in directly; all others are emulated by conversion to fp32.
fn precisions(features: &[&str]) -> Vec<&'static str> {
    let any = |names: &[&str]| names.iter().any(|name| features.contains(name));
    let mut found = vec!["fp32"];
    found.extend(any(&["avx512_fp16", "amx_fp16", "fp16"]).then_some("fp16"));
    found.extend(any(&["avx512_bf16", "amx_bf16", "bf16"]).then_some("bf16"));
    found
        .extend(any(&["avx_vnni", "avx512_vnni", "amx_int8", "dotprod", "i8mm"]).then_some("int8"));
    found
}

/// `AVX2, AVX-512 (VNNI, BF16, FP16), AMX (INT8, BF16)`: the instruction sets in a line for people.
pub fn instructions(features: &[&str]) -> String {
    let has = |name: &str| features.contains(&name);
    let group = |title: &str, base: &str, parts: &[(&str, &str)]| {
        let inside: Vec<&str> = parts
            .iter()
            .filter(|(flag, _)| has(flag))
            .map(|(_, shown)| *shown)
            .collect();
        has(base).then(|| {
            if inside.is_empty() {
                title.to_owned()
            } else {
                format!("{title} ({})", inside.join(", "))
            }
        })
    };
    let vector = if has("avx2") { "avx2" } else { "avx" };
    let groups = [
        group(
            if has("avx2") { "AVX2" } else { "AVX" },
            vector,
            &[("avx_vnni", "VNNI")],
        ),
        group(
            "AVX-512",
            "avx512f",
            &[
                ("avx512_vnni", "VNNI"),
                ("avx512_bf16", "BF16"),
                ("avx512_fp16", "FP16"),
            ],
        ),
        group(
            "AMX",
            "amx_tile",
            &[
                ("amx_int8", "INT8"),
                ("amx_bf16", "BF16"),
                ("amx_fp16", "FP16"),
            ],
        ),
        group(
            "NEON",
            "neon",
            &[
                ("dotprod", "dot product"),
                ("fp16", "FP16"),
                ("bf16", "BF16"),
                ("i8mm", "INT8 matrix"),
            ],
        ),
        group(if has("sve2") { "SVE2" } else { "SVE" }, "sve", &[]),
        group("SME", "sme", &[]),
    ];
    let text = groups.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if text.is_empty() {
        "no vector extension known to orch".to_owned()
    } else {
        text
    }
}
