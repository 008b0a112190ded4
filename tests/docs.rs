//! README and docs: links lead somewhere, commands are orch's, and what README and tutorial show is what comes out.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::Sandbox;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Each page that people read, from the root.
fn pages() -> Vec<String> {
    let docs = walkdir::WalkDir::new(Path::new(ROOT).join("docs"))
        .sort_by_file_name()
        .into_iter()
        .map(|entry| entry.unwrap().into_path());
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let name = |path: PathBuf| path.strip_prefix(ROOT).unwrap().display().to_string();
    let examples = fs::read_dir(Path::new(ROOT).join("examples")).unwrap();
    let examples = examples.map(|entry| entry.unwrap().path());
    let examples = examples
        .filter(|path| path.is_dir())
        .map(|path| path.join("README.md"));
    let own = [
        "README.md",
        "CONTRIBUTING.md",
        "cache/README.md",
        "benches/README.md",
        "benches/results/speed.md",
        "suites/onnx/README.md",
    ];
    own.map(str::to_owned)
        .into_iter()
        .chain(docs.chain(examples).map(name))
        .collect()
}

fn text(page: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// Where a page's links lead, without those to other hosts.
fn links(text: &str) -> Vec<&str> {
    let found = text
        .match_indices("](")
        .map(|(at, _)| text[at + 2..].split(')').next().unwrap());
    found
        .filter(|link| !link.contains("://") && !link.contains(' '))
        .collect()
}

/// As GitHub and mdBook name the anchor of a heading.
fn anchors(text: &str) -> BTreeSet<String> {
    let anchor = |heading: &str| {
        let kept = heading
            .trim_start_matches('#')
            .trim()
            .to_lowercase()
            .replace(' ', "-");
        kept.chars()
            .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
            .collect()
    };
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(anchor)
        .collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut dead = Vec::new();
    for page in pages() {
        let own = text(&page);
        for link in links(&own) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let at = Path::new(ROOT).join(&page).parent().unwrap().join(path);
            let target = if path.is_empty() {
                Some(own.clone())
            } else {
                fs::read_to_string(&at).ok()
            };
            let is_there = path.is_empty() || at.exists();
            if !is_there
                || (!anchor.is_empty()
                    && !target.is_some_and(|text| anchors(&text).contains(anchor)))
            {
                dead.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn every_page_is_in_the_book() {
    let summary = text("docs/SUMMARY.md");
    let book: BTreeSet<&str> = links(&summary).into_iter().collect();
    let docs = pages()
        .into_iter()
        .filter_map(|page| Some(page.strip_prefix("docs/")?.to_owned()));
    let left_out: Vec<_> = docs
        .filter(|page| page != "SUMMARY.md" && !book.contains(&**page))
        .collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}

/// What a page has of code: the lines of its blocks, and what stands between backticks.
fn code(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut prose = String::new();
    let mut is_fenced = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        if is_fenced || line.starts_with("    ") {
            found.push(line.trim().trim_start_matches("$ ").to_owned());
        }
        if !is_fenced {
            prose.extend([line, "\n"]);
        }
    }
    // What stands between backticks may go on in the next line, but not beyond its paragraph.
    let spans = prose
        .split("\n\n")
        .flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    found.extend(spans.map(str::to_owned));
    found
}

/// The commands of a line of shell: what stands between pipes, redirections and the like, without variables before it.
fn commands(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    let mut before = ' ';
    for c in line.chars() {
        match quote {
            Some(open) => quote = (c != open).then_some(open),
            None if c == '#' && before == ' ' => break,
            None if "|;&<>()".contains(c) => parts.push(String::new()),
            None => quote = Some(c).filter(|c| "'\"".contains(*c)),
        }
        parts.last_mut().unwrap().push(c);
        before = c;
    }
    let is_variable = |word: &&str| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    let plain = |part: String| {
        let words = part
            .trim_start_matches(|c| "|;&<>()".contains(c))
            .split_whitespace()
            .skip_while(is_variable);
        let command = words.collect::<Vec<_>>().join(" ").replace('…', "");
        match command.split_once(" -- ") {
            Some((cargo, orch_s)) if cargo.starts_with("cargo run ") => format!("orch {orch_s}"),
            _ => command,
        }
    };
    parts.into_iter().map(plain).collect()
}

/// Each command of each page that begins so, with its page.
fn calls(begin: &str) -> BTreeSet<(String, String)> {
    let of = |page: String| {
        let all: Vec<_> = code(&text(&page))
            .iter()
            .flat_map(|line| commands(line))
            .collect();
        all.into_iter()
            .filter(|command| command.starts_with(begin))
            .map(move |command| (page.clone(), command))
    };
    pages().into_iter().flat_map(of).collect()
}

#[test]
fn commands_are_found_wherever_they_stand() {
    let page = "Say `orch a\n  b`.\n\n| x | `A_B=1 orch c` |\n\n    zstd -dc x | orch d -    # and `orch e`\n\n\
        ```console\n$ cargo run --release -- f '#;orch x' > g && just h\n`orch y`\n```\n";
    let found: Vec<_> = code(page).iter().flat_map(|line| commands(line)).collect();
    let is_expected =
        |command: &&String| command.starts_with("orch ") || command.starts_with("just ");
    let found: Vec<_> = found.iter().filter(is_expected).collect();
    assert_eq!(
        found,
        [
            "orch d -",
            "orch f '#;orch x'",
            "just h",
            "orch a b",
            "orch c",
            "orch e"
        ]
    );
}

/// A folder whose `orch` is the one under test.
fn on_path(sandbox: &Sandbox) -> String {
    let bin = sandbox.path("bin");
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_orch"), bin.join("orch")).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

/// A shell line in the sandbox: whether it succeeded, and what it said on both streams.
fn shell(sandbox: &Sandbox, line: &str, path: &str) -> (bool, String) {
    let orch = sandbox.command([] as [&str; 0]);
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("exec 2>&1; {line}")])
        .current_dir(sandbox.path(""))
        .env_clear();
    command
        .envs(
            orch.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("PATH", path)
        // Marks of a busy machine make a table wider than the page shows it.
        .env("COLUMNS", "160");
    let output = command.output().unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[test]
fn every_command_that_orch_has_is_on_its_page() {
    let help = Sandbox::new().run(["--help"]).success().stdout;
    let (_, commands) = help.split_once("\nStart:\n").unwrap();
    let lines = commands
        .lines()
        .take_while(|line| !line.starts_with("Options:"));
    let named = lines.filter_map(|line| {
        line.strip_prefix("  ")?
            .split(' ')
            .next()
            .filter(|name| !name.is_empty())
    });
    let page = text("docs/commands.md");
    let is_missing = |name: &&str| {
        !page.contains(&format!("\n    orch {name}")) && !page.contains(&format!("`orch {name}`"))
    };
    let missing: Vec<_> = named
        .inspect(|name| assert!(name.is_ascii(), "{name}"))
        .filter(is_missing)
        .collect();
    assert!(
        commands.contains("\n  completions ") && missing.is_empty(),
        "{missing:?}"
    );
}

#[test]
fn every_command_is_one_that_orch_has() {
    let sandbox = Sandbox::new();
    let path = on_path(&sandbox);
    // Up to `--help` options are read, and then nothing is done.
    let read = |call: &str| shell(&sandbox, &format!("{call} --help"), &path);
    assert!(!read("orch run --no-such-option").0 && !read("orch run --no-such-option 1").0);
    let calls = calls("orch ");
    assert!(calls.len() > 250, "{}", calls.len());
    let mut wrong = Vec::new();
    for (page, call) in calls {
        // Of `help` nobody asks for help.
        let call = call.replace("orch help", "orch");
        let (is_known, said) = read(&call);
        // An option may be named without its value.
        if !is_known && !read(&format!("{call} 1")).0 {
            wrong.push(format!("{page}: {call}\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_recipe_is_in_the_justfile() {
    let justfile = text("justfile");
    let heads = justfile
        .lines()
        .filter(|line| !line.starts_with([' ', '#']))
        .filter_map(|line| line.split_once(':'));
    let recipes: BTreeSet<&str> = heads
        .filter_map(|(head, _)| head.split(' ').next())
        .collect();
    let mut calls = calls("just ");
    assert!(calls.len() > 15, "{calls:?}");
    calls.retain(|(_, call)| !recipes.contains(call.split(' ').nth(1).unwrap()));
    assert!(calls.is_empty(), "{calls:?}");
}

#[test]
fn every_script_is_there_and_has_the_options() {
    let calls = calls("python3 ");
    assert!(calls.len() > 8, "{calls:?}");
    for (page, call) in calls {
        let mut words = call.split(' ').skip(1);
        let script = words.next().unwrap();
        assert!(Path::new(ROOT).join(script).is_file(), "{page}: {call}");
        let options: Vec<_> = words.filter(|word| word.starts_with("--")).collect();
        if !options.is_empty() {
            let output = Command::new("python3")
                .args([script, "--help"])
                .current_dir(ROOT)
                .output()
                .unwrap();
            let help = String::from_utf8(output.stdout).unwrap();
            let known: BTreeSet<&str> = help.split([' ', '\n', ',', '[', ']']).collect();
            assert!(
                options.iter().all(|option| known.contains(option)),
                "{page}: {call}\n{help}"
            );
        }
    }
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn the_example_of_one_s_own_programs_does_what_it_says() {
    let sandbox = Sandbox::new().installs();
    for name in ["all.yaml", "card.py"] {
        let path = format!("examples/command/specs/{name}");
        sandbox.write(&path, fs::read(Path::new(ROOT).join(&path)).unwrap());
    }
    let path = on_path(&sandbox);
    let calls: Vec<_> = calls("orch ")
        .into_iter()
        .filter(|(page, _)| page == "examples/command/README.md")
        .collect();
    assert_eq!(calls.len(), 3, "{calls:?}");
    for (_, call) in calls {
        let (succeeded, said) = shell(&sandbox, &call, &path);
        assert!(succeeded, "{call}\n{said}");
    }
    let spec = "examples/command/specs/all.yaml";
    sandbox
        .run(["run", spec, "--json"])
        .success()
        .summary([("executed", 0), ("passed", 1)]);
    let card = sandbox
        .run([
            "output",
            "command:card",
            "--spec",
            spec,
            "--cat",
            "card.json",
        ])
        .success()
        .json();
    assert!(
        card["sha256"]
            .as_str()
            .is_some_and(|digest| digest.len() == 64),
        "{card}"
    );
}

/// What a page shows of a terminal: a command, and lines of what it prints. Or a file, whose name is its first line's comment.
enum Shown {
    Command { line: String, printed: Vec<String> },
    File { name: String, text: String },
}

fn shown(text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut block = None;
    for line in text.lines() {
        // Outside of blocks, what is indented is a command, of which nothing is shown.
        if let (None, Some(line)) = (block, line.strip_prefix("    ")) {
            found.push(Shown::Command {
                line: line.to_owned(),
                printed: Vec::new(),
            });
        }
        match (block, line.strip_prefix("```")) {
            (None, Some(kind)) => block = Some(kind),
            (Some(_), Some(_)) => block = None,
            (Some("console"), None) => match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(line), _) => found.push(Shown::Command {
                    line: line.to_owned(),
                    printed: Vec::new(),
                }),
                (None, Some(Shown::Command { printed, .. })) => printed.push(line.to_owned()),
                (None, _) => panic!("{line:?} is printed by nothing"),
            },
            (Some("python"), None) => match (line.strip_prefix("# "), found.last_mut()) {
                (Some(name), _) => found.push(Shown::File {
                    name: name.to_owned(),
                    text: String::new(),
                }),
                (None, Some(Shown::File { text, .. })) => text.extend([line, "\n"]),
                (None, _) => panic!("{line:?} belongs to no file"),
            },
            _ => {}
        }
    }
    found
}

/// Without figures, and spaces that depend on their width; up to where a page leaves something out.
fn plain(line: &str) -> String {
    let line = line.split('…').next().unwrap();
    // A machine with other work to do has other marks.
    let words = line
        .split_whitespace()
        .map(|word| word.replace(|c: char| c.is_ascii_digit() || ".~".contains(c), ""));
    // So a lowest sample in brackets has become.
    words
        .filter(|word| word != "()")
        .collect::<Vec<_>>()
        .join(" ")
}

/// Does what a page says, command by command; each line that it shows must be printed, in this order. Gives where orch is found.
fn follow(page: &str, sandbox: &Sandbox) -> String {
    let path = on_path(sandbox);
    let shown = shown(&text(page));
    assert!(!shown.is_empty(), "{page} shows no terminal");
    for each in shown {
        let (line, printed) = match each {
            Shown::File { name, text } => {
                sandbox.write(&name, text);
                continue;
            }
            Shown::Command { line, printed } => (line, printed),
        };
        // One would run this test, and the other build what is tested.
        if ["cargo test", "cargo install --path ."].contains(&line.as_str()) {
            continue;
        }
        let line = line.replace("cargo run --release -- ", "orch ");
        let (succeeded, said) = shell(sandbox, &line, &path);
        assert!(succeeded, "{page}: {line}\n{said}");
        let mut lines = said.lines().map(plain);
        for expected in printed
            .iter()
            .map(|line| plain(line))
            .filter(|line| !line.is_empty())
        {
            let is_printed = lines.any(|own| own.starts_with(&expected));
            assert!(
                is_printed,
                "{page}: {line}: no {expected:?}, or not in its place\n{said}"
            );
        }
    }
    path
}

#[test]
fn the_readme_shows_what_is_printed() {
    assert!(
        text("README.md").split_whitespace().count() < 780,
        "it is one screen, and the rest is in docs/"
    );
    let sandbox = clone();
    // All models on all targets take ten minutes. What the page goes on with is a part of this matrix, as it is of the other.
    let spec = sandbox.read("specs/all.yaml");
    let (before, after) = spec.split_once("  models: [\"*\"]\n").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    sandbox.write(
        "specs/all.yaml",
        format!("{before}  models: [bert, vit]\n  targets: [cpu, openvino]\n{after}"),
    );
    git(&sandbox, "commit -qam part");
    let path = follow("README.md", &sandbox);
    // It is as clean as it was, and the next who follows it sees the same.
    git(&sandbox, "diff --exit-code");
    let (succeeded, said) = shell(&sandbox, "orch run specs/all.yaml", &path);
    assert!(succeeded && said.contains("8 passed · 0 failed"), "{said}");
}

/// The specs of the repository in a repository of their own.
fn clone() -> Sandbox {
    let sandbox = Sandbox::new().installs();
    for folder in ["specs", "examples/trained", "examples/trained/specs"] {
        for entry in fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            // Models that were fetched are no part of a clone.
            if path.is_file() && path.extension().is_none_or(|extension| extension != "onnx") {
                let name = path.strip_prefix(ROOT).unwrap().to_str().unwrap();
                sandbox.write(name, fs::read(&path).unwrap());
            }
        }
    }
    for line in ["init -q", "add specs examples", "commit -qm clone"] {
        git(&sandbox, line);
    }
    sandbox
}

fn git(sandbox: &Sandbox, line: &str) {
    let line = format!("git -c user.name=x -c user.email=x@y.z -c init.defaultBranch=main {line}");
    let (succeeded, said) = shell(sandbox, &line, &std::env::var("PATH").unwrap());
    assert!(succeeded, "{line}: {said}");
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn the_tutorial_leads_from_a_folder_to_a_gate() {
    follow("docs/tutorial.md", &Sandbox::new().installs());
}
