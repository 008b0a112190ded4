//! The ready workflow, the release and the action: their shell lines do what they say, as GitHub's bash runs them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::onnx::{RIGHT, expected};
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

const SHARDS: u32 = 4;

fn yaml(path: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The shell lines of a step of the ready workflow.
fn lines(job: &str, step: &str) -> String {
    lines_of(&yaml("docs/github-workflow.yml")["jobs"][job], step)
}

fn lines_of(job: &Value, step: &str) -> String {
    let steps = job["steps"].as_array().unwrap();
    let step = steps
        .iter()
        .find(|found| found["name"] == step)
        .unwrap_or_else(|| panic!("no step {step}"));
    let lines = step["run"].as_str().unwrap().to_owned();
    assert!(
        !lines.contains("${{"),
        "what GitHub puts into a script can run as one: {lines}"
    );
    lines
}

/// Runs them as GitHub does; gives whether they succeeded, and what they said.
pub(super) fn shell(sandbox: &Sandbox, lines: &str, env: &[(&str, &str)]) -> (bool, String) {
    let orch = sandbox.command(["--version"]);
    let folder = Path::new(orch.get_program()).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-e", "-o", "pipefail", "-c", lines])
        .current_dir(sandbox.path(""))
        .env_clear();
    bash.envs(
        orch.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    )
    .env("PATH", path);
    let output = bash.envs(env.iter().copied()).output().unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    )
}

fn git(sandbox: &Sandbox, line: &str) {
    let config = "git -c user.name=x -c user.email=x@y.z -c init.defaultBranch=main";
    let (ended, told) = shell(sandbox, &format!("{config} {line}"), &[]);
    assert!(ended, "{told}");
}

#[test]
fn shards_run_and_one_page_shows_all_of_them() {
    let sandbox = sandbox(RIGHT);
    let [outputs, summary] =
        ["outputs", "summary.md"].map(|name| sandbox.path(name).to_str().unwrap().to_owned());
    let (ended, told) = shell(&sandbox, &lines("models", "Install environments"), &[]);
    assert!(ended && told.contains("there already"), "{told}");
    for shard in 1..=SHARDS {
        let shard = shard.to_string();
        let env = [
            ("SHARD", shard.as_str()),
            ("GITHUB_OUTPUT", &outputs),
            ("GITHUB_BASE_REF", ""),
        ];
        // A part of which nothing is there to run is red, as it is to be on a machine that has the hardware.
        let (_, told) = shell(&sandbox, &lines("models", "Run"), &env);
        let said = std::fs::read_to_string(&outputs).unwrap();
        assert!(
            said.lines().all(|line| line.starts_with("executed=")),
            "{said}\n{told}"
        );
        let part = sandbox.path("shards").join(format!("report-{shard}"));
        std::fs::create_dir_all(&part).unwrap();
        std::fs::copy(
            sandbox.path("orch-out/report/matrix.json"),
            part.join("matrix.json"),
        )
        .unwrap();
    }
    let executed: u32 = std::fs::read_to_string(&outputs)
        .unwrap()
        .lines()
        .map(|line| line["executed=".len()..].parse::<u32>().unwrap())
        .sum();
    assert!(executed >= 8, "{executed}");
    let (ended, told) = shell(&sandbox, &lines("models", "Make room in the store"), &[]);
    assert!(ended, "{told}");
    let (ended, told) = shell(
        &sandbox,
        &lines("report", "Merge"),
        &[("GITHUB_STEP_SUMMARY", &summary)],
    );
    assert!(ended, "{told}");
    let page = std::fs::read_to_string(summary).unwrap();
    assert!(
        page.contains("2 passed") && !page.contains("Not the whole spec"),
        "{page}"
    );
    assert!(sandbox.read("report/badge.svg").contains("2 of 2 passed"));
    assert!(sandbox.path("report/index.html").is_file());
    // As many as it takes to see that times may hide a difference.
    let document: Value = serde_json::from_str(&sandbox.read("report/matrix.json")).unwrap();
    let rounds = |case: &Value| case["metrics"]["rounds"].as_array().map(Vec::len);
    assert!(
        document["cases"]
            .as_array()
            .unwrap()
            .iter()
            .all(|case| rounds(case) == Some(3)),
        "{document:#}"
    );
}

/// All shards, each on a machine of its own; what their gates said.
fn shards(sandbox: &Sandbox, base: &str) -> Vec<(bool, String)> {
    let outputs = sandbox.path("outputs").to_str().unwrap().to_owned();
    let one = |shard: u32| {
        let shard = shard.to_string();
        let env = [
            ("SHARD", shard.as_str()),
            ("GITHUB_OUTPUT", &outputs),
            ("GITHUB_BASE_REF", base),
        ];
        let _ = std::fs::remove_dir_all(sandbox.path("orch-out"));
        shell(sandbox, &lines("models", "Run"), &env);
        let part = sandbox.path("shards").join(format!("report-{shard}"));
        std::fs::create_dir_all(&part).unwrap();
        std::fs::copy(
            sandbox.path("orch-out/report/matrix.json"),
            part.join("matrix.json"),
        )
        .unwrap();
        if base.is_empty() {
            (true, String::new())
        } else {
            shell(sandbox, &lines("models", "Gate"), &env)
        }
    };
    (1..=SHARDS).map(one).collect()
}

#[test]
fn a_pull_request_is_held_against_what_main_came_to() {
    let sandbox = sandbox(RIGHT);
    git(&sandbox, "init -q");
    git(&sandbox, "add specs models");
    git(&sandbox, "commit -qm base");
    git(&sandbox, "update-ref refs/remotes/origin/main HEAD");
    let summary = sandbox.path("summary.md").to_str().unwrap().to_owned();
    let last = |step: &str| {
        let (ended, told) = shell(
            &sandbox,
            &lines("report", step),
            &[("GITHUB_STEP_SUMMARY", &summary)],
        );
        assert!(ended, "{step}: {told}");
    };
    // Before main was run once there is nothing to compare with, and no comment.
    assert!(shards(&sandbox, "main").iter().all(|(is_open, _)| *is_open));
    last("Compare");
    assert!(!sandbox.path("report/compare.md").exists());
    shards(&sandbox, "");
    last("Merge");
    last("Keep what main came to");
    assert!(sandbox.path("base/matrix.json").exists());
    // A change that nothing is worse for. What it does not touch is not gone.
    let spec = sandbox.read("specs/all.yaml");
    sandbox.write("specs/all.yaml", format!("{spec}# a comment\n"));
    git(&sandbox, "commit -qam comment");
    let gates = shards(&sandbox, "main");
    assert!(gates.iter().all(|(is_open, _)| *is_open), "{gates:?}");
    assert!(
        gates
            .iter()
            .all(|(_, told)| told.contains("2 outside of this part")),
        "{gates:?}"
    );
    // One that breaks both cases, which may be of one shard or of two.
    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    git(&sandbox, "commit -qam broken");
    let gates = shards(&sandbox, "main");
    let red: Vec<_> = gates.iter().filter(|(is_open, _)| !is_open).collect();
    assert!(
        !red.is_empty() && red.iter().all(|(_, told)| told.contains("broken (")),
        "{gates:?}"
    );
    last("Merge");
    last("Compare");
    let page = sandbox.read("report/compare.md");
    assert!(
        page.contains("#### broken (2)")
            && std::fs::read_to_string(&summary).unwrap().contains(&page),
        "{page}"
    );
    // There is no GitHub here: what its program is asked for is written down, and the body that it is given.
    let comment = |known: &str| {
        let told = format!(
            "gh() {{ echo \"$*\" >> gh.log; case \"$*\" in *--jq*) echo '{known}';; *) cp comment.md body.md;; esac; }}"
        );
        let env = [("GITHUB_REPOSITORY", "o/r"), ("PULL", "7")];
        let (ended, told) = shell(
            &sandbox,
            &format!("{told}\n{}", lines("report", "Comment")),
            &env,
        );
        assert!(ended, "{told}");
        assert_eq!(sandbox.read("body.md"), format!("<!-- orch -->\n{page}"));
        let asked = sandbox.read("gh.log");
        std::fs::remove_file(sandbox.path("gh.log")).unwrap();
        asked.lines().last().unwrap().to_owned()
    };
    assert_eq!(
        comment(""),
        "api --silent repos/o/r/issues/7/comments -F body=@comment.md"
    );
    assert_eq!(
        comment("12"),
        "api --silent --method PATCH repos/o/r/issues/comments/12 -F body=@comment.md"
    );
}

/// One shard's run, on this event and attempt; how it ended, what it said and its `executed`.
fn run_of(sandbox: &Sandbox, env: &[(&str, &str)]) -> (bool, String, Option<u32>) {
    let outputs = sandbox.path("outputs");
    let _ = std::fs::remove_file(&outputs);
    let fixed = [
        ("SHARD", "1"),
        ("GITHUB_BASE_REF", ""),
        ("GITHUB_OUTPUT", outputs.to_str().unwrap()),
    ];
    // One shard has all of the cases.
    let lines = lines("models", "Run").replace("model:$SHARD/4", "model:$SHARD/1");
    let (ended, told) = shell(sandbox, &lines, &[&fixed[..], env].concat());
    let said = std::fs::read_to_string(&outputs).unwrap_or_default();
    let executed = said
        .lines()
        .find_map(|line| line.strip_prefix("executed=")?.parse().ok());
    (ended, told, executed)
}

#[test]
fn a_second_attempt_tries_what_failed_and_a_night_what_is_old() {
    let sandbox = sandbox(RIGHT);
    assert!(run_of(&sandbox, &[]).0);
    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    let (ended, told, _) = run_of(&sandbox, &[("GITHUB_RUN_ATTEMPT", "1")]);
    assert!(!ended, "{told}");
    let (_, _, executed) = run_of(&sandbox, &[("GITHUB_RUN_ATTEMPT", "1")]);
    assert_eq!(executed, Some(0), "the same key fails again");
    let (ended, told, executed) = run_of(&sandbox, &[("GITHUB_RUN_ATTEMPT", "2")]);
    assert!(!ended && executed > Some(0), "{executed:?} {told}");
    sandbox.write("models/expected/output_0.pb", expected(RIGHT));
    assert!(run_of(&sandbox, &[("GITHUB_EVENT_NAME", "push")]).0);
    let at_night = [("GITHUB_EVENT_NAME", "schedule")];
    assert_eq!(
        run_of(&sandbox, &at_night).2,
        Some(0),
        "nothing is a week old"
    );
}

#[test]
fn a_pull_request_that_changes_what_decides_runs_everything() {
    let sandbox = sandbox(RIGHT);
    git(&sandbox, "init -q");
    git(&sandbox, "add specs models");
    git(&sandbox, "commit -qm base");
    git(&sandbox, "update-ref refs/remotes/origin/main HEAD");
    let pull = [("GITHUB_BASE_REF", "main")];
    sandbox.write("README.md", "text");
    git(&sandbox, "add README.md");
    git(&sandbox, "commit -qm readme");
    assert_eq!(run_of(&sandbox, &pull).2, Some(0));
    for (name, text) in [
        ("orch.toml", "# settings\n"),
        (".github/workflows/models.yml", "env: {ORCH_REF: v0.2.0}\n"),
    ] {
        sandbox.write(name, text);
        git(&sandbox, &format!("add {name}"));
        git(&sandbox, "commit -qm decides");
        let (ended, told, _) = run_of(&sandbox, &pull);
        let report: Value =
            serde_json::from_str(&sandbox.read("orch-out/report/matrix.json")).unwrap();
        assert_eq!(
            report["cases"].as_array().unwrap().len(),
            2,
            "{name}: {told}"
        );
        assert!(ended, "{name}: {told}");
        git(&sandbox, "reset -q --hard HEAD~1");
    }
}

#[test]
fn a_spec_with_an_error_ends_with_its_own_code_and_words() {
    let sandbox = sandbox(RIGHT);
    sandbox.write("specs/all.yaml", "version: [\n");
    let lines = lines("models", "Run");
    let outputs = sandbox.path("outputs").to_str().unwrap().to_owned();
    let env = [
        ("SHARD", "1"),
        ("GITHUB_BASE_REF", ""),
        ("GITHUB_OUTPUT", outputs.as_str()),
    ];
    let (_, told) = shell(&sandbox, &format!("({lines}) || echo code $?"), &env);
    assert!(
        told.contains("code 2") && !told.contains("Traceback"),
        "{told}"
    );
}

#[test]
fn a_report_that_lacks_a_shard_is_no_base() {
    let sandbox = sandbox(RIGHT);
    for (scope, is_kept) in [("null", true), (r#"{"partition": "hash:1/4"}"#, false)] {
        sandbox.write("report/matrix.json", format!(r#"{{"scope": {scope}}}"#));
        let (ended, told) = shell(&sandbox, &lines("report", "Keep what main came to"), &[]);
        assert!(ended, "{told}");
        let base = sandbox.path("base/matrix.json");
        assert_eq!(base.exists(), is_kept, "{scope}");
        let _ = std::fs::remove_file(base);
    }
}

#[test]
fn entries_and_artefacts_of_attempts_runners_and_interpreters_are_distinguished() {
    let steps = yaml("docs/github-workflow.yml")["jobs"]["models"]["steps"].clone();
    let steps = steps.as_array().unwrap();
    let uses = |action: &str| -> Vec<&Value> {
        let is_it = |step: &&Value| {
            step["uses"]
                .as_str()
                .is_some_and(|uses| uses.contains(action))
        };
        steps.iter().filter(is_it).collect()
    };
    for step in uses("upload-artifact") {
        assert_eq!(step["with"]["overwrite"], true, "{step:#}");
        let name = step["with"]["name"].as_str().unwrap();
        assert!(name.contains("matrix.runner"), "{name}");
    }
    let store = uses("cache/save").pop().unwrap();
    let condition = store["if"].as_str().unwrap();
    assert!(condition.contains("always()"), "{condition}");
    let keys: Vec<_> = uses("cache/restore")
        .iter()
        .map(|step| step["with"]["key"].as_str().unwrap().to_owned())
        .collect();
    // What was restored in part, or stands on an interpreter that this image lacks, is repaired.
    let is_setup = |step: &&Value| step["name"] == "Install environments";
    let setup = steps.iter().find(is_setup).unwrap();
    assert!(setup["if"].is_null(), "{setup:#}");
    let envs = keys
        .iter()
        .find(|key| key.starts_with("orch-envs"))
        .unwrap();
    // What was restored in part, or stands on an interpreter that this image lacks, is repaired.
    let is_setup = |step: &&Value| step["name"] == "Install environments";
    let setup = steps.iter().find(is_setup).unwrap();
    assert!(setup["if"].is_null(), "{setup:#}");
    assert!(
        envs.contains("steps.python.outputs.python-version"),
        "{envs}"
    );
    let store = keys
        .iter()
        .find(|key| key.starts_with("orch-store"))
        .unwrap();
    assert!(store.contains("matrix.runner"), "{store}");
}

#[test]
fn the_tutorial_quotes_the_gate() {
    let gate = lines("models", "Gate");
    let line = gate
        .lines()
        .find(|line| line.contains("orch compare"))
        .unwrap()
        .trim()
        .to_owned();
    let tutorial =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tutorial.md"))
            .unwrap();
    assert!(tutorial.contains(&format!("`{line}`")), "{line}");
}

#[test]
fn a_pull_request_that_touches_only_absent_hardware_is_green_and_a_broken_one_is_not() {
    let sandbox = sandbox(RIGHT);
    let spec = sandbox.read("specs/all.yaml");
    git(&sandbox, "init -q");
    git(&sandbox, "add specs models");
    git(&sandbox, "commit -qm base");
    git(&sandbox, "branch -q base");
    git(&sandbox, "update-ref refs/remotes/origin/main base");
    let absent =
        "  rocm: {runtime: ort, backend: rocm, artefact: onnx, precisions: [fp32]}\nmeasure:";
    sandbox.write("specs/all.yaml", spec.replacen("measure:", absent, 1));
    git(&sandbox, "commit -qam absent");
    let outputs = sandbox.path("outputs").to_str().unwrap().to_owned();
    let run = |shard: u32| {
        let shard = shard.to_string();
        let env = [
            ("SHARD", shard.as_str()),
            ("GITHUB_OUTPUT", &outputs),
            ("GITHUB_BASE_REF", "main"),
        ];
        shell(&sandbox, &lines("models", "Run"), &env)
    };
    for shard in 1..=SHARDS {
        let (ended, told) = run(shard);
        assert!(ended, "{told}");
    }
    let (_, told) = shell(&sandbox, "cat orch-out/report/matrix.json", &[]);
    assert!(
        !told.contains("\"PASS\""),
        "only what differs is asked for: {told}"
    );
    sandbox.write(
        "specs/all.yaml",
        spec.replacen("linear:\n", "linear: [\n", 1),
    );
    git(&sandbox, "commit -qam broken");
    let (ended, told) = run(1);
    assert!(!ended && told.contains("specs/all.yaml:"), "{told}");
}

/// A wheel of the name, with a program `orch` and an SBOM where maturin puts it. It stands for the one that CI builds and tries
/// (`python/wheel/try.sh`), which takes minutes.
const WHEEL: &str = r#"
import pathlib, zipfile
name, info = "model_orch-0.1.0-py3-none-any.whl", "model_orch-0.1.0.dist-info"
pathlib.Path("dist").mkdir()
with zipfile.ZipFile(f"dist/{name}", "w") as wheel:
    wheel.writestr("model_orch.py", "def main():\n    print('orch 0.1.0')\n")
    wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: model-orch\nVersion: 0.1.0\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\norch = model_orch:main\n")
    wheel.writestr(f"{info}/sboms/orch.cyclonedx.json", '{"bomFormat": "CycloneDX"}')
    wheel.writestr(f"{info}/RECORD", "")
"#;

fn with_wheel() -> Sandbox {
    let sandbox = Sandbox::new().installs().file("wheel.py", WHEEL);
    let (ended, told) = shell(&sandbox, "python3 wheel.py", &[]);
    assert!(ended, "{told}");
    sandbox
}

#[test]
fn a_release_has_checksums_of_all_its_files_and_both_sboms() {
    let sandbox = with_wheel().file("python/sbom.cdx.json", "{}");
    let release = yaml(".github/workflows/release.yml");
    let (ended, told) = shell(
        &sandbox,
        &lines_of(&release["jobs"]["wheel"], "Checksums and SBOMs"),
        &[],
    );
    assert!(ended, "{told}");
    assert!(sandbox.read("dist/orch.cdx.json").contains("CycloneDX"));
    let (ended, told) = shell(
        &sandbox,
        "cd dist && sha256sum --check --strict SHA256SUMS",
        &[],
    );
    assert!(ended && told.lines().count() == 3, "{told}");
    sandbox.write("dist/orch.cdx.json", "other");
    let (ended, told) = shell(
        &sandbox,
        "cd dist && sha256sum --check --strict SHA256SUMS",
        &[],
    );
    assert!(!ended && told.contains("orch.cdx.json: FAILED"), "{told}");
    // What is drafted is what was tried, and what builds has no rights.
    assert!(release["jobs"]["wheel"]["permissions"].is_null());
    let steps: Vec<_> = ["wheel", "publish"]
        .iter()
        .flat_map(|job| release["jobs"][job]["steps"].as_array().unwrap())
        .collect();
    let at = |words: &str| {
        steps
            .iter()
            .position(|step| step["run"].as_str().is_some_and(|run| run.contains(words)))
    };
    let order = [
        "build.sh dist",
        "try.sh dist/",
        "sha256sum -- *",
        "sha256sum --check",
        "gh release create",
    ]
    .map(|words| at(words).unwrap());
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn the_action_installs_a_wheel_and_says_where_and_which() {
    let sandbox = with_wheel();
    let action = yaml(".github/actions/setup-orch/action.yml");
    let at = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    let tools = at("tools");
    let bin = at("own");
    let paths = at("paths");
    let outputs = at("outputs");
    let variables = at("variables");
    let env = [
        ("WHEEL", "dist/model_orch-0.1.0-py3-none-any.whl"),
        ("CACHE_DIR", "store"),
        (
            "GITHUB_ACTION_PATH",
            concat!(env!("CARGO_MANIFEST_DIR"), "/.github/actions/setup-orch"),
        ),
        ("UV_TOOL_DIR", &tools),
        ("UV_TOOL_BIN_DIR", &bin),
        ("GITHUB_PATH", &paths),
        ("GITHUB_OUTPUT", &outputs),
        ("GITHUB_ENV", &variables),
        ("PIP_BREAK_SYSTEM_PACKAGES", "1"),
        ("PIP_TARGET", &at("pip")),
        ("PYTHONPATH", &at("pip")),
        (
            "PATH",
            &format!("{}/bin:{}", at("pip"), std::env::var("PATH").unwrap()),
        ),
    ];
    let (ended, told) = shell(&sandbox, &lines_of(&action["runs"], "Install"), &env);
    assert!(ended, "{told}");
    assert_eq!(sandbox.read("paths").trim(), bin);
    assert_eq!(sandbox.read("outputs"), "version=orch 0.1.0\n");
    assert_eq!(sandbox.read("variables"), "ORCH_CACHE_DIR=store\n");
    assert!(sandbox.path("own/orch").exists());
    // No name is installed that somebody else may have taken.
    assert_eq!(action["inputs"]["wheel"]["required"], true);
    let (ended, told) = shell(&sandbox, &lines_of(&action["runs"], "Install"), &[]);
    assert!(!ended && told.contains("give `wheel`"), "{told}");
}

#[test]
fn actions_are_named_by_their_content() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in [
        "docs/github-workflow.yml",
        ".github/workflows/release.yml",
        ".github/actions/setup-orch/action.yml",
    ] {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        for line in text.lines().filter(|line| line.contains("uses: ")) {
            let (_, version) = line.split_once('@').unwrap();
            let digest = version.split_whitespace().next().unwrap();
            let is_digest = digest.len() == 40 && digest.chars().all(|c| c.is_ascii_hexdigit());
            assert!(is_digest && version.contains(" # v"), "{file}: {line}");
        }
    }
}
