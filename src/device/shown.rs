//! What a process that was lent a GPU is really shown, by CUDA's driver, before anything is measured.
//!
//! The lease names a GPU by its UUID, and the process is shown it by a variable. That what is shown is that GPU, and as
//! a whole, is CUDA's to say: of a partitioned GPU (MIG) it shows the first slice when the GPU is named.

use libloading::Library;
use libloading::os::unix::Library as Loaded;
use serde::Serialize;

use super::Lease;
use super::native::{cuda, open_nvidia};
use crate::base::ensure;

const DRIVER: &str = "libcuda.so.1";

/// The one GPU of this process, by CUDA's own word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    #[serde(flatten)]
    gpu: cuda::Gpu,
    /// The CUDA that the driver speaks: `13.0`
    pub cuda_driver: String,
    /// The CUDA of the runtime library that is loaded; None where none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_runtime: Option<String>,
}

/// Starts CUDA's driver and makes sure that it shows the leased GPU and no other; otherwise the run is unavailable, for
/// the reason that is returned. Files do not always have the UUID that the lease then gets, and by which NVML finds the GPU.
pub fn nvidia(lease: &mut Lease) -> Result<Shown, String> {
    let library =
        open_nvidia(DRIVER).map_err(|why| format!("CUDA's driver library does not load: {why}"))?;
    let shown = shown(&library, lease, runtime());
    // The runtimes use it until the process ends.
    std::mem::forget(library);
    let shown = shown?;
    lease.uuid.get_or_insert_with(|| shown.gpu.uuid.clone());
    Ok(shown)
}

fn shown(library: &Library, lease: &Lease, runtime: Option<u32>) -> Result<Shown, String> {
    let version = |number: u32| format!("{}.{}", number / 1000, number % 1000 / 10);
    let driver = cuda::start(library)
        .map_err(|why| format!("CUDA's driver does not start: {why}{}", remedy(&why)))?;
    // Within a major version an older driver serves a newer runtime.
    if let Some(newer) = runtime.filter(|runtime| runtime / 1000 > driver / 1000) {
        let speaks = version(driver);
        let needed = version(newer);
        return Err(format!(
            "NVIDIA's driver is too old: it speaks CUDA {speaks}, and the runtime library is of CUDA {needed}; update the driver"
        ));
    }
    let (count, gpu) =
        cuda::first(library).map_err(|why| format!("CUDA does not tell its GPU: {why}"))?;
    let gpu =
        gpu.ok_or_else(|| format!("{} is leased, and CUDA shows this process no GPU", lease.id))?;
    ensure(count == 1, || {
        format!(
            "{} is leased, and CUDA shows this process {count} GPUs",
            lease.id
        )
    })?;
    if let Some(leased) = lease.uuid.as_ref().filter(|leased| **leased != gpu.uuid) {
        return Err(format!(
            "{} ({leased}) is leased, and CUDA shows this process {} ({}): a slice, if the GPU is partitioned (MIG), which orch does not run on",
            lease.id, gpu.name, gpu.uuid
        ));
    }
    let cuda_driver = version(driver);
    let cuda_runtime = runtime.map(version);
    Ok(Shown {
        gpu,
        cuda_driver,
        cuda_runtime,
    })
}

fn remedy(why: &str) -> &'static str {
    let hints = [
        (
            "(error 802)",
            "; on machines with NVSwitch nvidia-fabricmanager must run",
        ),
        (
            "(error 803)",
            "; its library and its kernel module are of different versions: reboot, or reload the module",
        ),
        (
            "(error 804)",
            "; a compatibility library (cuda-compat) is on the loader's path that this GPU cannot use",
        ),
    ];
    hints
        .iter()
        .find(|(code, _)| why.ends_with(code))
        .map_or("", |(_, hint)| hint)
}

/// The version of CUDA's runtime library, if one is loaded for all to see; asking it does not start the driver.
fn runtime() -> Option<u32> {
    let mut version: std::ffi::c_int = 0;
    // SAFETY: the function is looked up among what is loaded, and has this type in all of CUDA's releases.
    let status = unsafe {
        let all = Loaded::this();
        let get = all.get::<unsafe extern "C" fn(*mut std::ffi::c_int) -> std::ffi::c_int>(
            b"cudaRuntimeGetVersion\0",
        );
        get.ok()?(&mut version)
    };
    (status == 0 && version > 0).then_some(version.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::native::built;

    const UUID: &str = "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf";

    /// What the constructed driver says to a process that was lent the GPU of that UUID.
    fn with(define: &str, uuid: Option<&str>, runtime: u32) -> Result<Shown, String> {
        let (_folder, library) = built("cuda.c", DRIVER, define);
        let id = "cuda:3".to_owned();
        let name = "NVIDIA H100".to_owned();
        let uuid = uuid.map(str::to_owned);
        let lease = Lease {
            id,
            name,
            uuid,
            pci: None,
            memory_bytes: None,
            env: Default::default(),
        };
        shown(
            &crate::device::native::open(&library).unwrap(),
            &lease,
            Some(runtime),
        )
    }

    #[test]
    fn the_leased_gpu_is_described_by_cuda_itself() {
        let shown = with("-DOK", Some(UUID), 13010).unwrap();
        assert_eq!(
            (shown.gpu.name.as_str(), shown.gpu.uuid.as_str()),
            ("NVIDIA H100 80GB HBM3", UUID)
        );
        assert_eq!(
            (
                shown.gpu.memory_bytes,
                shown.gpu.compute_capability.as_str()
            ),
            (85_029_158_912, "9.0")
        );
        assert_eq!(
            (shown.cuda_driver.as_str(), shown.cuda_runtime.as_deref()),
            ("13.0", Some("13.1"))
        );
        // Files do not always tell a UUID, and an older runtime is served.
        assert_eq!(
            with("-DOK", None, 12080).unwrap().cuda_runtime.as_deref(),
            Some("12.8")
        );
    }

    #[test]
    fn another_gpu_than_the_leased_one_is_not_run_on() {
        let slice = with("-DOK", Some("GPU-1"), 13000).unwrap_err();
        assert!(slice.starts_with(
            "cuda:3 (GPU-1) is leased, and CUDA shows this process NVIDIA H100 80GB HBM3 (GPU-a0"
        ));
        assert!(slice.contains("partitioned (MIG)"), "{slice}");
        assert!(
            with("-DCOUNT=0", None, 13000)
                .unwrap_err()
                .ends_with("CUDA shows this process no GPU")
        );
        assert!(
            with("-DCOUNT=2", None, 13000)
                .unwrap_err()
                .ends_with("CUDA shows this process 2 GPUs")
        );
    }

    #[test]
    fn a_driver_that_is_too_old_or_does_not_start_is_a_reason_with_its_remedy() {
        assert_eq!(
            with("-DVERSION=12040", Some(UUID), 13000).unwrap_err(),
            "NVIDIA's driver is too old: it speaks CUDA 12.4, and the runtime library is of CUDA 13.0; update the driver"
        );
        let why = with("-DINIT=802", Some(UUID), 13000).unwrap_err();
        assert!(
            why.starts_with(
                "CUDA's driver does not start: system not yet initialized (error 802); "
            ),
            "{why}"
        );
        assert!(why.ends_with("nvidia-fabricmanager must run"), "{why}");
    }
}
