//! MPS: Apple's GPU through Metal. Only macOS on Apple silicon has it, and `sysctl` says so.

use super::host::Host;
use super::{Backend, Device, DeviceKind, Look, Prober};

pub struct Mps;

impl Prober for Mps {
    fn look(&self, host: &Host, _thorough: bool) -> Look {
        if host.os != "macos" {
            return Backend::unavailable("mps", "not macOS").into();
        }
        let values = host.sysctl();
        let value = |key: &str| values.get(key).map(String::as_str);
        if host.arch != "aarch64" {
            let translated = value("sysctl.proc_translated") == Some("1");
            return if translated {
                Backend::unavailable("mps", "this orch is an x86_64 program under Rosetta, which has no MPS")
                    .with_remedy("install the arm64 build of orch")
            } else {
                Backend::unavailable("mps", "not Apple silicon: MPS needs an arm64 Mac")
            }
            .into();
        }
        let Some(chip) = value("machdep.cpu.brand_string") else {
            return Backend::unavailable("mps", "`/usr/sbin/sysctl` does not name the chip").into();
        };
        let mut device = Device::new("mps:0", format!("{chip} GPU"), DeviceKind::Hardware);
        // Unified memory: the GPU shares all of the machine's, up to a limit that Metal decides.
        device.memory_bytes = value("hw.memsize").and_then(|bytes| bytes.parse().ok());
        device.fact("memory", "unified with the CPU's");
        let mut backend = Backend::available("mps", vec![device]);
        backend.fact("macos", value("kern.osproductversion"));
        if value("hw.model").is_some_and(|model| model.starts_with("VirtualMac")) {
            backend.fact("note", "a virtual machine: Metal is paravirtual here, and MPS may refuse");
        }
        backend.into()
    }
}
