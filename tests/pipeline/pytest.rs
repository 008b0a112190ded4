//! `pytest orch-out/tests` and Ruff, on what a run hands out.

use super::*;

/// Beside the outputs of a device stands what they were made on; the document of all devices has the machine once.
fn saved_with_hardware(sandbox: &Sandbox, document: &Value) {
    let saved: Value =
        serde_json::from_str(&sandbox.read("saved/openvino-int8/CPU/hardware.json")).unwrap();
    let own = &document["facts"]["devices"]["CPU"];
    for name in ["requested_device", "actual_device", "placement"] {
        assert_eq!(saved[name], own["measure"][name], "{saved:#}");
    }
    assert_eq!(saved["versions"], own["facts"]["versions"], "{saved:#}");
    assert!(
        saved["device_name"].is_string() && saved.get("numerics").is_none(),
        "{saved:#}"
    );
    let host = &saved["host"];
    assert_eq!(
        (host, own.get("host")),
        (&document["host"], None),
        "{saved:#}"
    );
    let cores = std::thread::available_parallelism().unwrap().get() as u64;
    assert!(
        host["cores"].as_u64().unwrap() >= cores
            && host["cores_allowed"].as_u64().unwrap() >= cores,
        "{host:#}"
    );
    assert_eq!(host["machine"], std::env::consts::ARCH, "{host:#}");
    let told = |key: &str, mark: &str| {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap();
        info.lines().find_map(|line| {
            line.strip_prefix(key)?
                .trim()
                .strip_prefix(mark)
                .map(|v| v.trim().to_owned())
        })
    };
    if let Some(model) = told("model name", ":") {
        assert_eq!(host["cpu"], model);
    }
    let flags = told("flags", ":")
        .or_else(|| told("Features", ":"))
        .unwrap_or_default();
    let listed: Vec<&str> = host["cpu_flags"]
        .as_array()
        .unwrap()
        .iter()
        .map(text)
        .collect();
    assert_eq!(listed, flags.split_whitespace().collect::<Vec<_>>());
    assert!(host["memory_bytes"].as_u64().unwrap() > 1 << 28, "{host:#}");
}

/// With each environment's own Python: what its runtime can run passes, the rest is skipped, and so is what proves nothing.
#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn pytest_runs_the_generated_tests() {
    let sandbox = suite();
    let document = sandbox
        .run([
            "run",
            "specs/all.yaml",
            "-m",
            "bert",
            "-t",
            "cpu",
            "-t",
            "openvino",
            "--json",
        ])
        .json();
    assert_eq!(document["summary"]["passed"], 4, "{document}");
    let shell = |line: &str| {
        let output = Command::new("sh")
            .args(["-c", line])
            .current_dir(sandbox.path(""))
            .output()
            .unwrap();
        (
            output.status.code(),
            format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ),
        )
    };
    // Neither uv nor pip need be on PATH.
    let made = shell(
        "python3 -m venv pip && pip/bin/python -m pip install --quiet ruff==0.17.6 &&
        pip/bin/python -m pip install --quiet --target site pytest==9.0.2",
    );
    assert_eq!(made.0, Some(0), "{}", made.1);
    let pytest = |case: &str, says: &[&str]| {
        let found = cases(&document);
        let (python, _) = text(&found[case]["repro"]).rsplit_once(' ').unwrap();
        let (code, said) = shell(&format!(
            "PYTHONPATH=site {python} -m pytest -rA -p no:cacheprovider orch-out/tests"
        ));
        says.iter()
            .for_each(|words| assert!(said.contains(words), "{words}:\n{said}"));
        code
    };
    let test = |name: &str| format!("orch-out/tests/test_bert_{name}.py");
    let skipped = format!("SKIPPED [1] {}", test("openvino-int8"));
    let why = "unavailable: openvino cannot be imported";
    let passed = format!("PASSED {}::test_the_outputs_are_right", test("cpu-fp32"));
    assert_eq!(
        pytest(
            "bert:cpu-fp32",
            &[&passed, &skipped, why, "1 passed, 3 skipped"]
        ),
        Some(0)
    );
    assert_eq!(
        pytest(
            "bert:openvino-fp32",
            &["onnxruntime cannot be imported", "3 passed, 1 skipped"]
        ),
        Some(0)
    );

    // One file runs them all, and a target's crash or refusal is one of its lines.
    let all = |case: &str, more: &str| {
        let found = cases(&document);
        let (python, _) = text(&found[case]["repro"]).rsplit_once(' ').unwrap();
        shell(&format!(
            "{python} orch-out/tests/all_bert.py --json all.json {more}"
        ))
    };
    let (code, said) = all("bert:openvino-fp32", "--all-hardware --save saved");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("\nopenvino-fp32: ok\n")
            && said.contains("\ncpu-fp32: unavailable: onnxruntime"),
        "{said}"
    );
    let document_of_all: Value = serde_json::from_str(&sandbox.read("all.json")).unwrap();
    assert_eq!(
        document_of_all["platforms"]["openvino-int8"]["status"],
        "ok"
    );
    assert!(document_of_all["host"]["system"].is_string());
    saved_with_hardware(&sandbox, &document_of_all["platforms"]["openvino-int8"]);
    assert_eq!(
        all("bert:openvino-fp32", "--only 'cpu-*'").0,
        Some(3),
        "nothing could run"
    );
    assert_eq!(
        all("bert:cpu-fp32", "--only 'zebra*'").0,
        Some(2),
        "nothing was asked for"
    );
    let (code, said) = all("bert:cpu-fp32", "--platform all --samples 0");
    assert!(
        code == Some(0)
            && said.contains("\ncpu-fp32: ok\n")
            && said.contains("\nopenvino-fp16: unavail"),
        "{said}"
    );

    let ruff = "pip/bin/ruff";
    let (code, said) = shell(&format!(
        "{ruff} check orch-out/tests && {ruff} format --check orch-out/tests"
    ));
    assert_eq!(code, Some(0), "{said}");

    // Tolerances that nothing meets, and that anything does; and a file that is not the test's own.
    edit(
        &sandbox,
        &test("openvino-fp32"),
        "\"rtol\": 0.001",
        "\"rtol\": 0.0",
    );
    edit(
        &sandbox,
        &test("openvino-fp32"),
        "\"atol\": 0.001",
        "\"atol\": 1e-12",
    );
    edit(
        &sandbox,
        &test("openvino-fp16"),
        "\"atol\": ",
        "\"atol\": 1e3 + ",
    );
    for bound in ["budget", "cosine", "snr"] {
        let loose = if bound == "budget" {
            "1.0 + "
        } else {
            "-1e3 + "
        };
        edit(
            &sandbox,
            &test("openvino-fp16"),
            &format!("\"{bound}\": "),
            &format!("\"{bound}\": {loose}"),
        );
    }
    fs::write(
        sandbox.path("orch-out/artefacts/bert/openvino-int8/model.bin"),
        "",
    )
    .unwrap();
    let wrong = "numerics: `logits`: ";
    let loose = "indecisive: the outputs of another input would pass as well";
    let changed = "model.bin was changed: it is";
    assert_eq!(
        pytest(
            "bert:openvino-fp32",
            &[wrong, loose, changed, "2 failed, 2 skipped"]
        ),
        Some(1)
    );
    let (code, said) = all("bert:openvino-fp32", "");
    assert!(
        code == Some(1) && said.contains("\nopenvino-fp16: indecisive: ") && said.contains(changed),
        "{said}"
    );
}
