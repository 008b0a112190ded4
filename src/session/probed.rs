//! Answers of native libraries, kept beside the environments: asking a browser or a driver takes from a tenth of a second to
//! several, and they answer the same until something is installed or the machine starts again.
//!
//! Only good answers are kept, for a quarter of an hour, under a digest of all that they could depend on. What is kept is
//! marked with the time when it was given, and holds nothing that changes by the minute.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::base::variable;
use crate::base::{Digest, fs as bfs, program};
use crate::device::Backend;
use crate::store::stat::{Moment, Stamp};

/// A GPU may be taken away or break while the machine runs; nobody should look at yesterday's.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// Changes by the minute.
const FLEETING: &[&str] = &["memory_free_bytes"];
/// Files that change with a driver, and the boot in which it was loaded.
const FILES: &[&str] = &[
    "/proc/sys/kernel/random/boot_id",
    "/proc/driver/nvidia/version",
    "/sys/module/amdgpu/version",
];
/// Beginnings of variables that vendors' libraries and browsers read.
const VARIABLES: &[&str] = &[
    "CUDA", "DISPLAY", "HIP", "HSA", "LD_", "MESA", "NVIDIA", "OCL", "ORT", "OPENVINO", "ROC",
    "VK_", "WAYLAND", "ZE",
];

/// The path in a folder at which an answer is kept that stands as long as nothing of all that changes.
pub(super) fn place(folder: &Path, name: &str, params: &Value) -> PathBuf {
    folder.join(format!("{name}-{}.json", key(name, params).short()))
}

/// The answer that is kept there, or that of `query`.
pub(super) fn or_query(
    path: &Path,
    query: impl FnOnce() -> Result<Backend, String>,
) -> Result<Backend, String> {
    if let Some(kept) = kept(path) {
        return Ok(kept);
    }
    let answer = query()?;
    if answer.available {
        // A cache that cannot be written costs the next call a probe.
        let _ = bfs::write_atomic(
            path,
            &serde_json::to_vec(&lasting(answer.clone())).unwrap_or_default(),
        );
    }
    Ok(answer)
}

fn key(name: &str, params: &Value) -> Digest {
    let mut lines = vec![name.to_owned(), params.to_string()];
    let exe = program::path().ok().and_then(|exe| installed(&exe));
    lines.push(format!("{exe:?}"));
    lines.extend(
        paths(params)
            .into_iter()
            .map(|path| format!("{path} {:?}", installed(path.as_ref()))),
    );
    lines.extend(
        FILES
            .iter()
            .map(|path| std::fs::read_to_string(path).unwrap_or_default()),
    );
    let read = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok()?;
        VARIABLES
            .iter()
            .any(|start| name.starts_with(start))
            .then(|| format!("{name}={value:?}"))
    };
    let mut variables: Vec<_> = variable::all().filter_map(read).collect();
    variables.sort();
    lines.extend(variables);
    Digest::of(lines.join("\n").as_bytes())
}

/// What distinguishes an installed file from another one: size, time of modification and inode.
///
/// The time of change is left out, for another name of a file changes it, and installers give files of one cache to
/// many environments by hard links.
fn installed(path: &Path) -> Option<(u64, Moment, u64)> {
    let stamp = Stamp::of(path).ok()?;
    Some((stamp.size, stamp.modified, stamp.inode))
}

/// Absolute paths anywhere in the parameters: the libraries that will be probed.
fn paths(params: &Value) -> Vec<&str> {
    match params {
        Value::String(text) if text.starts_with('/') => vec![text],
        Value::Array(items) => items.iter().flat_map(paths).collect(),
        Value::Object(fields) => fields.values().flat_map(paths).collect(),
        _ => vec![],
    }
}

fn kept(path: &Path) -> Option<Backend> {
    let given = std::fs::metadata(path).ok()?.modified().ok()?;
    let age = SystemTime::now()
        .duration_since(given)
        .ok()
        .filter(|age| *age < LONGEST)?;
    let mut backend: Backend = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    backend.fact("probed_seconds_ago", age.as_secs());
    Some(backend)
}

fn lasting(mut backend: Backend) -> Backend {
    for device in &mut backend.devices {
        FLEETING
            .iter()
            .for_each(|name| drop(device.facts.remove(*name)));
    }
    backend
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;
    use crate::device::{Device, DeviceKind};

    #[test]
    fn a_good_answer_is_kept_until_a_library_changes_and_a_bad_one_never() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("lib.so");
        std::fs::write(&library, "1").unwrap();
        let count = Cell::new(0);
        let query = |answer: Result<Backend, String>| {
            let params = json!({"libraries": [library.to_str().unwrap()]});
            or_query(
                &place(&folder.path().join("probes"), "cuda", &params),
                || {
                    count.set(count.get() + 1);
                    answer
                },
            )
        };
        assert!(query(Err("it died".to_owned())).is_err());
        assert!(
            !query(Ok(Backend::unavailable("cuda", "no driver")))
                .unwrap()
                .available
        );
        let mut device = Device::new("cuda:0", "NVIDIA H200", DeviceKind::Hardware);
        device.fact("memory_free_bytes", 7).fact("uuid", "GPU-1");
        let good = || Ok(Backend::available("cuda", vec![device.clone()]));
        assert_eq!(
            query(good()).unwrap().devices[0].facts["memory_free_bytes"],
            7
        );
        let kept = query(Err("not queried".to_owned())).unwrap();
        assert_eq!(
            (count.get(), &kept.devices[0].facts["uuid"]),
            (3, &json!("GPU-1"))
        );
        assert!(
            !kept.devices[0].facts.contains_key("memory_free_bytes"),
            "it would be an old figure"
        );
        assert!(kept.facts.contains_key("probed_seconds_ago"));
        std::fs::hard_link(&library, folder.path().join("other.so")).unwrap();
        query(Err("not queried".to_owned())).unwrap();
        assert_eq!(count.get(), 3, "another name is no other library");
        std::fs::write(&library, "22").unwrap();
        query(good()).unwrap();
        assert_eq!(count.get(), 4, "another library is another question");
    }
}
