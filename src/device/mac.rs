//! macOS by one call of `sysctl`: the CPU, and what the MPS prober needs. Knows nothing of Metal itself.

use std::collections::BTreeMap;
use std::path::Path;

use super::cpu::Info;
use super::host::Host;

/// Everything that any prober needs, in one process. A name that this macOS lacks costs only its own line.
const NAMES: [&str; 4] = [
    "hw",
    "machdep.cpu",
    "kern.osproductversion",
    "sysctl.proc_translated",
];

/// `sysctl`'s lines; empty when it cannot run.
pub(crate) fn sysctl(host: &Host) -> BTreeMap<String, String> {
    // By the host's own path: a fixture's root prefixes only files that are read.
    let program = host.at("/usr/sbin/sysctl");
    let Some(output) = host.tool(Path::new(&program), &NAMES) else {
        return BTreeMap::new();
    };
    let pair = |line: &str| {
        line.split_once(": ")
            .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
    };
    output.stdout.lines().filter_map(pair).collect()
}

pub(crate) fn cpu(host: &Host, features: &[(&'static str, &[&str], &str)]) -> Info {
    let values = host.sysctl();
    let number = |key: &str| values.get(key).and_then(|value| value.parse::<u64>().ok());
    let cores = |key: &str| {
        number(key)
            .and_then(|n| u32::try_from(n).ok())
            .filter(|n| *n > 0)
    };
    let logical = cores("hw.logicalcpu").unwrap_or(1);
    let known = |(name, key): (&str, &str)| Some(format!("{name} {}", values.get(key)?));
    let identity = [
        ("family", "hw.cpufamily"),
        ("L1d", "hw.l1dcachesize"),
        ("L2", "hw.l2cachesize"),
    ];
    Info {
        identity: identity
            .into_iter()
            .filter_map(known)
            .collect::<Vec<_>>()
            .join(", "),
        model: values
            .get("machdep.cpu.brand_string")
            .cloned()
            .unwrap_or_else(|| format!("unknown {} CPU", host.arch)),
        physical: cores("hw.physicalcpu"),
        logical,
        usable: logical,
        memory_bytes: number("hw.memsize").unwrap_or(0),
        memory_limit: None,
        memory_available: None,
        features: features
            .iter()
            .filter(|(.., key)| number(key) == Some(1))
            .map(|(name, ..)| *name)
            .collect(),
    }
}
