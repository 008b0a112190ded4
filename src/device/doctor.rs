//! What is missing on this host, and the command that fixes it: data made from an inventory and a few facts.
//!
//! [`examine`] reads the host; [`diagnose`] decides and is pure, so every finding can be tested on any machine.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use crate::base::figures::bytes;
use crate::base::fs as bfs;
use crate::confine::{Enforced, Why};

use super::host::Host;
use super::{Backend, BackendRow, cgroups};

/// The least Python that orch's environments are made for.
pub const PYTHON: (u32, u32) = (3, 11);
/// The environments for torch, OpenVINO, QNN and NNCF, and room for models.
const WANTED_BYTES: u64 = 8 << 30;
/// The space below which not even the smallest environment installs.
const NEEDED_BYTES: u64 = 2 << 30;

/// A program that orch may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    pub path: PathBuf,
    /// None when it does not say.
    pub version: Option<String>,
}

/// Facts about the host that are no backend's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub os: String,
    pub python: Option<Program>,
    pub uv: Option<Program>,
    pub cargo: Option<Program>,
    pub node: Option<Program>,
    /// A C compiler, which cargo links by.
    pub compiler: Option<Program>,
    /// What is installed and not as it was installed, each with what is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<(String, String)>,
    /// Who reached the package index, or why nobody did; None where nobody tried.
    pub index: Option<Result<String, String>>,
    /// The folder where the store is, or will be.
    pub store: PathBuf,
    /// None when the file system does not say.
    pub free_bytes: Option<u64>,
    /// What the spec that is looked at would install here; None without one.
    pub wanted: Option<Wanted>,
    /// How steps are kept from writing elsewhere.
    pub sandbox: Option<Enforced>,
    pub processes: Processes,
}

/// What a spec would install.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub spec: PathBuf,
    /// What is missing, in words and with sizes; None where all is there.
    pub missing: Option<String>,
    pub bytes: u64,
}

/// What limits the number of a step's processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Processes {
    /// Each run has its own control group with a limit.
    Counted,
    /// The control group in which orch is started has one.
    Limited(u64),
    /// Nothing, or not control groups.
    #[default]
    Unlimited,
}

/// One line of `orch doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `python`, `disk`, `cuda`, …
    pub subject: String,
    pub ok: bool,
    /// Whether orch needs it to work at all. Missing backends are not problems.
    pub required: bool,
    pub what: String,
    /// The command or action that fixes it; None if nothing is wrong, or nothing on this host can fix it.
    pub remedy: Option<String>,
}

/// Reads the facts: runs `--version` of five programs, asks the file system for its free space. What an index and a spec
/// say is for the caller to add.
pub fn examine(host: &Host, store: &Path) -> Environment {
    let program = |names: &[&str]| {
        let path = host.which(names)?;
        let output = host
            .tool(&path, &["--version"])
            .filter(|output| output.ok)?;
        let is_version = |word: &&str| {
            word.trim_start_matches('v')
                .starts_with(|c: char| c.is_ascii_digit())
        };
        let version = output.stdout.split_whitespace().find(is_version);
        Some(Program {
            path,
            version: version.map(|v| v.trim_start_matches('v').trim_end_matches(')').to_owned()),
        })
    };
    // The newest first: `python3` may be the system's old one. A broken one, such as a shim without an interpreter,
    // reports no version and is skipped.
    let pythons = [
        "python3.14",
        "python3.13",
        "python3.12",
        "python3.11",
        "python3",
        "python",
    ];
    let candidates: Vec<_> = pythons.iter().filter_map(|name| program(&[name])).collect();
    let python = candidates
        .iter()
        .find(|p| new_enough(p))
        .or(candidates.first())
        .cloned();
    Environment {
        os: host.os.clone(),
        python,
        uv: program(&["uv"]),
        cargo: program(&["cargo"]),
        node: program(&["node"]),
        compiler: program(&["cc", "gcc", "clang"]),
        store: store.to_owned(),
        free_bytes: free_bytes(store),
        sandbox: Some(Enforced::here()),
        processes: processes(host),
        ..Environment::default()
    }
}

/// All findings: the host first, then the backends in their order.
pub fn diagnose(backends: &[Backend], environment: &Environment) -> Vec<Finding> {
    let mut findings = vec![python(environment), uv(environment)];
    findings.extend(environment.damaged.iter().map(damaged));
    findings.extend(environment.index.as_ref().map(index));
    findings.extend([
        disk(environment),
        cargo(environment),
        compiler(environment),
        node(environment),
    ]);
    findings.extend(environment.sandbox.map(sandbox));
    if environment.os == "linux" {
        findings.push(fork_bombs(environment.processes));
    }
    findings.extend(backends.iter().map(backend));
    findings
}

/// Whether orch can work here; decides the exit code of `orch doctor`.
pub fn healthy(findings: &[Finding]) -> bool {
    findings
        .iter()
        .all(|finding| finding.ok || !finding.required)
}

fn new_enough(program: &Program) -> bool {
    let Some(version) = &program.version else {
        return false;
    };
    let mut parts = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= PYTHON
}

fn finding(subject: &str, ok: bool, what: String, remedy: Option<&str>) -> Finding {
    let remedy = remedy.filter(|_| !ok).map(str::to_owned);
    Finding {
        subject: subject.to_owned(),
        ok,
        required: false,
        what,
        remedy,
    }
}

/// A program that only some steps need: `without` says what its absence means, and `remedy` mends that; None if nothing is amiss.
fn program(
    subject: &str,
    program: Option<&Program>,
    without: &str,
    remedy: Option<&str>,
) -> Finding {
    finding(
        subject,
        program.is_some() || remedy.is_none(),
        program.map_or_else(|| without.to_owned(), shown),
        remedy,
    )
}

fn python(environment: &Environment) -> Finding {
    let install = if environment.os == "macos" {
        "brew install python@3.12"
    } else {
        "apt-get install python3 python3-venv"
    };
    // uv brings an interpreter of its own, so an old or absent Python is then no obstacle.
    let by_uv = environment.uv.is_some();
    let remedy = if by_uv {
        "uv python install 3.12".to_owned()
    } else {
        format!("{install}, or install uv")
    };
    let (ok, what) = match &environment.python {
        Some(python) if new_enough(python) => (true, shown(python)),
        Some(python) => (
            false,
            format!(
                "{}, and orch needs {}.{} or newer",
                shown(python),
                PYTHON.0,
                PYTHON.1
            ),
        ),
        None => (
            false,
            format!(
                "no python3 in PATH; generating and converting need {}.{} or newer",
                PYTHON.0, PYTHON.1
            ),
        ),
    };
    Finding {
        required: !by_uv,
        ..finding("python", ok, what, Some(&remedy))
    }
}

fn uv(environment: &Environment) -> Finding {
    program(
        "uv",
        environment.uv.as_ref(),
        "not in PATH; orch installs one of its own",
        None,
    )
}

fn sandbox(enforced: Enforced) -> Finding {
    let remedy = match enforced {
        Enforced::Landlock(4..) => None,
        Enforced::Landlock(_) => Some("a kernel from 6.7 on also keeps steps from the network"),
        Enforced::Nothing(Why::SwitchedOff) => Some("unset ORCH_SANDBOX"),
        Enforced::Nothing(Why::NotInKernel) => {
            Some("on Linux: a kernel from 5.13 on, with `landlock` among /sys/kernel/security/lsm")
        }
    };
    finding(
        "sandbox",
        enforced.denies_tcp(),
        format!("steps are confined by {enforced}"),
        remedy,
    )
}

fn disk(environment: &Environment) -> Finding {
    let place = environment.store.display();
    let (ok, required, what) = match environment.free_bytes {
        None => (true, false, format!("free space under {place} is unknown")),
        Some(free) => {
            let (most, least, whose) = match &environment.wanted {
                // Room for models, beside what is installed.
                Some(wanted) => (wanted.bytes + NEEDED_BYTES, wanted.bytes, of_spec(wanted)),
                None => (
                    WANTED_BYTES,
                    NEEDED_BYTES,
                    format!("all environments together want {}", bytes(WANTED_BYTES)),
                ),
            };
            (
                free >= most,
                free < least,
                format!("{} free under {place}; {whose}", bytes(free)),
            )
        }
    };
    let remedy = "free some space, or keep the store on another disk";
    Finding {
        required,
        ..finding("disk", ok, what, Some(remedy))
    }
}

fn of_spec(wanted: &Wanted) -> String {
    let spec = wanted.spec.display();
    match &wanted.missing {
        Some(missing) => format!("{spec} would install {missing}"),
        None => format!("all that {spec} needs is installed"),
    }
}

/// An environment that is not as it was installed: steps in it fail for no reason of their own.
fn damaged((environment, what): &(String, String)) -> Finding {
    Finding {
        required: true,
        ..finding(
            "environment",
            false,
            format!("{environment}: {what}; it is not as it was installed"),
            Some("orch setup"),
        )
    }
}

/// What is installed already needs none.
fn index(found: &Result<String, String>) -> Finding {
    let (ok, what) = match found {
        Ok(by) => (true, format!("{by} reaches it")),
        Err(why) => (false, format!("nothing can be installed: {why}")),
    };
    let remedy = "set UV_DEFAULT_INDEX or PIP_INDEX_URL to a mirror, or HTTPS_PROXY to a proxy; or set ORCH_PYTHON to an interpreter \
                  that has the packages";
    finding("package index", ok, what, Some(remedy))
}

/// The worker is linked by it.
fn compiler(environment: &Environment) -> Finding {
    let without =
        "none of cc, gcc and clang is in PATH; cargo links the `orch-torch` worker by one";
    let install = if environment.os == "macos" {
        "xcode-select --install"
    } else {
        "apt-get install build-essential"
    };
    program(
        "C compiler",
        environment.compiler.as_ref(),
        without,
        Some(install),
    )
}

/// The finding on Rust, without which only one worker cannot be built.
fn cargo(environment: &Environment) -> Finding {
    let without = "not in PATH; it builds the `orch-torch` worker for TorchScript";
    program(
        "cargo",
        environment.cargo.as_ref(),
        without,
        Some("install Rust: https://rustup.rs"),
    )
}

/// Only one target on hosts without a GPU needs it, so its absence is no problem.
fn node(environment: &Environment) -> Finding {
    let without = "not in PATH; browsers are unpacked by one that orch installs";
    program("node", environment.node.as_ref(), without, None)
}

fn processes(host: &Host) -> Processes {
    let writable = |folder: &String| access(host.at(folder), Access::WRITE_OK).is_ok();
    let can_count = cgroups::own(host)
        .iter()
        .any(|folder| cgroups::counts(host, folder) && writable(folder));
    match (can_count, cgroups::most_processes(host)) {
        (true, _) => Processes::Counted,
        (_, Some(most)) => Processes::Limited(most),
        _ => Processes::Unlimited,
    }
}

/// Nothing else limits a fork bomb if orch runs as root.
fn fork_bombs(processes: Processes) -> Finding {
    let (ok, what) = match processes {
        Processes::Counted => (
            true,
            "each run is in a control group that limits them (ORCH_PIDS_MAX)".to_owned(),
        ),
        Processes::Limited(most) => (
            true,
            format!("{most} at most, by the control group of this shell"),
        ),
        Processes::Unlimited => (false, "nothing limits how many a step may start".to_owned()),
    };
    let remedy = "start orch by `systemd-run --user --scope -p TasksMax=4096 orch …`";
    finding("processes", ok, what, Some(remedy))
}

fn backend(backend: &Backend) -> Finding {
    let what = if backend.available {
        let names: Vec<_> = backend
            .devices
            .iter()
            .map(|device| format!("{} ({})", device.id, device.name))
            .collect();
        names.join(", ")
    } else {
        backend
            .reason
            .clone()
            .unwrap_or_else(|| "unavailable, and its prober does not say why".to_owned())
    };
    Finding {
        subject: backend.name.clone(),
        ok: backend.available,
        required: BackendRow::named(&backend.name).is_some_and(|row| row.is_host),
        what,
        remedy: backend.remedy.clone(),
    }
}

fn shown(program: &Program) -> String {
    match &program.version {
        Some(version) => format!("{version} at {}", program.path.display()),
        None => program.path.display().to_string(),
    }
}

/// Free bytes for this user on the file system of `path` or of its nearest ancestor that exists.
fn free_bytes(path: &Path) -> Option<u64> {
    let there = path
        .ancestors()
        .find(|ancestor| ancestor.exists())
        .filter(|p| !p.as_os_str().is_empty());
    bfs::free_bytes(there.unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_limits_processes_is_reported_as_it_is() {
        let (_root, host) = Host::bare(&[]);
        let found = || processes(&host);
        assert_eq!(found(), Processes::Unlimited);
        for (path, text) in [
            ("proc/self/cgroup", "0::/a.slice/b.scope\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu pids"),
            ("sys/fs/cgroup/a.slice/b.scope/cgroup.procs", ""),
            (
                "sys/fs/cgroup/a.slice/b.scope/cgroup.subtree_control",
                "memory",
            ),
        ] {
            host.put(path, text);
        }
        assert_eq!(
            found(),
            Processes::Unlimited,
            "groups in which nothing counts"
        );
        host.put("sys/fs/cgroup/a.slice/pids.max", "9000");
        assert_eq!(found(), Processes::Limited(9000));
        std::fs::write(
            host.at("/sys/fs/cgroup/a.slice/b.scope/cgroup.subtree_control"),
            "memory pids",
        )
        .unwrap();
        assert_eq!(found(), Processes::Counted);
    }
}
