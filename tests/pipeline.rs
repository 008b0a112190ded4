//! The real pipeline: two models of the suite on every target that a plain x86-64 Linux has, then real weights offline, and browsers.
//!
//! It installs gigabytes on first use and takes minutes, so it is a target of its own: `cargo test --test pipeline`.

#[path = "pipeline/blame.rs"]
mod blame;
#[path = "pipeline/browser.rs"]
mod browser;
#[cfg(target_os = "linux")]
#[path = "pipeline/daemon.rs"]
mod daemon;
#[path = "pipeline/files.rs"]
mod files;
#[path = "pipeline/generation.rs"]
mod generation;
#[path = "pipeline/pages.rs"]
mod pages;
#[path = "pipeline/precisions.rs"]
mod precisions;
#[path = "pipeline/pytest.rs"]
mod pytest;
#[path = "pipeline/sizes.rs"]
mod sizes;
mod support;
#[path = "pipeline/zoo.rs"]
mod zoo;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use support::{Sandbox, env_dir};

const TARGETS: [&str; 5] = ["cpu", "openvino", "qnn", "torch-cpu", "eager-cpu"];
const SPECS: [&str; 4] = ["all.yaml", "models.yaml", "pipelines.yaml", "targets.yaml"];

fn suite() -> Sandbox {
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("specs");
    let sandbox = Sandbox::new().installs();
    for name in SPECS {
        sandbox.write(
            &format!("specs/{name}"),
            fs::read(specs.join(name)).unwrap(),
        );
    }
    sandbox
}

fn run() -> Vec<&'static str> {
    let targets = TARGETS.iter().flat_map(|target| ["-t", target]);
    ["run", "specs/all.yaml", "-m", "bert", "-m", "vit", "--json"]
        .into_iter()
        .chain(targets)
        .collect()
}

/// Replaces a piece of a spec that must be there.
fn edit(sandbox: &Sandbox, name: &str, from: &str, to: &str) {
    let text = sandbox.read(name);
    assert!(text.contains(from), "{name} has no {from:?}");
    sandbox.write(name, text.replacen(from, to, 1));
}

fn cases(document: &Value) -> BTreeMap<String, &Value> {
    let name = |case: &Value| {
        format!(
            "{}:{}-{}",
            text(&case["model"]),
            text(&case["target"]),
            text(&case["precision"])
        )
    };
    document["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| (name(case), case))
        .collect()
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
}

#[test]
fn two_models_pass_on_every_target_and_run_again_only_where_they_changed() {
    let sandbox = suite();
    let first = sandbox
        .run(run())
        .success()
        .summary([("cases", 14), ("passed", 14), ("hits", 0)]);
    let document = first.json();
    for (name, case) in cases(&document) {
        assert_eq!(case["status"], "PASS", "{name}");
        assert_eq!(case["numerics"]["passed"], true, "{name}");
        assert!(!text(&case["actual_device"]).is_empty(), "{name}");
        // The emulator's times would say nothing of the chip.
        let is_timed = case["metrics"]["median_ms"]
            .as_f64()
            .is_some_and(|median| median > 0.);
        assert_eq!(
            (is_timed, case["untimed"] == true),
            if name.contains("qnn") {
                (false, true)
            } else {
                (true, false)
            }
        );
    }
    let placement = cases(&document)["bert:cpu-fp32"]["placement"]
        .as_object()
        .unwrap();
    assert_eq!(
        placement.keys().collect::<Vec<_>>(),
        ["CPUExecutionProvider"]
    );
    sandbox.run(["cache", "verify"]).success();

    the_generated_test_stands_alone(&sandbox, cases(&document)["vit:openvino-fp32"]);

    // Nothing changed: nothing is executed.
    let again = sandbox
        .run(run())
        .success()
        .summary([("executed", 0), ("passed", 14)]);
    assert!(
        again.json()["cases"]
            .as_array()
            .unwrap()
            .iter()
            .all(|case| case["cached"] == true)
    );

    // Nor is anything installed or started where no environment is. Only the report names other interpreters.
    let bare = sandbox.path("no-envs");
    let mut command = sandbox.command(run());
    let output = command
        .env("ORCH_ENV_DIR", &bare)
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let executed = serde_json::from_slice::<Value>(&output.stdout).unwrap()["summary"]["executed"]
        .as_u64()
        .unwrap();
    assert!(executed <= 1 && !bare.exists(), "{executed} executed");

    // A comment changes nothing; a seed changes its own model's chain.
    edit(
        &sandbox,
        "specs/models.yaml",
        "  bert:\n",
        "  # Changed.\n  bert:\n",
    );
    sandbox
        .run(run())
        .success()
        .summary([("passed", 14)])
        .stderr_lacks("bert")
        .stderr_lacks("vit");
    edit(
        &sandbox,
        "specs/models.yaml",
        "  bert:\n",
        "  bert:\n    seed: 5\n",
    );
    let plan = sandbox
        .run([
            "plan",
            "specs/all.yaml",
            "-m",
            "bert",
            "-m",
            "vit",
            "-t",
            "cpu",
        ])
        .success();
    plan.stdout_has("param.seed changed (0 => 5)")
        .stdout_lacks("generate:vit");
    let changed = sandbox.run(run()).success().summary([("passed", 14)]);
    let changed = changed
        .stderr_has("ok    generate:bert")
        .stderr_has("ok    run:bert:qnn-fp16")
        .stderr_lacks("vit");
    assert!(
        cases(&changed.json())
            .values()
            .all(|case| (case["cached"] == true) == (case["model"] == "vit"))
    );

    // Every runtime can do without a clock, and then its run is another one; the emulator's is the one that there is.
    let check: Vec<_> = run().into_iter().chain(["--check"]).collect();
    let checked = sandbox
        .run(check)
        .success()
        .stderr_lacks("qnn")
        .stderr_lacks("convert:")
        .summary([("passed", 14)]);
    for (name, case) in cases(&checked.json()) {
        assert_eq!(
            (&case["untimed"], &case["metrics"]),
            (&json!(true), &Value::Null),
            "{name}"
        );
    }
}

/// The reproducer of a case is one shell line that passes by itself.
fn the_generated_test_stands_alone(sandbox: &Sandbox, case: &Value) {
    let line = text(&case["repro"]);
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(sandbox.path(""))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}\n{said}");
}

/// Without a GPU the driver is a program, and every page says so. The reproducer names what orch set up for it.
#[test]
fn webgpu_runs_a_text_model_an_image_model_and_a_convolution() {
    let sandbox = suite();
    let models = ["bert", "vit", "detr"];
    let argv = models.iter().flat_map(|model| ["-m", model]);
    let run: Vec<_> = ["run", "specs/all.yaml", "-t", "webgpu", "--json"]
        .into_iter()
        .chain(argv)
        .collect();
    let ended = sandbox
        .run(&run)
        .success()
        .summary([("cases", 3), ("passed", 3)]);
    let document = ended.json();
    the_generated_test_stands_alone(&sandbox, cases(&document)["bert:webgpu-fp32"]);
    for (name, case) in cases(&document) {
        assert_eq!(case["numerics"]["passed"], true, "{name}");
        let placement = case["placement"].as_object().unwrap();
        assert_eq!(
            placement.keys().collect::<Vec<_>>(),
            ["WebGpuExecutionProvider"],
            "{name}: no node is elsewhere"
        );
        let facts = &case["facts"][format!("run:{name}")];
        assert_eq!(facts["cpu_fallback"], "disabled", "{name}");
        let kind = text(&facts["adapter"]["kind"]);
        let expected = if kind == "cpu" {
            "webgpu-software"
        } else {
            "webgpu"
        };
        assert_eq!(
            case["actual_device"], expected,
            "{name} on {}",
            facts["adapter"]
        );
    }
    sandbox
        .run(&run)
        .success()
        .summary([("executed", 0), ("passed", 3)]);
}

const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";

fn weights(model: &str, row: &str) -> String {
    format!(
        "  {model}:
    class: BertForMaskedLM
    {row}
    family: encoder-only
    task: fill-mask
    pipeline: text
    inputs:
      input_ids: {{dtype: int64, shape: [batch, seq], randint: [5, 128]}}
      attention_mask: {{dtype: int64, shape: [batch, seq], value: 1}}
    outputs: [logits]
"
    )
}

/// The published tree of a model, through the link beside the report.
fn artefact(sandbox: &Sandbox, name: &str) -> PathBuf {
    fs::canonicalize(sandbox.path("orch-out/artefacts").join(name)).unwrap()
}

#[test]
fn weights_of_the_hub_and_of_a_folder_load_offline_and_pickles_are_refused() {
    let sandbox = suite();
    sandbox
        .run(["run", "specs/all.yaml", "-m", "bert", "-t", "eager-cpu"])
        .success();
    let seeded = artefact(&sandbox, "bert/model");

    // The Hub client's own cache, as a download leaves it.
    let hub = "home/hub/models--someone--small-bert";
    sandbox.write(&format!("{hub}/refs/main"), REVISION);
    let pickled = "home/hub/models--someone--pickled";
    sandbox.write(&format!("{pickled}/refs/main"), REVISION);
    for name in ["config.json", "model.safetensors"] {
        let bytes = fs::read(seeded.join(name)).unwrap();
        sandbox.write(&format!("{hub}/snapshots/{REVISION}/{name}"), &bytes);
        sandbox.write(&format!("weights/{name}"), &bytes);
        if name == "config.json" {
            sandbox.write(&format!("{pickled}/snapshots/{REVISION}/{name}"), &bytes);
            sandbox.write("pickled/config.json", &bytes);
        }
    }
    sandbox.write(
        &format!("{pickled}/snapshots/{REVISION}/pytorch_model.bin"),
        b"\x80\x02}q\x00.",
    );
    sandbox.write("pickled/pytorch_model.bin", b"\x80\x02}q\x00.");
    let models = [
        weights(
            "hubbed",
            &format!("weights: hub\n    hub: {{id: someone/small-bert, revision: {REVISION}}}"),
        ),
        weights("local", "weights: path\n    path: ../weights"),
        weights(
            "hub-pickle",
            &format!("weights: hub\n    hub: {{id: someone/pickled, revision: {REVISION}}}"),
        ),
        weights("local-pickle", "weights: path\n    path: ../pickled"),
        weights(
            "nowhere",
            &format!("weights: hub\n    hub: {{id: someone/absent, revision: {REVISION}}}"),
        ),
    ];
    let spec = format!(
        "version: 1\ninclude: [pipelines.yaml, targets.yaml]\nmodels:\n{}",
        models.concat()
    );
    let home = sandbox.path("home").to_str().unwrap().to_owned();
    let sandbox = sandbox
        .file("specs/weights.yaml", spec)
        .env("HF_HOME", home)
        .env("HF_HUB_OFFLINE", "1");

    let ended = sandbox
        .run(["run", "specs/weights.yaml", "-t", "eager-cpu", "--json"])
        .code(1);
    let document = ended.json();
    let cases = cases(&document);
    let reference = fs::read(seeded.join("reference.safetensors")).unwrap();
    for name in ["hubbed", "local"] {
        assert_eq!(
            cases[&format!("{name}:eager-cpu-fp32")]["status"],
            "PASS",
            "{name}"
        );
        // Equal weights and equal inputs give equal outputs, bit for bit.
        assert_eq!(
            fs::read(artefact(&sandbox, &format!("{name}/model")).join("reference.safetensors"))
                .unwrap(),
            reference,
            "{name}"
        );
    }
    for name in ["hub-pickle", "local-pickle"] {
        let case = cases[&format!("{name}:eager-cpu-fp32")];
        assert_eq!(
            (&case["status"], &case["stage"]),
            (&"FAIL".into(), &"generate".into()),
            "{case}"
        );
        assert!(
            text(&case["reason"]).contains("pickled weights can run code and are refused"),
            "{case}"
        );
    }
    let nowhere = cases["nowhere:eager-cpu-fp32"];
    assert_eq!(nowhere["status"], "SKIP_UNAVAILABLE", "{nowhere}");
    assert!(
        text(&nowhere["reason"]).contains("someone/absent"),
        "{nowhere}"
    );
    let manifest: Value = serde_json::from_slice(
        &fs::read(artefact(&sandbox, "hubbed/model").join("manifest.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(manifest["weights"]["revision"], REVISION);
}

/// A verdict that decides nothing is no success of a key model: a row that only lets it be INDECISIVE claims nothing.
#[test]
#[ignore = "slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn every_key_model_passes_wherever_this_machine_can_run_it() {
    let document = suite()
        .run(["run", "specs/all.yaml", "--check", "--json"])
        .success()
        .json();
    let cases = document["cases"].as_array().unwrap();
    let others: Vec<_> = cases
        .iter()
        .filter(|case| !["PASS", "SKIP_UNAVAILABLE"].contains(&text(&case["status"])))
        .map(|case| (text(&case["case"]), text(&case["status"])))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    let models: BTreeSet<_> = cases
        .iter()
        .filter(|case| case["status"] == "PASS")
        .map(|case| text(&case["model"]))
        .collect();
    assert_eq!(models.len(), 15, "{models:?}");
}

/// Its environment is no part of the usual matrix, so nothing else here installs it.
#[test]
#[ignore = "installs a gigabyte and more: `cargo test --test '*' -- --ignored`, as CI does"]
fn litert_passes_at_fp32_and_with_fp16_weights_and_counts_what_xnnpack_leaves() {
    let sandbox = suite();
    let args = [
        "run",
        "specs/all.yaml",
        "-m",
        "bert",
        "-t",
        "litert",
        "-t",
        "litert-small",
        "--json",
    ];
    let document = sandbox
        .run(args)
        .success()
        .summary([("cases", 2), ("passed", 2)])
        .json();
    let found = cases(&document);
    for name in ["bert:litert-fp32", "bert:litert-small-fp16"] {
        assert_eq!(found[name]["status"], "PASS", "{name}");
        let places = found[name]["placement"].as_object().unwrap();
        let cast = &found[name]["facts"][format!("run:{name}")]["cast_to_fp32"];
        assert_eq!(cast.is_string(), name.ends_with("fp16"), "{name}: {cast}");
        assert!(
            places["XNNPACK"].as_u64().unwrap() > places["LiteRT"].as_u64().unwrap(),
            "{places:?}"
        );
        the_generated_test_stands_alone(&sandbox, found[name]);
    }
    sandbox
        .run(args)
        .success()
        .summary([("cases", 2), ("passed", 2), ("executed", 0)]);
}

/// PyTorch's own kernels decide for eager models: which precision it is depends on this CPU, and that it is told does not.
#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn half_auto_of_an_eager_target_is_what_pytorch_really_computes_in() {
    let sandbox = suite();
    let row = "artefact: model\n    precisions: [fp32]\n  cuda:";
    edit(
        &sandbox,
        "specs/targets.yaml",
        row,
        "artefact: model\n    half: auto\n  cuda:",
    );
    let run = [
        "run",
        "specs/all.yaml",
        "-m",
        "bert",
        "-t",
        "eager-cpu",
        "--json",
    ];
    let document = sandbox
        .run(run)
        .success()
        .summary([("cases", 1), ("passed", 1)])
        .json();
    let case = &document["cases"][0];
    assert_eq!(
        (&case["half"]["got"], &case["half"]["asked"]),
        (&case["precision"], &"auto".into())
    );
    let why = text(&case["half"]["why"]);
    assert!(!why.contains("Error"), "the probe itself failed: {why}");
    match text(&case["precision"]) {
        "fp32" => assert!(
            why.contains("python on cpu at fp16: ") && why.contains("python on cpu at bf16: "),
            "{why}"
        ),
        precision => {
            assert!(
                why.contains(&format!("in {precision}, off by "))
                    && why.contains("oneDNN's kernel"),
                "{why}"
            )
        }
    }
}

const MODULE: &str = "import numpy, torch, sys
from safetensors.numpy import load_file, save_file
class Two(torch.nn.Module):
    def forward(self, a, b):
        return a * b, b * 0 + 1
if sys.argv[1] == 'make':
    torch.jit.trace(Two(), (torch.ones(2), torch.ones(2))).save('specs/m.pt')
    save_file({'product': numpy.zeros(2, 'f'), 'one': numpy.ones(2, 'f')}, 'specs/expected.safetensors')
else:
    given = load_file('made/inputs.safetensors')
    save_file({'product': given['a'] * given['b'], 'one': numpy.ones(2, 'f')}, 'specs/expected.safetensors')
";

const MODULES: &str = "version: 1
targets:
  torch: {runtime: torch, backend: cpu, device: cpu, artefact: torchscript, precisions: [fp32]}
measure: {warmup: 0, samples: 1}
models:
  two:
    torchscript: m.pt
    expected: expected.safetensors
    outputs: [product, one]
    inputs: {a: {dtype: float32, shape: [2], data: [1, 10]}, b: {dtype: float32, shape: [2], uniform: [2, 9]}}
";

/// No runtime but torch takes it, and torch says what it gives on other inputs.
#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_ready_module_has_a_control_by_torch_s_own_word() {
    let sandbox = Sandbox::new().installs().file("specs/all.yaml", MODULES);
    sandbox
        .run(["setup", "torch", "--spec", "specs/all.yaml"])
        .success();
    let python = torch_env().join("bin/python");
    let script = |what: &str| {
        let made = Command::new(&python)
            .args(["-c", MODULE, what])
            .current_dir(sandbox.path(""))
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
    };
    let run = ["run", "specs/all.yaml", "--json"];
    script("make");
    sandbox.run(run).code(1).summary([("failed", 1)]);
    sandbox
        .run(["output", "generate:two:reference", "--to", "made"])
        .success();
    script("expect");
    let document = sandbox.run(run).success().summary([("passed", 1)]).json();
    let control = &document["cases"][0]["numerics"]["control"];
    assert_eq!(
        control["by"], "torch cpu, which is tested itself",
        "{document:#}"
    );
    assert_eq!(
        (&control["undecided"], &control["max_abs"]),
        (&json!(["one"]), &json!(0.0)),
        "{document:#}"
    );
}

fn torch_env() -> PathBuf {
    let envs = fs::read_dir(env_dir())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    envs.filter(|path| path.is_dir() && text_of(path).starts_with("torch-"))
        .max()
        .unwrap()
}

fn text_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
