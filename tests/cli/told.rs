//! How much a run tells while it goes on, and how wide.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox as sandbox_of;
use crate::support::Sandbox;

const SPEC: &str = "version: 1
commands:
  short: {argv: [sh, -c, 'echo 1 > out'], outputs: [out]}
  long: {argv: [sh, -c, 'sleep 1.2; echo 2 > out'], outputs: [out]}
  wrong: {argv: [sh, -c, 'exit 3'], outputs: [out]}
";

const WRONG: [f32; 3] = [41.5, 51.5, 60.];

fn sandbox(verbose: &str) -> Sandbox {
    let more: String = (0..30)
        .map(|n| format!("  s{n}: {{argv: [sh, -c, 'echo {n} > out'], outputs: [out]}}\n"))
        .collect();
    Sandbox::new()
        .file("spec.yaml", format!("{SPEC}{more}"))
        .env("ORCH_VERBOSE", verbose)
}

#[test]
fn a_line_is_for_what_took_time_or_failed() {
    let told = sandbox("0").run(["run", "spec.yaml"]).code(1);
    told.stderr_has("ok    command:long")
        .stderr_lacks("command:short")
        .stderr_has("FAIL  command:wrong");
    let told = sandbox("0").run(["run", "spec.yaml", "-v"]).code(1);
    told.stderr_has("ok    command:long")
        .stderr_has("ok    command:short")
        .stderr_lacks("begin");
    let told = sandbox("0").run(["run", "spec.yaml", "-vv"]).code(1);
    told.stderr_has("begin command:short")
        .stderr_has("ok    command:short");
    let told = sandbox("0").run(["run", "spec.yaml", "--quiet"]).code(1);
    told.stderr_lacks("ok  ")
        .stderr_has("FAIL  command:wrong")
        .stdout_has("33 steps: ");
}

#[test]
fn each_case_has_one_line() {
    let sandbox = sandbox_of(RIGHT).env("ORCH_VERBOSE", "0");
    let run = ["run", "specs/all.yaml", "-t", "cpu"];
    let ended = sandbox.run(run).success();
    ended
        .stderr_has("ok    linear:cpu-fp32 ")
        .stderr_lacks("run:linear")
        .stderr_lacks("judge:linear");
    let ended = sandbox
        .run([&run[..], &["--rerun", "run"]].concat())
        .success();
    ended
        .stderr_has("same  linear:cpu-fp32 ")
        .stderr_lacks("ok    ");
    let quiet = sandbox
        .run([&run[..], &["--rerun", "run", "--quiet"]].concat())
        .success();
    quiet.stderr_lacks("linear:cpu-fp32");
    let wrong = sandbox_of(WRONG).env("ORCH_VERBOSE", "0").run(run).code(1);
    wrong
        .stderr_has("FAIL  linear:cpu-fp32 ")
        .stderr_has("NUMERICS: ")
        .stderr_lacks("ok    ")
        .stderr_lacks("same  ");
}

#[test]
fn of_a_few_steps_each_has_its_line() {
    let told = Sandbox::new()
        .file("spec.yaml", SPEC)
        .env("ORCH_VERBOSE", "0")
        .run(["run", "spec.yaml"])
        .code(1);
    told.stderr_has("ok    command:short")
        .stderr_has("ok    command:long");
}

#[test]
fn a_job_of_github_folds_the_steps() {
    let told = sandbox("0")
        .env("GITHUB_ACTIONS", "true")
        .run(["run", "spec.yaml"])
        .code(1);
    let (_, steps) = told.stderr.split_once("::group::steps\n").unwrap();
    let (steps, rest) = steps.split_once("\n::endgroup::\n").unwrap();
    assert!(
        steps.contains("ok    command:long") && !rest.contains("command:long"),
        "{}",
        told.stderr
    );
}

/// orch on a terminal of so many columns, which `script` gives it; what came there is also in a file, at once.
#[cfg(target_os = "linux")]
fn on_terminal(sandbox: &Sandbox, columns: u32, args: &str, file: &Path) -> String {
    let orch = sandbox.command(["--version"]);
    let line = format!(
        "stty cols {columns} rows 40; {} {args}",
        orch.get_program().display()
    );
    let mut script = Command::new("script");
    script
        .args(["-qefc", &line])
        .arg(file)
        .current_dir(sandbox.path(""))
        .env_clear()
        .stdin(Stdio::null());
    script
        .envs(
            orch.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("TERM", "xterm");
    String::from_utf8_lossy(&script.output().unwrap().stdout).into_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn a_matrix_is_as_wide_as_the_terminal() {
    let mut spec = String::from(
        "version: 1\npipelines:\n  text: {description: 'ids to logits', tasks: [fill-mask]}\nmodels:\n  bert: {class: BertForMaskedLM, \
         family: encoder-only, task: fill-mask, pipeline: text, config: {vocab_size: 10}, inputs: {input_ids: {dtype: int64, \
         shape: [1, 8], value: 1}}}\ntargets:\n",
    );
    for n in 0..12 {
        spec.push_str(&format!(
            "  target-of-number-{n}: {{runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32]}}\n"
        ));
    }
    let sandbox = Sandbox::new().file("specs/all.yaml", spec);
    let longest = |columns: u32| {
        let text = on_terminal(
            &sandbox,
            columns,
            "report specs/all.yaml",
            Path::new("/dev/null"),
        );
        assert!(text.contains("target-of-number-11-fp32"), "{text}");
        // The last line is one sentence of counts.
        let lines: Vec<_> = text
            .lines()
            .map(|line| line.trim_end().chars().count())
            .collect();
        *lines.split_last().unwrap().1.iter().max().unwrap()
    };
    for columns in [60, 80, 100, 160, 200] {
        let longest = longest(columns);
        assert!(
            longest <= columns as usize && longest * 3 > columns as usize * 2,
            "{longest} of {columns}"
        );
    }
}

/// A text without what colours it and moves the cursor.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        all + part
            .split_once(|c: char| c.is_ascii_alphabetic())
            .map_or("", |(_, rest)| rest)
    })
}

/// Of the bar, or of what turns before each running step.
fn is_drawn(c: char) -> bool {
    "█░".contains(c) || ('\u{2800}'..'\u{2900}').contains(&c)
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminal_shows_how_far_a_run_is_while_a_step_runs_and_no_line_is_wider() {
    for columns in [60, 100, 200] {
        // Outside of the project: what a step reads there is no input that it should have declared.
        let sandbox = Sandbox::new();
        let beside = Sandbox::new();
        let file = beside.path("typescript");
        // The step ends when the terminal has shown that two seconds are over and one of the steps is done.
        let seen = format!(
            "grep -qE '\\[1/2\\] ([2-9]|[1-9][0-9])s' {}",
            file.display()
        );
        let long = format!(
            "n=0; until {seen}; do n=$((n+1)); test $n -lt 600 || exit 9; sleep 0.1; done; echo 1 > out"
        );
        let name = "a-step-whose-name-alone-would-nearly-fill-a-terminal-of-60";
        let first = "  first: {argv: [sh, -c, 'echo 1 > out'], outputs: [out]}\n";
        let input = "inputs: {x: {step: 'command:first'}}";
        let long = serde_json::to_string(&long).unwrap();
        let second = format!("  {name}: {{argv: [sh, -c, {long}], outputs: [out], {input}}}\n");
        sandbox.write(
            "spec.yaml",
            format!("version: 1\ncommands:\n{first}{second}"),
        );
        let text = on_terminal(&sandbox, columns, "run spec.yaml --step 'command:*'", &file);
        assert!(
            text.contains("2 executed") && !text.contains("FAIL"),
            "{columns}: {text}"
        );
        // Neither step has run before, so how long the rest takes is not known.
        assert!(!text.contains(" left"), "{columns}: {text}");
        // A row that is drawn is padded to the end of the line, and the next one follows.
        let rows: Vec<String> = text
            .split(['\r', '\n'])
            .map(|piece| plain(piece).chars().collect::<Vec<_>>())
            .filter(|piece| piece.iter().any(|c| is_drawn(*c)))
            .flat_map(|piece| {
                piece
                    .chunks(columns as usize)
                    .map(|row| row.iter().collect())
                    .collect::<Vec<_>>()
            })
            .collect();
        assert!(rows.len() > 4, "{columns}: {text}");
        // None is longer than the line, so each begins as one of orch's.
        let is_begin = |row: &String| row.trim().is_empty() || row.chars().take(3).any(is_drawn);
        assert!(rows.iter().all(is_begin), "{columns}: {rows:#?}");
        // The step's own clock runs too, and is seen beside any name.
        let clock = |row: &String| {
            Some(
                row.split_once(" command:a-step")?
                    .0
                    .split(' ')
                    .next_back()?
                    .to_owned(),
            )
        };
        let clocks: BTreeSet<_> = rows
            .iter()
            .filter_map(clock)
            .filter(|word| word.ends_with('s'))
            .collect();
        assert!(clocks.len() > 1, "{columns}: {clocks:?} in {rows:#?}");
    }
}
