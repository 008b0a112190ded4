//! What CI does: the store of one checkout serves another one, elsewhere, by another user. And the published workflow is one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox as ready_onnx;
use crate::support::Sandbox;

const RUN: [&str; 3] = ["run", "specs/all.yaml", "--json"];

/// Commands on files, and a generated test; its case cannot run here, which is a result too.
const SPEC: &str = "version: 1
pipelines:
  text: {description: 'ids to logits', tasks: [fill-mask]}
targets:
  cuda: {runtime: ort, backend: cuda, artefact: onnx, precisions: [fp32]}
models:
  bert: {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text,
    inputs: {input_ids: {dtype: int64, shape: [batch, seq], value: 1}}}
commands:
  sorted: {argv: [sh, -c, 'sort words/list > out; chmod +x out'], inputs: {words: {file: ../data}}, outputs: [out]}
  first: {argv: [sh, -c, 'head -n 1 in/out > out'], inputs: {in: {step: 'command:sorted'}}, outputs: [out]}
";

/// A checkout. Each has a path of its own; `age` sets the dates of its files.
fn checkout(age: Option<Duration>) -> Sandbox {
    let sandbox = Sandbox::new()
        .file("specs/all.yaml", SPEC)
        .file("data/list", "b\na\n");
    for name in ["specs/all.yaml", "data/list"] {
        if let Some(age) = age {
            let file = fs::File::options()
                .write(true)
                .open(sandbox.path(name))
                .unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
    }
    sandbox
}

const YEAR: Option<Duration> = Some(Duration::from_secs(86_400 * 365));

fn ran() -> Sandbox {
    let sandbox = checkout(None);
    // Whether or not the case can run, the commands and the test are made.
    let ended = sandbox.run(RUN);
    assert!(
        ended.json()["summary"]["executed"].as_u64().unwrap() >= 3,
        "{}",
        ended.stderr
    );
    sandbox
}

/// Everything is taken from the store, and handed out as it was where it was made.
#[track_caller]
fn hits(first: &Sandbox, second: &Sandbox) {
    let summary = second.run(RUN).json()["summary"].clone();
    assert_eq!(
        (&summary["executed"], &summary["failed"]),
        (&0.into(), &0.into()),
        "{summary}"
    );
    assert!(summary["hits"].as_u64().unwrap() >= 3, "{summary}");
    // A test names the command line of its run, and that the store that it was told.
    let test = "orch-out/tests/test_bert_cuda-fp32.py";
    let read = |sandbox: &Sandbox| sandbox.read(test).replace(path(&sandbox.path("")), "[DIR]");
    assert_eq!(read(first), read(second));
    // The pages say how their own run went, and show the same cases.
    let cases = |sandbox: &Sandbox| {
        let document: Value =
            serde_json::from_str(&sandbox.read("orch-out/report/matrix.json")).unwrap();
        document["cases"]
            .as_array()
            .unwrap()
            .iter()
            .map(|case| case["case"].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(cases(first), cases(second));
    assert_eq!(second.output("command:first", "out"), "a\n");
}

fn export(sandbox: &Sandbox) -> String {
    sandbox
        .run([
            "cache",
            "export",
            "store.tar",
            "specs/all.yaml",
            "--require-complete",
        ])
        .success();
    sandbox.path("store.tar").display().to_string()
}

#[test]
fn an_exported_store_serves_a_fresh_clone_at_another_place() {
    let first = ran();
    let second = checkout(YEAR);
    second.run(["cache", "import", &export(&first)]).success();
    hits(&first, &second);
}

#[test]
fn a_store_that_tar_restored_serves_a_fresh_clone() {
    let first = ran();
    first
        .run([
            "cache",
            "gc",
            "--max-size",
            "8G",
            "--keep",
            "specs/all.yaml",
        ])
        .success();
    // With the old dates, as caches of CI do it, and with new ones.
    for dates in ["--preserve-permissions", "--touch"] {
        let second = checkout(YEAR);
        tar(&[
            "-C",
            path(&first.path("")),
            "-cf",
            path(&second.path("c.tar")),
            "cache/v2",
        ]);
        tar(&[
            "-C",
            path(&second.path("")),
            "-xf",
            path(&second.path("c.tar")),
            dates,
        ]);
        hits(&first, &second);
        second.run(["cache", "verify"]).success();
        second
            .run(["cache", "gc", "--max-size", "1"])
            .success()
            .stdout_has("kept 0 records: 0 files");
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn tar(args: &[&str]) {
    let ended = Command::new("tar").args(args).output().unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

#[expect(
    clippy::print_stderr,
    reason = "what a test leaves out is shown with its output"
)]
fn skip(why: &str) {
    eprintln!("{why}");
}

#[test]
#[cfg(target_os = "linux")]
fn another_user_takes_what_was_made() {
    const NOBODY: u32 = 65_534;
    // SAFETY: it takes and changes nothing.
    if unsafe { libc::geteuid() } != 0 {
        return skip("skipped: only root can become another user");
    }
    let first = ran();
    let archive = fs::read(export(&first)).unwrap();
    let second = checkout(YEAR).file("store.tar", archive);
    let here = second.path("");
    for entry in walkdir::WalkDir::new(&here) {
        std::os::unix::fs::chown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let as_nobody = |args: &[&str]| {
        let orch = second.command(args);
        let mut command = Command::new("setpriv");
        let id = NOBODY.to_string();
        command
            .args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"])
            .arg(orch.get_program())
            .args(args);
        command.current_dir(&here).env_clear();
        command.envs(
            orch.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        command.output()
    };
    match as_nobody(&["--version"]) {
        Ok(output) if output.status.success() => {}
        other => {
            return skip(&format!(
                "skipped: nobody cannot start orch here: {other:?}"
            ));
        }
    }
    let output = as_nobody(&["cache", "import", "store.tar"]).unwrap();
    assert!(output.status.success(), "{output:?}");
    let summary = |output: &std::process::Output| {
        let document: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        document["summary"]["executed"].clone()
    };
    assert_eq!(summary(&as_nobody(&RUN).unwrap()), 0);
    let output = as_nobody(&["cache", "gc", "--max-size", "0"]).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(summary(&as_nobody(&RUN).unwrap()).as_u64().unwrap() >= 3);
}

#[test]
fn a_measured_case_hits_on_the_same_kind_of_machine() {
    let first = ready_onnx(RIGHT);
    let second = ready_onnx(RIGHT);
    first
        .run(RUN)
        .success()
        .summary([("cases", 2), ("passed", 2)]);
    second.run(["cache", "import", &export(&first)]).success();
    second
        .run(RUN)
        .success()
        .summary([("executed", 0), ("passed", 2), ("failed", 0)]);
    let cases = |sandbox: &Sandbox| {
        let mut document: Value =
            serde_json::from_str(&sandbox.read("orch-out/report/matrix.json")).unwrap();
        document["cases"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(|case| case["cached"] = Value::Null);
        document["cases"].clone()
    };
    assert_eq!(cases(&first), cases(&second));
    second.run(["cache", "verify"]).success();
}

fn page(name: &str) -> String {
    fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("docs")
            .join(name),
    )
    .unwrap()
}

#[test]
fn the_published_workflows_are_yaml() {
    let github: Value = serde_saphyr::from_str(&page("github-workflow.yml")).unwrap();
    let of_job = |job: &str| github["jobs"][job]["steps"].as_array().unwrap();
    let steps = of_job("models");
    assert!(
        steps.len() > 10
            && steps
                .iter()
                .all(|step| step["uses"].is_string() || step["run"].is_string())
    );
    // What is saved is what is restored.
    let of = |steps: &[Value], action: &str| -> BTreeMap<String, String> {
        let uses = |step: &&Value| {
            step["uses"]
                .as_str()
                .is_some_and(|uses| uses.starts_with(action))
        };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let found = steps.iter().filter(uses);
        found
            .map(|step| (text(&step["with"]["path"]), text(&step["with"]["key"])))
            .collect()
    };
    let restored = of(steps, "actions/cache/restore@");
    let saved = of(steps, "actions/cache/save@");
    assert_eq!((restored.len(), saved.len()), (4, 3));
    // The binary is what the last job looks for, and the worker for libtorch among the environments is built from its sources.
    let binary = &restored["~/.cargo/bin/orch"];
    assert_eq!(
        &of(of_job("report"), "actions/cache/restore@")["~/.cargo/bin/orch"],
        binary
    );
    for built_from in [
        "env.ORCH_FEATURES",
        "orch-src/Cargo.*",
        "orch-src/src/**",
        "orch-src/python/**",
        "orch-src/node/**",
    ] {
        assert!(binary.contains(built_from), "{built_from}: {binary}");
    }
    assert!(
        restored["cache/envs"].contains("steps.orch.outputs.cache-primary-key"),
        "{restored:?}"
    );
    // The last job saves what pull requests are compared with, by names that begin as those that are looked for.
    let base = &of(of_job("report"), "actions/cache/save@")["base"];
    let looked = steps
        .iter()
        .find(|step| step["with"]["path"] == "base")
        .unwrap()["with"]["restore-keys"]
        .as_str()
        .unwrap();
    assert!(
        base.starts_with(looked) && restored["base"].starts_with(looked),
        "{base}"
    );
    for (path, key) in &saved {
        let own = |step: &&Value| {
            format!(
                "${{{{ steps.{}.outputs.cache-primary-key }}}}",
                step["id"].as_str().unwrap()
            ) == *key
        };
        let by_id = steps
            .iter()
            .filter(|step| step["id"].is_string() && step["with"]["path"] == **path)
            .find(own);
        assert!(by_id.is_some() || restored[path] == *key, "{path}: {key}");
    }
    assert!(serde_saphyr::from_str::<Value>("a: [b").is_err());
    let gitlab: Value = serde_saphyr::from_str(&page("ci/gitlab-ci.yml")).unwrap();
    assert_eq!(
        gitlab["models"]["artifacts"]["reports"]["junit"],
        "orch-out/report/junit.xml"
    );
}

/// Every line that begins with `orch `, up to where its output goes.
fn lines_of_orch(text: &str) -> Vec<String> {
    // Code is indented; prose is not.
    let lines = text
        .lines()
        .filter(|line| line.starts_with(' '))
        .map(|line| {
            line.trim()
                .trim_start_matches("- ")
                .trim_start_matches("run: ")
        });
    let cut = |line: &str| {
        ["  #", " > ", " >> ", " | ", " || "]
            .iter()
            .fold(line.to_owned(), |line, end| {
                line.split(end).next().unwrap().to_owned()
            })
    };
    lines
        .filter(|line| line.starts_with("orch "))
        .map(cut)
        .collect()
}

#[test]
fn every_published_line_of_orch_is_understood() {
    let lines: Vec<_> = ["github-workflow.yml", "ci.md"]
        .iter()
        .flat_map(|name| lines_of_orch(&page(name)))
        .collect();
    assert!(lines.len() > 12, "{lines:?}");
    let sandbox = Sandbox::new();
    let understood = |line: &str| {
        let script = format!(
            "orch() {{ '{}' \"$@\" --help; }}\n{line}",
            env!("CARGO_BIN_EXE_orch")
        );
        // What the workflow's own variables are.
        let variables = [
            ("SHARD", "1"),
            ("BASE", "main"),
            ("RERUN", "--rerun failed"),
            ("AGE", "--max-age 7d"),
            ("CI_NODE_INDEX", "1"),
            ("CI_NODE_TOTAL", "4"),
        ];
        let output = Command::new("bash")
            .args(["-euc", &script])
            .current_dir(sandbox.path(""))
            .envs(variables)
            .output();
        let output = output.unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (ok, error) = understood("orch run --no-such-option");
    assert!(
        !ok && error.contains("--no-such-option"),
        "else nothing is tested: {error}"
    );
    for line in lines {
        let (ok, error) = understood(&line);
        assert!(ok, "{line}\n{error}");
    }
}
