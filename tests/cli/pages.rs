//! Commands that print: schema, completions, a first spec, plans and reports.

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

#[test]
fn the_schema_is_the_published_one() {
    let published = include_str!("../../specs/schema.json");
    assert_eq!(
        Sandbox::new().run(["schema"]).success().stdout.trim_end(),
        published.trim_end()
    );
}

#[test]
fn the_help_of_setup_names_all_that_can_be_set_up() {
    let help = Sandbox::new().run(["setup", "--help"]).success().stdout;
    let words: Vec<_> = help
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .collect();
    // What it names when it is asked for something else is what it takes.
    let known = Sandbox::new()
        .file("specs/all.yaml", "version: 1\n")
        .run(["setup", "zzz"])
        .code(2)
        .stderr;
    let names: Vec<_> = known.split('`').skip(3).step_by(2).collect();
    assert!(names.len() >= 12, "{known}");
    let missing: Vec<_> = names
        .into_iter()
        .filter(|name| !words.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?} are not in {help}");
}

#[test]
fn a_first_spec_loads_and_is_not_overwritten() {
    let sandbox = Sandbox::new();
    sandbox
        .run(["init"])
        .success()
        .stderr_has("orch run specs/all.yaml");
    sandbox.run(["plan"]).success().stdout_has("would run");
    // What an interrupted one left is completed: the spec is written last.
    std::fs::remove_file(sandbox.path("specs/all.yaml")).unwrap();
    sandbox.run(["init"]).success();
    sandbox.run(["plan"]).success().stdout_has("would run");
    sandbox.write("specs/all.yaml", "mine");
    sandbox
        .run(["init"])
        .code(2)
        .stderr_has("is already there; nothing was written");
    assert_eq!(sandbox.read("specs/all.yaml"), "mine");
}

#[test]
fn a_model_of_one_s_own_runs_without_an_edit() {
    let sandbox = sandbox(RIGHT);
    std::fs::remove_dir_all(sandbox.path("specs")).unwrap();
    sandbox
        .run(["init", "--model", "models/linear.onnx"])
        .success()
        .stderr_has("linear on cpu, openvino");
    assert!(sandbox.read(".gitignore").contains("/orch-out/"));
    sandbox
        .run(["run", "--json", "--check"])
        .success()
        .summary([("passed", 4), ("failed", 0)]);

    let spec = sandbox
        .read("specs/all.yaml")
        .replace("models:\n", "models:\n  # mine\n");
    sandbox.write("specs/all.yaml", &spec);
    sandbox
        .run(["add", "models/linear.onnx"])
        .code(2)
        .stderr_has("`linear` is a model of specs/all.yaml already; nothing was written")
        .stderr_has("hint: `--name NAME` gives the new row another name");
    assert_eq!(sandbox.read("specs/all.yaml"), spec);
    sandbox
        .run(["add", "models/linear.onnx", "--name", "again"])
        .success()
        .stderr_has("onnx: ../models/linear.onnx");
    assert!(sandbox.read("specs/all.yaml").starts_with(spec.trim_end()));
    sandbox.run(["run", "-m", "again", "--check"]).success();
    // A spec is named as it is from its own folder, and its line ends stay.
    let crlf = sandbox.read("specs/all.yaml").replace('\n', "\r\n");
    sandbox.write("specs/all.yaml", &crlf);
    sandbox
        .run_through(
            ["env", "-C", "specs"],
            &[
                "add",
                "../models/linear.onnx",
                "all.yaml",
                "--name",
                "third",
            ],
        )
        .success();
    let longer = sandbox.read("specs/all.yaml");
    assert!(longer.starts_with(&crlf) && !longer.replace("\r\n", "").contains('\n'));
    sandbox
        .run(["add", "models/nothing.onnx"])
        .code(2)
        .stderr_has("there is no file `models/nothing.onnx`");
    // No Python is started, or installed, to find this out.
    sandbox
        .run(["add", "bert-base-uncased"])
        .code(2)
        .stderr_has("`bert-base-uncased` is neither a folder nor an ONNX file nor an id of the Hub")
        .stderr_has("such as `google-bert/bert-base-uncased`");
    sandbox.write("models/inputs.npz", "PK");
    sandbox
        .run(["add", "models/inputs.npz"])
        .code(2)
        .stderr_has("`models/inputs.npz` is a file, but not one named `*.onnx`");
    sandbox
        .run(["init", "--model", "models/linear.onnx"])
        .code(2)
        .stderr_has("orch add");
}

#[test]
fn a_first_spec_of_an_id_of_the_hub_names_the_revision_that_was_read() {
    const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";
    let sandbox = Sandbox::new().installs().env("HF_HUB_OFFLINE", "1");
    let sandbox = sandbox.env("HF_HOME", "hf");
    // As the client keeps them, without the weights: these are the run's.
    let kept = "hf/hub/models--me--tiny";
    sandbox.write(&format!("{kept}/refs/main"), REVISION);
    let config = r#"{"architectures": ["BertForSequenceClassification"], "model_type": "bert", "vocab_size": 30,
        "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}"#;
    let words = "[PAD] [UNK] [CLS] [SEP] [MASK] the quick brown fox jumps over lazy dog ."
        .replace(' ', "\n");
    for (name, text) in [
        ("config.json", config),
        ("vocab.txt", &words),
        ("tokenizer_config.json", "{}"),
    ] {
        sandbox.write(&format!("{kept}/snapshots/{REVISION}/{name}"), text);
    }
    sandbox
        .run(["init", "--model", "me/tiny"])
        .success()
        .stderr_has("reading the config, tokenizer and headers of `me/tiny`")
        .stderr_has("tiny on cpu, openvino");
    let spec = sandbox.read("specs/all.yaml");
    for line in [
        "class: BertForSequenceClassification",
        "weights: hub",
        "id: me/tiny",
        REVISION,
        "The quick brown fox",
    ] {
        assert!(spec.contains(line), "{line}: {spec}");
    }
    sandbox.run(["plan"]).success().stdout_has("generate:tiny");
    let absent = sandbox.run(["add", "me/absent"]).code(2);
    absent
        .stderr_has("no row was made")
        .stderr_has("`me/absent` cannot be had from the Hub");
    assert_eq!(sandbox.read("specs/all.yaml"), spec);
}

#[test]
fn a_plan_as_a_picture_and_as_data() {
    let sandbox = Sandbox::new().file(
        "specs/all.yaml",
        "version: 1
commands:
  a: {argv: [sh, -c, 'echo x > out'], outputs: [out]}
  b: {argv: [cp, -r, in, out], inputs: {in: {step: 'command:a'}}, outputs: [out]}
",
    );
    let plan = |format: &str| sandbox.run(["plan", "--format", format]).success();
    let dot = plan("dot").stdout;
    assert!(
        dot.trim_start().starts_with("digraph") && dot.trim_end().ends_with('}'),
        "{dot}"
    );
    assert!(
        dot.contains("command:a") && dot.contains("command:b") && dot.contains("->"),
        "{dot}"
    );
    let mermaid = plan("mermaid").stdout;
    assert!(
        mermaid.starts_with("flowchart LR\n")
            && mermaid.contains("[\"command:b\"]")
            && mermaid.contains("-->"),
        "{mermaid}"
    );
    assert!(!mermaid.contains("[\"command:b\"]:::fresh"), "{mermaid}");
    let document = plan("json").json();
    let steps = document["steps"]
        .as_array()
        .unwrap_or_else(|| panic!("{document}"));
    let step = steps
        .iter()
        .find(|step| step["step"] == "command:b")
        .unwrap();
    assert_eq!(
        (&step["verdict"], &step["after"][0]),
        (&"run".into(), &"command:a".into())
    );
    assert_eq!(sandbox.run(["plan", "--json"]).success().json(), document);

    sandbox.run(["run"]).success();
    assert!(plan("mermaid").stdout.contains("[\"command:b\"]:::fresh"));
    let explained = sandbox
        .run(["explain", "command:b", "--json"])
        .success()
        .json();
    assert_eq!(explained[0]["verdict"], "up to date");
    assert_eq!(explained[0]["key"].as_str().unwrap().len(), 64);
    assert!(
        explained[0]["document"]["input.in"].is_string(),
        "{explained}"
    );
    sandbox
        .run(["explain", "command:*"])
        .success()
        .stdout_has("command:a: up to date")
        .stdout_has("command:b: up to date");
}

#[test]
fn a_run_prints_one_document_with_the_promised_fields() {
    let sandbox = Sandbox::new().file(
        "specs/all.yaml",
        "version: 1\ncommands:\n  a: {argv: [touch, out], outputs: [out]}\n",
    );
    let document = sandbox.run(["run", "--json"]).success().json();
    let promised = [
        "steps",
        "executed",
        "hits",
        "cases",
        "passed",
        "failed",
        "unavailable",
        "unsupported",
        "incomplete",
        "excluded",
        "seconds",
    ];
    for name in promised {
        assert!(document["summary"][name].is_number(), "summary.{name}");
    }
    assert!(document["cases"].is_array());
    for name in ["matrix.json", "matrix.md", "index.html", "junit.xml"] {
        assert!(
            !sandbox.read(&format!("orch-out/report/{name}")).is_empty(),
            "{name}"
        );
    }
    // It is about cases, and there are none.
    let held = sandbox.run(["report", "--format", "json"]).code(3).json();
    assert_eq!(held["summary"]["executed"], 0);
}

/// By the file itself: one that is written anew is another.
fn pages(sandbox: &Sandbox) -> [u64; 4] {
    use std::os::unix::fs::MetadataExt as _;
    ["matrix.json", "matrix.md", "index.html", "junit.xml"].map(|name| {
        std::fs::metadata(sandbox.path(&format!("orch-out/report/{name}")))
            .unwrap()
            .ino()
    })
}

#[test]
fn pages_are_written_when_they_show_something_new() {
    let spec = "version: 1
commands:
  a: {argv: [sh, -c, 'grep -q good in && cp in out'], inputs: {in: {file: in}}, outputs: [out]}
";
    let sandbox = Sandbox::new()
        .file("specs/all.yaml", spec)
        .file("specs/in", "good");
    let run = |args: &[&str]| sandbox.run([&["run"], args].concat());
    run(&[])
        .success()
        .stderr_has("report: orch-out/report/index.html");
    let first = pages(&sandbox);
    // Neither how long it took, nor what was executed, nor the content of what is no case.
    run(&["--rerun", "command:a"]).success();
    sandbox.write("specs/in", "good enough");
    run(&[]).success();
    // Steps chosen by name are no report of anything.
    sandbox.write("specs/in", "bad");
    run(&["--step", "command:a"])
        .code(1)
        .stderr_lacks("report: ");
    assert_eq!(pages(&sandbox), first);
    run(&[]).code(1);
    let failed = pages(&sandbox);
    // JUnit knows cases only.
    assert!(
        failed
            .iter()
            .zip(first)
            .take(3)
            .all(|(new, old)| *new != old),
        "{failed:?} {first:?}"
    );
    assert!(
        sandbox
            .read("orch-out/report/matrix.md")
            .contains("1 failed")
    );
    run(&[]).code(1);
    assert_eq!(pages(&sandbox), failed);
    run(&["--step", "report"])
        .code(2)
        .stderr_has("no step is called `report`");
}

#[test]
fn the_store_says_what_it_holds() {
    let sandbox = Sandbox::new().file(
        "specs/all.yaml",
        "version: 1\ncommands:\n  a: {argv: [touch, out], outputs: [out]}\n",
    );
    sandbox.run(["run"]).success();
    let stats = sandbox.run(["cache", "stats", "--json"]).success().json();
    assert_eq!((&stats["records"], &stats["trees"]), (&1.into(), &1.into()));
    let path = sandbox.run(["cache", "path"]).success().stdout;
    assert_eq!(path.trim(), sandbox.path("cache").to_str().unwrap());
}

/// The pages of the fixture show lines to copy: those that name a command of orch name flags that it has.
#[test]
fn the_pages_show_flags_that_there_are() {
    let sandbox = Sandbox::new();
    let pages = ["doc.json", "matrix.md", "summary.txt"];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/report");
    let pages = pages.map(|name| std::fs::read_to_string(folder.join(name)).unwrap());
    let mut shown = std::collections::BTreeSet::new();
    for rest in pages.iter().flat_map(|page| page.split("orch ").skip(1)) {
        let line = rest.split(['"', '`', '\n', '\\']).next().unwrap();
        let mut words = line.split(' ');
        let command = words.next().unwrap().to_owned();
        shown.extend(
            words
                .filter(|word| word.starts_with("--"))
                .map(|flag| (command.clone(), flag.to_owned())),
        );
    }
    assert!(!shown.is_empty());
    for (command, flag) in shown {
        let help = sandbox.run([command.as_str(), "--help"]).success().stdout;
        assert!(
            help.split([' ', ',', '\n', '=', '['])
                .any(|word| word == flag),
            "orch {command} has no {flag}"
        );
    }
}

/// What is the same a thousand times is said once, while it runs and after.
#[test]
fn a_run_of_very_many_steps_is_shown_in_short() {
    let step = |at: usize| match at % 2 {
        0 => format!("  good{at}: {{argv: [sh, -c, 'echo {at} > out'], outputs: [out]}}\n"),
        _ => format!("  bad{at}: {{argv: [sh, -c, ': {at}; exit 3'], outputs: [out]}}\n"),
    };
    let steps = |count: usize| {
        format!(
            "version: 1\ncommands:\n{}",
            (0..count).map(step).collect::<String>()
        )
    };
    let few = Sandbox::new()
        .file("specs/all.yaml", steps(10))
        .run(["run"])
        .code(1);
    assert_eq!(
        (
            few.stderr.matches("ok    command:").count(),
            few.stderr.matches("FAIL  command:").count()
        ),
        (5, 5)
    );
    let many = Sandbox::new()
        .file("specs/all.yaml", steps(600))
        .env("ORCH_VERBOSE", "0")
        .run(["run"])
        .code(1);
    assert_eq!(many.stderr.matches("ok    ").count(), 0, "{}", many.stderr);
    assert_eq!(
        many.stderr.matches("FAIL  command:bad").count(),
        1,
        "{}",
        many.stderr
    );
    assert!(many.stderr.contains("300 of 600 steps"), "{}", many.stderr);
    assert!(many.stderr.lines().count() < 100, "{}", many.stderr);
    many.stdout_has("600 executed").stdout_has("300 failed");
}

#[test]
fn the_page_of_a_part_leaves_that_of_the_whole_alone() {
    let sandbox = sandbox(RIGHT);
    let run = |args: &[&str]| sandbox.run(["run", "specs/all.yaml", "--check"].iter().chain(args));
    let scope = |folder: &str| {
        let document = sandbox.read(&format!("orch-out/{folder}/matrix.json"));
        serde_json::from_str::<serde_json::Value>(&document).unwrap()["scope"].clone()
    };
    // Nobody has looked at more yet.
    run(&["-t", "cpu"])
        .success()
        .stderr_has("report: orch-out/report/index.html");
    assert_eq!(scope("report"), "target:cpu");
    run(&[])
        .success()
        .stderr_has("report: orch-out/report/index.html");
    assert!(scope("report").is_null());
    let whole = sandbox.read("orch-out/report/index.html");
    for _ in 0..2 {
        run(&["-t", "cpu"])
            .success()
            .stderr_has("report: orch-out/part/index.html");
        assert_eq!(scope("part"), "target:cpu");
        assert_eq!(sandbox.read("orch-out/report/index.html"), whole);
    }
}
