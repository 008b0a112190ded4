//! The laws of the house: which module may use which, where each package is at home, how long a file may be.
//!
//! Each law is a function from sources to complaints, tried on a bad source first: a law that nothing can break is none.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use orch::catalogue::{ARTEFACTS, RUNTIMES};
use orch::device::BACKENDS;

/// Sources by path relative to `src/`.
type Sources = BTreeMap<String, String>;

const MAX_LINES: usize = 600;

/// Packages and the only files or folders that may name them.
const HOMES: &[(&str, &[&str])] = &[
    ("serde_saphyr", &["spec/yaml.rs"]),
    ("petgraph", &["plan/graph.rs"]),
    ("aho_corasick", &["worker/redact.rs"]),
    ("ash", &["device/native/vulkan.rs"]),
    ("nvml_wrapper", &["device/native/nvml.rs"]),
    ("blake3", &["base/digest.rs"]),
    (
        "rustix",
        &[
            "base/",
            "browser/",
            "confine.rs",
            "device/",
            "reapi/connect.rs",
            "store/",
            "worker/",
        ],
    ),
    ("landlock", &["confine/landlock.rs", "confine.rs"]),
    ("sha2", &["base/digest.rs"]),
    ("clap", &["cli/"]),
    ("clap_complete", &["cli/"]),
    ("minijinja", &["template.rs"]),
    // In runtime/mod.rs the name is that of the module.
    ("ort", &["runtime/ort/", "runtime/mod.rs"]),
    // The module of this name is not the crate.
    ("tract_onnx", &["runtime/tract/"]),
    ("tch", &["bin/orch-torch.rs"]),
    ("torch_sys", &["bin/orch-torch.rs"]),
    (
        "rayon",
        &[
            "store/",
            "judge/",
            "exec/schedule/steps.rs",
            "provision/proof.rs",
        ],
    ),
    ("tar", &["store/pack/", "provision/browser.rs"]),
    ("httparse", &["base/loopback.rs"]),
    ("openvino_sys", &["openvino.rs", "runtime/openvino/"]),
    ("npyz", &["runtime/foreign.rs"]),
    ("indicatif", &["cli/console.rs"]),
    ("ctrlc", &["cli/"]),
    ("notify", &["session/watched.rs"]),
    ("similar", &["cli/cmd/accept.rs"]),
    ("toml", &["config.rs", "config/"]),
    ("opendal", &["store/remote/hub/service.rs"]),
    (
        "opendal_http_transport_reqwest",
        &["store/remote/hub/service.rs"],
    ),
    ("reqwest", &["store/remote/hub/service.rs"]),
    ("rustls", &["store/remote/hub/service.rs"]),
    ("rmcp", &["cli/cmd/mcp.rs"]),
    ("tokio", &["store/remote/", "reapi/", "cli/cmd/mcp.rs"]),
    ("futures_util", &["store/remote/", "reapi/"]),
    ("tonic", &["reapi/"]),
    ("bazel_remote_apis", &["reapi/"]),
    ("zstd", &["reapi/"]),
];

/// Where the names of runtimes, backends and artefacts may stand: in their rows, with their probers and workers, and in the
/// environments that are called so.
const NAMED: &[&str] = &[
    "base/",
    "bin/",
    "browser.rs",
    "browser/",
    "catalogue/",
    "device/",
    "provision/",
    "runtime/",
    "template.rs",
    "toolchain.rs",
    "toolchain/",
];

/// Elsewhere such a word means something else.
const OTHERWISE: &[(&str, &str, &str)] = &[
    ("history/rows.rs", "cpu", "a column"),
    ("exec/routing.rs", "cpu", "a property of a worker"),
    (
        "exec/away/perform.rs",
        "cpu",
        "a fact: the processor of a worker",
    ),
    ("session/away.rs", "cpu", "a property of a worker"),
    ("session/memo.rs", "python", "an argument"),
    ("session/memo.rs", "browser", "an argument"),
    ("session/own/mod.rs", "onnx", "how a user's file is called"),
    ("exec/keys.rs", "rocm", "a fact: the version of ROCm"),
    ("memo/mod.rs", "rocm", "a fact: the version of ROCm"),
    ("spec/check/source.rs", "onnx", "a key of a model"),
    ("spec/check/source.rs", "openvino", "a key of a model"),
    ("spec/check/source.rs", "torchscript", "a key of a model"),
    ("step/materialise.rs", "torch", "a package"),
    ("step/compose.rs", "torch", "a package"),
    ("step/ready/reference.rs", "openvino", "a package"),
    ("step/ready/reference.rs", "torch", "a package"),
    ("store/locks.rs", "android", "an operating system"),
];

fn sources() -> Sources {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = walkdir::WalkDir::new(&root)
        .into_iter()
        .map(|entry| entry.unwrap().into_path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let named = rust.map(|path| {
        let name = path
            .strip_prefix(&root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        (name, fs::read_to_string(&path).unwrap())
    });
    let found: Sources = named.collect();
    assert!(found.len() > 50, "the sources were not found");
    found
}

fn one(path: &str, text: &str) -> Sources {
    Sources::from([(path.to_owned(), text.to_owned())])
}

/// Code without comments: what a comment names, it does not use.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| {
        if line.trim_start().starts_with("//") {
            ""
        } else {
            line
        }
    });
    lines
        .map(|line| line.split(" // ").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Modules in the order of lib.rs.
fn order(lib: &str) -> Vec<&str> {
    lib.lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect()
}

/// The top module that a file belongs to.
fn module(path: &str) -> &str {
    let top = path.split('/').next().unwrap_or(path);
    top.strip_suffix(".rs").unwrap_or(top)
}

/// Every `crate::x` of a text, also inside `use crate::{a, b::c}`.
fn used(text: &str) -> Vec<String> {
    used_of(text, "crate::")
}

/// Every name that follows `prefix` in a text, also inside braces.
fn used_of(text: &str, prefix: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let word = |text: &str| {
        text.trim_start()
            .chars()
            .take_while(|c| is_word(*c))
            .collect::<String>()
    };
    let mut found = Vec::new();
    for (at, _) in text.match_indices(prefix) {
        if text[..at].ends_with('$') || text[..at].ends_with(is_word) {
            continue;
        }
        let rest = &text[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.push(word(rest));
            continue;
        };
        let mut depth = 1;
        let mut begins = true;
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => begins = true,
                c if begins && is_word(c) => {
                    found.push(word(&group[at..]));
                    begins = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

fn direction(lib: &str, sources: &Sources) -> Vec<String> {
    let order = order(lib);
    let place = |module: &str| order.iter().position(|known| *known == module);
    let mut complaints = Vec::new();
    for (path, text) in sources {
        let own = module(path);
        if ["lib", "main", "bin"].contains(&own) {
            continue;
        }
        let Some(at) = place(own) else {
            complaints.push(format!("{path}: `{own}` is not in lib.rs"));
            continue;
        };
        for name in used(&code(text)) {
            match place(&name) {
                Some(other) if other > at => complaints.push(format!(
                    "{path}: `{own}` uses `{name}`, which stands below it"
                )),
                Some(_) => {}
                None => complaints.push(format!("{path}: `crate::{name}` is not in lib.rs")),
            }
        }
    }
    complaints
}

/// The rooms of `exec/`, the lowest first. Those of one line use each other freely; the wings of one line do not.
const EXEC: &[&[&str]] = &[
    &["age", "backoff", "host", "options", "routing", "state"],
    &["world"],
    &["keys"],
    &["perform"],
    &["alone", "away", "schedule"],
    &["context", "driver", "install", "preview", "probe"],
];

/// Uses between the rooms of `exec/` that go upwards, or from one wing to another beside it.
fn wings(sources: &Sources) -> Vec<String> {
    let place = |room: &str| EXEC.iter().position(|floor| floor.contains(&room));
    let mut complaints = Vec::new();
    for (path, text) in sources {
        let Some(below) = path.strip_prefix("exec/") else {
            continue;
        };
        let own = module(below);
        if below == "mod.rs" || path.ends_with("tests.rs") {
            continue;
        }
        let Some(at) = place(own) else {
            complaints.push(format!("{path}: `{own}` is not in EXEC"));
            continue;
        };
        let is_wing = |room: &str| ["alone", "away", "schedule"].contains(&room);
        let text = code(
            text.split("#[cfg(test)]\nmod tests")
                .next()
                .unwrap_or_default(),
        );
        for name in used_of(&text, "crate::exec::") {
            match place(&name) {
                Some(other) if other > at || (other == at && name != own && is_wing(own)) => {
                    complaints.push(format!("{path}: `{own}` uses `{name}`"));
                }
                Some(_) => {}
                None => complaints.push(format!(
                    "{path}: `crate::exec::{name}` is a re-export: name the room that has it"
                )),
            }
        }
    }
    complaints
}

fn homes(sources: &Sources) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in sources {
        let code = code(text);
        for (package, homes) in HOMES {
            let is_home = homes
                .iter()
                .any(|home| path == home || (home.ends_with('/') && path.starts_with(home)));
            if !is_home && names_package(&code, package) {
                complaints.push(format!(
                    "{path} uses `{package}`, which is at home in {}",
                    homes.join(", ")
                ));
            }
        }
    }
    complaints
}

/// All that the catalogue names. A model is more than an artefact.
fn names() -> Vec<&'static str> {
    let artefacts = ARTEFACTS
        .iter()
        .map(|row| row.name)
        .filter(|name| *name != "model");
    let names = RUNTIMES
        .iter()
        .map(|row| row.name)
        .chain(BACKENDS.iter().map(|row| row.name));
    names.chain(artefacts).collect()
}

/// Who asks for a name of the catalogue has a table of his own, and a new row is forgotten there.
fn matched(sources: &Sources) -> Vec<String> {
    let mut complaints = Vec::new();
    let is_test = |path: &str| path.ends_with("tests.rs") || path.contains("/tests/");
    let elsewhere = sources
        .iter()
        .filter(|(path, _)| !NAMED.iter().any(|home| path.starts_with(home)) && !is_test(path));
    for (path, text) in elsewhere {
        let text = code(
            text.split("#[cfg(test)]\nmod tests")
                .next()
                .unwrap_or_default(),
        );
        for name in names() {
            let is_meant = !OTHERWISE
                .iter()
                .any(|(file, word, _)| file == path && *word == name);
            if is_meant && text.contains(&format!("\"{name}\"")) {
                complaints.push(format!(
                    "{path} names `{name}`: what it decides by that is a field of its row"
                ));
            }
        }
    }
    complaints
}

/// The scheduler decides, and others do: what of those that do it names.
fn deciding(sources: &Sources) -> Vec<String> {
    let doing = [
        "std::thread",
        "std::process",
        "mpsc",
        "Listener",
        "Instant::now",
        "figures::now",
    ];
    let own = sources
        .iter()
        .filter(|(path, _)| path.starts_with("exec/schedule/") && !path.ends_with("tests.rs"));
    let named = |(path, text): (&String, &String)| {
        let text = code(text);
        doing
            .iter()
            .filter(|word| text.contains(**word))
            .map(|word| format!("{path} names `{word}`"))
            .collect::<Vec<_>>()
    };
    own.flat_map(named).collect()
}

/// Rooms whose answers depend on what they are given alone: the same spec means the same cases, keys and pages on every machine.
const PURE: &[&str] = &[
    "catalogue",
    "spec",
    "judge",
    "key",
    "record",
    "matrix",
    "report",
    "capability",
    "step",
    "plan",
    "event",
    "journal",
    "trace",
    "explain",
];

/// Where a program is started, or a variable is read, that is the business of other rooms; and git's home is one file.
fn starting(sources: &Sources) -> Vec<String> {
    let is_test = |path: &str| path.ends_with("tests.rs") || path.contains("/tests/");
    let mut complaints = Vec::new();
    for (path, text) in sources.iter().filter(|(path, _)| !is_test(path)) {
        let text = code(
            text.split("#[cfg(test)]\nmod tests")
                .next()
                .unwrap_or_default(),
        );
        for word in ["Command::new", "variable::", "disallowed_methods"] {
            if PURE.contains(&module(path)) && text.contains(word) {
                complaints.push(format!(
                    "{path} names `{word}`: what `{}` says depends on its input alone",
                    module(path)
                ));
            }
        }
        if text.contains("Command::new(\"git\")") && path != "session/git.rs" {
            complaints.push(format!(
                "{path} starts git, which is at home in session/git.rs"
            ));
        }
    }
    complaints
}

/// What the command line names of the modules that decide or act: settings that it fills in, and answers that it prints.
///
/// It may name anything of `session`, `report` and `base`, and of the modules that only keep what was found.
const NAMED_BY_CLI: &[(&str, &[&str])] = &[
    (
        "catalogue",
        &["Library", "RUNTIMES", "Requirement", "openvino", "qnn"],
    ),
    (
        "exec",
        &[
            "Backoff",
            "KeepGoing",
            "MaxAge",
            "Options",
            "Preview",
            "reproducer",
        ],
    ),
    ("key", &["KeyDoc", "MissReason"]),
    (
        "matrix",
        &[
            "AUTO",
            "Facet",
            "Fallback",
            "Matrix",
            "Mistake",
            "Partition",
            "Query",
            "Representative",
            "Selection",
        ],
    ),
    ("plan", &["Look", "self"]),
    ("provision", &["Provision", "reach_index", "titled"]),
    ("runtime", &["JobOutput", "profile", "serve"]),
    ("spec", &["Model", "ROUNDS", "Spec", "is_spec", "schema"]),
    ("step", &["Required", "Requirement", "StepId", "self"]),
    (
        "store",
        &[
            "Amount",
            "Collected",
            "DiskStore",
            "Exported",
            "FileDigests",
            "Limits",
            "Manifest",
            "ManifestFile",
            "OfSteps",
            "Progress",
            "Stats",
            "Which",
            "remote",
        ],
    ),
    ("worker", &["Cancel", "self"]),
];

/// Modules that keep what was found, beside `session`, `report` and `base`.
const FINDINGS: &[&str] = &[
    "capability",
    "cases",
    "cli",
    "config",
    "device",
    "event",
    "explain",
    "history",
    "journal",
    "record",
    "toolchain",
];

/// What the command line names and should leave to `session`.
fn decided_by_cli(sources: &Sources) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in sources.iter().filter(|(path, _)| module(path) == "cli") {
        let text = code(text);
        for package in used(&text) {
            if FINDINGS.contains(&package.as_str())
                || ["session", "report", "base"].contains(&package.as_str())
            {
                continue;
            }
            let named = NAMED_BY_CLI.iter().find(|(known, _)| *known == package);
            let Some((_, items)) = named else {
                complaints.push(format!(
                    "{path} names `{package}`: `session` uses it for the command line"
                ));
                continue;
            };
            for item in used_of(&text, &format!("crate::{package}::")) {
                if !items.contains(&item.as_str()) {
                    complaints.push(format!(
                        "{path} names `{package}::{item}`: what is decided by it belongs in `session`"
                    ));
                }
            }
        }
    }
    complaints.dedup();
    complaints
}

/// `package::…` that is no part of a longer path, or `use package`.
fn names_package(code: &str, package: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let pattern = format!("{package}::");
    let path = code
        .match_indices(&pattern)
        .any(|(at, _)| !code[..at].ends_with(|c: char| is_word(c) || c == ':'));
    path || code
        .lines()
        .any(|line| line.trim() == format!("use {package};"))
}

fn headers(sources: &Sources) -> Vec<String> {
    let bare = sources.iter().filter(|(_, text)| !text.starts_with("//! "));
    bare.map(|(path, _)| format!("{path} does not begin with `//! ` and its purpose"))
        .collect()
}

fn lengths(sources: &Sources) -> Vec<String> {
    let limit = |path: &str| if path == "main.rs" { 30 } else { MAX_LINES };
    let long = sources
        .iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(path, lines)| *lines > limit(path));
    long.map(|(path, lines)| format!("{path} has {lines} lines; {} are the most", limit(path)))
        .collect()
}

/// Bindings of several values at once that are made apart, and of defaults that nobody can tell from each other.
fn packed_bindings(sources: &Sources) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in sources {
        let text = code(text);
        for (at, _) in text.match_indices("let (") {
            let Some((pattern, value)) = text[at..].split_once(" = ") else {
                continue;
            };
            if pattern.contains(';') {
                continue;
            }
            let value = value.trim_start();
            let is_tuple = value.starts_with('(') && behind_brackets(value).starts_with(';');
            if is_tuple || value.starts_with("Default::default();") {
                let line = text[..at].lines().count();
                complaints.push(format!(
                    "{path}:{line} binds several values in one statement; give each its own"
                ));
            }
        }
    }
    complaints
}

/// What follows the brackets that a text begins with.
fn behind_brackets(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[at + 1..];
        }
    }
    ""
}

#[track_caller]
fn none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn a_module_uses_only_what_stands_above_it() {
    let lib = "pub mod base;\npub mod spec;\n// pub mod no;\npub mod cli;";
    assert_eq!(order(lib), ["base", "spec", "cli"]);
    let bad = |text: &str| direction(lib, &one("spec/deep/a.rs", text));
    assert_eq!(
        bad("use crate::cli::Exit;"),
        ["spec/deep/a.rs: `spec` uses `cli`, which stands below it"]
    );
    assert_eq!(bad("use crate::{base::{Digest, fs}, cli};").len(), 1);
    assert_eq!(bad("fn f() -> crate::cli::Exit {}").len(), 1);
    assert_eq!(
        bad("use crate::gone;"),
        ["spec/deep/a.rs: `crate::gone` is not in lib.rs"]
    );
    none(bad(
        "// crate::cli is below\nuse crate::base; use crate::spec::x; $crate::cli",
    ));
    assert_eq!(
        direction(lib, &one("stray.rs", "")),
        ["stray.rs: `stray` is not in lib.rs"]
    );

    let sources = sources();
    none(direction(&sources["lib.rs"], &sources));
}

#[test]
fn the_wings_of_exec_stand_beside_each_other() {
    let bad = |path: &str, text: &str| wings(&one(path, text));
    assert_eq!(
        bad(
            "exec/perform/keep.rs",
            "use crate::exec::schedule::retry;\nuse crate::exec::perform::task::Task;"
        ),
        ["exec/perform/keep.rs: `perform` uses `schedule`"]
    );
    assert_eq!(
        bad("exec/away/serve.rs", "use crate::exec::alone::Bench;").len(),
        1
    );
    assert_eq!(
        bad("exec/keys.rs", "use crate::exec::Context;"),
        ["exec/keys.rs: `crate::exec::Context` is a re-export: name the room that has it"]
    );
    assert_eq!(bad("exec/stray.rs", "").len(), 1);
    none(bad(
        "exec/driver.rs",
        "use crate::exec::{away, schedule::Scheduler};",
    ));
    none(wings(&sources()));
}

#[test]
fn every_package_has_one_home() {
    let bad = homes(&one(
        "exec/mod.rs",
        "use rayon::prelude::*;\nlet x = ::ort::init();\nuse crate::runtime::ort::run;",
    ));
    assert_eq!(
        bad,
        [
            "exec/mod.rs uses `rayon`, which is at home in store/, judge/, exec/schedule/steps.rs, provision/proof.rs"
        ]
    );
    assert_eq!(
        homes(&one("spec/raw.rs", "serde_saphyr::from_str(x)")).len(),
        1
    );
    assert_eq!(
        homes(&one(
            "report/mod.rs",
            "let s = port::of(sort::by(crate::runtime::ort::x));"
        ))
        .len(),
        0
    );
    none(homes(&sources()));
}

#[test]
fn only_its_row_knows_the_name_of_a_runtime() {
    let bad = matched(&one(
        "exec/alone/profile.rs",
        "match runtime { \"ort\" => 1, _ => 2 }",
    ));
    assert_eq!(
        bad,
        ["exec/alone/profile.rs names `ort`: what it decides by that is a field of its row"]
    );
    assert_eq!(
        matched(&one(
            "plan/build.rs",
            "let x = target.backend.name == \"webgpu-browser\";"
        ))
        .len(),
        1
    );
    none(matched(&one(
        "exec/alone/profile.rs",
        "// not \"ort\"\nlet a = \"ort-x\";\n#[cfg(test)]\nmod tests { let b = \"ort\"; }",
    )));
    none(matched(&one("device/cuda.rs", "let x = \"cuda\";")));
    none(matched(&sources()));
}

#[test]
fn the_scheduler_does_nothing_itself() {
    assert!(!deciding(&one("exec/schedule/a.rs", "let now = Instant::now();")).is_empty());
    none(deciding(&sources()));
}

#[test]
fn programs_and_variables_are_the_business_of_some_rooms_alone() {
    assert_eq!(
        starting(&one("report/html.rs", "variable::text(\"HOME\")")).len(),
        1
    );
    let git = starting(&one("cli/cmd/x.rs", "Command::new(\"git\")"));
    assert_eq!(
        git,
        ["cli/cmd/x.rs starts git, which is at home in session/git.rs"]
    );
    none(starting(&one("cli/cmd/x.rs", "Command::new(program)")));
    none(starting(&sources()));
}

#[test]
fn the_command_line_decides_nothing() {
    let bad = |text: &str| decided_by_cli(&one("cli/cmd/x.rs", text));
    assert_eq!(
        bad("use crate::judge::compare;"),
        ["cli/cmd/x.rs names `judge`: `session` uses it for the command line"]
    );
    assert_eq!(
        bad("use crate::exec::{Options, run};"),
        ["cli/cmd/x.rs names `exec::run`: what is decided by it belongs in `session`"]
    );
    none(bad(
        "use crate::session::Session;\nuse crate::exec::Options;",
    ));
    none(decided_by_cli(&sources()));
}

#[test]
fn every_file_says_its_purpose_first() {
    assert_eq!(headers(&one("a.rs", "use x;\n//! late")).len(), 1);
    none(headers(&sources()));
}

#[test]
fn files_are_short() {
    assert_eq!(
        lengths(&one("main.rs", &"x\n".repeat(31))),
        ["main.rs has 31 lines; 30 are the most"]
    );
    assert_eq!(lengths(&one("a.rs", &"x\n".repeat(601))).len(), 1);
    none(lengths(&sources()));
}

#[test]
fn a_statement_binds_one_value() {
    for packed in [
        "let (a, b) = (f(x), y);",
        "let (\n    a,\n    b,\n) = (\n    f(x),\n    y,\n);",
        "let (a, b) = Default::default();",
    ] {
        assert_eq!(packed_bindings(&one("a.rs", packed)).len(), 1, "{packed}");
    }
    none(packed_bindings(&one(
        "a.rs",
        "let (a, b) = pair();\nlet (c, d) = (e, f).swap();",
    )));
    none(packed_bindings(&sources()));
}
