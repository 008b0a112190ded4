//! NVIDIA's management library, asked for what it knows of each GPU. Starts no CUDA context and allocates nothing on a GPU.

use std::ffi::{CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::path::Path;

use libloading::Library;

use super::{function, open, open_nvidia, text};
use crate::device::{Backend, Device, DeviceKind};

type Handle = *mut c_void;
type Status = c_int;

#[repr(C)]
#[derive(Default)]
struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// An error of NVML: its number, and its own words.
struct Failure {
    code: Status,
    words: String,
}

/// Tries each library in turn; the first that opens is asked.
pub(crate) fn probe(libraries: &[&str]) -> Backend {
    let mut tried = vec![];
    for path in libraries {
        match open(Path::new(path)) {
            Ok(library) => return ask(&library, path),
            Err(why) => tried.push(why),
        }
    }
    // The last failure is the most specific one: a path that exists and does not open, after a search that found nothing.
    let why = tried.pop().unwrap_or_else(|| "no library was named".to_owned());
    Backend::unavailable("cuda", format!("the driver's library does not load: {why}"))
        .with_remedy("reinstall the NVIDIA driver, and see that its libraries match this process's architecture")
}

fn ask(library: &Library, path: &str) -> Backend {
    let nvml = Nvml { library };
    let started: Result<(), Failure> = nvml.call("nvmlInit_v2", |f: unsafe extern "C" fn() -> Status| {
        // SAFETY: nvmlInit_v2 takes nothing and returns a status.
        unsafe { f() }
    });
    if let Err(failure) = started {
        return refused(&failure, path);
    }
    let answer = nvml.backend().unwrap_or_else(|failure| refused(&failure, path));
    let _ = nvml.call("nvmlShutdown", |f: unsafe extern "C" fn() -> Status| {
        // SAFETY: nvmlShutdown takes nothing and returns a status.
        unsafe { f() }
    });
    answer
}

/// `nvmlProcessInfo_t`
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Process {
    id: c_uint,
    used: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// Bytes that a process holds on the GPU of that UUID. None where NVML does not see it, or does not tell.
pub(crate) fn held(uuid: &str, process: u32) -> Option<u64> {
    held_by(&open_nvidia("libnvidia-ml.so.1").ok()?, uuid, process)
}

fn held_by(library: &Library, uuid: &str, process: u32) -> Option<u64> {
    type List = unsafe extern "C" fn(Handle, *mut c_uint, *mut Process) -> Status;
    let (nvml, handle) = by_uuid(library, uuid)?;
    let mut list = [Process::default(); 256];
    let mut count = list.len() as c_uint;
    // SAFETY: the types are those of nvml.h, and `count` says how many rows the list has room for.
    let asked = "nvmlDeviceGetComputeRunningProcesses_v3";
    nvml.call(asked, |f: List| unsafe { f(handle, &mut count, list.as_mut_ptr()) }).ok()?;
    let row = list.iter().take(count as usize).find(|row| row.id == process)?;
    // NVML_VALUE_NOT_AVAILABLE
    (row.used != c_ulonglong::MAX).then_some(row.used)
}

/// Bytes that all processes together hold on the GPU of that UUID.
pub(crate) fn used(uuid: &str) -> Option<u64> {
    used_of(&open_nvidia("libnvidia-ml.so.1").ok()?, uuid)
}

fn used_of(library: &Library, uuid: &str) -> Option<u64> {
    type MemoryInfo = unsafe extern "C" fn(Handle, *mut Memory) -> Status;
    let (nvml, handle) = by_uuid(library, uuid)?;
    let mut memory = Memory::default();
    // SAFETY: `Memory` has the layout of nvmlMemory_t.
    nvml.call("nvmlDeviceGetMemoryInfo", |f: MemoryInfo| unsafe { f(handle, &mut memory) }).ok()?;
    Some(memory.used)
}

fn by_uuid<'l>(library: &'l Library, uuid: &str) -> Option<(Nvml<'l>, Handle)> {
    type Find = unsafe extern "C" fn(*const c_char, *mut Handle) -> Status;
    let nvml = Nvml { library };
    let uuid = CString::new(uuid).ok()?;
    let mut handle: Handle = std::ptr::null_mut();
    // SAFETY: the types are those of nvml.h.
    nvml.call("nvmlInit_v2", |f: unsafe extern "C" fn() -> Status| unsafe { f() }).ok()?;
    nvml.call("nvmlDeviceGetHandleByUUID", |f: Find| unsafe { f(uuid.as_ptr(), &mut handle) }).ok()?;
    Some((nvml, handle))
}

fn refused(failure: &Failure, path: &str) -> Backend {
    let remedy = match failure.code {
        // NVML_ERROR_NO_PERMISSION, DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH, GPU_IS_LOST (nvml.h).
        4 => "let this user read and write /dev/nvidia*",
        9 => "load the NVIDIA kernel module: `modprobe nvidia`",
        18 => "reboot, or reload the NVIDIA kernel module: it and the library are of different driver versions",
        15 => "reset the GPU or reboot: it has fallen off the bus",
        _ => "see what `nvidia-smi` says",
    };
    Backend::unavailable("cuda", format!("NVML ({path}) refuses: {}", failure.words)).with_remedy(remedy)
}

struct Nvml<'a> {
    library: &'a Library,
}

impl Nvml<'_> {
    /// Calls a function that returns a status; a missing function is a failure too, as of an ancient driver.
    fn call<F: Copy>(&self, name: &str, run: impl FnOnce(F) -> Status) -> Result<(), Failure> {
        // SAFETY: every caller states the function's type as nvml.h declares it, and the library outlives the call.
        let found: F = unsafe { function(self.library, name) }.map_err(|words| Failure { code: -1, words })?;
        match run(found) {
            0 => Ok(()),
            code => Err(Failure { code, words: self.words(code) }),
        }
    }

    fn words(&self, code: Status) -> String {
        type ErrorString = unsafe extern "C" fn(Status) -> *const c_char;
        // SAFETY: nvmlErrorString returns a static string for every number.
        let words =
            unsafe { function::<ErrorString>(self.library, "nvmlErrorString").ok().and_then(|f| text(f(code))) };
        words.map_or_else(|| format!("error {code}"), |words| format!("{} (error {code})", words.to_lowercase()))
    }

    fn backend(&self) -> Result<Backend, Failure> {
        type Count = unsafe extern "C" fn(*mut c_uint) -> Status;
        let mut count: c_uint = 0;
        // SAFETY: the pointer is to a live integer of the declared type.
        self.call("nvmlDeviceGetCount_v2", |f: Count| unsafe { f(&mut count) })?;
        let mut devices = vec![];
        let mut broken = vec![];
        for index in 0..count {
            match self.device(index, devices.len()) {
                Ok(device) => devices.push(device),
                Err(failure) => broken.push(format!("GPU {index}: {}", failure.words)),
            }
        }
        let mut backend = match (devices.is_empty(), broken.first()) {
            (true, None) => Backend::unavailable("cuda", "the NVIDIA driver is loaded and finds no GPU"),
            (true, Some(first)) => Backend::unavailable("cuda", format!("no GPU answers: {first}"))
                .with_remedy("see what `nvidia-smi` says"),
            (false, _) => Backend::available("cuda", devices),
        };
        if !broken.is_empty() {
            backend.fact("broken", broken);
        }
        backend.fact("driver", self.system_string("nvmlSystemGetDriverVersion"));
        backend.fact("nvml", self.system_string("nvmlSystemGetNVMLVersion"));
        let mut version: c_int = 0;
        type CudaVersion = unsafe extern "C" fn(*mut c_int) -> Status;
        // SAFETY: the pointer is to a live integer of the declared type.
        if self.call("nvmlSystemGetCudaDriverVersion_v2", |f: CudaVersion| unsafe { f(&mut version) }).is_ok() {
            backend.fact("cuda_driver", format!("{}.{}", version / 1000, version % 1000 / 10));
        }
        Ok(backend)
    }

    fn device(&self, index: c_uint, ordinal: usize) -> Result<Device, Failure> {
        type ByIndex = unsafe extern "C" fn(c_uint, *mut Handle) -> Status;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a live handle.
        self.call("nvmlDeviceGetHandleByIndex_v2", |f: ByIndex| unsafe { f(index, &mut handle) })?;
        let name = self.device_string(handle, "nvmlDeviceGetName")?;
        let mut device = Device::new(format!("cuda:{ordinal}"), name, DeviceKind::Hardware);
        let mut memory = Memory::default();
        type MemoryInfo = unsafe extern "C" fn(Handle, *mut Memory) -> Status;
        // SAFETY: `Memory` has the layout of nvmlMemory_t: three unsigned 64-bit integers. A GPU with unified memory
        // (Grace, Jetson) refuses; its memory is then unknown here.
        if self.call("nvmlDeviceGetMemoryInfo", |f: MemoryInfo| unsafe { f(handle, &mut memory) }).is_ok() {
            device.memory_bytes = Some(memory.total);
            device.fact("memory_free_bytes", memory.free);
        }
        if let Some((major, minor)) = self.pair(handle, "nvmlDeviceGetCudaComputeCapability") {
            device.fact("compute_capability", format!("{major}.{minor}"));
            // From NVIDIA's table of arithmetic throughput: fp16 from 5.3, dot products of int8 from 6.1, bf16 from 8.0.
            let since = [("fp32", (0, 0)), ("fp16", (5, 3)), ("int8", (6, 1)), ("bf16", (8, 0))];
            let has = since.iter().filter(|(_, from)| (major, minor) >= *from).map(|(name, _)| *name);
            device.fact("precisions", has.collect::<Vec<_>>());
        }
        device.fact("uuid", self.device_string(handle, "nvmlDeviceGetUUID").ok());
        if let Some((current, _)) = self.pair(handle, "nvmlDeviceGetMigMode") {
            // Only partitioning that is on is worth a word: CUDA then shows slices and not this GPU.
            device.fact("mig", (current == 1).then_some(true));
        }
        Ok(device)
    }

    fn pair(&self, handle: Handle, name: &str) -> Option<(c_int, c_int)> {
        type Pair = unsafe extern "C" fn(Handle, *mut c_int, *mut c_int) -> Status;
        let (mut a, mut b) = (0, 0);
        // SAFETY: both functions read this way take two pointers to 32-bit integers.
        self.call(name, |f: Pair| unsafe { f(handle, &mut a, &mut b) }).ok().map(|()| (a, b))
    }

    fn device_string(&self, handle: Handle, name: &str) -> Result<String, Failure> {
        type Text = unsafe extern "C" fn(Handle, *mut c_char, c_uint) -> Status;
        // 96 bytes is NVML's largest buffer for these strings (NVML_DEVICE_UUID_V2_BUFFER_SIZE).
        let mut buffer = [0; 128];
        // SAFETY: the length handed over leaves room for a terminator in a zeroed buffer.
        self.call(name, |f: Text| unsafe { f(handle, buffer.as_mut_ptr(), 96) })?;
        // SAFETY: the buffer ends in zeros.
        Ok(unsafe { text(buffer.as_ptr()) }.unwrap_or_default())
    }

    fn system_string(&self, name: &str) -> Option<String> {
        type Text = unsafe extern "C" fn(*mut c_char, c_uint) -> Status;
        let mut buffer = [0; 128];
        // SAFETY: as in `device_string`.
        self.call(name, |f: Text| unsafe { f(buffer.as_mut_ptr(), 96) }).ok()?;
        // SAFETY: the buffer ends in zeros.
        unsafe { text(buffer.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_s_memory_is_found_by_the_gpu_s_uuid_and_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libnvidia-ml.so.1");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/native/nvml.c");
        let mut cc = std::process::Command::new("cc");
        assert!(cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status().unwrap().success());
        let library = open(&library).unwrap();
        let first = "GPU-00000001-0000-1111-2222-333344445555";
        assert_eq!(held_by(&library, first, 4711), Some(600 << 20));
        assert_eq!(held_by(&library, first, 4712), None, "its driver does not tell");
        assert_eq!(held_by(&library, first, 1), None);
        assert_eq!(held_by(&library, "GPU-ffffffff", 4711), None);
        assert_eq!(used_of(&library, first), Some(1 << 20), "all processes together");
        assert_eq!(used_of(&library, "GPU-ffffffff"), None);
    }
}
