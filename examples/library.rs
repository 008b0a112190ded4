//! orch as a library: runs the matrix of a spec, and prints how each case ended.
//!
//!     cargo run --example library -- target/debug/orch specs/all.yaml

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::path::PathBuf;

use orch::base::program;
use orch::session::{Ask, Locations, Request, Session, Settings};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let (Some(orch), Some(spec)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: library ORCH SPEC");
    };
    for (case, status) in matrix(orch, spec)? {
        println!("{case}: {status}");
    }
    Ok(())
}

/// The cases of a spec with their status; what the last run left in `cache` is not done again.
pub fn matrix(orch: PathBuf, spec: PathBuf) -> anyhow::Result<Vec<(String, &'static str)>> {
    // Jobs are processes of the program, which this one is not.
    program::set(orch);
    let tell = |text: &str| eprintln!("{text}");
    let session = Session::open(&Locations {
        cache_dir: "cache".into(),
        env_dir: std::env::var_os("ORCH_ENV_DIR").map(PathBuf::from),
        ..Locations::default()
    })?;
    let planned = session.plan(&Request::all(&spec), Ask::Installing(&tell), &tell)?;
    let run = session.run(planned, &Settings::default(), &|_| {}, &|_| {})?;
    let cases = run.finished.doc.cases.into_iter();
    Ok(cases.map(|case| (case.case, case.status.label())).collect())
}
