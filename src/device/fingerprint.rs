//! A stable name for "machines like this one", for the keys of measurements.
//!
//! | value | in the digest | why |
//! |---|---|---|
//! | architecture, CPU model, instruction sets | yes | they decide which kernels run |
//! | the CPU's family, model and stepping, its caches, all its flags | yes | a hypervisor gives unlike CPUs one name; libraries divide their work by the size of caches |
//! | operating system and its release | yes | allocator, scheduler and libraries change with it |
//! | physical cores, usable threads (affinity, quota) | yes | a container with two of 64 cores is another machine |
//! | memory, rounded up to a usual size | yes; of runs that are not timed, no | as a class: the kernel reserves a little more or less at each boot |
//! | host name, user, serial numbers, addresses | no | two equal machines must share their measurements |
//! | kernel build, microcode, clock, free memory | no | they change under one machine; records keep them as facts |
//! | GPUs and other devices | no | a measurement names its device itself |

use serde::{Deserialize, Serialize};

use super::cpu;
use super::host::{Host, field};
use crate::base::Digest;
use crate::base::figures::counted;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Fingerprint {
    /// 64 hex digits over the table above.
    pub digest: String,
    /// The digest without the memory: it decides how fast something is computed, or whether at all, and never what
    /// comes out.
    #[serde(skip)]
    pub computing: String,
    /// One line for people, without a host name.
    pub summary: String,
    /// The CPU's own name.
    pub cpu: String,
    /// What tells it from other CPUs of that name ([`cpu::Info::identity`]).
    pub cpu_identity: String,
    /// `Debian GNU/Linux 12 (bookworm)`, `macOS 15.3`
    pub os: String,
    /// Hardware threads that this process may use.
    pub cores: u32,
    /// Bytes that this process may use.
    pub memory_bytes: u64,
}

/// Usual sizes of memory, in GiB.
const CLASSES: &[u64] = &[
    1, 2, 3, 4, 6, 8, 12, 16, 18, 24, 32, 36, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048,
];

pub fn fingerprint(host: &Host) -> Fingerprint {
    let info = cpu::read(host);
    let (release, os) = system(host);
    let class = memory_class(info.usable_memory());
    let computing = format!(
        "host-fingerprint 2\narch {}\ncpu {}\nidentity {}\nfeatures {}\nos {release}\nphysical {}\nusable {}\n",
        host.arch,
        info.model,
        info.identity,
        info.features.join(" "),
        info.physical.unwrap_or(0),
        info.usable,
    );
    let threads = counted(info.usable, "thread");
    Fingerprint {
        digest: Digest::of(format!("{computing}memory {class} GiB\n").as_bytes()).to_string(),
        computing: Digest::of(computing.as_bytes()).to_string(),
        summary: format!(
            "{}, {threads}, {class} GiB, {os}, {}",
            info.model, host.arch
        ),
        cpu: info.model.clone(),
        cpu_identity: info.identity.clone(),
        os,
        cores: info.usable,
        memory_bytes: info.usable_memory(),
    }
}

/// The least usual size that holds these bytes.
fn memory_class(bytes: u64) -> u64 {
    let gib = bytes.div_ceil(1 << 30);
    CLASSES
        .iter()
        .copied()
        .find(|class| *class >= gib)
        .unwrap_or_else(|| gib.next_power_of_two())
}

/// The release as the digest sees it, and as people read it.
fn system(host: &Host) -> (String, String) {
    if host.os == "macos" {
        let version = host
            .sysctl()
            .get("kern.osproductversion")
            .cloned()
            .unwrap_or_else(|| "?".to_owned());
        let major = version.split('.').next().unwrap_or_default();
        return (format!("macos {major}"), format!("macOS {version}"));
    }
    let text = host
        .text("/etc/os-release")
        .or_else(|| host.text("/usr/lib/os-release"))
        .unwrap_or_default();
    let field = |name: &str| {
        Some(
            field(&text, name, '=')?
                .trim_matches(['"', '\''])
                .to_owned(),
        )
    };
    let id = field("ID").unwrap_or_else(|| host.os.clone());
    let version = field("VERSION_ID").unwrap_or_else(|| "rolling".to_owned());
    let shown = field("PRETTY_NAME").unwrap_or_else(|| format!("{id} {version}"));
    (format!("{} {id} {version}", host.os), shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_classes_absorb_what_the_kernel_reserves() {
        let gib = |g: f64| memory_class((g * f64::from(1 << 30)) as u64);
        assert_eq!(
            [
                gib(15.3),
                gib(15.6),
                gib(16.0),
                gib(23.5),
                gib(1007.5),
                gib(5000.0)
            ],
            [16, 16, 16, 24, 1024, 8192]
        );
    }
}
