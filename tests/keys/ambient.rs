//! What surrounds a process: its environment, its folder, who started it. Each is tried in a process of its own, which
//! settles a copy of the project and writes down what ran.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

use orch::exec::HostFacts;
use orch::toolchain::Locks;

use crate::harness::{Outputs, World};
use crate::table::{Expected, settled};

/// Tells the child where its world is.
const CHILD: &str = "ORCH_KEYS_CHILD";
const RERAN: &str = "reran.json";

/// Settles a copy of the project in a process that `dress` has changed.
fn settled_by_child(dress: &dyn Fn(&mut Command)) -> Expected {
    let world = World::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "ambient::the_surroundings_of_a_process"])
        .env(CHILD, world.dir());
    dress(&mut command);
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    serde_json::from_slice(&std::fs::read(world.dir().join(RERAN)).unwrap()).unwrap()
}

fn as_child(dir: PathBuf) {
    let mut world = World::at(dir.clone(), Locks::default());
    let facts = HostFacts::new(
        "f".repeat(64),
        "c".repeat(64),
        world.host.report.clone(),
        |name| std::env::var_os(name),
    );
    world.host.variables = facts.variables;
    let reran = settled(&world, Outputs::Equal);
    std::fs::write(dir.join(RERAN), serde_json::to_vec(&reran).unwrap()).unwrap();
}

#[test]
fn the_surroundings_of_a_process() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return as_child(dir.into());
    }
    let set = |name: &'static str, value: &'static [u8]| {
        settled_by_child(&move |command| {
            command.env(name, OsStr::from_bytes(value));
        })
    };
    let ran =
        |step: &str, line: &str| Expected::from([(step.to_owned(), [line.to_owned()].into())]);

    for name in [
        "TZ",
        "LANG",
        "LC_ALL",
        "HOME",
        "USER",
        "LOGNAME",
        "HOSTNAME",
        "PWD",
        "ORCH_KEYS_UNDECLARED",
    ] {
        assert_eq!(set(name, b"/somewhere/else"), Expected::new(), "{name}");
    }
    let elsewhere = settled_by_child(&|command| {
        command.current_dir("/");
    });
    assert_eq!(elsewhere, Expected::new(), "the working folder");

    let declared = "ORCH_KEYS_DECLARED";
    // Empty is not absent, the word for none is a value, and so are bytes that are no text. No value is told.
    for value in [&b"1"[..], b"", b"absent", b"\xff"] {
        assert_eq!(
            set(declared, value),
            ran("command:sorted", "env.ORCH_KEYS_DECLARED"),
            "{value:?}"
        );
    }

    let threads = set("OMP_NUM_THREADS", b"1");
    assert!(
        threads
            .keys()
            .all(|step| step.starts_with("run:") || step == "report"),
        "{threads:?}"
    );
    assert!(
        threads.contains_key("run:bert:torch-cpu-fp32"),
        "{threads:?}"
    );
}
