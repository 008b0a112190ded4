//! How much of a GPU's memory this process holds, by the driver's own word. Asked right after a run: neither ONNX Runtime
//! nor PyTorch gives memory back while its session lives, so what is held then is the most that was held.

use std::path::Path;

use serde::Serialize;

use super::Lease;
use super::native::nvml;

/// Bytes of a GPU's memory, and who says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    pub bytes: u64,
    pub by: &'static str,
}

/// None where the driver does not tell, as in some containers, where it knows the process by another number.
pub fn held(lease: &Lease) -> Option<Held> {
    if lease.id.starts_with("rocm") {
        return of_kfd(Path::new("/sys/class/kfd/kfd/proc"), std::process::id());
    }
    let bytes = nvml::held(lease.uuid.as_deref()?, std::process::id())?;
    Some(Held { bytes, by: "nvmlDeviceGetComputeRunningProcesses" })
}

/// The kernel's own account: a file for each GPU, below a folder for each process.
fn of_kfd(folder: &Path, process: u32) -> Option<Held> {
    let entries = std::fs::read_dir(folder.join(process.to_string())).ok()?.flatten();
    let files = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with("vram_")));
    let sizes: Vec<u64> =
        files.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()?.trim().parse().ok()).collect();
    (!sizes.is_empty()).then(|| Held { bytes: sizes.iter().sum(), by: "/sys/class/kfd/kfd/proc" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_an_amd_process_s_memory() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("7");
        std::fs::create_dir(&process).unwrap();
        assert_eq!(of_kfd(folder.path(), 7), None);
        std::fs::write(process.join("vram_51234"), "1048576\n").unwrap();
        std::fs::write(process.join("sdma_51234"), "99\n").unwrap();
        assert_eq!(of_kfd(folder.path(), 7).unwrap().bytes, 1 << 20);
        assert_eq!(of_kfd(folder.path(), 8), None);
    }
}
