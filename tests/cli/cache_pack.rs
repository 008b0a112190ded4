//! `orch cache export` and `import`: whole archives are taken in, all others leave the store as it was.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

use orch::base::Digest;
use serde_json::{Value, json};

use crate::support::{Sandbox, eventually};

const RUN: [&str; 3] = ["run", "spec.yaml", "--json"];

fn spec(tail: &str) -> String {
    format!(
        "version: 1
commands:
  maker: {{argv: [sh, -c, 'mkdir sub; echo made > sub/made; echo run > sub/tool; chmod +x sub/tool'], outputs: [sub]}}
  reader: {{argv: [sh, -c, 'test -x in/sub/tool && cat in/sub/made > read; echo {tail} >> read'], inputs: {{in: {{step: 'command:maker'}}}}, outputs: [read]}}
"
    )
}

fn fresh() -> Sandbox {
    Sandbox::new().file("spec.yaml", spec("1"))
}

fn ran() -> Sandbox {
    let sandbox = fresh();
    sandbox.run(RUN).success().summary([("executed", 2)]);
    sandbox
}

/// The archive of a sandbox that has run.
fn archive() -> (Sandbox, Vec<u8>) {
    let sandbox = ran();
    sandbox
        .run(["cache", "export", "a.tar", "spec.yaml"])
        .success();
    let bytes = fs::read(sandbox.path("a.tar")).unwrap();
    (sandbox, bytes)
}

#[test]
fn what_was_exported_hits_in_another_store() {
    let first = ran();
    let done = first
        .run([
            "cache",
            "export",
            "a.tar",
            "spec.yaml",
            "--json",
            "--require-complete",
        ])
        .success()
        .json();
    assert_eq!(
        (&done["records"], &done["trees"], &done["not_held"]),
        (&2.into(), &2.into(), &json!([]))
    );
    let archive = first.path("a.tar").display().to_string();
    let second = fresh();
    second
        .run(["cache", "import", &archive])
        .success()
        .stdout_has("2 records (2 new), 2 trees (2 new), 3 files (3 new, ");
    second.run(["cache", "verify"]).success();
    second
        .run(["cache", "import", &archive])
        .success()
        .stdout_has("2 records (0 new), 2 trees (0 new), 3 files (0 new, 0 B)");
    assert_eq!(second.stats()["records"], 2);
    let ended = second.run(RUN).success().stderr_lacks("command:");
    ended.summary([("executed", 0), ("hits", 2)]);
    assert_eq!(second.output("command:reader", "read"), "made\n1\n");
    // What was imported is as good as what was made here: the reader finds the maker's output, permissions too.
    second.write("spec.yaml", spec("2"));
    second
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 1)]);
    assert!(second.stored_files("tmp").is_empty());
}

#[test]
fn equal_content_gives_equal_bytes() {
    let (sandbox, bytes) = archive();
    sandbox
        .run(["cache", "export", "b.tar", "spec.yaml"])
        .success();
    sandbox.run(["cache", "export", "c.tar", "--all"]).success();
    assert_eq!(fs::read(sandbox.path("b.tar")).unwrap(), bytes);
    assert_eq!(fs::read(sandbox.path("c.tar")).unwrap(), bytes);
    // From another store with the same content, which was filled in another order.
    let second = fresh();
    second
        .run([
            "cache",
            "import",
            &sandbox.path("a.tar").display().to_string(),
        ])
        .success();
    second
        .run(["cache", "export", "d.tar", "spec.yaml"])
        .success();
    assert_eq!(fs::read(second.path("d.tar")).unwrap(), bytes);
    // Any tar can look into it.
    let listed = std::process::Command::new("tar")
        .arg("tf")
        .arg(sandbox.path("a.tar"))
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.starts_with("orch-archive.json\ntrees.jsonl\nrecords.jsonl\nblobs/"),
        "{listed}"
    );
    assert_eq!(
        listed.lines().filter(|name| name.ends_with(".x")).count(),
        1,
        "{listed}"
    );
}

#[test]
fn only_what_the_spec_needs_is_exported() {
    let sandbox = ran();
    sandbox.write("spec.yaml", spec("2"));
    sandbox.run(RUN).success();
    let exported = |args: &[&str]| {
        let document = sandbox
            .run([&["cache", "export", "x.tar", "--json"], args].concat())
            .success()
            .json();
        (
            document["records"].as_u64().unwrap(),
            document["blobs"]["count"].as_u64().unwrap(),
        )
    };
    assert_eq!(exported(&["spec.yaml"]), (2, 3));
    assert_eq!(exported(&["--all"]), (3, 4));
    sandbox
        .run(["cache", "export", "x.tar", "spec.yaml", "--all"])
        .code(2);
    sandbox
        .run(["cache", "export", "x.tar", "--all", "--model", "x"])
        .code(2);
}

#[test]
fn steps_that_are_not_held_are_reported() {
    let sandbox = ran();
    sandbox.write("spec.yaml", spec("2"));
    let told = "1 step of the spec is not held: command:reader";
    sandbox
        .run([
            "cache",
            "export",
            "x.tar",
            "spec.yaml",
            "--require-complete",
        ])
        .code(2)
        .stderr_has(told);
    assert!(!sandbox.path("x.tar").exists());
    sandbox
        .run(["cache", "export", "x.tar", "spec.yaml"])
        .success()
        .stderr_has(told)
        .stderr_has("they run after the import");
    let empty = fresh();
    empty
        .run(["cache", "export", "x.tar", "spec.yaml"])
        .code(2)
        .stderr_has("the store holds nothing that spec.yaml needs");
    empty
        .run(["cache", "export", "no/such/x.tar", "--all"])
        .code(2)
        .stderr_has("failed to write `no/such/x.tar`");
}

#[test]
fn damaged_content_is_not_exported() {
    let sandbox = ran();
    crate::support::flip_byte(&sandbox.blob("made\n"));
    let ended = sandbox
        .run(["cache", "export", "x.tar", "spec.yaml"])
        .code(2);
    ended.stderr_has("is damaged: it has other content than was published");
    assert!(!sandbox.path("x.tar").exists());
    fs::remove_file(sandbox.blob("made\n1\n")).unwrap();
    let ended = sandbox.run(["cache", "export", "x.tar", "--all"]).code(2);
    ended.stderr_has("is damaged");
}

#[test]
fn a_pipe_will_do() {
    let (first, bytes) = archive();
    let piped = first
        .command(["cache", "export", "-", "spec.yaml"])
        .output()
        .unwrap();
    assert_eq!(piped.stdout, bytes);
    let second = fresh();
    let mut child = second
        .command(["cache", "import", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    second.run(RUN).success().summary([("executed", 0)]);
}

/// Gives an archive to an empty store: true if it was taken in, and then everything is right.
fn is_taken(store: &Sandbox, bytes: &[u8], what: &str) -> bool {
    store.write("bad.tar", bytes);
    let ended = store.run(["cache", "import", "bad.tar"]);
    if ended.code == Some(0) {
        store.run(["cache", "verify"]).success();
        return true;
    }
    let ended = ended
        .code(2)
        .stderr_has("bad.tar was not imported: ")
        .stderr_has("; the store is as it was");
    assert!(!ended.stderr.contains("panicked"), "{what}");
    for folder in ["blobs", "tmp"] {
        assert!(store.stored_files(folder).is_empty(), "{what}: {folder}");
    }
    assert_eq!(fs::metadata(store.store("log")).unwrap().len(), 0, "{what}");
    false
}

#[test]
fn a_flipped_byte_anywhere_is_noticed() {
    let (_, bytes) = archive();
    let store = fresh();
    let mut taken = Vec::new();
    for at in (0..bytes.len()).step_by(397) {
        let mut bad = bytes.clone();
        bad[at] ^= 4;
        if is_taken(&store, &bad, &format!("byte {at}")) {
            taken.push(at);
            fs::remove_dir_all(store.path("cache")).unwrap();
        }
    }
    // Padding behind an entry's content says nothing.
    let padding = |at: &usize| bytes[*at] == 0;
    assert!(taken.iter().all(padding), "{taken:?}");
    assert!(
        taken.len() < bytes.len() / 397 / 2,
        "{} of {}",
        taken.len(),
        bytes.len() / 397
    );
}

#[test]
fn an_archive_that_is_cut_short_is_refused() {
    let (_, bytes) = archive();
    let store = fresh();
    // Two empty blocks end a tar; what is before them counts.
    let end = bytes.len() - 1024;
    for length in (0..end).step_by(611).chain([end - 512]) {
        assert!(
            !is_taken(&store, &bytes[..length], &format!("cut at {length}")),
            "cut at {length}"
        );
    }
    assert!(is_taken(&store, &bytes[..end], "without its end"));
}

/// The entries of an archive, to be changed.
struct Parts {
    head: Value,
    trees: String,
    records: String,
    blobs: Vec<(String, Vec<u8>)>,
}

impl Parts {
    fn of(bytes: &[u8]) -> Self {
        let mut entries = tar::Archive::new(bytes);
        let mut entries = entries.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        });
        let mut text = || String::from_utf8(entries.next().unwrap().1).unwrap();
        let head = text();
        let trees = text();
        let records = text();
        Self {
            head: serde_json::from_str(&head).unwrap(),
            trees,
            records,
            blobs: entries.collect(),
        }
    }

    /// With a head that tells the truth about the rest.
    fn sealed(mut self) -> Vec<u8> {
        for (name, list) in [("trees", &self.trees), ("records", &self.records)] {
            let digest = Digest::of(list.as_bytes());
            self.head[name] =
                json!({"lines": list.lines().count(), "bytes": list.len(), "digest": digest});
        }
        self.written()
    }

    fn written(self) -> Vec<u8> {
        let head = self.head.to_string().into_bytes();
        let lists = [
            ("orch-archive.json", head),
            ("trees.jsonl", self.trees.into()),
            ("records.jsonl", self.records.into()),
        ];
        let lists = lists
            .into_iter()
            .map(|(name, bytes)| (name.to_owned(), bytes));
        let mut out = tar::Builder::new(Vec::new());
        for (name, bytes) in lists.chain(self.blobs) {
            add(&mut out, &name, &bytes, tar::EntryType::Regular);
        }
        out.into_inner().unwrap()
    }
}

fn add(out: &mut tar::Builder<Vec<u8>>, name: &str, bytes: &[u8], kind: tar::EntryType) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    if kind.is_symlink() {
        header.set_link_name("/etc/passwd").unwrap();
    }
    header.set_cksum();
    out.append(&header, bytes).unwrap();
}

/// Archives whose checksums are right and that say what orch would not.
#[test]
fn hostile_archives_are_refused() {
    let (_, bytes) = archive();
    let parts = || Parts::of(&bytes);
    let store = fresh();
    assert!(
        is_taken(&store, &parts().sealed(), "unchanged"),
        "else all of this tests nothing"
    );
    fs::remove_dir_all(store.path("cache")).unwrap();
    let refused = |what: &str, bytes: Vec<u8>| {
        assert!(!is_taken(&store, &bytes, what), "{what}");
        store
            .run(["cache", "import", "bad.tar"])
            .code(2)
            .stderr_has(what);
    };
    // A tree that leads out of itself, under its right digest, with a record that names it so.
    let out = "it has `.` or `..` as a part";
    for (path, told) in [
        ("../../../sub/made", out),
        ("/tmp/made", "it begins with `/`"),
        ("sub/../../made", out),
    ] {
        let mut evil = parts();
        let line = evil
            .trees
            .lines()
            .find(|line| line.contains("sub/made"))
            .unwrap()
            .to_owned();
        let changed = line.replace("\"sub/made\"", &format!("{path:?}"));
        evil.trees = evil.trees.replace(&line, &changed);
        let digest = |line: &str| Digest::of(line.as_bytes()).to_string();
        evil.records = evil.records.replace(&digest(&line), &digest(&changed));
        refused(told, evil.sealed());
    }
    let changed = |change: &dyn Fn(&mut Parts)| {
        let mut evil = parts();
        change(&mut evil);
        evil.sealed()
    };
    let line = |text: &str| text.lines().next().unwrap().to_owned();
    refused(
        "it holds a tree twice",
        changed(&|evil| evil.trees += &(line(&evil.trees) + "\n")),
    );
    refused(
        "it holds two records for a key",
        changed(&|evil| evil.records += &(line(&evil.records) + "\n")),
    );
    refused(
        "answers for no key",
        changed(&|evil| evil.records = evil.records.replace("\"PASS\"", "\"FAIL\"")),
    );
    refused(
        "has no date",
        changed(&|evil| {
            evil.records = evil
                .records
                .replace("\"started\":\"20", "\"started\":\"x20")
        }),
    );
    refused(
        "no step is called",
        changed(&|evil| evil.records = evil.records.replace("command:maker", "a\\u001b[2Jb")),
    );
    refused(
        "a record cannot be read",
        changed(&|evil| evil.records = evil.records.replace("\"outcome\"", "\"income\"")),
    );
    refused(
        "which is not there",
        changed(&|evil| {
            evil.trees = evil
                .trees
                .lines()
                .skip(1)
                .map(|line| format!("{line}\n"))
                .collect()
        }),
    );
    refused(
        "none of its records made",
        changed(&|evil| {
            evil.records = evil
                .records
                .lines()
                .skip(1)
                .map(|line| format!("{line}\n"))
                .collect()
        }),
    );
    refused(
        "has no end",
        changed(&|evil| evil.records.truncate(evil.records.len() - 1)),
    );
    refused(
        "other content than its head",
        changed(&|evil| evil.head["blobs"]["bytes"] = json!(1u64 << 60)),
    );
    refused("another size", changed(&|evil| evil.blobs[0].1.push(0)));
    refused(
        "is damaged or cut short",
        changed(&|evil| evil.blobs[0].1[0] ^= 1),
    );
    refused(
        "comes twice",
        changed(&|evil| evil.blobs.push(evil.blobs[0].clone())),
    );
    refused(
        "that it does not name",
        changed(&|evil| {
            evil.blobs
                .push((format!("blobs/{}", "ab".repeat(32)), vec![1]))
        }),
    );
    refused(
        "that it does not name",
        changed(&|evil| evil.blobs.push(("blobs/../../evil".into(), vec![1]))),
    );
    refused(
        "that it does not name",
        changed(&|evil| evil.blobs.push(("../evil".into(), vec![1]))),
    );
    refused(
        "it is cut short: 1 of its 3 files are missing",
        changed(&|evil| drop(evil.blobs.pop())),
    );
    refused(
        "its format is 2 and this orch reads 1",
        changed(&|evil| evil.head["version"] = json!(2)),
    );
    refused(
        "it is no archive of `orch cache export`",
        changed(&|evil| evil.head["format"] = json!("other")),
    );
    let mut lying = parts();
    lying.head["records"]["bytes"] = json!(u64::MAX);
    refused(
        "records.jsonl is not where and as its head says",
        lying.written(),
    );
    for text in [
        &b""[..],
        b"{}",
        b"\x28\xb5\x2f\xfd compressed",
        &[0; 2048],
        &[b'x'; 5000],
    ] {
        refused("it is no archive of `orch cache export`", text.to_vec());
    }
    // Links, and names by extension, are no part of an archive.
    for kind in [
        tar::EntryType::Symlink,
        tar::EntryType::Link,
        tar::EntryType::GNULongName,
        tar::EntryType::XHeader,
    ] {
        let mut out = tar::Builder::new(Vec::new());
        let mut entries = tar::Archive::new(&bytes[..]);
        for entry in entries.entries().unwrap().take(3) {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            add(&mut out, &name, &content, tar::EntryType::Regular);
        }
        add(&mut out, "blobs/x", b"", kind);
        refused("is no plain file", out.into_inner().unwrap());
    }
    store.run(RUN).success().summary([("executed", 2)]);
}

#[test]
fn an_older_execution_answers_for_its_key_and_is_not_the_last_one() {
    let (_, bytes) = archive();
    let mut old = Parts::of(&bytes);
    let year = format!("\"started\":\"{}", jiff::Timestamp::now().strftime("%Y"));
    assert!(old.records.contains(&year));
    old.records = old.records.replace(&year, "\"started\":\"2001");
    let store = Sandbox::new().file("spec.yaml", spec("2"));
    store.run(RUN).success().summary([("executed", 2)]);
    store.write("old.tar", old.sealed());
    store
        .run(["cache", "import", "old.tar"])
        .success()
        .stdout_has("2 records (1 new)");
    assert_eq!(store.output("command:reader", "read"), "made\n2\n");
    store.run(RUN).success().summary([("executed", 0)]);
    store.write("spec.yaml", spec("1"));
    store
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 2)]);
    // So it is after a compaction, too; and being old, it goes by age.
    store
        .run(["cache", "gc", "--keep-last", "2", "--max-age", "52w"])
        .success()
        .stdout_has("1 result not used for too long");
    assert_eq!(store.output("command:reader", "read"), "made\n2\n");
    store
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 1)]);
}

#[test]
fn an_import_mends_what_was_damaged_or_lost() {
    let (sandbox, _) = archive();
    crate::support::flip_byte(&sandbox.blob("made\n"));
    fs::remove_file(sandbox.blob("made\n1\n")).unwrap();
    sandbox
        .run(["cache", "import", "a.tar"])
        .success()
        .stdout_has("2 records (0 new), 2 trees (0 new), 3 files (2 new, ");
    sandbox.run(["cache", "verify"]).success();
    sandbox.run(RUN).success().summary([("executed", 0)]);
}

#[test]
fn an_import_beside_a_run_and_a_collection() {
    let (first, _) = archive();
    let archive = first.path("a.tar").display().to_string();
    let second = fresh();
    let began = second.path("seen/began");
    let go = second.path("go");
    let slow = format!(
        "touch {}; while ! test -e {}; do sleep 0.02; done; touch out",
        began.display(),
        go.display()
    );
    second.write(
        "slow.yaml",
        format!("version: 1\ncommands:\n  slow: {{argv: [sh, -c, '{slow}'], outputs: [out], writable: [seen]}}\n"),
    );
    let running = second.spawn(["run", "slow.yaml"]);
    eventually("the step began", || began.exists());
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(second.spawn(["cache", "import", &archive]));
        others.push(second.spawn(["cache", "gc", "--max-size", "1G"]));
    }
    for child in others {
        second.wait(child).success();
    }
    second.write("go", "");
    second.wait(running).success();
    second.run(["cache", "verify"]).success();
    second
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 2)]);
}
