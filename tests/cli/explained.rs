//! Why a step runs, ran or hits; what it said; what a run executed, when and beside what; how to do it again.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Sandbox, eventually, marker, processes_with, signal};

const RUN: [&str; 2] = ["run", "spec.yaml"];

/// seed.txt → config → model → size; each reads what the one before made.
const CHAIN: &str = "version: 1
commands:
  config:
    argv: [sh, -c, 'printf \"{\\\"seed\\\": %s, \\\"layers\\\": [1, 2]}\" \"$(cat seed.txt)\" > config.json; echo x > same; echo made config']
    inputs: {seed.txt: {file: data/seed.txt}}
    outputs: [config.json, same]
  model:
    argv: [sh, -c, 'cp in/config.json model.json; echo tail >> model.json; sleep 0.3']
    inputs: {in: {step: 'command:config'}}
    outputs: [model.json]
  size:
    argv: [sh, -c, 'grep -q 9 in/model.json && echo bad nine && exit 3; wc -l in/model.json > size']
    inputs: {in: {step: 'command:model'}}
    outputs: [size]
";

fn chain() -> Sandbox {
    Sandbox::new()
        .file("spec.yaml", CHAIN)
        .file("data/seed.txt", "0")
}

fn explained(sandbox: &Sandbox, step: &str) -> Value {
    sandbox
        .run(["explain", step, "--spec", "spec.yaml", "--json"])
        .success()
        .json()[0]
        .clone()
}

#[test]
fn what_waits_is_followed_to_the_file_it_waits_for() {
    let sandbox = chain();
    let text = sandbox
        .run(["explain", "command:size", "--spec", "spec.yaml"])
        .success()
        .stdout;
    assert!(
        text.contains("after command:model")
            && text.contains("root cause: command:config: never ran"),
        "{text}"
    );
    sandbox.run(RUN).success();
    sandbox.write("data/seed.txt", "7");
    let document = explained(&sandbox, "command:size");
    assert_eq!(document["verdict"], "would run");
    let first = &document["causes"][0];
    assert_eq!(
        (&first["step"], &first["text"]),
        (&json!("command:size"), &json!("after command:model"))
    );
    let root = &first["because"][0]["because"][0];
    assert_eq!(
        (&root["step"], &root["change"]["name"]),
        (&json!("command:config"), &json!("input.seed.txt"))
    );
    assert_eq!(root["evidence"]["path"], "data/seed.txt");
    assert_eq!(root["evidence"]["size"], 1);
    assert!(
        root["evidence"]["modified"]
            .as_str()
            .unwrap()
            .starts_with("20")
    );
    assert_eq!(document["roots"].as_array().unwrap().len(), 1);
    assert_eq!(document["roots"][0]["step"], "command:config");
    assert_eq!(document["last"]["outcome"], "PASS");
    // A change of its own is told beside what it waits for.
    sandbox.write("spec.yaml", CHAIN.replace("wc -l", "wc -c"));
    let own = explained(&sandbox, "command:size");
    assert_eq!(own["causes"][1]["change"]["name"], "param.argv");
}

#[test]
fn what_ran_is_followed_through_the_trees_to_the_key_that_differs() {
    let sandbox = chain();
    sandbox.run(RUN).success();
    let document = explained(&sandbox, "command:size");
    assert_eq!(
        (&document["verdict"], &document["causes"][0]["text"]),
        (&json!("up to date"), &json!("never ran"))
    );
    sandbox.write("data/seed.txt", "7");
    sandbox.run(RUN).success().stderr_has("ok    command:size");
    let document = explained(&sandbox, "command:size");
    let model = &document["causes"][0];
    assert_eq!(model["evidence"]["producer"], "command:model");
    let differs = model["evidence"]["files"][0]["differs"].as_str().unwrap();
    assert!(
        differs.starts_with("line 1: ") && differs.contains(" => "),
        "{differs}"
    );
    let config = &model["because"][0];
    assert_eq!(config["step"], "command:model");
    let files = config["evidence"]["files"].as_array().unwrap();
    assert_eq!(files.len(), 1, "only what differs is listed: {files:?}");
    assert_eq!(
        (&files[0]["path"], &files[0]["differs"]),
        (&json!("config.json"), &json!("seed: 0 => 7"))
    );
    assert_eq!(config["because"][0]["change"]["name"], "input.seed.txt");
    let text = sandbox
        .run(["explain", "command:size", "--spec", "spec.yaml"])
        .success();
    let text = text
        .stdout_has("it ran then because:")
        .stdout_has("in the output of command:config: config.json: seed: 0 => 7");
    text.stdout_has("root cause: command:config: input.seed.txt changed (");
}

#[test]
fn a_long_chain_is_shown_by_its_ends() {
    let mut spec = String::from("version: 1\ncommands:\n  c0: {argv: ['true'], outputs: [out]}\n");
    for n in 1..5000 {
        let above = n - 1;
        spec.push_str(&format!(
            "  c{n}: {{argv: ['true'], inputs: {{in: {{step: 'command:c{above}'}}}}, outputs: [out]}}\n"
        ));
    }
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    let ended = sandbox
        .run(["explain", "command:c4999", "--spec", "spec.yaml"])
        .success();
    ended
        .stdout_has("after command:c0, with 4992 steps between")
        .stdout_has("root cause: command:c0: never ran");
}

#[test]
fn what_differs_without_a_change_of_key_is_called_by_its_name() {
    let spec = "version: 1
commands:
  dice: {argv: [sh, -c, 'od -An -N8 -tx8 /dev/urandom > out'], outputs: [out]}
  reads: {argv: [sh, -c, 'cp in/out out'], inputs: {in: {step: 'command:dice'}}, outputs: [out]}
";
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    sandbox.run(RUN).success();
    sandbox
        .run(["run", "spec.yaml", "--rerun", "command:dice"])
        .success()
        .stderr_has("ok    command:reads");
    let document = explained(&sandbox, "command:reads");
    assert_eq!(document["causes"][0]["evidence"]["files"][0]["path"], "out");
    let text = document["causes"][0]["because"][0]["text"]
        .as_str()
        .unwrap();
    // A store that keeps only the latest record of a step cannot compare, and says what that record says.
    assert!(
        text.contains("it is not deterministic") || text == "asked for by --rerun",
        "{text}"
    );
}

#[test]
fn a_failure_and_an_absent_file_are_explained_where_they_are() {
    let sandbox = chain();
    sandbox.write("data/seed.txt", "9");
    sandbox.run(RUN).code(1);
    let document = explained(&sandbox, "command:size");
    assert_eq!(
        document["causes"][0]["text"],
        "last time: FAIL, which may end differently now"
    );
    assert_eq!(
        document["last"]["reason"],
        "`sh` ended with exit status: 3: bad nine"
    );
    assert_eq!(document["last"]["why"], json!({"why": "never-ran"}));
    std::fs::remove_file(sandbox.path("data/seed.txt")).unwrap();
    let document = explained(&sandbox, "command:size");
    assert_eq!(document["verdict"], "skipped");
    assert_eq!(document["causes"][0]["step"], "command:config");
}

#[test]
fn a_plan_groups_by_cause_and_counts() {
    let sandbox = Sandbox::new();
    let mut spec = String::from(
        "version: 1\ncommands:\n  base: {argv: [sh, -c, 'cat f > out'], inputs: {f: {file: f}}, outputs: [out]}\n",
    );
    for n in 0..30 {
        spec.push_str(&format!("  c{n}: {{argv: [sh, -c, 'cat in/out > out; echo {n} >> out'], inputs: {{in: {{step: 'command:base'}}}}, outputs: [out]}}\n"));
    }
    spec.push_str("  other: {argv: [sh, -c, 'echo x > out'], outputs: [out]}\n");
    let sandbox = sandbox.file("spec.yaml", &spec).file("f", "1");
    sandbox.run(RUN).success();
    sandbox.write("f", "2");
    sandbox.write("spec.yaml", spec.replace("echo x", "echo y"));
    let text = sandbox.run(["plan", "spec.yaml"]).success().stdout;
    assert!(
        text.contains("… and 18 more after it (18 command)"),
        "{text}"
    );
    assert!(
        text.contains("command:base, and 30 steps after it")
            && text.contains("32 steps: 32 would run, 0 up to date"),
        "{text}"
    );
    assert_eq!(
        sandbox
            .run(["plan", "spec.yaml", "--all"])
            .success()
            .stdout
            .matches("after command:base")
            .count(),
        30
    );
    let document = sandbox
        .run(["plan", "spec.yaml", "--json"])
        .success()
        .json();
    let causes = document["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 2);
    assert_eq!(
        (&causes[0]["steps"], &causes[0]["waiting"]),
        (&json!(["command:base"]), &json!(30))
    );
    assert_eq!(causes[0]["why"]["why"], "changed");
    assert_eq!(
        (&causes[1]["steps"], &causes[1]["waiting"]),
        (&json!(["command:other"]), &json!(0))
    );
    let step = document["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|step| step["step"] == "command:c7")
        .unwrap();
    assert_eq!(
        (&step["verdict"], &step["cause"]),
        (&json!("run"), &json!("command:base"))
    );
    assert_eq!(step["why"], json!({"why": "after", "step": "command:base"}));
}

#[test]
fn a_log_has_what_the_process_printed_and_how_it_ended() {
    let sandbox = chain();
    sandbox.write("data/seed.txt", "9");
    sandbox.run(RUN).code(1);
    let log = sandbox
        .run(["log", "command:size", "--spec", "spec.yaml"])
        .success();
    let log = log
        .stdout_has("command:size: FAIL: `sh` ended with exit status: 3: bad nine")
        .stdout_has("\nbad nine\n");
    log.stdout_has("because:  never ran")
        .stdout_has("again:    orch run spec.yaml --cache-dir");
    let path = sandbox
        .run(["log", "command:size", "--spec", "spec.yaml", "--path"])
        .success()
        .stdout;
    assert_eq!(std::fs::read_to_string(path.trim()).unwrap(), "bad nine\n");
    // A name needs no spec; a glob does.
    sandbox
        .run(["log", "command:config", "--spec", "gone.yaml"])
        .success()
        .stdout_has("made config");
    sandbox
        .run(["log", "command:*", "--spec", "gone.yaml"])
        .code(2);
    let documents = sandbox
        .run(["log", "command:*", "--spec", "spec.yaml", "--json"])
        .success()
        .json();
    let size = documents
        .as_array()
        .unwrap()
        .iter()
        .find(|d| d["step"] == "command:size")
        .unwrap();
    assert_eq!(
        (&size["last"]["outcome"], &size["log"]["text"]),
        (&json!("FAIL"), &json!("bad nine\n"))
    );
    assert_eq!(size["log"]["later"], false);
    let history = sandbox
        .run(["log", "command:size", "--history", "--json"])
        .success()
        .json();
    assert_eq!(
        history[0]["executions"][0]["why"],
        json!({"why": "never-ran"})
    );
    sandbox
        .run(["log", "command:size", "--history"])
        .success()
        .stdout_has("FAIL")
        .stdout_has("never ran");
    let fresh = chain();
    fresh
        .run(["log", "command:size", "--spec", "spec.yaml"])
        .code(3)
        .stderr_has("has not been executed yet");
    fresh
        .run(["log", "command:siz", "--spec", "spec.yaml"])
        .code(2)
        .stderr_has("did you mean `command:size`?");
}

#[test]
fn the_history_shows_the_executed_steps_of_a_run_in_order_with_their_reproducers() {
    let sandbox = chain();
    sandbox
        .run(["history"])
        .success()
        .stderr_has("no run is recorded yet");
    for which in ["0", "1"] {
        sandbox
            .run(["history", which])
            .code(2)
            .stderr_has(&format!("no run is called `{which}`"));
    }
    let listed = sandbox.run(["history", "--json"]).success().json();
    assert_eq!(listed, json!([]));
    sandbox
        .run(["what-ran", "--failed"])
        .code(2)
        .stderr_has("`orch history 1` lists what the last run executed");
    sandbox.run(["run", "spec.yaml", "--jobs", "2"]).success();
    sandbox.write("data/seed.txt", "9");
    sandbox.run(RUN).code(1);
    sandbox.run(["plan", "spec.yaml"]).success();
    let last = sandbox.run(["history", "1", "--json"]).success().json();
    assert_eq!(
        (&last["state"], &last["command"]),
        (&json!("ended"), &json!("orch run spec.yaml"))
    );
    assert_eq!(last["end"]["outcomes"], json!({"PASS": 2, "FAIL": 1}));
    let names: Vec<_> = last["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["step"].clone())
        .collect();
    assert_eq!(names, ["command:config", "command:model", "command:size"]);
    let step = &last["steps"][0];
    assert!(
        step["why"]
            .as_str()
            .unwrap()
            .starts_with("input.seed.txt changed ("),
        "{step}"
    );
    assert_eq!(step["slot"], "job 0");
    assert!(step["at"].as_f64().unwrap() > 0.0 && step["seconds"].as_f64().unwrap() > 0.0);
    assert!(
        step["repro"]
            .as_str()
            .unwrap()
            .ends_with(" --step 'command:config' --rerun 'command:config'")
    );
    assert_eq!(step["key"].as_str().unwrap().len(), 64);
    let first = sandbox.run(["history", "2", "--json"]).success().json();
    assert_eq!((&first["executed"], &first["jobs"]), (&json!(3), &json!(2)));
    let name = first["run"].as_str().unwrap();
    for named in [name, &name[..22]] {
        let found = sandbox.run(["history", named, "--json"]).success().json();
        assert_eq!(found, first);
    }
    sandbox
        .run(["history", "3"])
        .code(2)
        .stderr_has("no run is called `3`");
    let failed = sandbox.run(["history", "1", "--failed"]).success();
    failed
        .stdout_has("FAIL  command:size")
        .stdout_has("3 steps executed (2 PASS, 1 FAIL)")
        .stdout_has("bad nine")
        .stdout_lacks("command:model");
    let since = |day: &str| {
        let listed = sandbox.run(["history", "--since", day, "--json"]);
        listed.success().json().as_array().unwrap().len()
    };
    assert_eq!((since("2020-01-01"), since("2199-01-01")), (2, 0));
    sandbox
        .run(["history", "--since", "2199-01-01"])
        .success()
        .stderr_has("no run is recorded since 2199-01-01");
    sandbox
        .run(["history", "bert:cpu-fp32", "--failed"])
        .code(2)
        .stderr_has("--failed is for the steps of a run");
    sandbox
        .run(["history", "1", "--host", "here"])
        .code(2)
        .stderr_has("--host is for the executions of a case");
    sandbox
        .run(["history", "--since", "soon"])
        .code(2)
        .stderr_has("is not a date");
    sandbox
        .run(["history"])
        .success()
        .stdout_has(name)
        .stdout_has("orch run spec.yaml --jobs 2")
        .stdout_lacks("--rerun");
}

#[test]
fn a_null_run_leaves_no_journal() {
    let sandbox = chain();
    sandbox.run(RUN).success();
    let before = sandbox.journals();
    assert_eq!(before.len(), 1);
    sandbox.run(RUN).success();
    assert_eq!(sandbox.journals(), before);
}

/// Two steps that sleep until they are ended.
fn sleepers(marker: &str) -> Sandbox {
    let spec = format!(
        "version: 1\ncommands:\n  quick: {{argv: [sh, -c, 'echo x > out'], outputs: [out]}}\n  slow: {{argv: [sh, -c, 'sleep 300; : {marker}'], inputs: {{in: {{step: 'command:quick'}}}}, outputs: [out]}}\n"
    );
    Sandbox::new().file("spec.yaml", spec)
}

#[test]
fn a_run_that_is_killed_shows_how_far_it_came() {
    let marker = marker("history");
    let sandbox = sleepers(&marker);
    let mut child = sandbox.spawn(RUN);
    eventually("the slow step began", || {
        !processes_with(&marker).is_empty()
    });
    let of = |what: &str| sandbox.run(["history", "1", "--json"]).success().json()[what].clone();
    eventually("the journal says so", || {
        of("cut_off") == json!(["command:slow"])
    });
    assert_eq!(of("state"), "goes on");
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    eventually("no process is left", || processes_with(&marker).is_empty());
    assert_eq!(
        (of("state"), of("end"), of("executed")),
        (json!("killed"), Value::Null, json!(1))
    );
    sandbox
        .run(["history", "1"])
        .success()
        .stdout_has("killed")
        .stdout_has("began and did not end  command:slow");
}

#[test]
fn an_interrupted_run_leaves_its_trace_and_its_journal() {
    let marker = marker("trace");
    let sandbox = sleepers(&marker);
    let child = sandbox.spawn(["run", "spec.yaml", "--trace", "deep/trace.json"]);
    eventually("the slow step began", || {
        !processes_with(&marker).is_empty()
    });
    signal(&child, libc::SIGINT);
    sandbox.wait(child).code(130);
    let trace: Value = serde_json::from_str(&sandbox.read("deep/trace.json")).unwrap();
    assert_eq!(trace["otherData"]["interrupted"], true);
    let slow = slices(&trace)
        .into_iter()
        .find(|e| e["name"] == "command:slow")
        .unwrap();
    assert_eq!(slow["args"]["outcome"], "INCOMPLETE");
    let last = sandbox.run(["history", "1", "--json"]).success().json();
    assert_eq!(
        (&last["state"], &last["steps"][1]["outcome"]),
        (&json!("interrupted"), &json!("INCOMPLETE"))
    );
}

fn slices(trace: &Value) -> Vec<Value> {
    trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "X")
        .cloned()
        .collect()
}

#[test]
fn a_trace_is_what_the_format_requires() {
    let sandbox = chain();
    sandbox
        .run(["run", "spec.yaml", "--jobs", "2", "--trace", "trace.json"])
        .success();
    let trace: Value = serde_json::from_str(&sandbox.read("trace.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    for event in events {
        assert!(
            event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64(),
            "{event}"
        );
        match event["ph"].as_str().unwrap() {
            "M" => assert!(event["args"].is_object()),
            "X" => assert!(
                event["ts"].is_u64() && event["dur"].is_u64() && event["cat"].is_string(),
                "{event}"
            ),
            "C" => assert!(event["args"]["running"].is_u64() && event["args"]["ready"].is_u64()),
            "s" | "f" => assert!(event["id"].is_u64() && event["cat"].is_string()),
            other => panic!("{other}: {event}"),
        }
    }
    // Slices of one row do not overlap: viewers would nest them.
    let mut rows = std::collections::BTreeMap::<u64, Vec<(u64, u64)>>::new();
    for slice in slices(&trace) {
        let ts = slice["ts"].as_u64().unwrap();
        let dur = slice["dur"].as_u64().unwrap();
        rows.entry(slice["tid"].as_u64().unwrap())
            .or_default()
            .push((ts, ts + dur));
    }
    for row in rows.values_mut() {
        row.sort();
        assert!(row.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{row:?}");
    }
    // Every arrow binds to the slice that it leaves and to the one that it reaches.
    let inside = |arrow: &Value| {
        let ts = arrow["ts"].as_u64().unwrap();
        rows[&arrow["tid"].as_u64().unwrap()]
            .iter()
            .any(|(from, until)| *from <= ts && ts <= *until)
    };
    let arrows: Vec<_> = events
        .iter()
        .filter(|event| event["ph"] == "s" || event["ph"] == "f")
        .collect();
    assert_eq!(arrows.len(), 4);
    assert!(arrows.into_iter().all(inside));
    assert_eq!(
        trace["otherData"]["critical path"],
        json!(["command:config", "command:model", "command:size"])
    );
    sandbox
        .run(["run", "spec.yaml", "--trace", "null.json"])
        .success();
    let trace: Value = serde_json::from_str(&sandbox.read("null.json")).unwrap();
    assert_eq!(
        trace["otherData"]["note"],
        "no step was executed in this run"
    );
    sandbox
        .run(["run", "spec.yaml", "--trace", "spec.yaml/no.json"])
        .code(2)
        .stderr_has("cannot be written");
}

#[test]
fn a_graph_shows_states_by_shape_and_restricts_itself() {
    let sandbox = chain();
    sandbox.write("data/seed.txt", "9");
    sandbox.run(RUN).code(1);
    let spec = format!("{CHAIN}  alone: {{argv: [sh, -c, 'echo x > out'], outputs: [out]}}\n");
    sandbox.write("spec.yaml", spec);
    let graph = |more: &[&str]| {
        sandbox
            .run(["plan", "spec.yaml", "--format"].iter().chain(more))
            .success()
    };
    let around = graph(&["dot", "--around", "command:model"]);
    around
        .stdout_has("command:config")
        .stdout_has("command:size")
        .stdout_lacks("command:alone");
    sandbox
        .run(["plan", "spec.yaml", "--around", "command:model"])
        .code(2)
        .stderr_has("--around is for pictures");
    sandbox
        .run(["graph", "spec.yaml", "--step", "command:model"])
        .code(2)
        .stderr_has("`orch plan --format dot`");
    let dot = graph(&["dot"])
        .stdout_has("subgraph cluster_command")
        .stdout_has("shape=octagon")
        .stdout_has("cluster_legend");
    assert_eq!(dot.stdout.matches(" -> ").count(), 2);
    assert_eq!(
        dot.stdout.matches('{').count(),
        dot.stdout.matches('}').count()
    );
    let mermaid = graph(&["mermaid"])
        .stdout_has("flowchart LR")
        .stdout_has("{{\"command:size\"}}:::failed");
    mermaid
        .stdout_has("[\"command:config\"]:::fresh")
        .stdout_has("([\"command:alone\"]):::run")
        .stdout_lacks("left_out");
}

#[test]
fn a_graph_too_large_for_mermaid_says_what_it_leaves_out() {
    let rows: String = (0..1500)
        .map(|n| format!("  c{n}: {{argv: ['true'], outputs: [out]}}\n"))
        .collect();
    let sandbox = Sandbox::new().file("spec.yaml", format!("version: 1\ncommands:\n{rows}"));
    let ended = sandbox
        .run(["plan", "spec.yaml", "--format", "mermaid"])
        .success();
    assert!(ended.stdout.len() < 50_000 && ended.stdout.contains("left_out[\"not drawn: "));
    ended.stderr_has(" steps left out: renderers of Mermaid refuse more");
    sandbox
        .run(["plan", "spec.yaml", "--format", "dot"])
        .success()
        .stdout_has("command:c1499");
}

#[test]
fn a_reproducer_does_the_step_again_from_a_folder_with_spaces() {
    let sandbox = chain()
        .file("my suite/it's.yaml", CHAIN)
        .file("my suite/data/seed.txt", "9");
    let out = ["run", "my suite/it's.yaml", "--out-dir", "my out"];
    sandbox.run(out).code(1);
    let document = sandbox
        .run([
            "explain",
            "command:size",
            "--spec",
            "my suite/it's.yaml",
            "--json",
        ])
        .success()
        .json();
    let repro = document[0]["last"]["repro"].as_str().unwrap();
    assert!(
        repro.starts_with(r"orch run 'my suite/it'\''s.yaml' --cache-dir "),
        "{repro}"
    );
    assert!(repro.contains(" --out-dir 'my out' "), "{repro}");
    let again = |line: &str| {
        let bin = std::path::Path::new(env!("CARGO_BIN_EXE_orch"))
            .parent()
            .unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell
            .args(["-c", line])
            .current_dir(sandbox.path(""))
            .env_clear()
            .env("PATH", path)
            .env("NO_COLOR", "1");
        shell.output().unwrap()
    };
    let ended = again(repro);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(
        said.contains("FAIL  command:size") && !said.contains("command:model"),
        "{said}"
    );
    // One that passed is executed again too, by itself.
    let model = sandbox
        .run(["log", "command:model", "--json"])
        .success()
        .json()[0]["last"]["repro"]
        .clone();
    let ended = again(model.as_str().unwrap());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.success()
            && said.contains("ok    command:model")
            && !said.contains("command:config"),
        "{said}"
    );
    assert!(!sandbox.path("orch-out").exists());
    let ran = sandbox.run(["history", "1", "--json"]).success().json();
    assert_eq!(
        (&ran["executed"], &ran["steps"][0]["why"]),
        (&json!(1), &json!("asked for by --rerun"))
    );
}
