//! The files for GitLab, Jenkins and Buildkite: their shell lines run here, with the variables that each of them sets.

use std::path::Path;

use serde_json::Value;

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;
use crate::workflow::shell;

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs/ci")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

fn lines(list: &Value) -> String {
    let lines = list.as_array().unwrap().iter();
    lines
        .map(|line| format!("{}\n", line.as_str().unwrap()))
        .collect()
}

#[track_caller]
fn succeeds(sandbox: &Sandbox, lines: &str, env: &[(&str, &str)]) -> String {
    let (ended, told) = shell(sandbox, lines, env);
    assert!(ended, "{lines}\n{told}");
    told
}

#[track_caller]
fn is_merged(sandbox: &Sandbox) {
    let document: Value = serde_json::from_str(&sandbox.read("report/matrix.json")).unwrap();
    assert_eq!(document["summary"]["passed"], 2, "{document:#}");
    assert_eq!(document["scope"], Value::Null);
    for page in ["index.html", "matrix.md"] {
        assert!(sandbox.path("report").join(page).is_file());
    }
}

/// A repository whose main branch is where a change leaves it.
fn repository() -> Sandbox {
    let sandbox = sandbox(RIGHT);
    succeeds(
        &sandbox,
        "git init -q && git add specs models && git -c user.name=x -c user.email=x@y.z commit -qm base && \
         git update-ref refs/remotes/origin/main HEAD",
        &[],
    );
    sandbox
}

#[test]
fn gitlabs_jobs_run_and_keep_a_base() {
    let sandbox = repository();
    let pipeline: Value = serde_saphyr::from_str(&text("gitlab-ci.yml")).unwrap();
    let models = &pipeline["models"];
    // The runner's own folder of programs is a cache.
    succeeds(
        &sandbox,
        "mkdir -p cache/orch/bin kept && ln -s \"$(command -v orch)\" cache/orch/bin/",
        &[],
    );
    for pipeline_source in ["push", "merge_request_event"] {
        for part in ["1", "2", "3", "4"] {
            let base = succeeds(&sandbox, "git rev-parse HEAD", &[]);
            let mut env = vec![
                ("CI_NODE_INDEX", part),
                ("CI_NODE_TOTAL", "4"),
                ("CI_PIPELINE_SOURCE", pipeline_source),
            ];
            if pipeline_source != "push" {
                env.push(("CI_MERGE_REQUEST_DIFF_BASE_SHA", base.trim()));
            }
            succeeds(&sandbox, &lines(&models["script"]), &env);
            // Each job is a machine of its own; artefacts of all of them come together.
            succeeds(
                &sandbox,
                &format!("{}\ncp -r shards/. kept/", lines(&models["after_script"])),
                &env,
            );
        }
        succeeds(&sandbox, "rm -rf shards && cp -r kept shards", &[]);
        let env = [("CI_COMMIT_BRANCH", "main"), ("CI_DEFAULT_BRANCH", "main")];
        if pipeline_source == "push" {
            succeeds(&sandbox, &lines(&pipeline["report"]["script"]), &env);
            is_merged(&sandbox);
            assert!(sandbox.path("base/matrix.json").is_file());
        }
    }
}

/// The shell lines of a Jenkinsfile.
fn blocks(file: &str) -> Vec<String> {
    let blocks = file.split("sh '''").skip(1);
    blocks
        .map(|block| block.split("'''").next().unwrap().to_owned())
        .collect()
}

#[test]
fn jenkins_lines_run() {
    let sandbox = repository();
    let blocks = blocks(&text("Jenkinsfile"));
    let [run, gate, keep, report] = &blocks[..] else {
        panic!("{blocks:#?}");
    };
    let mut kept = Vec::new();
    for change in ["", "main"] {
        for shard in ["1", "2", "3", "4"] {
            let env = [("SHARD", shard), ("CHANGE_TARGET", change)];
            succeeds(&sandbox, run, &env);
            succeeds(&sandbox, gate, &env);
            succeeds(&sandbox, keep, &env);
            let name = format!("shards/{shard}/matrix.json");
            kept.push((name.clone(), sandbox.read(&name)));
        }
        if change.is_empty() {
            // `unstash` lays out what each part left.
            for (name, text) in &kept {
                sandbox.write(name, text);
            }
            succeeds(&sandbox, report, &[]);
            is_merged(&sandbox);
            sandbox.write("base/matrix.json", sandbox.read("report/matrix.json"));
        }
    }
}

#[test]
fn buildkites_commands_run_and_keep_a_base() {
    let sandbox = repository();
    let pipeline: Value = serde_saphyr::from_str(&text("buildkite.yml")).unwrap();
    let steps = pipeline["steps"].as_array().unwrap();
    // `buildkite-agent pipeline upload` makes one dollar sign of two.
    let command = |label: &str| {
        let step = steps.iter().find(|step| step["label"] == label).unwrap();
        step["command"].as_str().unwrap().replace("$$", "$")
    };
    // Artefacts lie in a folder of their own.
    let agent = "buildkite-agent() {
        case \"$1 $2\" in
            'artifact upload') mkdir -p artifacts && cp \"$3\" artifacts/ ;;
            'artifact download') cp -r artifacts/. . && [ -e \"${3%%/*}\" ] ;;
            annotate*) cat > annotation.md ;;
        esac
    }\n";
    let root = sandbox.path("agent").to_str().unwrap().to_owned();
    succeeds(&sandbox, "mkdir -p agent artifacts", &[]);
    for base in ["", "main"] {
        let env = [("ORCH_CACHE_ROOT", root.as_str())];
        succeeds(&sandbox, &format!("{agent}{}", command("base")), &env);
        assert_eq!(sandbox.path("artifacts/base.json").exists(), base == "main");
        for job in ["0", "1", "2", "3"] {
            let env = [
                ("ORCH_CACHE_ROOT", root.as_str()),
                ("BUILDKITE_PARALLEL_JOB", job),
                ("BUILDKITE_PARALLEL_JOB_COUNT", "4"),
                ("BUILDKITE_PULL_REQUEST_BASE_BRANCH", base),
            ];
            // The environments are those that tests share.
            let envs = sandbox.path("envs").to_str().unwrap().to_owned();
            let lines = command("models %n").replace("$ORCH_CACHE_ROOT/envs", &envs);
            succeeds(
                &sandbox,
                &format!(
                    "{agent}({lines})\nmkdir -p artifacts/shards && cp -r shards/. artifacts/shards/"
                ),
                &env,
            );
        }
        if base.is_empty() {
            let env = [
                ("ORCH_CACHE_ROOT", root.as_str()),
                ("BUILDKITE_BRANCH", "main"),
                ("BUILDKITE_PIPELINE_DEFAULT_BRANCH", "main"),
            ];
            succeeds(&sandbox, &format!("{agent}{}", command("report")), &env);
            is_merged(&sandbox);
            assert!(sandbox.read("annotation.md").contains("2 passed"));
            assert!(sandbox.path("agent/base.json").is_file());
        }
    }
}
