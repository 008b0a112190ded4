//! Models on machines of different devices, on a real server that honours labels (NativeLink): where each is converted and
//! run, what another clone has of it, and what is lost with a machine.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::files;
use crate::labels::executor;
use crate::nativelink::{How, Lab, processes_in};
use crate::support::{Ended, Sandbox, env_dir};

const DEVICE: &str = "orch-device";
/// What ONNX Runtime and OpenVINO run on.
const INTEL: &[&[(&str, &str)]] = &[&[(DEVICE, "cpu")], &[(DEVICE, "openvino")]];

/// The specs of this repository, in a checkout.
fn models(url: &str, more: &str) -> Sandbox {
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("specs");
    let mut sandbox = Sandbox::new().installs();
    for path in files(&specs) {
        let name = format!("specs/{}", path.strip_prefix(&specs).unwrap().display());
        sandbox = sandbox.file(&name, std::fs::read(&path).unwrap());
    }
    let env = format!("env = {{ORCH_ENV_DIR = '{}'}}\n{more}", env_dir().display());
    sandbox.write("orch.toml", executor(url, &env));
    // None of the environments is installed where orch runs: nothing is done there that they are for.
    let nothing = sandbox.path("nothing").display().to_string();
    sandbox.env("ORCH_ENV_DIR", nothing)
}

fn cases(ended: &Ended) -> Vec<Value> {
    ended.json()["cases"].as_array().unwrap().clone()
}

/// The steps that the workers of a machine execute now.
fn working_on(lab: &Lab, machine: &str) -> BTreeSet<String> {
    let order = |pid: i32| std::fs::read(format!("/proc/{pid}/cwd/order.json")).ok();
    let orders = processes_in(&lab.dir.path().join(machine))
        .into_iter()
        .filter_map(order);
    let orders = orders.filter_map(|text| serde_json::from_slice::<Value>(&text).ok());
    orders
        .map(|order| order["step"].as_str().unwrap().to_owned())
        .collect()
}

/// What its workers do for a step of a model. Its generated tests (`generate:MODEL:TARGET`) and verdicts are made here.
fn goes_away(step: &str) -> bool {
    let mut parts = step.split(':');
    match parts.next() {
        Some("generate") => parts.count() == 1,
        kind => matches!(kind, Some("convert" | "run")),
    }
}

/// How a run went, for docs/remote-execution.md.
#[allow(clippy::print_stderr, reason = "figures for people")]
fn print_figures(what: &str, ended: &Ended) {
    let summary = &ended.json()["summary"];
    let of = |name: &str| summary[name].to_string();
    let [passed, failed, steps, executed, hits, fetched] =
        ["passed", "failed", "steps", "executed", "hits", "fetched"].map(of);
    eprintln!(
        "{what}: {passed} passed, {failed} failed, {steps} steps, {executed} executed, {hits} hits ({fetched} fetched), {} s",
        of("seconds")
    );
}

/// The steps of a checkout's last run that executed, here or elsewhere.
fn executed(sandbox: &Sandbox) -> Vec<String> {
    let steps = sandbox.run(["history", "1", "--json"]).success().json()["steps"].clone();
    steps
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["step"].as_str().unwrap().to_owned())
        .collect()
}

/// Two machines of different devices, of which one is lost in the middle, and models on all of these. One model of each kind, or
/// with ORCH_TEST_KEY_MODELS all that have the tag `key`.
#[test]
fn models_run_on_the_machines_that_have_their_devices() {
    let Some(mut lab) = Lab::new("models on machines with different devices", How::default())
    else {
        return;
    };
    lab.machine("intel", INTEL);
    lab.machine("snapdragon", &[&[(DEVICE, "qnn")]]);
    let all = std::env::var_os("ORCH_TEST_KEY_MODELS").is_some();
    let which: &[&str] = if all {
        &["--tag", "key"]
    } else {
        &["-m", "bert", "-m", "vit"]
    };
    let targets = ["-t", "cpu", "-t", "openvino", "-t", "qnn"];
    let run = [&["run", "specs/all.yaml", "--json"], which, &targets].concat();
    let setup = models(&lab.url(), "").env("ORCH_ENV_DIR", env_dir().display().to_string());
    setup
        .run([
            "setup",
            "torch",
            "ort",
            "openvino",
            "nncf",
            "qnn",
            "--spec",
            "specs/all.yaml",
        ])
        .success();

    let first = models(&lab.url(), "").env("ORCH_REMOTE", lab.url());
    let mut child = first.spawn(&run);
    // The machine goes with all that it does, at first with a conversion, then with a run, and comes back with nothing.
    let mut at_work = BTreeSet::new();
    for kind in ["convert:", "run:"] {
        let now = loop {
            let now = working_on(&lab, "intel");
            if now.iter().any(|step| step.starts_with(kind)) {
                break now;
            }
            assert!(
                child.try_wait().unwrap().is_none(),
                "it ended, and no worker had a step {kind}"
            );
            std::thread::sleep(Duration::from_millis(20));
        };
        lab.kill("intel");
        std::fs::remove_dir_all(lab.dir.path().join("intel")).unwrap();
        lab.machine("intel", INTEL);
        at_work.extend(now);
    }
    let ended = first.wait(child).success();
    print_figures("a machine lost twice", &ended);
    let passed = cases(&ended);
    let facts = passed
        .iter()
        .flat_map(|case| case["facts"].as_object().unwrap());
    let was_lost = |facts: &Value| {
        facts["execution"]["lost"]
            .as_array()
            .is_some_and(|lost| !lost.is_empty())
    };
    let lost: BTreeSet<_> = facts
        .filter(|(_, facts)| was_lost(facts))
        .map(|(step, _)| step.clone())
        .collect();
    assert!(
        !lost.is_disjoint(&at_work),
        "{at_work:?} were at work, and the records tell of {lost:?}"
    );
    let mut seen = BTreeSet::new();
    for case in passed.iter().filter(|case| case["status"] == "PASS") {
        let step = format!("run:{}", case["case"].as_str().unwrap());
        let facts = &case["facts"][&step]["execution"];
        let worker = facts["worker"].as_str().unwrap_or_default();
        let backend = case["backend"].as_str().unwrap();
        let wanted = match backend {
            "cpu" => "intel-0-",
            "openvino" => "intel-1-",
            "qnn" => "snapdragon-0-",
            other => panic!("{other}"),
        };
        assert!(
            worker.starts_with(wanted),
            "{step} ran on {worker}: {:#}",
            case["facts"][&step]
        );
        seen.insert(backend.to_owned());
    }
    assert_eq!(seen.len(), 3, "{seen:?} of {:?}", statuses(&passed));
    assert!(
        passed
            .iter()
            .all(|case| case["status"] == "PASS" || case["status"] == "SKIP_UNSUPPORTED"),
        "{:?}",
        statuses(&passed)
    );

    // Another clone with nothing: generated tests and verdicts are made here.
    let second = models(&lab.url(), "");
    let again = second.run(&run).success();
    print_figures("another clone", &again);
    assert_eq!(statuses(&cases(&again)), statuses(&passed));
    let away = executed(&second).into_iter().filter(|step| goes_away(step));
    assert_eq!(away.collect::<Vec<_>>(), [""; 0]);
    // A third one, to which the same server is a store as well, makes nothing at all.
    let third = models(&lab.url(), "").env("ORCH_REMOTE", lab.url());
    let again = third.run(&run).success();
    print_figures("a third clone, with the same server as its store", &again);
    assert_eq!(statuses(&cases(&again)), statuses(&passed));
    again.summary([("executed", 0)]);

    // A device that none of them has.
    let lacking = models(&lab.url(), "queue = 20");
    let run = [
        "run",
        "specs/all.yaml",
        "--json",
        "-m",
        "bert",
        "-t",
        "cpu",
        "-t",
        "rocm",
        "--rerun",
        "run",
    ];
    let ended = lacking.run(run).success();
    let all = cases(&ended);
    let case = all.iter().find(|case| case["target"] == "rocm").unwrap();
    assert_eq!(case["status"], "SKIP_UNAVAILABLE", "{case:#}");
    let reason = case["reason"].as_str().unwrap();
    assert!(
        reason.contains("asked for cpu=x86_64, orch-device=rocm"),
        "{reason}"
    );
    assert!(
        reason.contains("workers did take requests for") && reason.contains("orch-device=cpu"),
        "{reason}"
    );
}

/// NativeLink knows one value of a name, so a worker that has several devices has each under a name of its own.
#[test]
fn a_worker_with_several_devices_gets_the_runs_of_all() {
    let Some(mut lab) = Lab::new("a worker with several devices", How::default()) else {
        return;
    };
    lab.machine("other", &[&[]]);
    lab.machine("both", &[&[("has-cpu", "1"), ("has-openvino", "1")]]);
    let names = "properties = {orch-device = '', 'has-{device}' = 1}";
    let sandbox = models(&lab.url(), names);
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/onnx-file/specs")) {
        sandbox.write(
            &format!("one/{}", path.file_name().unwrap().to_str().unwrap()),
            std::fs::read(&path).unwrap(),
        );
    }
    let here = models("", "").env("ORCH_ENV_DIR", env_dir().display().to_string());
    here.run(["setup", "ort", "openvino", "--spec", "specs/all.yaml"])
        .success();
    let ended = sandbox
        .run(["run", "one/all.yaml", "--json"])
        .success()
        .summary([("passed", 3), ("failed", 0)]);
    for case in cases(&ended) {
        let step = format!("run:{}", case["case"].as_str().unwrap());
        let worker = case["facts"][&step]["execution"]["worker"]
            .as_str()
            .unwrap();
        assert!(worker.starts_with("both-0-"), "{step} ran on {worker}");
    }
}

fn statuses(cases: &[Value]) -> Vec<(String, String)> {
    let of = |case: &Value| (case["case"].to_string(), case["status"].to_string());
    cases.iter().map(of).collect()
}
