//! QNN on a phone, by the real binary and a stand-in for `adb` (`tests/fixtures/android`): what the phone is told, in which
//! order, and what is left on it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use prost::Message;
use serde_json::{Value, json};

use crate::support::Sandbox;

/// As much of onnx.proto as the file around a context needs.
#[derive(Clone, PartialEq, Message)]
struct Model {
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
}

#[derive(Clone, PartialEq, Message)]
struct Graph {
    #[prost(message, repeated, tag = "1")]
    node: Vec<Node>,
    #[prost(message, repeated, tag = "11")]
    input: Vec<Port>,
    #[prost(message, repeated, tag = "12")]
    output: Vec<Port>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, tag = "4")]
    operator: String,
    #[prost(message, repeated, tag = "5")]
    attribute: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int64, optional, tag = "3")]
    number: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    text: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Port {
    #[prost(string, tag = "1")]
    name: String,
    /// A `TypeProto`, encoded: 32-bit floats of 1 × some size.
    #[prost(bytes = "vec", tag = "2")]
    kind: Vec<u8>,
}

fn port(name: &str, size: u8) -> Port {
    let dims = [0x0a, 2, 0x08, 1, 0x0a, 2, 0x08, size];
    let kind = [&[0x0a, 12, 0x08, 1, 0x12, 8], dims.as_slice()].concat();
    Port {
        name: name.into(),
        kind,
    }
}

fn context_file() -> Vec<u8> {
    let attribute = |name: &str, number, text: Option<&str>| Attribute {
        name: name.into(),
        number,
        text: text.map(|t| t.into()),
    };
    let node = Node {
        operator: "EPContext".into(),
        attribute: vec![
            attribute("embed_mode", Some(0), None),
            attribute("ep_cache_context", None, Some("c.bin")),
        ],
    };
    Model {
        graph: Some(Graph {
            node: vec![node],
            input: vec![port("x", 2)],
            output: vec![port("y", 3)],
        }),
    }
    .encode_to_vec()
}

/// x = (1, 10) as a safetensors file.
fn inputs() -> Vec<u8> {
    let header = br#"{"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}        "#;
    let values: Vec<u8> = [1f32, 10.].iter().flat_map(|v| v.to_le_bytes()).collect();
    [
        (header.len() as u64).to_le_bytes().as_slice(),
        header,
        &values,
    ]
    .concat()
}

const SERIAL: &str = "R5CT";
const LIST: &str = "List of devices attached\nR5CT\tdevice usb:1-1 model:Phone transport_id:1\n\n";
const PROPERTIES: &str = "ro.soc.manufacturer=QTI\nro.soc.model=SM8550\nro.product.cpu.abi=arm64-v8a\n\
    ro.product.model=Phone\nro.build.version.release=14\n";

/// A folder in which a phone hangs on a cable. Its name has a space and a quote, as a user's may.
struct Cable {
    sandbox: Sandbox,
    adb: PathBuf,
    sdk: PathBuf,
}

impl Cable {
    fn new() -> Self {
        Self::in_sandbox(Sandbox::new())
    }

    fn in_sandbox(sandbox: Sandbox) -> Self {
        let adb = sandbox.path("it's a cable");
        let sdk = sandbox.path("the sdk");
        let cable = Self { sandbox, adb, sdk };
        cable.bring("adb", &cable.adb.join("adb"));
        cable.bring("getprop", &cable.adb.join("bin/getprop"));
        cable.bring(
            "qnn-net-run",
            &cable.sdk.join("bin/aarch64-android/qnn-net-run"),
        );
        cable.bring(
            "qnn-profile-viewer",
            &cable.sdk.join("bin/x86_64-linux-clang/qnn-profile-viewer"),
        );
        for file in ["libQnnHtp.so", "libQnnSystem.so", "libQnnHtpV73Stub.so"] {
            write(&cable.sdk.join("lib/aarch64-android").join(file), file);
        }
        write(
            &cable
                .sdk
                .join("lib/hexagon-v73/unsigned/libQnnHtpV73Skel.so"),
            "skel",
        );
        write(
            &cable.sdk.join("sdk.yaml"),
            "name: qairt\nversion: 2.51.0.1\n",
        );
        write(&cable.adb.join("list"), LIST);
        write(&cable.adb.join("properties"), PROPERTIES);
        for (name, content) in [
            ("model_ctx.onnx", context_file()),
            ("c.bin", b"good".to_vec()),
        ] {
            cable.sandbox.write(&format!("artefact/{name}"), content);
        }
        cable.sandbox.write("artefact/inputs.safetensors", inputs());
        cable.sandbox.write(
            "artefact/manifest.json",
            r#"{"inputs":["x"],"outputs":["y"],"model":"model_ctx.onnx"}"#,
        );
        cable
    }

    fn bring(&self, fixture: &str, to: &Path) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/android")
            .join(fixture);
        write(to, fs::read(from).unwrap());
        fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn trouble(&self, script: &str) {
        write(&self.adb.join("trouble"), script);
    }

    /// One job of `orch worker android`, as orch gives it. Its answer.
    fn job(&self, options: Value, timeout: u64) -> Value {
        self.timed_job(
            options,
            timeout,
            json!({"warmup": 1, "samples": 3, "max_seconds": 10.0}),
        )
    }

    fn timed_job(&self, options: Value, timeout: u64, measure: Value) -> Value {
        let out = self.sandbox.path("out");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).unwrap();
        let job = json!({
            "id": 1, "op": "run", "out": out, "inputs": {"artefact": self.sandbox.path("artefact")},
            "params": {
                "adb": self.adb.join("adb"), "sdk": self.sdk, "device": "htp", "options": options,
                "timeout_seconds": timeout, "measure": measure,
            },
        });
        self.sandbox.write("job", format!("{job}\n"));
        let status = Command::new("sh")
            .args([
                "-c",
                "exec \"$0\" worker android <job 3>answer 2>log",
                env!("CARGO_BIN_EXE_orch"),
            ])
            .current_dir(self.sandbox.path("."))
            .env("ORCH_RESULT_FD", "3")
            .env_remove("ANDROID_SERIAL")
            .status()
            .unwrap();
        assert!(status.success(), "{}", self.sandbox.read("log"));
        let answer = self.sandbox.read("answer");
        let last: Value = serde_json::from_str(answer.lines().last().unwrap()).unwrap();
        last["output"].clone()
    }

    /// The calls since the last look, with what differs from run to run taken out.
    fn calls(&self) -> Vec<String> {
        let path = self.adb.join("calls");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        text.split("\n[")
            .map(|call| call.trim_start_matches('[').to_owned())
            .collect()
    }

    /// The folders of runs that lie on the phone.
    fn runs(&self) -> usize {
        fs::read_dir(self.sandbox.path("phone/orch/run")).map_or(0, Iterator::count)
    }
}

fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn is(call: &str, verb: &str) -> bool {
    call.starts_with(&format!("-s][{SERIAL}][{verb}]"))
}

#[test]
fn a_run_brings_runs_fetches_and_cleans_and_brings_nothing_twice() {
    let cable = Cable::new();
    let options = json!({"soc_model": 43, "htp_performance_mode": "burst", "serial": SERIAL});
    let output = cable.job(options.clone(), 60);
    assert_eq!(
        output["status"],
        "ok",
        "{output}\n{}",
        cable.sandbox.read("log")
    );
    let measure = &output["measure"];
    assert_eq!(
        (&measure["load_ms"], &measure["first_ms"]),
        (&json!(331.158), &json!(3.001))
    );
    assert_eq!(
        (&measure["warmup_ms"], &measure["samples_ms"]),
        (&json!([3.002]), &json!([3.003, 3.004, 3.005]))
    );
    assert_eq!(measure["actual_device"], "qnn-htp:V73 of SM8550");
    assert_eq!(
        (&measure["placement"], &measure["peak_rss_bytes"]),
        (&json!({"QnnHtp": 1}), &Value::Null)
    );
    let facts = &output["facts"];
    assert_eq!(
        (&facts["qnn_sdk"], &facts["files"]),
        (&json!("2.51.0.1"), &json!({"needed": 8, "brought": 8}))
    );
    let written = fs::read(cable.sandbox.path("out/outputs.safetensors")).unwrap();
    let expected: Vec<u8> = [41.5f32, 51.5, 63.]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    assert!(written.ends_with(&expected));

    // The order of the protocol, each file pushed once and moved to its place, the folder removed at the end.
    let calls = cable.calls();
    let at = |what: &str| {
        calls
            .iter()
            .position(|call| call.contains(what))
            .unwrap_or_else(|| panic!("{what}: {calls:#?}"))
    };
    assert_eq!(calls[0], "devices][-l]");
    assert!(
        calls[1..].iter().all(|call| call.starts_with("-s][R5CT]")),
        "{calls:#?}"
    );
    let order = [
        "getprop",
        "mkdir -p '/data/local/tmp/orch/run/",
        "sha256sum",
        "[push]",
        "mv -f",
        "--retrieve_context",
        "[pull]",
    ];
    let places: Vec<_> = order.iter().map(|what| at(what)).collect();
    assert!(places.is_sorted(), "{calls:#?}");
    assert_eq!(calls.iter().filter(|call| is(call, "push")).count(), 8);
    assert!(
        calls
            .last()
            .unwrap()
            .contains("; rm -rf '/data/local/tmp/orch/run/"),
        "{calls:#?}"
    );
    let executed = &calls[at("--retrieve_context")];
    for part in [
        "ADSP_LIBRARY_PATH='/data/local/tmp/orch/sdk/",
        ";/vendor/dsp/cdsp;",
        "timeout -s KILL ",
        " --num_inferences '5' --keep_num_outputs '1' --profiling_level 'basic' --perf_profile 'burst' ",
        " --use_native_input_files --use_native_output_files 2>&1",
    ] {
        assert!(executed.contains(part), "{part}: {executed}");
    }
    assert_eq!(cable.runs(), 0);

    // Content that the phone holds is not brought again, until it is not what its name says.
    assert_eq!(
        cable.job(options.clone(), 60)["facts"]["files"]["brought"],
        0
    );
    assert!(!cable.calls().iter().any(|call| is(call, "push")));
    let held = fs::read_dir(cable.sandbox.path("phone/orch/content"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let context = held
        .into_iter()
        .find(|path| fs::read(path).unwrap() == b"good")
        .unwrap();
    fs::write(&context, "goof").unwrap();
    assert_eq!(cable.job(options, 60)["facts"]["files"]["brought"], 1);
    assert_eq!(fs::read(&context).unwrap(), b"good");
}

#[test]
fn whatever_fails_on_the_phone_is_reported_and_cleaned_up() {
    let cable = Cable::new();
    let options = || json!({"soc_model": 43});
    let said = |status: &str, reason: &str| {
        let output = cable.job(options(), 60);
        assert_eq!(output["status"], status, "{output}");
        assert!(
            output["reason"].as_str().unwrap().contains(reason),
            "{output}"
        );
        assert!(output["measure"].is_null());
        assert_eq!(cable.runs(), 0, "{output}");
        assert!(!cable.sandbox.path("out/outputs.safetensors").exists());
    };
    cable.sandbox.write("artefact/c.bin", "fail");
    said(
        "error",
        "qnn-net-run ended with 1 on the phone: [ ERROR ] Could not create context from binary",
    );
    cable.sandbox.write("artefact/c.bin", "dies");
    said("crash", "qnn-net-run died of signal 11 on the phone");
    cable.sandbox.write("artefact/c.bin", "cpu_");
    said(
        "error",
        "the profile shows time on the accelerator for 0 of 5 inferences: the rest ran elsewhere",
    );
}

#[test]
fn a_phone_that_cannot_be_used_is_unavailable_and_gets_no_command() {
    let cable = Cable::new();
    let said = |options: Value, reason: &str| {
        cable.calls();
        let output = cable.job(options, 60);
        assert_eq!(output["status"], "unavailable", "{output}");
        assert!(
            output["reason"].as_str().unwrap().contains(reason),
            "{output}"
        );
        assert!(
            !cable
                .calls()
                .iter()
                .any(|call| call.contains("mkdir") || is(call, "push"))
        );
    };
    said(
        json!({"soc_model": 57, "htp_arch": "V73"}),
        "the target is for SM8650, and Phone has a SM8550",
    );
    said(json!({"soc_model": 57}), "libQnnHtpV75Stub.so");
    said(
        json!({"soc_model": 43, "serial": "OTHER"}),
        "adb lists no phone OTHER",
    );
    write(
        &cable.adb.join("list"),
        LIST.replace("\tdevice", "\tunauthorized"),
    );
    said(
        json!({"soc_model": 43}),
        "unauthorized: allow this machine on its screen",
    );
    write(
        &cable.adb.join("list"),
        LIST.replace("\tdevice", "\toffline"),
    );
    said(json!({"soc_model": 43}), "phone R5CT is offline");
    write(&cable.adb.join("list"), "List of devices attached\n\n");
    said(json!({"soc_model": 43}), "adb lists no phone");
}

#[test]
fn a_phone_that_goes_away_in_the_middle_is_an_error_and_cleans_itself() {
    let cable = Cable::new();
    // From the moment of the execution on, nobody answers.
    cable.trouble(
        "case \"$*\" in *--retrieve_context*) touch \"$here/gone\" ;; esac\n\
         [ -f \"$here/gone\" ] && fail=\"error: device 'R5CT' not found\"",
    );
    let output = cable.job(json!({"soc_model": 43}), 60);
    assert_eq!(output["status"], "error", "{output}");
    assert_eq!(
        output["reason"],
        "the phone went away: error: device 'R5CT' not found"
    );
    assert_eq!(cable.runs(), 1, "nobody could tell it to clean up");
    let entry = fs::read_dir(cable.sandbox.path("phone/orch/run"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let janitor = fs::read_to_string(entry.join("janitor")).unwrap();
    let janitor: i32 = janitor.trim().parse().unwrap();
    let line = fs::read_to_string(format!("/proc/{janitor}/cmdline")).unwrap();
    assert!(line.contains("sleep") && line.contains("rm -rf"), "{line}");
    // SAFETY: kill takes no pointers; the group is that of the stand-in's janitor, which would sleep for minutes.
    unsafe { libc::kill(-janitor, libc::SIGKILL) };
}

#[test]
fn a_run_that_is_only_checked_infers_once_and_reports_no_times() {
    let cable = Cable::new();
    let output = cable.timed_job(json!({"soc_model": 43}), 60, json!("none"));
    assert_eq!(
        output["status"],
        "ok",
        "{output}\n{}",
        cable.sandbox.read("log")
    );
    let told: Vec<_> = output["measure"].as_object().unwrap().keys().collect();
    assert_eq!(
        told,
        [
            "peak_rss_bytes",
            "requested_device",
            "actual_device",
            "placement"
        ]
    );
    assert_eq!(output["facts"]["accelerator_ms"], Value::Null);
    let calls = cable.calls();
    let runs: Vec<_> = calls
        .iter()
        .filter(|call| call.contains("--num_inferences"))
        .collect();
    assert!(
        !runs.is_empty()
            && runs
                .iter()
                .all(|call| call.contains("--num_inferences '1'")),
        "{runs:#?}"
    );
}

#[test]
fn a_run_that_hangs_is_cleaned_up_before_its_time_is_over() {
    let cable = Cable::new();
    cable.sandbox.write("artefact/c.bin", "hang");
    let begin = Instant::now();
    let output = cable.job(json!({"soc_model": 43}), 8);
    assert_eq!(output["status"], "error", "{output}");
    assert_eq!(output["reason"], "the phone did not answer in time");
    assert!(
        begin.elapsed() >= Duration::from_secs(8),
        "its parent would have ended it, and called it a timeout"
    );
    assert_eq!(cable.runs(), 0);
}

const SPEC: &str = "version: 1
pipelines:
  tabular: {description: numbers to numbers, tasks: [regression], template: text}
targets:
  phone: {runtime: android, backend: qnn-android, device: htp, artefact: qnn, precisions: [fp16],
    options: {soc_model: 43, serial: R5CT}}
measure: {warmup: 1, samples: 3}
models:
  linear:
    onnx: ../models/linear.onnx
    expected: ../models/expected
    family: other
    task: regression
    pipeline: tabular
    inputs: {x: {dtype: float32, shape: [1, 2], data: [1, 10]}}
";

/// From the spec to the report: the context is a real one, prepared by Qualcomm's library for the phone's chip.
#[test]
fn a_matrix_with_a_phone_in_it() {
    let sandbox = Sandbox::new()
        .installs()
        .file("specs/all.yaml", SPEC)
        .file("models/linear.onnx", super::onnx::linear())
        .file(
            "models/expected/output_0.pb",
            super::onnx::expected(super::onnx::RIGHT),
        );
    let run = ["run", "specs/all.yaml", "--json"];
    let cell = |ended: &Value| ended["cases"][0].clone();
    let absent = cell(&sandbox.run(run).json());
    assert_eq!(absent["status"], "SKIP_UNAVAILABLE", "{absent}");

    let cable = Cable::in_sandbox(sandbox);
    let adb = cable.adb.join("adb");
    let sdk = cable.sdk.clone();
    let Cable {
        sandbox,
        adb: folder,
        ..
    } = cable;
    let sandbox = sandbox
        .env("ORCH_ADB", adb.to_str().unwrap())
        .env("QNN_SDK_ROOT", sdk.to_str().unwrap());
    // The stand-in's phone is a folder, and what adb writes goes to the temporary folder of the user.
    let root = sandbox.path("").display().to_string();
    let sandbox = sandbox.env("TMPDIR", root);
    let passed = cell(&sandbox.run(run).success().json());
    assert_eq!(
        (&passed["status"], &passed["actual_device"]),
        (&json!("PASS"), &json!("qnn-htp:V73 of SM8550")),
        "{passed}"
    );
    assert_eq!(passed["metrics"]["samples"], 3);
    let calls = fs::read_to_string(folder.join("calls"))
        .unwrap()
        .lines()
        .count();
    assert_eq!(
        cell(&sandbox.run(run).success().summary([("executed", 0)]).json())["status"],
        "PASS"
    );
    assert_eq!(
        fs::read_to_string(folder.join("calls"))
            .unwrap()
            .lines()
            .count(),
        calls,
        "a hit asks no phone"
    );
    // Another SDK is another measurement.
    write(&sdk.join("sdk.yaml"), "version: 2.52.0.1\n");
    sandbox
        .run(run)
        .success()
        .summary([("executed", 1)])
        .stderr_has("ok    run:linear:phone-fp16")
        .stderr_lacks("convert:");
    let seen = sandbox.run(["devices", "--json"]).success().json();
    let backends = seen["backends"].as_array().unwrap();
    let phone = backends
        .iter()
        .find(|backend| backend["name"] == "qnn-android")
        .unwrap();
    assert_eq!(phone["devices"][0]["id"], "qnn-android:R5CT", "{phone}");
    assert_eq!(phone["devices"][0]["facts"]["soc_model"], 43);
}
