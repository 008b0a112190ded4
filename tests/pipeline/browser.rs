//! Real models in the real browser: right numbers on both interfaces, and nothing that passes without having run there.
//!
//! It installs the environments `torch`, `browser` and `transformers-js` on first use.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::suite;
use crate::support::{self, Sandbox, eventually, marker};
use serde_json::Value;

fn run<'a>(models: &[&'a str], targets: &[&'a str]) -> Vec<&'a str> {
    let models = models.iter().flat_map(|model| ["-m", model]);
    let targets = targets.iter().flat_map(|target| ["-t", target]);
    ["run", "specs/all.yaml", "--json"]
        .into_iter()
        .chain(models)
        .chain(targets)
        .collect()
}

fn cases(document: &Value) -> BTreeMap<String, Value> {
    let name = |case: &Value| {
        format!(
            "{}:{}",
            case["model"].as_str().unwrap(),
            case["target"].as_str().unwrap()
        )
    };
    document["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| (name(case), case.clone()))
        .collect()
}

fn processes_of(sandbox: &Sandbox) -> Vec<u32> {
    support::processes_with(sandbox.path("").to_str().unwrap())
}

#[test]
fn real_models_run_on_both_interfaces_and_an_operator_that_one_lacks_never_passes() {
    let sandbox = suite();
    let lacking = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/browser/lacking.onnx");
    sandbox.write("models/lacking.onnx", fs::read(lacking).unwrap());
    sandbox.write(
        "specs/models.yaml",
        sandbox.read("specs/models.yaml") + LACKING,
    );
    let models = ["bert", "vit", "detr", "clap", "lacking"];
    let ended = sandbox
        .run(run(&models, &["webgpu-browser", "webnn"]))
        .summary([("cases", 10), ("passed", 8)]);
    let found = cases(&ended.json());
    for model in ["bert", "vit", "detr", "clap"] {
        let webgpu = &found[&format!("{model}:webgpu-browser")];
        let webnn = &found[&format!("{model}:webnn")];
        for (case, provider) in [
            (webgpu, "WebGpuExecutionProvider"),
            (webnn, "WebNNExecutionProvider"),
        ] {
            assert_eq!(case["status"], "PASS", "{case:#}");
            assert!(
                case["numerics"]["max_abs"].as_f64().unwrap() < 1e-4,
                "{case:#}"
            );
            assert_eq!(
                case["placement"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .collect::<Vec<_>>(),
                [provider]
            );
        }
        assert!(
            webgpu["actual_device"]
                .as_str()
                .unwrap()
                .starts_with("webgpu-browser:")
        );
        assert_eq!(webnn["actual_device"], "webnn:cpu");
    }
    // CLAP is exported in terms of what both have, and the report says so.
    let lowered = &found["clap:webnn"]["facts"]["convert:clap:onnx"]["lowering"];
    assert_eq!(
        *lowered,
        serde_json::json!({"pool-mean": 1, "uniform-gather": 1})
    );
    // ONNX Runtime Web has no kernel for these, and may not take them to the CPU.
    for (target, operators) in [
        ("webgpu-browser", ["Det `det`", "CumSum `sums`"]),
        ("webnn", ["Det `det`"; 2]),
    ] {
        let case = &found[&format!("lacking:{target}")];
        assert_eq!(case["status"], "SKIP_UNSUPPORTED", "{case:#}");
        let reason = case["reason"].as_str().unwrap();
        assert!(
            reason.contains("has no kernel for")
                && operators.iter().all(|name| reason.contains(name)),
            "{reason}"
        );
    }
    for target in ["webgpu-browser", "webnn"] {
        the_generated_test_runs_by_itself(&sandbox, &found[&format!("bert:{target}")]);
    }
    assert_eq!(processes_of(&sandbox), [0u32; 0], "a browser was left");
    let again = sandbox.run(run(&models, &["webgpu-browser", "webnn"]));
    again.summary([("executed", 0), ("passed", 8)]);
}

/// A user's own file, which nobody lowers: two outputs, `Det` of a float matrix and `CumSum` of int64.
const LACKING: &str = "  lacking:
    onnx: ../models/lacking.onnx
    family: other
    task: text-classification
    pipeline: text
    inputs: {x: {dtype: float32, shape: [1, 2, 2], normal: [0, 1]}, n: {dtype: int64, shape: [1, 4], value: 1}}
";

/// WebNN names nodes that it leaves, and not why; and where the browser refuses the graph that it made, it says nothing to
/// whoever waits. Both were no reason, the second one for as long as a run may take.
#[test]
fn a_refused_graph_is_reported_at_once_and_by_its_cause() {
    let sandbox = suite();
    let mut models = sandbox.read("specs/models.yaml");
    for (name, inputs) in [
        (
            "computed-indices",
            "{x: {dtype: float32, shape: [2, 4], normal: [0, 1]}, i: {dtype: int64, shape: [2, 2], value: 1}}",
        ),
        (
            "zero-width",
            "{x: {dtype: float32, shape: [2, 4], normal: [0, 1]}}",
        ),
    ] {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/browser");
        sandbox.write(
            &format!("models/{name}.onnx"),
            fs::read(fixtures.join(format!("{name}.onnx"))).unwrap(),
        );
        models += &format!(
            "  {name}:\n    onnx: ../models/{name}.onnx\n    family: other\n    task: text-classification\n    \
             pipeline: text\n    inputs: {inputs}\n"
        );
    }
    sandbox.write("specs/models.yaml", models);
    let wanted = ["computed-indices", "zero-width"];
    // What is installed first is not timed.
    let ended = sandbox
        .run(run(&wanted, &["webnn"]))
        .summary([("cases", 2), ("failed", 0)]);
    let found = cases(&ended.json());
    for (model, words) in [
        (
            "computed-indices",
            "gatherElements only supports constant indices",
        ),
        (
            "zero-width",
            "does not take Slice `cut`, Concat `join` (the shape of `z` has a zero)",
        ),
    ] {
        let case = &found[&format!("{model}:webnn")];
        assert_eq!(case["status"], "SKIP_UNSUPPORTED", "{case:#}");
        assert!(case["reason"].as_str().unwrap().contains(words), "{case:#}");
    }
    let clock = std::time::Instant::now();
    sandbox.run([
        "run",
        "specs/all.yaml",
        "-m",
        wanted[0],
        "-t",
        "webnn",
        "--rerun",
        "all",
    ]);
    assert!(
        clock.elapsed().as_secs() < 100,
        "it waited for a page that had failed: {:?}",
        clock.elapsed()
    );
    let log = sandbox.run(["log", "run:computed-indices:webnn-fp32"]);
    let words = "Uncaught (in promise) NotSupportedError";
    let stdout = log.success().stdout;
    assert!(stdout.contains(words), "{stdout}");
    assert_eq!(processes_of(&sandbox), [0u32; 0], "a browser was left");
}

/// By the line that the report gives for it.
fn the_generated_test_runs_by_itself(sandbox: &Sandbox, case: &Value) {
    let repro = case["repro"].as_str().unwrap();
    let run = |line: &str| {
        let line = format!("{line} --warmup 1 --samples 2 --save saved --json by-itself.json");
        let output = Command::new("sh")
            .args(["-c", &line])
            .current_dir(sandbox.path(""))
            .output()
            .unwrap();
        let document: Value = serde_json::from_str(&sandbox.read("by-itself.json"))
            .unwrap_or_else(|e| panic!("{line}: {e}\n{}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code().unwrap(), document)
    };
    let (code, passed) = run(repro);
    assert_eq!(
        (code, passed["status"].as_str()),
        (0, Some("ok")),
        "{passed:#}"
    );
    assert_eq!(passed["facts"]["numerics"]["verdict"], "PASS", "{passed:#}");
    for name in ["actual_device", "placement"] {
        assert_eq!(passed["measure"][name], case[name], "{passed:#}");
    }
    assert!(sandbox.path("saved/outputs.safetensors").is_file());

    let (code, grown) = run(&format!("{repro} --batch-size 2"));
    assert_eq!(
        (code, grown["status"].as_str()),
        (1, Some("unsupported")),
        "{grown:#}"
    );
    assert!(
        grown["reason"]
            .as_str()
            .unwrap()
            .starts_with("the artefact is static"),
        "{grown:#}"
    );

    // The variable that comes last counts.
    let (code, alone) =
        run(&repro.replacen(" ORCH_BROWSER=", " ORCH=/nowhere/orch ORCH_BROWSER=", 1));
    assert_eq!(
        (code, alone["status"].as_str()),
        (3, Some("unavailable")),
        "{alone:#}"
    );

    let test = repro.split_whitespace().last().unwrap();
    let text = sandbox.read(test);
    let strict = text.replacen("ROOT = ", "TOLERANCE[\"cosine\"] = 2.0\nROOT = ", 1);
    assert_ne!(strict, text);
    sandbox.write("orch-out/tests/strict.py", strict);
    let (code, wrong) = run(&repro.replace(test, "orch-out/tests/strict.py"));
    assert_eq!(
        (code, wrong["status"].as_str()),
        (1, Some("numerics")),
        "{wrong:#}"
    );
}

/// Whole tasks by Transformers.js, by the example that shows them: also that nothing passes with a wrong answer.
#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn tasks_of_transformers_js_answer_as_python_does() {
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/transformers-js/specs/all.yaml");
    let sandbox = Sandbox::new().installs();
    let writer = "  writer:\n    class: BertForMaskedLM\n    family: encoder-only\n    task: text-generation\n    \
        pipeline: text\n    config: *bert\n    inputs: *ids\n    outputs: [logits]\npipelines:\n";
    let spec = fs::read_to_string(example)
        .unwrap()
        .replacen("pipelines:\n", writer, 1);
    sandbox.write(
        "specs/all.yaml",
        spec.replacen(
            "tasks: [feature-extraction",
            "tasks: [text-generation, feature-extraction",
            1,
        ),
    );
    let wanted = [
        "embedder",
        "unmasked-embedder",
        "gap-filler",
        "text-classifier",
        "image-classifier",
        "writer",
    ];
    let targets = ["tasks-webnn", "tasks-wasm", "tasks-webgpu"];
    let ended = sandbox
        .run(run(&wanted, &targets))
        .summary([("cases", 18), ("passed", 15)]);
    let found = cases(&ended.json());
    let providers = [
        ("tasks-webnn", "WebNNExecutionProvider", "webnn:cpu"),
        ("tasks-wasm", "CPUExecutionProvider", "cpu:wasm"),
        ("tasks-webgpu", "WebGpuExecutionProvider", "webgpu-browser:"),
    ];
    for (target, provider, device) in providers {
        for model in wanted[..5].iter().copied() {
            let case = &found[&format!("{model}:{target}")];
            assert_eq!(case["status"], "PASS", "{case:#}");
            assert_eq!(
                case["placement"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .collect::<Vec<_>>(),
                [provider]
            );
            assert!(
                case["actual_device"].as_str().unwrap().starts_with(device),
                "{case:#}"
            );
            let (before, result) = match model {
                "embedder" | "unmasked-embedder" => ("input_ids", "embedding"),
                "image-classifier" => ("pixel_values", "scores"),
                _ => ("input_ids", "scores"),
            };
            let compared: Vec<_> = case["numerics"]["tensors"]
                .as_object()
                .unwrap()
                .keys()
                .collect();
            let mut expected = [before, result];
            expected.sort_unstable();
            assert_eq!(compared, expected, "{case:#}");
            assert!(
                case["numerics"]["reference"]
                    .as_str()
                    .unwrap()
                    .contains(" pipeline `"),
                "{case:#}"
            );
            let versions = case["facts"]["versions"].as_object().unwrap();
            for name in ["transformers.js", "onnxruntime-web", "chromium"] {
                assert!(versions.contains_key(name), "{versions:?}");
            }
            let own = &case["facts"][format!("run:{model}:{target}-fp32")];
            assert!(
                own["timed"].as_str().unwrap().contains("postprocessing"),
                "{own:#}"
            );
            assert_eq!(own["versions"]["transformers.js"], "4.3.1", "{own:#}");
        }
        let writer = &found[&format!("writer:{target}")];
        assert_eq!(writer["status"], "SKIP_UNSUPPORTED", "{writer:#}");
        assert!(
            writer["reason"]
                .as_str()
                .unwrap()
                .contains("no task `text-generation` for Transformers.js")
        );
    }
    the_generated_test_runs_by_itself(&sandbox, &found["embedder:tasks-webnn"]);
    assert_eq!(processes_of(&sandbox), [0u32; 0], "a browser was left");
    sandbox
        .run(run(&wanted, &targets))
        .summary([("executed", 0), ("passed", 15)]);
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_browser_that_is_killed_is_a_crash_and_a_missing_one_is_unavailable() {
    let sandbox = suite();
    // Whatever it is told, it ends by a signal; so does one that the kernel kills.
    let name = marker("browser");
    let killed = sandbox.path(&name);
    sandbox.write(&name, "#!/bin/sh\nsleep 60 &\nkill -KILL $$\n");
    let mut mode = fs::metadata(&killed).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(&killed, mode).unwrap();
    let with = |browser: &Path| {
        let mut command = sandbox.command(run(&["vit"], &["webnn"]));
        let output = command.env("ORCH_BROWSER", browser).output().unwrap();
        let document = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{e}\n{}", String::from_utf8_lossy(&output.stderr)));
        cases(&document)["vit:webnn"].clone()
    };
    let crash = with(&killed);
    assert_eq!(crash["status"], "CRASH", "{crash:#}");
    assert!(
        crash["reason"]
            .as_str()
            .unwrap()
            .contains("was ended by signal 9"),
        "{crash:#}"
    );
    let missing = with(Path::new("/nowhere/chrome"));
    assert_eq!(missing["status"], "SKIP_UNAVAILABLE", "{missing:#}");
    assert!(
        missing["reason"]
            .as_str()
            .unwrap()
            .contains("ORCH_BROWSER=/nowhere/chrome is no file"),
        "{missing:#}"
    );

    // One that is ended with its worker leaves its words.
    let mute = sandbox.path(&marker("mute"));
    fs::write(
        &mute,
        "#!/bin/sh\necho the words of a browser that hangs >&2\nexec sleep 600\n",
    )
    .unwrap();
    fs::set_permissions(&mute, fs::metadata(&killed).unwrap().permissions()).unwrap();
    let targets = sandbox.read("specs/targets.yaml");
    let limited = targets.replace(
        "backend: webnn, device: cpu,",
        "backend: webnn, device: cpu, measure: {timeout_seconds: 5},",
    );
    assert_ne!(limited, targets);
    sandbox.write("specs/targets.yaml", limited);
    let hung = with(&mute);
    assert_eq!(hung["status"], "TIMEOUT", "{hung:#}");
    sandbox
        .run(["log", "run:vit:webnn-fp32"])
        .stdout_has("the words of a browser that hangs");

    // The real one, and of its processes those without which its page answers nothing, killed from outside while it works.
    for (kind, words) in [
        ("", "was ended by signal 9"),
        ("renderer", "process of the page died"),
        ("gpu-process", ""),
    ] {
        let child = sandbox.spawn(run(&["detr"], &["webgpu-browser"]));
        let profile = format!("user-data-dir={}", sandbox.path("cache").display());
        let wanted = || {
            let line = |pid: &u32| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).replace('\0', " ")
            };
            let is_it = |line: String| match kind {
                "" => !line.contains("--type="),
                kind => line.contains(&format!("--type={kind}")),
            };
            // Of the children not all name the profile; the browser does.
            let main = support::processes_with(&profile)
                .into_iter()
                .filter(|pid| !line(pid).contains("--type="))
                .min()?;
            if kind.is_empty() {
                Some(main)
            } else {
                descendants(main).into_iter().find(|pid| is_it(line(pid)))
            }
        };
        eventually_long("the browser is up", || wanted().is_some());
        // Its page is up within a second, and this model takes the software adapter ten more.
        std::thread::sleep(std::time::Duration::from_secs(4));
        // SAFETY: kill takes no pointers.
        unsafe { libc::kill(wanted().unwrap() as i32, libc::SIGKILL) };
        let document = sandbox.wait(child).code(1).json();
        let case = &cases(&document)["detr:webgpu-browser"];
        assert_eq!(case["status"], "CRASH", "{kind}: {case:#}");
        assert!(
            case["reason"].as_str().unwrap().contains(words),
            "{kind}: {case:#}"
        );
        eventually("nothing of the browser is left", || {
            processes_of(&sandbox).is_empty()
        });
    }
}

/// The processes that a process started, and theirs.
fn descendants(root: u32) -> Vec<u32> {
    let parents: BTreeMap<u32, u32> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((
                pid,
                stat.rsplit_once(')')?
                    .1
                    .split_whitespace()
                    .nth(1)?
                    .parse()
                    .ok()?,
            ))
        })
        .collect();
    let mut found = vec![root];
    loop {
        let more: Vec<_> = parents
            .iter()
            .filter(|(pid, parent)| found.contains(parent) && !found.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Installing and exporting come before the browser.
fn eventually_long(what: &str, mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(
            start.elapsed().as_secs() < 900,
            "waited in vain until {what}"
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
