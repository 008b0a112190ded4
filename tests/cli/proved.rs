//! A machine's sickness is not a result: what fails in a damaged environment does not stand, and says so; `doctor` sees the
//! damage, `setup` mends it, and an interpreter that is gone with its image is installed anew.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

const RUN: [&str; 5] = ["run", "specs/all.yaml", "-t", "openvino", "--json"];

/// Gives the sandbox an environment `openvino` of its own, with the files of the shared one; its folder.
fn own_openvino(sandbox: &Sandbox) -> PathBuf {
    let link = fs::read_dir(sandbox.path("envs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("openvino-")
        })
        .unwrap();
    let shared = fs::canonicalize(&link).unwrap();
    fs::remove_file(&link).unwrap();
    for entry in walkdir::WalkDir::new(&shared) {
        let entry = entry.unwrap();
        let to = link.join(entry.path().strip_prefix(&shared).unwrap());
        if entry.file_type().is_dir() {
            fs::create_dir(to).unwrap();
        } else if entry.file_type().is_symlink() {
            symlink(fs::read_link(entry.path()).unwrap(), to).unwrap();
        } else {
            fs::hard_link(entry.path(), to).unwrap();
        }
    }
    link
}

/// Of a package of the environment.
fn file_of(home: &Path, name: &str) -> PathBuf {
    let lib = fs::read_dir(home.join("lib")).unwrap().next().unwrap();
    lib.unwrap().path().join("site-packages").join(name)
}

#[test]
fn a_failure_in_a_damaged_environment_does_not_stand_and_setup_mends_it() {
    let sandbox = sandbox(RIGHT);
    let home = own_openvino(&sandbox);
    let lost = file_of(&home, "openvino/__init__.py");
    let kept = sandbox.path("kept.py");
    fs::rename(&lost, &kept).unwrap();

    let document = sandbox.run(RUN).code(1).json();
    let reason = document["cases"][0]["reason"].as_str().unwrap();
    let told = "hint: the python environment `openvino` is not as it was installed (`lib/";
    assert!(reason.contains(told), "{reason}");
    assert!(
        reason.contains("openvino/__init__.py` is missing"),
        "{reason}"
    );
    sandbox
        .run(["doctor", "specs/all.yaml"])
        .code(1)
        .stdout_has("openvino/__init__.py` is missing")
        .stdout_has("remedy: orch setup");
    // The file is back, and nothing else changed: the step is tried again.
    fs::rename(&kept, &lost).unwrap();
    sandbox.run(RUN).success().summary([("passed", 1)]);

    fs::remove_file(&lost).unwrap();
    let setup = ["setup", "openvino", "--spec", "specs/all.yaml"];
    sandbox
        .run(setup)
        .success()
        .stderr_has("is not as it was installed: installing it again");
    assert!(lost.is_file());
    sandbox.run(setup).success().stderr_has("there already");

    fs::remove_file(home.join("bin/python")).unwrap();
    symlink("/no/such/python3", home.join("bin/python")).unwrap();
    sandbox
        .run([
            "run",
            "specs/all.yaml",
            "-t",
            "openvino",
            "--rerun",
            "convert:*",
        ])
        .success();
    assert!(home.join("bin/python").exists());
}

/// A failure hides no success of the same key, nor does the success hide the failure: the step executes again.
#[test]
fn what_passed_and_then_failed_with_the_same_key_is_executed_again() {
    let sandbox = Sandbox::new();
    // Steps may read what they do not declare, but not what a sandbox keeps from them: an absolute path is neither.
    let switch = sandbox.path("switch").display().to_string();
    let spec = format!(
        "version: 1
models: {{}}
targets: {{}}
commands:
  check: {{argv: [sh, -c, 'test ! -e {switch} && echo well > out'], outputs: [out]}}
"
    );
    let sandbox = sandbox.file("specs/all.yaml", spec);
    let run = ["run", "specs/all.yaml", "--json"];
    sandbox.run(run).success();
    sandbox.write("switch", "");
    sandbox
        .run(["run", "specs/all.yaml", "--rerun", "*"])
        .code(1);
    sandbox.run(run).code(1).summary([("executed", 1)]);
    fs::remove_file(sandbox.path("switch")).unwrap();
    sandbox.run(run).success().summary([("executed", 1)]);
    sandbox.run(run).success().summary([("executed", 0)]);
}

/// Neither a failure of a laptop with odd variables nor a result of its own is kept for others.
#[test]
fn an_odd_environment_poisons_nothing() {
    let sandbox = sandbox(RIGHT);
    let odd = [
        "env",
        "GLIBC_TUNABLES=glibc.malloc.check=3",
        "JAX_ENABLE_X64=1",
        "KMP_HW_SUBSET=1c,1t",
        "MALLOC_PERTURB_=165",
        "MKL_DEBUG_CPU_TYPE=5",
        "NODE_OPTIONS=--no-such-option",
        "OMP_STACKSIZE=1",
        "ONEDNN_CPU_ISA_HINTS=PREFER_YMM",
        "ONEDNN_VERBOSE=all",
        "ORT_DISABLE_ALL_OPTIMIZATION=1",
        "OV_ENABLE_SERIALIZE_TRACING=1",
        "PYTHONHASHSEED=7",
        "PYTHONHOME=/no/such/folder",
        "PYTHONIOENCODING=utf-16",
        "PYTHONMALLOC=debug",
        "PYTHONOPTIMIZE=2",
        "PYTHONPATH=/no/such/folder",
        "PYTHONSTARTUP=/no/such/file",
        "PYTHONWARNINGS=error",
        "PYTORCH_JIT=0",
        "TORCH_LOGS=+dynamo",
        "TRANSFORMERS_VERBOSITY=debug",
        "TZ=Pacific/Kiritimati",
        "XLA_FLAGS=--no_such_flag",
    ];
    let laptop = [&RUN[..], &["-t", "cpu"]].concat();
    sandbox
        .run_through(odd, &laptop)
        .success()
        .summary([("passed", 2), ("failed", 0)]);
    sandbox
        .run(&laptop)
        .success()
        .summary([("passed", 2), ("executed", 0)]);
}
