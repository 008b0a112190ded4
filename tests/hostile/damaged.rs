//! Everything that orch reads back or is sent, changed at random: an answer or an error that names the file, soon, and never
//! a panic. `ORCH_TEST_SECONDS` makes each of them longer.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use orch::confine::Grants;
use orch::runtime::Job;
use orch::spec::Spec;
use orch::store::{DiskStore, Which};
use orch::worker::{Cancel, Ended, Limits, run_oneshot};
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::rng;
use crate::support::{Sandbox, beside_load};

const SPEC: &str = "version: 1
commands:
  maker: {argv: [sh, -c, 'mkdir d; echo made > d/a; echo b > b'], outputs: [d, b]}
  reader: {argv: [sh, -c, 'cat in/b > read'], inputs: {in: {step: 'command:maker'}}, outputs: [read]}
";

/// What formats are made of, besides what stands in the text already.
const PIECES: [&str; 24] = [
    "\n",
    "\n  ",
    ": ",
    "- ",
    "[",
    "{",
    "}",
    "\"",
    "'",
    "\\",
    "\0",
    "\u{feff}",
    "é",
    "\u{202e}",
    "-1",
    "1e999",
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "18446744073709551616",
    "../",
    "null",
    "\u{1b}[2J",
];

/// One to four changes: of a byte or a bit, a stretch that goes, comes twice or moves, an end that is cut off, a word.
fn changed(rng: &mut ChaCha8Rng, text: &[u8]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..rng.random_range(1..5) {
        let one = rng.random_range(0..=bytes.len());
        let other = rng.random_range(0..=bytes.len());
        let from = one.min(other);
        let to = one.max(other).min(one.min(other) + 200);
        match rng.random_range(0..7) {
            0 if from < bytes.len() => bytes[from] = rng.random(),
            1 if from < bytes.len() => bytes[from] ^= 1 << rng.random_range(0..8),
            2 => drop(bytes.drain(from..to)),
            3 => {
                let stretch = bytes[from..to].to_vec();
                drop(bytes.splice(other..other, stretch));
            }
            4 if rng.random_bool(0.2) => bytes.truncate(from),
            _ => drop(bytes.splice(from..from, PIECES.choose(rng).unwrap().bytes())),
        }
    }
    bytes
}

/// Changes `text` for some seconds; each time `read` takes little.
fn for_a_while(text: &[u8], mut read: impl FnMut(&[u8])) {
    let mut rng = rng();
    let start = Instant::now();
    let seconds = std::env::var("ORCH_TEST_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2);
    while start.elapsed() < Duration::from_secs(seconds) {
        let bytes = changed(&mut rng, text);
        let began = Instant::now();
        read(&bytes);
        assert!(
            began.elapsed() < beside_load(Duration::from_secs(20)),
            "{:?}",
            String::from_utf8_lossy(&bytes)
        );
    }
}

#[test]
fn a_spec() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spec.yaml");
    let texts = [
        "specs/models.yaml",
        "specs/targets.yaml",
        "tests/fixtures/spec/commands.yaml",
    ];
    for text in
        texts.map(|name| fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap())
    {
        for_a_while(&text[..text.len().min(8000)], |bytes| {
            fs::write(&path, bytes).unwrap();
            if let Err(errors) = Spec::load(&path) {
                let told = errors.to_string();
                assert!(told.contains("spec.yaml"), "{told}");
                assert!(!told.contains(orch::base::text::is_unseen), "{told:?}");
            }
        });
    }
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    sandbox.run(["run", "spec.yaml"]).success();
    sandbox
}

#[test]
fn the_log_of_a_store() {
    let sandbox = sandbox();
    let path = sandbox.store("log");
    let whole = fs::read(&path).unwrap();
    for_a_while(&whole, |bytes| {
        fs::write(&path, bytes).unwrap();
        let Ok(store) = DiskStore::open(&sandbox.path("cache")) else {
            return;
        };
        for step in ["command:maker", "command:reader"] {
            // What is read is what was written: an entry has a checksum.
            if let Ok(Some(record)) = store.latest(step) {
                assert_eq!(record.step, step);
                let _ = (
                    store.lookup(&record.key.digest()),
                    store.failure(&record.key.digest()),
                );
            }
            let _ = store.history(step, 10);
        }
        let _ = (
            store.stats(),
            store.export(&Which::All, std::io::sink(), Path::new("x")),
        );
        if let Ok(Some(told)) = store.damage() {
            assert!(told.contains("/log is damaged"), "{told}");
        }
    });
}

#[test]
fn an_archive() {
    let sandbox = sandbox();
    let mut whole = Vec::new();
    let store = DiskStore::open(&sandbox.path("cache")).unwrap();
    store
        .export(&Which::All, &mut whole, Path::new("x"))
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let name = Path::new("all.tar");
    let empty = DiskStore::open(dir.path()).unwrap();
    let mut taken = 0;
    for_a_while(&whole, |bytes| match empty.import(bytes, name) {
        Ok(_) => taken += 1,
        Err(error) => {
            let told = format!("{:#}", anyhow::Error::from(error));
            assert!(told.contains("all.tar"), "{told}");
        }
    });
    // What was taken in, if anything, is what was sent: changes in the padding of a tar mean nothing.
    let problems: Vec<_> = empty
        .verify(&|_| ())
        .unwrap()
        .into_iter()
        .map(|problem| (problem.path, problem.what))
        .collect();
    assert_eq!(problems, [], "{taken} were taken in");
}

#[test]
fn the_answer_of_a_worker() {
    let dir = tempfile::tempdir().unwrap();
    let said = dir.path().join("said");
    let log = dir.path().join("log");
    let cancel = Cancel::default();
    let answer = br#"{"event":"progress","id":1,"text":"10 %"}
{"event":"result","id":1,"output":{"status":"ok","reason":null,"facts":{"a":[1,{"b":2.5e3}]},"measure":{"load_ms":1.5,"first_ms":2,"warmup_ms":[],"samples_ms":[1,2],"peak_rss_bytes":17,"sync":"none","requested_device":"cpu","actual_device":"cpu","placement":{"cpu":3}}}}
"#;
    for_a_while(answer, |bytes| {
        fs::write(&said, bytes).unwrap();
        let job = Job {
            id: 1,
            op: "x".into(),
            out: dir.path().into(),
            sandbox: Grants::everything(),
            ..Job::default()
        };
        let mut command = Command::new("sh");
        command.args(["-c", "cat said >&3"]).current_dir(dir.path());
        let timeout = beside_load(Duration::from_secs(15));
        let limits = Limits::of_time(timeout, &cancel, &log);
        let ended = run_oneshot(command, &job, &limits);
        assert!(
            matches!(
                ended,
                Ended::Answered(_) | Ended::Broken(_) | Ended::Died { .. }
            ),
            "{ended:?}"
        );
    });
}
