//! MPS: Apple's GPU through Metal. Only macOS on Apple silicon has it, and `sysctl` says so.

use super::host::Host;
use super::{Absent, Backend, Device, DeviceKind, Look};
use crate::base::ensure;

pub(super) fn look(host: &Host, _thorough: bool) -> Result<Look, Absent> {
    let unavailable = |why: &str| Backend::unavailable("mps", why);
    ensure(host.os == "macos", || unavailable("not macOS"))?;
    let values = host.sysctl();
    let value = |key: &str| values.get(key).map(String::as_str);
    if host.arch != "aarch64" {
        if value("sysctl.proc_translated") == Some("1") {
            let absent =
                unavailable("this orch is an x86_64 program under Rosetta, which has no MPS");
            return Err(absent.with_remedy("install the arm64 build of orch").into());
        }
        return Err(unavailable("not Apple silicon: MPS needs an arm64 Mac").into());
    }
    let chip = value("machdep.cpu.brand_string")
        .ok_or_else(|| unavailable("`/usr/sbin/sysctl` does not name the chip"))?;
    let mut device = Device::new("mps:0", format!("{chip} GPU"), DeviceKind::Hardware);
    // Unified memory: the GPU shares all of the machine's, up to a limit that Metal decides.
    device.memory_bytes = value("hw.memsize").and_then(|bytes| bytes.parse().ok());
    device.fact("memory", "unified with the CPU's");
    let mut backend = Backend::available("mps", vec![device]);
    backend.fact("macos", value("kern.osproductversion"));
    if value("hw.model").is_some_and(|model| model.starts_with("VirtualMac")) {
        backend.fact(
            "note",
            "a virtual machine: Metal is paravirtual here, and MPS may refuse",
        );
    }
    Ok(backend.into())
}
