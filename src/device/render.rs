//! Devices and findings as text for people: pure functions of their arguments. Words carry the meaning, no colour does.

use serde_json::Value;

use super::doctor::Finding;
use super::probed::HalfAnswer;
use super::{Backend, Device, DeviceKind, Fingerprint};
use crate::base::figures::{bytes, counted};

/// Facts of a backend that people want to see, in this order; JSON has them all.
const SHOWN: &[(&str, &str)] = &[
    ("version", "version"),
    ("driver", "driver"),
    ("cuda_driver", "CUDA"),
    ("toolkit", "CUDA toolkit"),
    ("cudnn", "cuDNN"),
    ("rocm", "ROCm"),
    ("sdk", "SDK"),
    ("backends", "libraries"),
    ("macos", "macOS"),
];

/// Facts that are sentences and get a line of their own.
const LINES: &[&str] = &["gpu", "npu", "library", "note", "broken", "malformed"];

/// `orch devices`: the host, then one block for each backend, then a count.
pub fn devices(host: &Fingerprint, backends: &[Backend], width: usize) -> String {
    let mut page = Page::new(width);
    page.line(&host.summary);
    page.line(&format!(
        "fingerprint {}",
        &host.digest[..host.digest.len().min(12)]
    ));
    page.line("");
    let name = backends
        .iter()
        .map(|b| b.name.len())
        .max()
        .unwrap_or(0)
        .max("backend".len())
        + 2;
    let column = name + "unavailable".len() + 2;
    for backend in backends {
        let state = if backend.available {
            "available"
        } else {
            "unavailable"
        };
        let head = format!(
            "{:name$}{:rest$}",
            backend.name,
            state,
            rest = column - name
        );
        page.block(&head, column, &lines(backend));
    }
    page.line("");
    let there: Vec<_> = backends
        .iter()
        .filter(|b| b.available)
        .map(|b| b.name.as_str())
        .collect();
    let list = if there.is_empty() {
        String::new()
    } else {
        format!(": {}", there.join(", "))
    };
    page.line(&format!(
        "{} of {} backends available{list}",
        there.len(),
        backends.len()
    ));
    page.text
}

/// `orch doctor`: one block for each finding, then the verdict.
pub fn doctor(findings: &[Finding], width: usize) -> String {
    let mut page = Page::new(width);
    let name = findings.iter().map(|f| f.subject.len()).max().unwrap_or(0) + 2;
    let column = name + "optional".len() + 2;
    for finding in findings {
        let state = match (finding.ok, finding.required) {
            (true, _) => "ok",
            (false, true) => "problem",
            (false, false) => "optional",
        };
        let head = format!(
            "{:name$}{:rest$}",
            finding.subject,
            state,
            rest = column - name
        );
        let mut lines = vec![finding.what.clone()];
        lines.extend(
            finding
                .remedy
                .as_ref()
                .map(|remedy| format!("remedy: {remedy}")),
        );
        page.block(&head, column, &lines);
    }
    page.line("");
    let problems = findings.iter().filter(|f| !f.ok && f.required).count();
    let optional = findings.iter().filter(|f| !f.ok && !f.required).count();
    let verdict = if problems == 0 {
        "no problems".to_owned()
    } else {
        counted(problems, "problem")
    };
    page.line(&format!(
        "{verdict}; {optional} optional parts are not here"
    ));
    page.text
}

fn lines(backend: &Backend) -> Vec<String> {
    let mut lines: Vec<String> = backend.reason.iter().cloned().collect();
    lines.extend(
        backend
            .remedy
            .iter()
            .map(|remedy| format!("remedy: {remedy}")),
    );
    lines.extend(backend.devices.iter().flat_map(device));
    lines.extend(
        backend
            .hidden()
            .into_iter()
            .map(|(name, by)| format!("hidden: {name}, by {by}")),
    );
    let facts = SHOWN
        .iter()
        .filter_map(|(key, label)| Some(format!("{label} {}", plain(backend.facts.get(*key)?))));
    let facts = facts.collect::<Vec<_>>().join(", ");
    lines.extend(Some(facts).filter(|facts| !facts.is_empty()));
    for key in LINES {
        // Where an installed library lies is for JSON; that none is installed yet is for people.
        let value = backend
            .facts
            .get(*key)
            .map(plain)
            .filter(|value| !value.starts_with('/'));
        lines.extend(value.map(|value| format!("{key}: {value}")));
    }
    lines.extend(backend.half.iter().map(HalfAnswer::summary));
    lines
}

/// `cuda:0  NVIDIA H200, 140 GiB, compute 9.0`, and for a CPU a second line of instruction sets.
fn device(device: &Device) -> Vec<String> {
    let fact = |key: &str| device.facts.get(key).map(plain);
    let mut parts = vec![device.name.clone()];
    parts.extend(match device.kind {
        DeviceKind::Hardware => None,
        DeviceKind::Emulator => Some("no hardware: an emulator".to_owned()),
        DeviceKind::Software => Some("no hardware: a software rasterizer".to_owned()),
    });
    parts.extend(device.memory_bytes.map(bytes));
    if let (Some(usable), Some(logical)) = (fact("cores_usable"), fact("cores_logical")) {
        parts.push(if usable == logical {
            format!("{usable} threads")
        } else {
            format!("{usable} of {logical} threads")
        });
    }
    parts.extend(fact("cores_physical").map(|cores| format!("{cores} cores")));
    parts.extend(fact("compute_capability").map(|capability| format!("compute {capability}")));
    parts.extend(fact("compute_units").map(|units| format!("{units} compute units")));
    parts.extend(fact("htp_arch").map(|arch| format!("HTP {arch}")));
    parts.extend(fact("soc_model").map(|model| format!("soc_model {model}")));
    let mut lines = vec![format!("{}  {}", device.id, parts.join(", "))];
    lines.extend(fact("instructions"));
    lines.extend(fact("capabilities").map(|list| format!("computes {list}")));
    lines
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Lines of text with a hanging indent, wrapped at words.
struct Page {
    text: String,
    width: usize,
}

impl Page {
    fn new(width: usize) -> Self {
        // Narrower than this, wrapping helps nobody.
        Self {
            text: String::new(),
            width: width.max(60),
        }
    }

    fn line(&mut self, text: &str) {
        self.block("", 0, &[text.to_owned()]);
    }

    /// `head` in front of the first line, spaces of the same width in front of all others.
    fn block(&mut self, head: &str, column: usize, lines: &[String]) {
        let mut lead = head.to_owned();
        for line in lines {
            let mut row = lead;
            let mut empty = true;
            for word in line.split(' ') {
                if !empty && row.chars().count() + 1 + word.chars().count() > self.width {
                    self.push(&row);
                    // Continuations stand two further in, so that the next line is seen to begin.
                    row = " ".repeat(column + 2);
                    empty = true;
                }
                if !empty {
                    row.push(' ');
                }
                row.push_str(word);
                empty = false;
            }
            self.push(&row);
            lead = " ".repeat(column);
        }
    }

    fn push(&mut self, row: &str) {
        self.text.push_str(row.trim_end());
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::{Enforced, Why};
    use crate::device::doctor::{Environment, Program, diagnose, healthy};
    use crate::device::{Host, fingerprint, inventory_cheap};
    use pretty_assertions::assert_eq;

    fn page(host: &Host) -> String {
        devices(&fingerprint(host), &inventory_cheap(host), 100)
    }

    #[test]
    fn devices_read_well_and_stay_within_their_width() {
        let host = Host::recorded("nvidia").with_env("CUDA_VISIBLE_DEVICES", "1");
        let text = page(&host).lines().skip(2).collect::<Vec<_>>().join("\n");
        let expected = "
cpu             available    cpu  AMD EPYC 9654 96-Core Processor, 126 GiB, 8 threads, 8 cores
                             AVX2, AVX-512 (VNNI, BF16)
cuda            available    cuda:0  NVIDIA H200
                             hidden: NVIDIA H200, by CUDA_VISIBLE_DEVICES=1
                             driver 580.159.04, CUDA toolkit 13.0.2, cuDNN 9.15.1
rocm            unavailable  no AMD GPU: /sys/class/kfd lists no GPU
mps             unavailable  not macOS
openvino        available    openvino:CPU  AMD EPYC 9654 96-Core Processor
                             library: installed on first need
qnn             available    qnn:htp-emulator  HTP emulator on x86_64, no hardware: an emulator
                             library: installed on first need
                             note: an emulator: outputs are meaningful, latency is not; the vendor
                               supports x86_64 for compilation only
qnn-android     unavailable  adb is not on PATH
                             remedy: install adb (Android's platform tools), or name it with
                               ORCH_ADB
webgpu          available    webgpu-software  SwiftShader, no hardware: a software rasterizer
                             driver SwiftShader of @sparticuz/chromium 153.0.0
                             library: installed on first need
                             note: a driver in software: outputs are meaningful, latency says
                               nothing of a GPU
webgpu-browser  available    webgpu-browser  WebGPU of the browser, not asked yet
                             driver 10de:2335, 10de:2335, NVIDIA 580.159.04
webnn           available    webnn:cpu  AMD EPYC 9654 96-Core Processor

7 of 10 backends available: cpu, cuda, openvino, qnn, webgpu, webgpu-browser, webnn";
        assert_eq!(text, expected);
        for name in [
            "neither",
            "amd",
            "both",
            "mac",
            "snapdragon",
            "intel-npu",
            "malformed",
        ] {
            let text = page(&Host::recorded(name));
            assert!(
                text.lines().all(|line| line.chars().count() <= 100),
                "{text}"
            );
        }
    }

    #[test]
    fn the_doctor_distinguishes_problems_from_what_is_merely_not_there() {
        let program = |version: &str| {
            Some(Program {
                path: "/usr/bin/x".into(),
                version: Some(version.to_owned()),
            })
        };
        let mut environment = Environment {
            os: "linux".to_owned(),
            python: program("3.9.2"),
            cargo: program("1.95.0"),
            compiler: program("12.2.0"),
            store: "/srv/orch".into(),
            free_bytes: Some(1 << 30),
            ..Environment::default()
        };
        let backends = inventory_cheap(&Host::recorded("neither"));
        let findings = diagnose(&backends, &environment);
        let text = doctor(&findings, 100)
            .lines()
            .take(10)
            .collect::<Vec<_>>()
            .join("\n");
        let expected = "\
python          problem   3.9.2 at /usr/bin/x, and orch needs 3.11 or newer
                          remedy: apt-get install python3 python3-venv, or install uv
uv              ok        not in PATH; orch installs one of its own
disk            problem   1.0 GiB free under /srv/orch; all environments together want 8.0 GiB
                          remedy: free some space, or keep the store on another disk
cargo           ok        1.95.0 at /usr/bin/x
C compiler      ok        12.2.0 at /usr/bin/x
node            ok        not in PATH; browsers are unpacked by one that orch installs
processes       optional  nothing limits how many a step may start
                          remedy: start orch by `systemd-run --user --scope -p TasksMax=4096 orch …`";
        assert_eq!(text, expected);
        assert!(doctor(&findings, 100).ends_with("\n2 problems; 5 optional parts are not here\n"));
        assert!(!healthy(&findings));

        // uv brings its own interpreter, and a host without a GPU is a healthy host.
        environment.uv = program("0.9.0");
        environment.free_bytes = Some(100 << 30);
        let findings = diagnose(&backends, &environment);
        assert!(healthy(&findings));
        assert_eq!(
            findings[0].remedy.as_deref(),
            Some("uv python install 3.12")
        );

        // Steps may write elsewhere: worth a word, and no obstacle.
        environment.sandbox = Some(Enforced::Nothing(Why::NotInKernel));
        let findings = diagnose(&backends, &environment);
        assert!(
            healthy(&findings)
                && doctor(&findings, 200)
                    .contains("sandbox         optional  steps are confined by nothing")
        );
    }
}
