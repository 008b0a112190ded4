//! Hardware and runtimes that this machine has: one prober per file, looked up by name.
//!
//! A prober looks at this host (files, drivers, the version a library reports) and never at the spec. What it cannot
//! find it reports with the reason and the remedy; the environment can hide devices, never invent them.
//!
//! Probing has two depths. [`inventory_cheap`] reads files only, starts no process and takes a few milliseconds at most: it
//! runs before every build. [`probe_all`] also asks native libraries, each in a child process that the caller starts,
//! because a broken driver must end as a reason and not as a crash of orch.

pub mod android;
pub mod backends;
pub mod candidates;
pub mod cgroups;
pub mod conditions;
pub mod cpu;
pub mod cuda;
pub mod doctor;
pub mod fingerprint;
pub mod probed;
pub mod host;
pub mod lease;
pub mod machine_lock;
mod limits;
mod mac;
pub mod mps;
pub(crate) mod native;
pub mod openvino;
mod pci;
pub mod qnn;
pub mod render;
pub mod rocm;
mod rocminfo;
pub mod shown;
pub mod snapdragon;
mod visible;
pub mod vram;
mod web;
pub mod webgpu;
pub mod webgpu_browser;
pub mod webnn;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::thread;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use backends::{BACKENDS, BackendRow};
pub use conditions::Conditions;
pub use fingerprint::{Fingerprint, fingerprint};
pub use host::{Host, Libraries};
pub use lease::Lease;
pub use limits::{free_memory, kernel_oom_kills, whole_memory};
pub(crate) use web::adapter as browser_adapter;

/// What one prober found.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Backend {
    /// cpu, cuda, rocm, mps, openvino, qnn, qnn-android, webgpu, webgpu-browser, webnn
    pub name: String,
    pub available: bool,
    /// Why it is unavailable: what was looked for and not found. None when available.
    pub reason: Option<String>,
    /// The command or action that mends it. None when available or when nothing can.
    pub remedy: Option<String>,
    pub devices: Vec<Device>,
    /// Versions of drivers and libraries, SoC, environment variables that were honoured, …
    ///
    /// One key has a meaning for all backends: `hidden` (devices that an environment variable hides:
    /// `[{"name":…,"by":"CUDA_VISIBLE_DEVICES=1"}]`).
    pub facts: Map<String, Value>,
    /// What runtimes on its devices answered to the probe of half precision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub half: Vec<probed::HalfAnswer>,
}

/// A device that the backend can use.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// `cuda:0`, `openvino:CPU`, `cpu`
    pub id: String,
    /// The vendor's name.
    pub name: String,
    /// Real silicon, or a stand-in that must be labelled as such.
    pub kind: DeviceKind,
    /// Bytes of its own memory; of the machine's where it shares that.
    pub memory_bytes: Option<u64>,
    /// What its driver or library says of it, e.g. `uuid`, `precisions`, `compute_capability`.
    pub facts: Map<String, Value>,
}

/// What a device is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    Hardware,
    /// An instruction-level stand-in for other silicon (QNN's x86 HTP).
    Emulator,
    /// A software rasterizer posing as a GPU.
    Software,
}

impl Backend {
    pub fn available(name: &str, devices: Vec<Device>) -> Self {
        Self {
            name: name.to_owned(),
            available: true,
            reason: None,
            remedy: None,
            devices,
            facts: Map::new(),
            half: vec![],
        }
    }

    pub fn unavailable(name: &str, reason: impl Into<String>) -> Self {
        Self {
            available: false,
            reason: Some(reason.into()),
            ..Self::available(name, vec![])
        }
    }

    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The library of an environment that orch installed is not there any more.
    fn gone(name: &str, library: &Path, facts: Map<String, Value>) -> Self {
        let absent = Self::unavailable(name, format!("its library is gone: {}", library.display()));
        let remedy = format!(
            "remove the `{name}` environment that orch installed; the next run installs it again"
        );
        absent.with_remedy(remedy).with_facts(facts)
    }

    /// What another look found stays known.
    #[must_use]
    pub fn with_facts(self, facts: Map<String, Value>) -> Self {
        Self { facts, ..self }
    }

    /// What files hold, of the parameters of a query: a child does not know the host's files.
    fn looked(params: &Value) -> Self {
        serde_json::from_value(params["backend"].clone())
            .expect("BUG: the parameters of a probe hold no backend")
    }

    /// Adds a fact; a null value adds nothing, so that absent facts are absent keys.
    pub fn fact(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        add(&mut self.facts, key, value.into());
        self
    }

    /// The devices that an environment variable hides, as (name, `VARIABLE=value`).
    pub fn hidden(&self) -> Vec<(&str, &str)> {
        let hidden = self
            .facts
            .get("hidden")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        hidden
            .filter_map(|entry| Some((entry["name"].as_str()?, entry["by"].as_str()?)))
            .collect()
    }
}

impl Device {
    pub fn new(id: impl Into<String>, name: impl Into<String>, kind: DeviceKind) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            kind,
            memory_bytes: None,
            facts: Map::new(),
        }
    }

    /// Its name in keys. A browser's device has its own only once a page was opened, and asking must change no key.
    pub fn known_as(&self) -> &str {
        self.facts
            .get("known_as")
            .and_then(|name| name.as_str())
            .unwrap_or(&self.name)
    }

    /// Adds a fact; a null value adds nothing.
    pub fn fact(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        add(&mut self.facts, key, value.into());
        self
    }
}

fn add(facts: &mut Map<String, Value>, key: &str, value: Value) {
    if !value.is_null() {
        facts.insert(key.to_owned(), value);
    }
}

/// All of this host: what `orch devices --json` prints, and `orch schema --of devices` describes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Inventory {
    /// What kind of machine it is, as the keys of measurements name it.
    pub host: Fingerprint,
    /// One row a backend, always all of them, in the order in which people read them.
    pub backends: Vec<Backend>,
}

impl Inventory {
    /// The JSON Schema of the document, with a final newline.
    pub fn schema() -> String {
        crate::base::schema::text::<Self>("orch devices --json")
    }
}

/// What a look at files finds, and the native library that knows it better.
pub struct Look {
    pub backend: Backend,
    /// Parameters for the row's `query` in a child process; None if files decide it.
    pub query: Option<Value>,
}

impl From<Backend> for Look {
    fn from(backend: Backend) -> Self {
        Self {
            backend,
            query: None,
        }
    }
}

/// A backend that is not there.
pub type Absent = Box<Backend>;

impl BackendRow {
    fn look(&self, host: &Host, thorough: bool) -> Look {
        (self.look)(host, thorough).unwrap_or_else(|absent| (*absent).into())
    }

    fn query(&self, params: &Value) -> Backend {
        (self.query)(params).unwrap_or_else(|absent| *absent)
    }
}

/// Runs [`probe_here`] of the named prober in a child process and hands back its answer, or why there is none
/// (it crashed, it hung).
pub type ChildProbe<'a> = &'a (dyn Fn(&str, Value) -> Result<Backend, String> + Sync);

/// Every backend of this host, in the order of [`BACKENDS`], without children or tools: fast enough for every run.
pub fn inventory_cheap(host: &Host) -> Vec<Backend> {
    BACKENDS.iter().map(|row| probe(row, host, None)).collect()
}

/// [`inventory_cheap`] with short tools as well, and native libraries through the given child. The probers run in
/// parallel.
pub fn probe_all(host: &Host, child: ChildProbe<'_>) -> Vec<Backend> {
    thread::scope(|scope| {
        let running: Vec<_> = BACKENDS
            .iter()
            .map(|row| (row, scope.spawn(|| probe(row, host, Some(child)))))
            .collect();
        let lost =
            |name: &str| Backend::unavailable(name, format!("BUG: the {name} prober panicked"));
        running
            .into_iter()
            .map(|(row, run)| run.join().unwrap_or_else(|_| lost(row.name)))
            .collect()
    })
}

/// One of them, in the same way.
pub fn probe_one(name: &str, host: &Host, child: ChildProbe<'_>) -> Backend {
    match BackendRow::named(name) {
        Some(row) => probe(row, host, Some(child)),
        None => Backend::unavailable(name, format!("no prober is called `{name}`")),
    }
}

/// The part of a probe that may crash: called in the child process behind [`ChildProbe`].
pub fn probe_here(name: &str, params: &Value) -> Backend {
    match BackendRow::named(name) {
        Some(row) => row.query(params),
        None => Backend::unavailable(name, format!("no prober is called `{name}`")),
    }
}

fn probe(row: &BackendRow, host: &Host, child: Option<ChildProbe<'_>>) -> Backend {
    let look = row.look(host, child.is_some());
    let backend = match (child, look.query) {
        (Some(child), Some(params)) => joined(child(row.name, params), look.backend),
        _ => look.backend,
    };
    (row.hide)(host, backend)
}

/// Joins the child's answer with what the files hold; files alone do not make a device whose library died.
fn joined(answer: Result<Backend, String>, looked: Backend) -> Backend {
    let mut backend = answer.unwrap_or_else(|why| {
        Backend::unavailable(
            &looked.name,
            format!("asking its native library failed: {why}"),
        )
    });
    for (key, value) in looked.facts {
        backend.facts.entry(key).or_insert(value);
    }
    // Where a device stands on the bus is known from the files alone.
    for device in backend
        .devices
        .iter_mut()
        .filter(|device| device.facts.contains_key("uuid"))
    {
        let same = looked
            .devices
            .iter()
            .find(|looked| looked.facts.get("uuid") == device.facts.get("uuid"));
        if let Some(pci) = same.and_then(|same| same.facts.get("pci")) {
            device.facts.entry("pci").or_insert(pci.clone());
        }
    }
    backend
}
