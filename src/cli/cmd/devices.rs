//! `orch devices`, `orch doctor`

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::catalogue::{Library, Requirement, openvino, qnn};
use crate::cli::args::SPEC;
use crate::cli::{Args, Exit, Printer};
use crate::device::{self, Backend, Host, Inventory, Libraries, doctor, render};
use crate::provision::reach_index;
use crate::session::{self, Probes, Project, Request, Session, absolute, browsers};
use crate::toolchain::EnvName;
use crate::worker::Cancel;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DoctorArgs {
    /// The spec whose packages must fit on the disk, if it exists
    #[arg(default_value = SPEC)]
    spec: PathBuf,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DevicesArgs {
    /// Also test half precision on the devices whose runtime is installed; earlier answers are always shown
    #[arg(long)]
    half: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn devices(
    args: &Args,
    devices: &DevicesArgs,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let (host, mut backends) = probe(args)?;
    let fingerprint = device::fingerprint(&host);
    let provision = args.provision()?;
    let store = args.store_to_look()?;
    session::add_half(
        &mut backends,
        &fingerprint,
        (&provision, &store),
        (devices.half, &|text| printer.note(text)),
    );
    let found = Inventory {
        host: fingerprint,
        backends,
    };
    printer.answer(
        devices.json,
        || &found,
        || render::devices(&found.host, &found.backends, printer.width()),
    );
    Ok(Exit::Success)
}

pub(super) fn doctor(args: &Args, doctor: &DoctorArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let (host, backends) = probe(args)?;
    let environment = doctor::Environment {
        index: Some(reach_index().map(str::to_owned)),
        wanted: wanted(args, &doctor.spec).unwrap_or_else(|error| {
            printer.note(&format!(
                "warning: cannot tell what the spec needs: {error:#}"
            ));
            None
        }),
        damaged: args.provision()?.damages(),
        ..doctor::examine(&host, &absolute(&args.cache_dir)?)
    };
    let findings = doctor::diagnose(&backends, &environment);
    let document = || json!({"findings": findings, "environment": environment});
    printer.answer(doctor.json, document, || {
        render::doctor(&findings, printer.width())
    });
    Ok(if doctor::healthy(&findings) {
        Exit::Success
    } else {
        Exit::Failed
    })
}

/// What the spec would install here. Without one there is nothing to tell.
fn wanted(args: &Args, spec: &Path) -> anyhow::Result<Option<doctor::Wanted>> {
    if !spec.is_file() {
        return Ok(None);
    }
    let session = Session::open_to_look(&args.locations())?;
    let missing = session
        .provision
        .missing(session.requirements(&Project::load(&Request::all(spec))?));
    let summary = (!missing.is_empty()).then(|| missing.summary());
    Ok(Some(doctor::Wanted {
        spec: spec.to_owned(),
        missing: summary,
        bytes: missing.bytes(),
    }))
}

/// The native libraries that are installed already; a probe installs nothing.
fn libraries(args: &Args) -> anyhow::Result<Libraries> {
    let provision = args.provision()?;
    let installed = |library: Library, requirement: Requirement| {
        provision
            .is_ready(requirement)
            .then(|| provision.library(library).ok())
            .flatten()
    };
    Ok(Libraries {
        openvino: installed(
            Library::Wheel(&openvino::LIBRARY),
            Requirement::Env(EnvName::Openvino),
        ),
        qnn: installed(
            Library::Wheel(&qnn::PROVIDER),
            Requirement::Env(EnvName::Qnn),
        ),
        swiftshader: installed(Library::Swiftshader, Requirement::Swiftshader)
            .filter(|folder| folder.is_dir()),
        ..browsers(&provision)
    })
}

pub(super) fn probe(args: &Args) -> anyhow::Result<(Host, Vec<Backend>)> {
    let store = args.store_to_look()?;
    let host = Host::real().with_libraries(libraries(args)?);
    let provision = args.provision()?;
    let probes = Probes::new(&store, &provision, Cancel::default())?;
    let child = |name: &str, params: Value| probes.query(name, params);
    let backends = device::probe_all(&host, &child);
    Ok((host, backends))
}
