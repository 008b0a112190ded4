//! What WebGPU and WebNN have in common: the browser that is probed, its answer, and how long that is kept.
//!
//! A cheap look starts nothing: it gives what a page reported last, or else whether there is a browser to ask. A full probe
//! opens a page in a child process. An answer is kept under all that could change it: the executable with its size and
//! time, the flags, the drivers and their variables.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::host::Host;
use super::{Absent, Backend, Device, Look};
use crate::base::{Digest, fs as bfs};
use crate::browser::{self, Adapter, Api, Launch, Page, Talk, Trouble};

const SCRIPT: &str = include_str!("web/probe.mjs");

/// Browsers that a user may name with ORCH_BROWSER: real binaries, no wrapper scripts, which add flags of their own.
const BROWSERS: &[&str] = &[
    "/opt/google/chrome/chrome",
    "/opt/microsoft/msedge/msedge",
    "/usr/lib/chromium/chromium",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
];

/// Variables that choose a driver.
const VARIABLES: &[&str] = &[
    "LIBGL_ALWAYS_SOFTWARE",
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "VK_LOADER_DRIVERS_SELECT",
];

/// The prober of one of the two backends, by what they differ in.
pub(super) struct BrowserProber {
    pub(super) name: &'static str,
    pub(super) api: Api,
    /// The device before a page was opened.
    pub(super) before_page: fn(&Host) -> Device,
    /// The device by the page's answer, or why there is none.
    pub(super) answered: fn(&Value) -> Result<Device, String>,
}

impl BrowserProber {
    pub(super) fn look(&self, host: &Host) -> Result<Look, Absent> {
        let before_page = (self.before_page)(host);
        let Some((program, by)) = find(host, self.name)? else {
            let mut backend = Backend::available(self.name, vec![keyed(before_page, None)]);
            backend.fact("browser", "installed on first need (`orch setup browser`)");
            add_drivers(host, self, &mut backend);
            return Ok(backend.into());
        };
        let memory = memory(host, self, &program);
        let params = json!({"browser": program, "api": self.api, "adapter": adapter(host), "answer_at": memory});
        let answer = memory
            .as_ref()
            .and_then(|path| serde_json::from_slice::<Value>(&fs::read(path).ok()?).ok());
        let mut backend = match &answer {
            Some(answer) => judged(host, self, answer),
            None => Backend::available(self.name, vec![keyed(before_page, None)]),
        };
        backend
            .fact("browser", host.shown(&program))
            .fact("browser_by", by);
        add_drivers(host, self, &mut backend);
        // What is known needs no second page.
        Ok(Look {
            query: answer.is_none().then_some(params),
            backend,
        })
    }

    /// Opens the page, in the child. An answer of the page is kept; a browser that does not start may start next time.
    pub(super) fn query(&self, params: &Value) -> Result<Backend, Absent> {
        let program = PathBuf::from(params["browser"].as_str().unwrap_or_default());
        let adapter =
            serde_json::from_value(params["adapter"].clone()).unwrap_or(Adapter::Software);
        let opened = tempfile::Builder::new()
            .prefix("probe-")
            .tempdir_in(".")
            .map_err(|e| e.to_string());
        let talked = opened.map_err(Trouble::Broken).and_then(|scratch| {
            let launch = Launch {
                program: &program,
                api: self.api,
                adapter,
                scratch: scratch.path(),
            };
            let page = Page {
                script: SCRIPT,
                params: &json!({"api": self.api}),
                files: BTreeMap::new(),
                imports: &[],
            };
            browser::open(&launch, &page, &|_| {})
        });
        let answer = match talked {
            Ok(Talk {
                mut answer,
                version,
                ..
            }) => {
                answer["version"] = version.into();
                answer
            }
            Err(Trouble::Unavailable { reason, remedy }) => {
                return Err(Backend {
                    remedy,
                    ..Backend::unavailable(self.name, reason)
                }
                .into());
            }
            Err(trouble) => return Err(Backend::unavailable(self.name, trouble.to_string()).into()),
        };
        if let Some(path) = params["answer_at"].as_str().map(Path::new) {
            let kept = path.parent().map_or(Ok(()), fs::create_dir_all);
            // Not kept, the next look opens the page again.
            let _ = kept.map(|()| bfs::write_atomic(path, answer.to_string().as_bytes()));
        }
        Ok(judged(&Host::real(), self, &answer))
    }
}

/// Keys of measurements name a device as it is called before a page was opened: opening one must change no key. What executes
/// is in the key by the browser's content and the drivers.
fn keyed(mut device: Device, answered: Option<Device>) -> Device {
    let known_as = device.name.clone();
    if let Some(answered) = answered {
        let name = if answered.name.is_empty() {
            device.name
        } else {
            answered.name
        };
        device = Device { name, ..answered };
    }
    device.fact("known_as", known_as);
    device
}

fn judged(host: &Host, prober: &BrowserProber, answer: &Value) -> Backend {
    let mut backend = match (prober.answered)(answer) {
        Ok(device) => Backend::available(
            prober.name,
            vec![keyed((prober.before_page)(host), Some(device))],
        ),
        Err(reason) => Backend::unavailable(prober.name, reason).with_remedy(
            "name another Chrome or Chromium with ORCH_BROWSER, or unset it to take orch's own",
        ),
    };
    backend.fact("version", answer["version"].clone());
    backend
}

/// The browser that would be opened, and who chose it; None if orch would install one.
fn find(host: &Host, name: &str) -> Result<Option<(PathBuf, &'static str)>, Absent> {
    let own = host.env("ORCH_BROWSER").filter(|path| !path.is_empty());
    if let Some(own) = own {
        let path = if own.starts_with('/') {
            host.at(own)
        } else {
            std::path::absolute(own).unwrap_or_default()
        };
        if path.is_file() {
            return Ok(Some((path, "ORCH_BROWSER")));
        }
        let backend = Backend::unavailable(name, format!("ORCH_BROWSER={own} is no file"));
        return Err(backend
            .with_remedy("unset ORCH_BROWSER to take orch's own, or name an executable")
            .into());
    }
    if let Some(installed) = &host.libraries.browser {
        return Ok(Some((installed.clone(), "installed by orch")));
    }
    let reason = match (host.os.as_str(), host.arch.as_str()) {
        ("linux", "x86_64") => match host.lacks_glibc("the browser that orch installs", (2, 34)) {
            Some(reason) => reason,
            None => return Ok(None),
        },
        (os, arch) => format!(
            "the browser that orch installs is for Linux on x86_64, and this is {os} {arch}"
        ),
    };
    Err(Backend::unavailable(name, reason)
        .with_remedy(match host.which(BROWSERS) {
            Some(path) => format!("set ORCH_BROWSER='{}'", host.shown(&path)),
            None => "install Chrome or Chromium and set ORCH_BROWSER to its executable".into(),
        })
        .into())
}

/// The file in which the answer is kept, named by everything that could change it.
fn memory(host: &Host, prober: &BrowserProber, program: &Path) -> Option<PathBuf> {
    let folder = host.libraries.answers.as_ref()?;
    let meta = fs::metadata(program).ok()?;
    let modified = meta
        .modified()
        .ok()?
        .duration_since(UNIX_EPOCH)
        .ok()?
        .as_nanos();
    let flags = browser::flags(prober.api, adapter(host)).join(" ");
    let document = format!(
        "answer 1\nscript {}\nprogram {} {} {modified}\nflags {flags}\ndrivers {}\n",
        Digest::of(SCRIPT.as_bytes()),
        program.display(),
        meta.len(),
        drivers(host)
    );
    Some(folder.join(format!(
        "{}-{}.json",
        prober.name,
        Digest::of(document.as_bytes()).short()
    )))
}

/// GPUs and Vulkan drivers, in words; the same as long as a browser would find the same.
fn drivers(host: &Host) -> String {
    let cards = host.pci().iter().map(|card| {
        let shown = card.shown();
        // Where it is plugged in changes nothing.
        shown.split(" at ").next().unwrap_or(&shown).to_owned()
    });
    let folders = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    let vulkan = folders
        .iter()
        .flat_map(|folder| host.list(folder))
        .filter(|file| file.ends_with(".json"));
    let variables = VARIABLES
        .iter()
        .filter_map(|name| Some(format!("{name}={}", host.env(name)?)));
    let version = |text: String| browser::version(&text).map(|version| format!("NVIDIA {version}"));
    let nvidia = host.text("/proc/driver/nvidia/version").and_then(version);
    let nodes = host
        .list("/dev/dri")
        .into_iter()
        .filter(|node| node.starts_with("renderD"));
    let all: Vec<String> = cards
        .chain(vulkan)
        .chain(variables)
        .chain(nvidia)
        .chain(nodes)
        .collect();
    if all.is_empty() {
        "no GPU and no Vulkan driver".into()
    } else {
        all.join(", ")
    }
}

/// WebNN is claimed on the CPU only, for which no driver counts.
fn add_drivers(host: &Host, prober: &BrowserProber, backend: &mut Backend) {
    if prober.api == Api::WebGpu {
        backend.fact("driver", drivers(host));
    }
}

pub(super) fn has_gpu(host: &Host) -> bool {
    host.os != "linux"
        || host.exists("/dev/nvidiactl")
        || host
            .list("/dev/dri")
            .iter()
            .any(|node| node.starts_with("renderD"))
}

/// The adapter that a page asks for where nobody says which: a browser on anything but a GPU has its rasterizer only.
pub(crate) fn adapter(host: &Host) -> Adapter {
    if has_gpu(host) {
        Adapter::Hardware
    } else {
        Adapter::Software
    }
}
