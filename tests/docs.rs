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
    let docs = fs::read_dir(Path::new(ROOT).join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let name = |path: PathBuf| path.strip_prefix(ROOT).unwrap().display().to_string();
    let examples = fs::read_dir(Path::new(ROOT).join("examples")).unwrap();
    let examples = examples.map(|entry| entry.unwrap().path().join("README.md"));
    let own = ["README.md", "CONTRIBUTING.md", "cache/README.md", "benches/README.md"].map(str::to_owned);
    own.into_iter().chain(docs.chain(examples).map(name)).collect()
}

fn text(page: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// Where a page's links lead, without those to other hosts.
fn links(text: &str) -> Vec<&str> {
    let found = text.match_indices("](").map(|(at, _)| text[at + 2..].split(')').next().unwrap());
    found.filter(|link| !link.contains("://") && !link.contains(' ')).collect()
}

/// As GitHub and mdBook name the anchor of a heading.
fn anchors(text: &str) -> BTreeSet<String> {
    let anchor = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    };
    text.lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut dead = Vec::new();
    for page in pages() {
        let own = text(&page);
        for link in links(&own) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let at = Path::new(ROOT).join(&page).parent().unwrap().join(path);
            let target = if path.is_empty() { Some(own.clone()) } else { fs::read_to_string(&at).ok() };
            let is_there = path.is_empty() || at.exists();
            if !is_there || (!anchor.is_empty() && !target.is_some_and(|text| anchors(&text).contains(anchor))) {
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
    let docs = pages().into_iter().filter_map(|page| Some(page.strip_prefix("docs/")?.to_owned()));
    let left_out: Vec<_> = docs.filter(|page| page != "SUMMARY.md" && !book.contains(&**page)).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}

/// Calls of orch in blocks of code, each with its page.
fn calls() -> Vec<(String, String)> {
    let of = |page: String| {
        let text = text(&page);
        let mut is_fenced = false;
        let mut calls = Vec::new();
        for line in text.lines() {
            is_fenced ^= line.starts_with("```");
            let indented = line.strip_prefix("    ").filter(|_| !is_fenced);
            let Some(line) = indented.or(Some(line).filter(|_| is_fenced)) else { continue };
            let line = line.strip_prefix("$ ").unwrap_or(line).replace("cargo run --release -- ", "orch ");
            if line.starts_with("orch ") {
                calls.push((page.clone(), first_command(&line).to_owned()));
            }
        }
        calls
    };
    pages().into_iter().flat_map(of).collect()
}

/// Up to a comment, a pipe, a redirection or a further command.
fn first_command(line: &str) -> &str {
    let mut quote = None;
    let end = line.char_indices().find(|(_, c)| {
        match quote {
            Some(open) if open == *c => quote = None,
            Some(_) => {}
            None if "'\"".contains(*c) => quote = Some(*c),
            None => return "#|;&<>".contains(*c),
        }
        false
    });
    end.map_or(line, |(at, _)| &line[..at]).trim_end()
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
    command.args(["-c", &format!("exec 2>&1; {line}")]).current_dir(sandbox.path("")).env_clear();
    command.envs(orch.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("PATH", path);
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn every_command_that_orch_has_is_on_its_page() {
    let help = Sandbox::new().run(["--help"]).success().stdout;
    let (_, commands) = help.split_once("\nCommands:\n").unwrap();
    let lines = commands.lines().take_while(|line| !line.is_empty());
    let named = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    let page = text("docs/commands.md");
    let is_missing =
        |name: &&str| !page.contains(&format!("\n    orch {name}")) && !page.contains(&format!("`orch {name}`"));
    let missing: Vec<_> = named.inspect(|name| assert!(name.is_ascii(), "{name}")).filter(is_missing).collect();
    assert!(commands.contains("\n  completions ") && missing.is_empty(), "{missing:?}");
}

#[test]
fn every_command_is_one_that_orch_has() {
    let sandbox = Sandbox::new();
    let path = on_path(&sandbox);
    let mut wrong = Vec::new();
    let calls = calls();
    assert!(calls.len() > 60, "{}", calls.len());
    for (page, call) in calls {
        // Up to it options are read, and then nothing is done.
        let (is_known, said) = shell(&sandbox, &format!("{call} --help"), &path);
        if !is_known {
            wrong.push(format!("{page}: {call}\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
        match (block, line.strip_prefix("```")) {
            (None, Some(kind)) => block = Some(kind),
            (Some(_), Some(_)) => block = None,
            (Some("console"), None) => match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(line), _) => found.push(Shown::Command { line: line.to_owned(), printed: Vec::new() }),
                (None, Some(Shown::Command { printed, .. })) => printed.push(line.to_owned()),
                (None, _) => panic!("{line:?} is printed by nothing"),
            },
            (Some("python"), None) => match (line.strip_prefix("# "), found.last_mut()) {
                (Some(name), _) => found.push(Shown::File { name: name.to_owned(), text: String::new() }),
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
    let words = line.split_whitespace().map(|word| word.replace(|c: char| c.is_ascii_digit() || c == '.', ""));
    words.collect::<Vec<_>>().join(" ")
}

/// Does what a page says; each line that it shows must be printed, in this order.
fn follow(page: &str, sandbox: &Sandbox) {
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
        let (succeeded, said) = shell(sandbox, &line, &path);
        assert!(succeeded, "{page}: {line}\n{said}");
        let mut lines = said.lines().map(plain);
        for expected in printed.iter().map(|line| plain(line)).filter(|line| !line.is_empty()) {
            let is_printed = lines.any(|own| own.starts_with(&expected));
            assert!(is_printed, "{page}: {line}: no {expected:?}, or not in its place\n{said}");
        }
    }
}

#[test]
fn the_readme_shows_what_is_printed() {
    assert!(text("README.md").split_whitespace().count() < 700, "it is one screen, and the rest is in docs/");
    let sandbox = Sandbox::new().installs();
    for entry in fs::read_dir(Path::new(ROOT).join("specs")).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_type().unwrap().is_file() {
            let name = entry.file_name();
            sandbox.write(&format!("specs/{}", name.to_str().unwrap()), fs::read(entry.path()).unwrap());
        }
    }
    follow("README.md", &sandbox);
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn the_tutorial_leads_from_a_folder_to_a_gate() {
    follow("docs/tutorial.md", &Sandbox::new().installs());
}
