//! Checks share a browser, and nothing else: what a page stores, and how it ends, is its own affair.
//!
//! It installs the environments `torch` and `browser` on first use.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::suite;
use crate::support::{Sandbox, beside_load, browser, eventually, processes_with, signal};
use orch::browser::{Adapter, Api, Launch, Page, Pages, Trouble};
use serde_json::{Value, json};

const MODELS: [&str; 5] = ["bert", "t5", "vit", "llama", "qwen2"];

fn run<'a>(target: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let models = MODELS.iter().flat_map(|model| ["-m", *model]);
    ["run", "specs/all.yaml", "--json", "--check", "-t", target]
        .into_iter()
        .chain(models)
        .chain(more.to_vec())
        .collect()
}

/// What each case's record says of its page.
fn pages(document: &Value, target: &str) -> BTreeMap<String, (String, Value)> {
    let of = |case: &Value| {
        let model = case["model"].as_str().unwrap().to_owned();
        let facts = case["facts"][format!("run:{model}:{target}-fp32")].clone();
        (model, (case["status"].as_str().unwrap().to_owned(), facts))
    };
    document["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect()
}

/// The processes of a sandbox's browsers, by kind; all but the first, which names its profile, are found by their parents.
fn browsers(sandbox: &Sandbox, kind: &str) -> Vec<u32> {
    let line = |pid: u32| {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    let mut found = processes_with(&format!(
        "user-data-dir={}",
        sandbox.path("cache").display()
    ));
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        for task in fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children
                .split_whitespace()
                .map(|word| word.parse().unwrap())
            {
                if !found.contains(&child) {
                    found.push(child);
                }
            }
        }
        at += 1;
    }
    found.retain(|pid| line(*pid).contains(kind));
    found
}

fn kill(pid: u32) {
    // SAFETY: kill takes no pointers.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
}

fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

#[test]
fn checks_share_a_browser_and_timed_runs_have_one_each() {
    let sandbox = suite();
    let ended = sandbox
        .run(run("webnn", &["-j", "1"]))
        .summary([("cases", 5), ("passed", 5)]);
    let found = pages(&ended.json(), "webnn");
    let mut before: Vec<_> = found
        .values()
        .map(|(_, facts)| facts["pages_before"].as_u64().unwrap())
        .collect();
    before.sort_unstable();
    assert_eq!(before, [0, 1, 2, 3, 4]);
    for (_, facts) in found.values() {
        assert!(
            facts["versions"]["chromium"]
                .as_str()
                .unwrap()
                .contains('.'),
            "{facts:#}"
        );
        assert!(
            facts["flags"]
                .as_array()
                .unwrap()
                .contains(&json!("--process-per-site")),
            "{facts:#}"
        );
    }
    assert_eq!(
        processes_with(sandbox.path("").to_str().unwrap()),
        [0u32; 0],
        "a browser was left"
    );
    assert!(
        sandbox.stored_files("tmp").is_empty(),
        "{:?}",
        sandbox.stored_files("tmp")
    );
    let timed = sandbox.run([
        "run",
        "specs/all.yaml",
        "--json",
        "-t",
        "webnn",
        "-m",
        "bert",
        "-m",
        "vit",
    ]);
    for (status, facts) in pages(&timed.summary([("passed", 2)]).json(), "webnn").values() {
        assert_eq!(
            (status.as_str(), &facts["pages_before"]),
            ("PASS", &Value::Null),
            "{facts:#}"
        );
        assert!(facts["browser_start_ms"].as_f64().is_some(), "{facts:#}");
    }
}

/// Whoever kills the process of one case's page, also of its second one in a fresh browser, has failed that case alone.
#[test]
fn a_page_that_dies_fails_its_own_case_and_no_other() {
    let sandbox = suite();
    sandbox.run(run("webnn", &["--step", "convert:*"]));
    let mut child = sandbox.spawn(run("webnn", &["-j", "1", "--retries", "0"]));
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    lines
        .by_ref()
        .find(|line| line.starts_with("ok") && line.contains("run:"))
        .expect("one case ran well");
    let (sender, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || lines.for_each(|line| drop(sender.send(line))));
    let mut killed = 0;
    let start = Instant::now();
    let failed = loop {
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "no case failed, and {killed} processes were killed"
        );
        for pid in browsers(&sandbox, "--type=renderer") {
            kill(pid);
            killed += 1;
        }
        let line = told
            .recv_timeout(Duration::from_millis(10))
            .unwrap_or_default();
        if line.contains("run:") && line.starts_with(|c: char| c.is_ascii_uppercase()) {
            break line;
        }
    };
    let document = sandbox.wait(child).code(1).json();
    let found = pages(&document, "webnn");
    let (wrong, right): (Vec<_>, Vec<_>) =
        found.iter().partition(|(_, (status, _))| status != "PASS");
    assert_eq!((wrong.len(), right.len()), (1, 4), "{found:#?}");
    assert!(failed.contains(wrong[0].0), "{failed}");
    assert_eq!(wrong[0].1.0, "CRASH");
    let cases = document["cases"].as_array().unwrap();
    let reason = cases.iter().find(|case| case["status"] == "CRASH").unwrap()["reason"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(reason.contains("process of the page died"), "{reason}");
    assert!(killed >= 2, "it was tried once more in a fresh browser");
    assert_eq!(
        processes_with(sandbox.path("").to_str().unwrap()),
        [0u32; 0],
        "a browser was left"
    );
}

#[test]
fn an_interrupt_leaves_no_browser() {
    for number in [libc::SIGINT, libc::SIGKILL] {
        let sandbox = suite();
        let mut child = sandbox.spawn(run("webnn", &[]));
        let up = || browsers(&sandbox, "--type=renderer");
        let start = Instant::now();
        while up().is_empty() {
            assert!(
                start.elapsed() < Duration::from_secs(900),
                "no browser came up"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let all = browsers(&sandbox, "");
        signal(&child, number);
        let code = wait(&mut child);
        assert_eq!(code, (number == libc::SIGINT).then_some(130));
        eventually("nothing of the browser is left", || {
            !all.iter().any(|pid| is_alive(*pid)) && up().is_empty()
        });
    }
}

fn wait(child: &mut Child) -> Option<i32> {
    // Pipes that nobody reads would block it.
    let mut pipes = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    std::thread::spawn(move || drop(std::io::copy(&mut pipes.0, &mut std::io::sink())));
    std::thread::spawn(move || drop(std::io::copy(&mut pipes.1, &mut std::io::sink())));
    child.wait().unwrap().code()
}

/// Stores in every way that a page has, and answers what was there before.
const STORES: &str = r#"
const found = {};
found.cookie = document.cookie;
found.local = localStorage.length;
found.session = sessionStorage.length;
found.databases = (await indexedDB.databases()).length;
found.caches = (await caches.keys()).length;
const root = await navigator.storage.getDirectory();
found.files = (await Array.fromAsync(root.keys())).length;
found.name = window.name;
document.cookie = "mine=1";
localStorage.setItem("mine", 1);
sessionStorage.setItem("mine", 1);
await new Promise((done) => { indexedDB.open("mine").onsuccess = done; });
await caches.open("mine");
await root.getFileHandle("mine", { create: true });
window.name = "mine";
globalThis.mine = 1;
found.kept = [document.cookie, localStorage.length, (await caches.keys()).length];
await fetch("answer", { method: "POST", body: JSON.stringify(found) });
"#;

const DIES: &str = r#"
await fetch("progress", { method: "POST", body: "now" });
await new Promise(() => {});
"#;

#[test]
fn a_page_finds_nothing_that_another_one_stored_and_its_death_is_reported_at_once() {
    let sandbox = suite();
    let browser = browser(&sandbox);
    let scratch = sandbox.path("cache/profiles");
    fs::create_dir_all(&scratch).unwrap();
    let launch = Launch {
        program: &browser,
        api: Api::WebNn,
        adapter: Adapter::Software,
        scratch: &scratch,
    };
    let page = |script| Page {
        script,
        params: &Value::Null,
        files: BTreeMap::new(),
        imports: &[],
    };
    let mut shared = Pages::start(&launch).unwrap();
    for before in 0..3 {
        let talk = shared.show(&page(STORES), &|_| {}).unwrap();
        assert_eq!(talk.before, Some(before));
        let expected = json!({
            "cookie": "", "local": 0, "session": 0, "databases": 0, "caches": 0, "files": 0, "name": "",
            "kept": ["mine=1", 1, 1],
        });
        assert_eq!(talk.answer, expected);
    }
    assert_eq!(
        browsers(&sandbox, "--type=renderer").len(),
        1,
        "pages share a process, or each compiles all again"
    );
    let died = Cell::new(None);
    let trouble = shared.show(&page(DIES), &|_| {
        browsers(&sandbox, "--type=renderer")
            .into_iter()
            .for_each(kill);
        died.set(Some(Instant::now()));
    });
    let Err(Trouble::Died(why)) = trouble else {
        panic!("{trouble:?}")
    };
    assert!(
        why.contains("process of the page died while it worked"),
        "{why}"
    );
    assert!(
        died.get().unwrap().elapsed() < beside_load(Duration::from_secs(5)),
        "{why}"
    );
    drop(shared);
    assert_eq!(browsers(&sandbox, ""), [0u32; 0]);
}
