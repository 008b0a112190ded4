//! How much of a GPU's memory this process holds, by the driver's own word. Read right after a run: neither ONNX Runtime
//! nor PyTorch gives memory back while its session lives, so what is held then is the most that was held.
//!
//! In a container NVIDIA's driver may know the process by no number that it has here. Then what all processes together hold
//! is compared with what they held before; a timed run has its GPU to itself, as far as orch's own steps go. Of a run that
//! shares its GPU nothing is known then.

use std::path::Path;

use serde::Serialize;

use super::Lease;
use super::conditions::DeviceState;
use super::native::nvml;

/// Bytes of a GPU's memory, and who says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    pub bytes: u64,
    pub by: &'static str,
}

/// Looks before a run and after it.
pub struct Meter<'a> {
    lease: &'a Lease,
    /// Bytes that all processes held before.
    before: Option<u64>,
    /// Processes that computed on it before.
    others: Option<u32>,
}

impl<'a> Meter<'a> {
    /// Starts before anything is loaded onto the GPU. `is_alone`: no other step uses it meanwhile.
    pub fn start(lease: &'a Lease, is_alone: bool) -> Self {
        let uuid = lease
            .uuid
            .as_deref()
            .filter(|_| is_alone && is_nvidia(lease));
        Self {
            lease,
            before: uuid.and_then(|uuid| nvml::query(uuid, nvml::used)),
            others: uuid.and_then(|uuid| nvml::query(uuid, nvml::processes)),
        }
    }

    /// What disturbed a timed run on it, read right after the last sample. None where the driver does not report it.
    pub fn state(&self) -> Option<DeviceState> {
        let uuid = self
            .lease
            .uuid
            .as_deref()
            .filter(|_| is_nvidia(self.lease))?;
        Some(DeviceState {
            other_processes: self.others?,
            throttled: nvml::query(uuid, nvml::throttled).unwrap_or_default(),
        })
    }

    /// None where the driver does not tell.
    pub fn held(&self) -> Option<Held> {
        let process = std::process::id();
        if !is_nvidia(self.lease) {
            return of_kfd(Path::new("/sys/class/kfd/kfd/proc"), process);
        }
        let uuid = self.lease.uuid.as_deref()?;
        let own = nvml::query(uuid, |gpu| nvml::held(gpu, process)).map(|bytes| Held {
            bytes,
            by: "nvmlDeviceGetComputeRunningProcesses",
        });
        own.or_else(|| grown(self.before?, nvml::query(uuid, nvml::used)?))
    }
}

fn is_nvidia(lease: &Lease) -> bool {
    lease.id.starts_with("cuda")
}

fn grown(before: u64, after: u64) -> Option<Held> {
    let bytes = after.checked_sub(before).filter(|bytes| *bytes > 0)?;
    Some(Held {
        bytes,
        by: "nvmlDeviceGetMemoryInfo, after the run less before it",
    })
}

/// The kernel's own account: a file for each GPU, below a folder for each process.
fn of_kfd(folder: &Path, process: u32) -> Option<Held> {
    let entries = std::fs::read_dir(folder.join(process.to_string()))
        .ok()?
        .flatten();
    let files = entries.filter(|entry| {
        entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with("vram_"))
    });
    let sizes: Vec<u64> = files
        .filter_map(|entry| {
            std::fs::read_to_string(entry.path())
                .ok()?
                .trim()
                .parse()
                .ok()
        })
        .collect();
    (!sizes.is_empty()).then(|| Held {
        bytes: sizes.iter().sum(),
        by: "/sys/class/kfd/kfd/proc",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_hold_counts_only_by_how_much_it_grew() {
        assert_eq!(grown(1 << 20, 5 << 20).unwrap().bytes, 4 << 20);
        assert_eq!(
            (grown(5, 5), grown(5, 4)),
            (None, None),
            "another process gave back more: nothing is known"
        );
    }

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
