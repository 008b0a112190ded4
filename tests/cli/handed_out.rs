//! What lies in the output folder: a generated test takes the files that were handed out with it, and no others.

use std::fs;

use crate::onnx::RIGHT;
use crate::ready_onnx::{SPEC, sandbox};
use crate::sizes::shell;
use crate::support::Sandbox;

const RUN: [&str; 5] = ["run", "specs/all.yaml", "-t", "cpu", "--json"];
const ARTEFACTS: &str = "orch-out/artefacts/linear";

/// The model of `SPEC` on another input, so that everything its tests load is another.
fn spec(first: u32) -> String {
    let spec = SPEC.replace("    expected: ../models/expected\n", "");
    spec.replace("data: [1, 10]", &format!("data: [{first}, 10]"))
}

fn ran() -> (Sandbox, String) {
    let sandbox = sandbox(RIGHT);
    sandbox.write("specs/all.yaml", spec(1));
    let document = sandbox.run(RUN).success().summary([("passed", 1)]).json();
    let repro = document["cases"][0]["repro"].as_str().unwrap().to_owned();
    (sandbox, repro)
}

fn tree(sandbox: &Sandbox, artefact: &str) -> String {
    let told = sandbox.read(&format!("{ARTEFACTS}/{artefact}/orch.json"));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    told["tree"].as_str().unwrap()[..12].to_owned()
}

/// Gives the command that is to mend it.
#[track_caller]
fn refused(sandbox: &Sandbox, line: &str, says: &str) -> String {
    let (passed, said) = shell(sandbox, line);
    assert!(
        !passed && said.contains(says),
        "{line} does not say {says:?}:\n{said}"
    );
    let (again, _) = said
        .rsplit_once("` makes this test and its files again")
        .unwrap_or_else(|| panic!("{said}"));
    let (_, again) = again
        .rsplit_once(": `orch run specs/all.yaml")
        .unwrap_or_else(|| panic!("{said}"));
    assert!(again.ends_with(" --case 'linear:cpu-fp32'"), "{again}");
    format!("{} run specs/all.yaml{again}", env!("CARGO_BIN_EXE_orch"))
}

#[track_caller]
fn passes(sandbox: &Sandbox, line: &str) {
    let (passed, said) = shell(sandbox, line);
    assert!(passed && said.contains("numerics  PASS"), "{said}");
}

#[test]
fn a_test_refuses_the_files_of_the_spec_as_it_was() {
    let (sandbox, repro) = ran();
    passes(&sandbox, &repro);
    let old = ["onnx", "model"].map(|artefact| tree(&sandbox, artefact));
    let old_test = sandbox.read("orch-out/tests/test_linear_cpu-fp32.py");
    assert!(shell(&sandbox, &format!("cp -r {ARTEFACTS} old")).0);

    sandbox.write("specs/all.yaml", spec(2));
    sandbox.run(RUN).success().summary([("passed", 1)]);
    passes(&sandbox, &repro);
    let new = ["onnx", "model"].map(|artefact| tree(&sandbox, artefact));
    let says = |folder: &str, told: &str, own: &str| {
        format!("{folder}/orch.json says {told}, and this test's files are {own}")
    };
    refused(
        &sandbox,
        &format!("{repro} --artefact old/onnx"),
        &says("old/onnx", &old[0], &new[0]),
    );
    refused(
        &sandbox,
        &format!("{repro} --model old/model"),
        &says("old/model", &old[1], &new[1]),
    );
    // Both of them agree with each other, and would pass.
    refused(
        &sandbox,
        &format!("{repro} --artefact old/onnx --model old/model"),
        &says("old/onnx", &old[0], &new[0]),
    );
    fs::remove_dir_all(sandbox.path(ARTEFACTS)).unwrap();
    assert!(shell(&sandbox, &format!("cp -r old {ARTEFACTS}")).0);
    let again = refused(
        &sandbox,
        &repro,
        &says(&format!("{ARTEFACTS}/onnx"), &old[0], &new[0]),
    );
    assert!(shell(&sandbox, &again).0);
    passes(&sandbox, &repro);
    // And the older test refuses what is newer.
    sandbox.write("orch-out/tests/test_old.py", old_test);
    let older = repro.replace("test_linear_cpu-fp32.py", "test_old.py");
    refused(
        &sandbox,
        &older,
        &says(&format!("{ARTEFACTS}/onnx"), &new[0], &old[0]),
    );
}

#[test]
fn a_test_refuses_files_that_were_changed_where_they_lie() {
    let (sandbox, repro) = ran();
    let onnx = |name: &str| sandbox.path(&format!("{ARTEFACTS}/onnx/{name}"));
    let inputs = onnx("inputs.safetensors");
    let control = onnx("control-inputs.safetensors");
    let whole = fs::read(&inputs).unwrap();
    fs::remove_file(&inputs).unwrap();
    fs::copy(&control, &inputs).unwrap();
    refused(
        &sandbox,
        &repro,
        "onnx/inputs.safetensors was changed: it is ",
    );
    fs::remove_file(&inputs).unwrap();
    fs::write(&inputs, whole).unwrap();
    passes(&sandbox, &repro);
    // Without its control it would prove less, and pass all the same.
    let reference = sandbox.path(&format!("{ARTEFACTS}/model/control-reference.safetensors"));
    fs::rename(&reference, sandbox.path("aside")).unwrap();
    refused(
        &sandbox,
        &repro,
        "model/control-reference.safetensors was changed: it is not there, and ",
    );
    fs::rename(sandbox.path("aside"), &reference).unwrap();
    passes(&sandbox, &repro);
    fs::remove_file(onnx("orch.json")).unwrap();
    refused(
        &sandbox,
        &repro,
        "onnx/orch.json to say whose files these are",
    );
    // As a folder is that was not filled for its size.
    hand_out_again(&sandbox);
    let handed = sandbox.read(&format!("{ARTEFACTS}/onnx/orch.json"));
    let mut handed: serde_json::Value = serde_json::from_str(&handed).unwrap();
    handed["files"] = serde_json::json!({});
    handed["get"] = "orch output x".into();
    let told = handed.to_string();
    fs::remove_dir_all(onnx("")).unwrap();
    sandbox.write(&format!("{ARTEFACTS}/onnx/orch.json"), &told);
    let (passed, said) = shell(&sandbox, &repro);
    assert!(
        !passed
            && said
                .contains("artefacts/linear/onnx is not complete: `orch output x` copies it there"),
        "{said}"
    );
    // Where orch is on PATH, the test gets what it needs by that command.
    let bin = sandbox.path("bin");
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_orch"), bin.join("orch")).unwrap();
    let cache = sandbox.path("cache");
    let get = format!(
        "orch output --cache-dir {} --spec specs/all.yaml generate:linear --to {ARTEFACTS}/onnx",
        cache.display()
    );
    sandbox.write(
        &format!("{ARTEFACTS}/onnx/orch.json"),
        told.replace("orch output x", &get),
    );
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    passes(&sandbox, &format!("PATH={path} {repro}"));
}

/// Hands everything out once more.
fn hand_out_again(sandbox: &Sandbox) {
    fs::remove_dir_all(sandbox.path(ARTEFACTS)).unwrap();
    sandbox.run(RUN).success();
}

#[test]
fn a_test_whose_artefact_was_not_made_takes_no_older_one() {
    let (sandbox, repro) = ran();
    sandbox.write("models/linear.onnx", "no model");
    sandbox.run(RUN).code(1).summary([("failed", 1)]);
    assert!(
        sandbox
            .path(&format!("{ARTEFACTS}/onnx/model.onnx"))
            .exists()
    );
    refused(
        &sandbox,
        &repro,
        "orch handed out no `onnx` of linear with this test",
    );
}
