//! `--watch`: a change runs again, a mistake is waited on, an interrupt ends it and leaves nothing behind.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::support::{Sandbox, eventually, marker, processes_with, signal};

const CHAIN: &str = "version: 1
commands:
  sorted:
    argv: [sh, -c, 'sort -u words.txt > sorted.txt']
    inputs: {words.txt: {file: ../data/words.txt}}
    outputs: [sorted.txt]
  listed:
    argv: [sh, -c, 'find many -type f | sort > list.txt']
    inputs: {many: {file: ../data/many}}
    outputs: [list.txt]
";

fn sandbox() -> Sandbox {
    Sandbox::new()
        .file("specs/all.yaml", CHAIN)
        .file("data/words.txt", "b\na\n")
        .file("data/many/one", "1")
}

/// A running `orch run --watch` and what it says on stderr.
struct Watch {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Watch {
    fn start(sandbox: &Sandbox, more: &[&str]) -> Self {
        let mut child = sandbox.spawn([&["run", "specs/all.yaml", "--watch"], more].concat());
        let (sender, lines) = channel();
        let stderr = child.stderr.take().unwrap();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            BufReader::new(stderr)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|l| sender.send(l))
        });
        std::thread::spawn(move || BufReader::new(stdout).lines().for_each(drop));
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Reads on until a line holds this; gives the lines since the last call.
    #[track_caller]
    fn until(&mut self, text: &str) -> Vec<String> {
        let mut new = Vec::new();
        let start = Instant::now();
        loop {
            match self
                .lines
                .recv_timeout(Duration::from_secs(60).saturating_sub(start.elapsed()))
            {
                Ok(line) => new.push(line),
                Err(e) => panic!(
                    "{e}: no line holds {text:?}\nbefore: {:#?}\nnow: {new:#?}",
                    self.seen
                ),
            }
            if new.last().unwrap().contains(text) {
                self.seen.extend(new.clone());
                return new;
            }
        }
    }

    /// Nothing more is said for a while.
    #[track_caller]
    fn is_quiet(&mut self) {
        if let Ok(line) = self.lines.recv_timeout(Duration::from_millis(700)) {
            panic!("not quiet: {line}\nbefore: {:#?}", self.seen);
        }
    }

    #[track_caller]
    fn interrupt(mut self) {
        signal(&self.child, libc::SIGINT);
        let start = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if start.elapsed() > Duration::from_secs(30) => {
                    panic!("it does not end; it said {:#?}", self.seen)
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        assert_eq!(status.code(), Some(130));
    }
}

fn has(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

#[test]
fn a_change_runs_what_reads_it_and_says_both() {
    let sandbox = sandbox();
    let mut watch = Watch::start(&sandbox, &[]);
    let first = watch.until("waiting for a change of 3 files");
    assert!(
        has(&first, "ok    command:sorted") && has(&first, "ok    command:listed"),
        "{first:#?}"
    );
    watch.is_quiet();

    sandbox.write("data/words.txt", "c\n");
    let second = watch.until("waiting for a change of 3 files");
    assert!(has(&second, "watch: data/words.txt changed"), "{second:#?}");
    assert!(
        has(&second, "watch: command:sorted ran; waiting"),
        "{second:#?}"
    );
    assert!(!has(&second, "command:listed"), "{second:#?}");

    // A new file in a folder, in a new folder below it, and one put in another's place, as editors do.
    sandbox.write("data/many/deep/two", "2");
    let third = watch.until("waiting for a change of 4 files");
    assert!(
        has(&third, "watch: data/many/deep/two changed") && has(&third, "command:listed ran"),
        "{third:#?}"
    );
    sandbox.write("data/words.new", "d\n");
    std::fs::rename(
        sandbox.path("data/words.new"),
        sandbox.path("data/words.txt"),
    )
    .unwrap();
    let fourth = watch.until("waiting for");
    assert!(
        has(&fourth, "data/words.txt changed") && has(&fourth, "command:sorted ran"),
        "{fourth:#?}"
    );

    // What nothing reads runs nothing; neither does the store, nor the report.
    sandbox.write("data/unread.txt", "x");
    sandbox.write("orch-out/words.txt", "x");
    watch.is_quiet();
    watch.interrupt();
}

#[test]
fn a_mistake_is_shown_and_the_next_change_mends_it() {
    let sandbox = sandbox();
    let mut watch = Watch::start(&sandbox, &[]);
    watch.until("waiting for");
    sandbox.write("specs/all.yaml", CHAIN.replace("argv", "agrv"));
    let broken = watch.until("waiting for");
    assert!(
        has(&broken, "did you mean `argv`?") && has(&broken, "nothing ran; waiting"),
        "{broken:#?}"
    );
    // It includes a file that is not there yet, in a folder that is not there yet.
    sandbox.write(
        "specs/all.yaml",
        CHAIN.replace("version: 1", "version: 1\ninclude: [sub/more.yaml]"),
    );
    assert!(has(
        &watch.until("waiting for"),
        "failed to read specs/sub/more.yaml"
    ));
    sandbox.write(
        "specs/sub/more.yaml",
        "commands: {added: {argv: [sh, -c, 'echo x > out'], outputs: [out]}}\n",
    );
    let mended = watch.until("waiting for");
    assert!(
        has(&mended, "specs/sub/more.yaml changed") && has(&mended, "command:added ran"),
        "{mended:#?}"
    );
    watch.interrupt();
}

#[test]
fn a_change_during_a_run_is_run_next() {
    let sandbox = Sandbox::new().file("data/words.txt", "1");
    let began = sandbox.path("seen/began");
    let script = format!("echo x >> {}; sleep 1; cp words.txt out", began.display());
    sandbox.write(
        "specs/all.yaml",
        format!("version: 1\ncommands:\n  slow: {{argv: [sh, -c, '{script}'], inputs: {{words.txt: {{file: ../data/words.txt}}}}, outputs: [out], writable: [../seen]}}\n"),
    );
    let mut watch = Watch::start(&sandbox, &[]);
    eventually("it began", || began.exists());
    sandbox.write("data/words.txt", "2");
    let lines = watch.until("waiting for");
    assert!(has(&lines, "watch: data/words.txt changed"), "{lines:#?}");
    assert_eq!(std::fs::read_to_string(&began).unwrap().lines().count(), 2);
    watch.interrupt();
    sandbox
        .run(["run", "specs/all.yaml", "--json"])
        .success()
        .summary([("executed", 0)]);
}

#[test]
fn an_interrupt_during_a_run_leaves_no_child() {
    let marker = marker("watch");
    let sandbox = Sandbox::new();
    let script = format!("sh -c \"sleep 300; : {marker}\"; echo x > out");
    sandbox.write(
        "specs/all.yaml",
        format!("version: 1\ncommands:\n  s: {{argv: [sh, -c, '{script}'], outputs: [out]}}\n"),
    );
    let watch = Watch::start(&sandbox, &[]);
    eventually("it sleeps", || !processes_with(&marker).is_empty());
    watch.interrupt();
    eventually("no process is left", || processes_with(&marker).is_empty());
    assert!(
        sandbox.stored_files("tmp").is_empty(),
        "{:?}",
        sandbox.stored_files("tmp")
    );
}

#[test]
fn a_forced_step_is_forced_once() {
    let sandbox = sandbox();
    sandbox.run(["run", "specs/all.yaml"]).success();
    let mut watch = Watch::start(&sandbox, &["--rerun", "command"]);
    assert!(has(
        &watch.until("waiting for"),
        "watch: command:sorted, command:listed ran"
    ));
    sandbox.write("data/words.txt", "c\n");
    assert!(has(
        &watch.until("waiting for"),
        "watch: command:sorted ran"
    ));
    watch.interrupt();
    sandbox
        .run(["run", "specs/all.yaml", "--watch", "--json"])
        .code(2)
        .stderr_has("--json");
}
