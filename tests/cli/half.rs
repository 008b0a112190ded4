//! `half:` of targets on the devices of this machine: what they answer decides, and every page says so.

use serde_json::Value;

use crate::support::{Sandbox, WITHOUT_DEVICE};
use crate::{devices, page, ready_onnx};

const OPENVINO: &str = "runtime: openvino, backend: openvino, device: CPU, artefact: openvino";

/// The ready model on ONNX Runtime and OpenVINO with `half: auto`, and on OpenVINO at fp32.
fn sandbox() -> Sandbox {
    let sandbox = ready_onnx::sandbox(crate::onnx::RIGHT);
    let spec = sandbox.read("specs/all.yaml");
    let (before, after) = spec.split_once("targets:\n").unwrap();
    let rest = after.split_once("measure:").unwrap().1;
    let targets = format!(
        "  ort: {{runtime: ort, backend: cpu, device: cpu, artefact: onnx, half: auto}}
  plain: {{{OPENVINO}, half: never}}
  ov: {{{OPENVINO}, half: auto}}
"
    );
    sandbox.write(
        "specs/all.yaml",
        format!("{before}targets:\n{targets}measure:{rest}"),
    );
    sandbox
}

/// What this CPU multiplies without converting it, the best first; x86 only.
fn half_of_this_cpu() -> Option<&'static str> {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |flag: &str| info.split_whitespace().any(|word| word == flag);
    let any = |flags: [&str; 2]| flags.into_iter().any(has);
    let fp16 = any(["avx512_fp16", "amx_fp16"]).then_some("fp16");
    fp16.or_else(|| any(["avx512_bf16", "amx_bf16"]).then_some("bf16"))
}

fn case<'a>(document: &'a Value, target: &str) -> &'a Value {
    document["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|case| case["target"] == target)
        .unwrap()
}

/// In what the HTML report tells of its cases.
#[track_caller]
fn has_detail(sandbox: &Sandbox, words: &str) {
    let page = sandbox
        .run(["report", "specs/all.yaml", "--format", "html"])
        .success()
        .stdout;
    let details = page::data(&page)["details"].to_string();
    assert!(details.contains(words), "{words}\n{details}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_the_device_answers_decides_and_every_page_says_so() {
    let sandbox = sandbox();
    let run = ["run", "specs/all.yaml", "--json"];
    let first = sandbox
        .run(run)
        .success()
        .summary([("cases", 3), ("passed", 3), ("excluded", 0)]);
    let document = first.json();

    let ort = case(&document, "ort");
    assert_eq!(
        (
            &ort["precision"],
            &ort["half"]["asked"],
            &ort["half"]["got"]
        ),
        (&"fp32".into(), &"auto".into(), &"fp32".into())
    );
    let why = ort["half"]["why"].as_str().unwrap();
    assert!(
        why.starts_with("ort on cpu at fp16: ONNX Runtime ")
            && why.contains("casts into the model"),
        "{why}"
    );
    assert!(why.ends_with("computes in fp32"), "{why}");
    let fact = ort["facts"]["run:linear:ort-fp32"]["half"]
        .as_str()
        .unwrap();
    assert_eq!(fact, format!("asked for half: auto, got fp32: {why}"));

    let openvino = case(&document, "ov");
    let why = openvino["half"]["why"].as_str().unwrap();
    if let Some(half) = half_of_this_cpu() {
        assert_eq!(
            (&openvino["precision"], &openvino["half"]["got"]),
            (&half.into(), &half.into())
        );
        let told = format!(
            "openvino on CPU computed a matrix product and a layer norm in {half}, off by "
        );
        assert!(why.starts_with(&told), "{why}");
        // It is not only called so.
        let computed = if half == "fp16" { "f16" } else { "bf16" };
        assert_eq!(
            openvino["facts"][format!("run:linear:ov-{half}")]["precision"],
            computed
        );
    } else {
        assert_eq!(openvino["precision"], "fp32");
        assert!(
            why.contains("does not infer in FP16") && why.contains("does not infer in BF16"),
            "{why}"
        );
    }
    assert_eq!(
        case(&document, "plain")["facts"]["run:linear:plain-fp32"]["precision"],
        "f32"
    );

    first.stderr_has("linear on ort: asked for half: auto, got fp32: ort on cpu at fp16");
    for (format, words) in [
        (
            "text",
            "half ort (1 case)\n  asked for half: auto, got fp32: ",
        ),
        (
            "markdown",
            "| ort (1 case) | half | asked for half: auto, got fp32: ",
        ),
        ("junit", "half: asked for half: auto, got fp32: "),
        ("json", "\"asked\": \"auto\""),
    ] {
        sandbox
            .run(["report", "specs/all.yaml", "--format", format])
            .success()
            .stdout_has(words);
    }
    has_detail(
        &sandbox,
        r#"["precision","asked for half: auto, got fp32: "#,
    );
    sandbox
        .run(["explain", "run:linear:ort-fp32", "--spec", "specs/all.yaml"])
        .success()
        .stdout_has("asked for half: auto, got fp32: ");
    let plan = sandbox
        .run(["plan", "specs/all.yaml", "--json"])
        .success()
        .json();
    assert_eq!(plan["half"][0]["case"], "linear:ort-fp32");

    // Nothing runs twice, and the devices are looked at each time.
    let again = sandbox
        .run(run)
        .success()
        .summary([("passed", 3), ("executed", 0)])
        .json();
    assert_eq!(
        (&again["summary"]["path"], &again["cases"][0]["half"]),
        (&"full".into(), &ort["half"])
    );
}

/// Its weights are what it is called, and where a CPU lacks the kernels, its sums are not.
#[test]
fn an_onnx_file_runs_at_fp16_and_int8_and_says_what_computed_it() {
    let sandbox = ready_onnx::sandbox(crate::onnx::RIGHT);
    let spec = sandbox.read("specs/all.yaml");
    sandbox.write(
        "specs/all.yaml",
        spec.replacen(
            "artefact: onnx, precisions: [fp32]}",
            "artefact: onnx, precisions: [fp16, int8]}\n  \
             vnni: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [int8], int8_range: full}",
            1,
        ),
    );
    let run = ["run", "specs/all.yaml", "-t", "cpu", "--json"];
    let document = sandbox
        .run(run)
        .success()
        .summary([("cases", 2), ("passed", 2)])
        .json();
    let of = |precision: &str| {
        let cases = document["cases"].as_array().unwrap();
        cases
            .iter()
            .find(|case| case["precision"] == precision)
            .unwrap_or_else(|| panic!("no {precision}: {document}"))
    };
    let made = |precision: &str| {
        of(precision)["facts"][format!("convert:linear:onnx-{precision}")].clone()
    };
    assert_eq!(made("fp16")["weights"], serde_json::json!({"fp16": 9}));
    assert_eq!(made("int8")["nodes"]["integer"], 1);
    // Sums of such weights are exact on every CPU, so what this test finds does not depend on which one it runs on.
    let scheme = "dynamic: weights int8 by channel in a reduced range (±64: exact on every CPU), activations uint8";
    assert!(
        made("int8")["scheme"].as_str().unwrap().starts_with(scheme),
        "{}",
        made("int8")
    );
    assert_eq!(made("int8")["range"], "reduced");
    // The numbers are really rounded: as far off as 7 bits are, and no further.
    let off = of("int8")["numerics"]["max_abs"].as_f64().unwrap();
    assert!(off > 1e-3 && off < 2., "{off}");
    for (format, words) in [
        (
            "text",
            "reduced range cpu (1 case)\n  for instance: dynamic: weights int8 by channel in a reduced range ",
        ),
        ("markdown", " *reduced range* |"),
        ("junit", "reduced_range: dynamic: weights int8 "),
    ] {
        sandbox
            .run(["report", "specs/all.yaml", "--format", format])
            .success()
            .stdout_has(words);
    }
    has_detail(&sandbox, r#"["weights","dynamic: weights int8 "#);
    // Whether this CPU would have saturated the full range stands with the result.
    let vnni = of("int8")["facts"]["run:linear:cpu-int8"]["vnni"].clone();
    assert_eq!(vnni.is_boolean(), cfg!(target_arch = "x86_64"), "{vnni}");
    // A target whose machines have VNNI gets weights of its own, of all eight bits, in a step with a key of its own.
    let plan = sandbox.run(["plan", "specs/all.yaml", "--all"]).success();
    plan.stdout_has("convert:linear:onnx-int8 ")
        .stdout_has("convert:linear:onnx-int8-full");
    assert_eq!(
        of("int8")["placement"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["CPUExecutionProvider"]
    );

    if cfg!(target_arch = "x86_64") {
        let told = of("fp16")["facts"]["run:linear:cpu-fp16"]["cast_to_fp32"]
            .as_str()
            .unwrap();
        assert!(
            told.ends_with("no fp16 kernels on this CPU for 1 of the model's 1 nodes, and computed them in fp32"),
            "{told}"
        );
        for (format, words) in [
            (
                "text",
                "cast to fp32 cpu (1 case)\n  for instance: ONNX Runtime ",
            ),
            ("markdown", " *cast to fp32* |"),
            ("junit", "cast_to_fp32: ONNX Runtime "),
        ] {
            sandbox
                .run(["report", "specs/all.yaml", "--format", format])
                .success()
                .stdout_has(words);
        }
        has_detail(&sandbox, r#"["computed","ONNX Runtime "#);
    }
    assert!(
        of("int8")["facts"]["run:linear:cpu-int8"]
            .get("cast_to_fp32")
            .is_none()
    );
    sandbox
        .run(run)
        .success()
        .summary([("executed", 0), ("passed", 2)]);

    // The generated test of each does it by itself.
    let orch_out = sandbox.path("orch-out/artefacts");
    assert!(
        orch_out.join("linear/onnx-fp16/model.onnx").is_file()
            && orch_out.join("linear/onnx-int8").is_dir()
    );
}

#[test]
fn what_falls_to_fp32_is_the_same_work_as_a_plain_row() {
    let sandbox = sandbox();
    let spec = sandbox.read("specs/all.yaml");
    let plain =
        "  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}\n";
    sandbox.write(
        "specs/all.yaml",
        spec.replace("  plain:", &format!("{plain}  plain:")),
    );
    let run = |target: &str| {
        sandbox
            .run(["run", "specs/all.yaml", "-t", target, "--json"])
            .success()
            .json()
    };
    let first = run("cpu");
    let then = run("ort");
    assert_eq!(
        (
            &case(&first, "cpu")["cached"],
            &case(&then, "ort")["cached"]
        ),
        (&false.into(), &true.into())
    );
    let first = case(&first, "cpu");
    let then = case(&then, "ort");
    assert_eq!(first["metrics"], then["metrics"], "it is one measurement");
    assert_eq!(then["half"]["got"], "fp32");
}

#[test]
fn a_driver_that_crashes_and_a_device_that_is_not_there_are_reasons() {
    let spec = WITHOUT_DEVICE.replace(
        "precisions: [fp32]}",
        &format!("half: auto}}\n  ov: {{{OPENVINO}, half: auto}}"),
    );
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    let python = devices::broken(&sandbox, "*(volatile int *)0 = 1;");
    let half = |plan: Value, case: &str| {
        let rows = plan["half"].as_array().unwrap().clone();
        let row = rows
            .into_iter()
            .find(|row| row["case"] == case)
            .unwrap_or_else(|| panic!("{plan}"));
        row["half"]["why"].as_str().unwrap().to_owned()
    };
    let plan = || {
        sandbox
            .run(["plan", "spec.yaml", "--json", "--python", &python])
            .success()
            .json()
    };
    let why = half(plan(), "bert:ov-fp32");
    assert!(
        why.contains("openvino on CPU at fp16: the process was ended by SIGSEGV"),
        "{why}"
    );
    if cfg!(target_os = "linux") {
        let why = half(plan(), "bert:mps-fp32");
        assert_eq!(why, "no device to ask: not macOS");
    }
    // A plan installs nothing, so it cannot know.
    let why = half(
        sandbox
            .run(["plan", "spec.yaml", "--json"])
            .success()
            .json(),
        "bert:ov-fp32",
    );
    assert!(
        why.starts_with("not known yet: the ") && why.ends_with("`orch run` installs it and asks"),
        "{why}"
    );
}

#[test]
fn the_list_of_devices_has_the_answers_once_they_were_probed() {
    let sandbox = sandbox();
    let schema = sandbox.run(["schema", "--of", "devices"]).success().json();
    sandbox.run(["run", "specs/all.yaml"]).success();
    let document = sandbox.run(["devices", "--json"]).success().json();
    assert_eq!(
        devices::complaints(&document, &schema, &schema, ""),
        Vec::<String>::new()
    );
    let cpu = document["backends"]
        .as_array()
        .unwrap()
        .iter()
        .find(|backend| backend["name"] == "cpu")
        .unwrap();
    let ort = cpu["half"]
        .as_array()
        .unwrap()
        .iter()
        .find(|half| half["runtime"] == "ort")
        .unwrap();
    assert_eq!(
        (&ort["precision"], &ort["device"]),
        (&"fp16".into(), &"cpu".into())
    );
    // What Arm's CPUs say is theirs.
    if cfg!(target_arch = "x86_64") {
        assert_eq!(ort["computes"], false, "{ort}");
        sandbox
            .run(["devices"])
            .success()
            .stdout_has("half: no: ort on cpu at fp16");
    }
    // Without a runtime there is nobody to ask.
    let bare = Sandbox::new()
        .run(["devices", "--half", "--json"])
        .success()
        .json();
    assert!(
        bare["backends"]
            .as_array()
            .unwrap()
            .iter()
            .all(|backend| backend.get("half").is_none())
    );
}
