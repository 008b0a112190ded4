//! `orch devices`, `orch doctor`

use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::cli::args::{Args, DevicesArgs};
use crate::cli::exit::Exit;
use crate::cli::half;
use crate::cli::printer::Printer;
use crate::cli::probed::Probed;
use crate::cli::project::{absolute, browsers, provision};
use crate::device::{self, Backend, Host, Inventory, Libraries, Mode, doctor, render};
use crate::runtime::Job;
use crate::step::{Library, Requirement};
use crate::store::DiskStore;
use crate::toolchain::EnvName;
use crate::worker::{Cancel, Ended, Limits, run_oneshot};

const WIDTH: usize = 100;

pub(super) fn devices(args: &Args, asked: &DevicesArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let (host, mut backends) = probe(args)?;
    let fingerprint = device::fingerprint(&host);
    let (provision, store) = (provision(args, Cancel::default())?, DiskStore::open(&absolute(&args.cache_dir)?)?);
    half::tell(&mut backends, &fingerprint, (&provision, &store), asked.half);
    if asked.json {
        printer.json(&serde_json::to_value(Inventory { host: fingerprint, backends })?);
    } else {
        printer.out(&render::devices(&fingerprint, &backends, WIDTH));
    }
    Ok(Exit::Success)
}

pub(super) fn doctor(args: &Args, json: bool, printer: &Printer) -> anyhow::Result<Exit> {
    let (host, backends) = probe(args)?;
    let environment = doctor::examine(&host, &absolute(&args.cache_dir)?);
    let findings = doctor::diagnose(&backends, &environment);
    if json {
        printer.json(&json!({"findings": findings, "environment": environment}));
    } else {
        printer.out(&render::doctor(&findings, WIDTH));
    }
    Ok(if doctor::healthy(&findings) { Exit::Success } else { Exit::Failed })
}

/// The native libraries that are installed already; a probe installs nothing.
fn libraries(args: &Args) -> anyhow::Result<Libraries> {
    let provision = provision(args, Cancel::default())?;
    let installed = |library: Library, requirement: Requirement| {
        provision.is_ready(requirement).then(|| provision.library(library).ok()).flatten()
    };
    Ok(Libraries {
        openvino: installed(Library::OpenvinoC, Requirement::Env(EnvName::Openvino)),
        qnn: installed(Library::QnnProvider, Requirement::Env(EnvName::Qnn)),
        swiftshader: installed(Library::Swiftshader, Requirement::Swiftshader).filter(|folder| folder.is_dir()),
        ..browsers(&provision)
    })
}

fn probe(args: &Args) -> anyhow::Result<(Host, Vec<Backend>)> {
    let store = DiskStore::open(&absolute(&args.cache_dir)?)?;
    let scratch = store.scratch()?;
    let host = Host::real().with_libraries(libraries(args)?);
    let exe = std::env::current_exe().context("failed to find orch's own executable")?;
    let probed = Probed::at(provision(args, Cancel::default())?.dir().join("probes"));
    let ask = |name: &str, params: Value| -> Result<Backend, String> {
        let out = scratch.dir("probe").map_err(|e| e.to_string())?;
        let (inputs, env) = Default::default();
        let job = Job { id: 0, op: name.into(), params, inputs, out: out.clone(), log: None, env };
        let mut command = Command::new(&exe);
        // Browsers leave their profile there.
        command.args(["worker", "probe"]).current_dir(&out);
        let cancel = Cancel::default();
        let log = out.join("log");
        let limits =
            Limits { timeout: Duration::from_secs(10), memory: None, cancel: &cancel, log: &log, progress: &|_| {} };
        match run_oneshot(command, &job, &limits) {
            Ended::Answered(output) => serde_json::from_value(output.facts).map_err(|e| e.to_string()),
            Ended::Died { signal: Some(signal), .. } => Err(format!("the probe was ended by signal {signal}")),
            Ended::Died { code, .. } => Err(format!("the probe ended with code {code:?}")),
            Ended::TimedOut => Err("the probe did not answer within 10 s".into()),
            Ended::Interrupted => Err("interrupted".into()),
            Ended::Broken(what) | Ended::OutOfMemory(what) | Ended::ServerDied(what) => Err(what),
        }
    };
    let child = |name: &str, params: Value| probed.or_ask(name, &params, || ask(name, params.clone()));
    let backends = device::probe_all(&host, Mode::Full(&child));
    Ok((host, backends))
}
