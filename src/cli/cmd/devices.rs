//! `orch devices`, `orch doctor`

use serde_json::{Value, json};

use crate::catalogue::{Library, Requirement, openvino, qnn};
use crate::cli::args::{Args, DevicesArgs};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::device::{self, Backend, Host, Inventory, Libraries, Mode, doctor, render};
use crate::session::{self, Probes, absolute, browsers, provision};
use crate::store::DiskStore;
use crate::toolchain::EnvName;
use crate::worker::Cancel;

const WIDTH: usize = 100;

pub(super) fn devices(args: &Args, asked: &DevicesArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let (host, mut backends) = probe(args)?;
    let fingerprint = device::fingerprint(&host);
    let (provision, store) =
        (provision(&args.locations(), Cancel::default())?, DiskStore::open(&absolute(&args.cache_dir)?)?);
    session::tell_half(&mut backends, &fingerprint, (&provision, &store), asked.half);
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
    let provision = provision(&args.locations(), Cancel::default())?;
    let installed = |library: Library, requirement: Requirement| {
        provision.is_ready(requirement).then(|| provision.library(library).ok()).flatten()
    };
    Ok(Libraries {
        openvino: installed(Library::Wheel(&openvino::LIBRARY), Requirement::Env(EnvName::Openvino)),
        qnn: installed(Library::Wheel(&qnn::PROVIDER), Requirement::Env(EnvName::Qnn)),
        swiftshader: installed(Library::Swiftshader, Requirement::Swiftshader).filter(|folder| folder.is_dir()),
        ..browsers(&provision)
    })
}

fn probe(args: &Args) -> anyhow::Result<(Host, Vec<Backend>)> {
    let store = DiskStore::open(&absolute(&args.cache_dir)?)?;
    let host = Host::real().with_libraries(libraries(args)?);
    let provision = provision(&args.locations(), Cancel::default())?;
    let probes = Probes::new(&store, &provision, Cancel::default())?;
    let child = |name: &str, params: Value| probes.ask(name, params);
    let backends = device::probe_all(&host, Mode::Full(&child));
    Ok((host, backends))
}
