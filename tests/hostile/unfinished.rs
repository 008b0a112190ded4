//! What a killed process did not finish is swept, wherever it lies; what others write is not.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::support::{Sandbox, eventually, signal};

const SPEC: &str = "version: 1
commands:
  large: {argv: [sh, -c, 'head -c 100000000 /dev/zero > out'], outputs: [out]}
";
const GC: [&str; 4] = ["cache", "gc", "--max-size", "10G"];

fn temporaries(sandbox: &Sandbox, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(sandbox.path(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with(".orch-tmp-") || name.starts_with(".tmp-"))
        .collect()
}

#[test]
fn an_export_that_was_killed_leaves_nothing_beside_its_file() {
    let sandbox = Sandbox::new()
        .file("spec.yaml", SPEC)
        .file("mine/.orch-tmp-abc123", "mine");
    sandbox.run(["run", "spec.yaml"]).success();
    let export = || sandbox.spawn(["cache", "export", "mine/all.tar", "spec.yaml"]);
    let mut first = export();
    let second = export();
    eventually("both write", || temporaries(&sandbox, "mine").len() == 3);
    signal(&first, libc::SIGKILL);
    first.wait().unwrap();
    sandbox.run(GC).success().stdout_has("of killed processes");
    assert_eq!(
        temporaries(&sandbox, "mine").len(),
        2,
        "the other one goes on"
    );
    sandbox.wait(second).success();
    assert_eq!(temporaries(&sandbox, "mine"), [".orch-tmp-abc123"]);
    assert_eq!(sandbox.read("mine/.orch-tmp-abc123"), "mine");
    sandbox.run(["cache", "import", "mine/all.tar"]).success();
}

#[test]
fn the_store_and_the_environments_are_swept_too() {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC.replace("100000000", "1"));
    sandbox.run(["run", "spec.yaml"]).success();
    let folders = [
        "cache",
        "cache/v2",
        "cache/v2/settled",
        "cache/v2/logs",
        "cache/envs",
        "cache/envs/orch-torch-0123456789ab",
    ];
    sandbox.write("cache/envs/orch-torch-0123456789ab/build.lock", "");
    let long_ago = SystemTime::now() - Duration::from_secs(100_000);
    for folder in folders {
        for (name, age) in [
            (".tmp-abc123", Some(long_ago)),
            (".orch-tmp-young1", None),
            (".orch-tmp-in_use", Some(long_ago)),
        ] {
            sandbox.write(&format!("{folder}/{name}"), "half");
            let file = fs::File::open(sandbox.path(&format!("{folder}/{name}"))).unwrap();
            if let Some(age) = age {
                file.set_modified(age).unwrap();
            }
        }
    }
    let in_use = folders
        .map(|folder| fs::File::open(sandbox.path(&format!("{folder}/.orch-tmp-in_use"))).unwrap());
    in_use.iter().for_each(|file| file.lock().unwrap());
    sandbox
        .run([&GC[..], &["--envs", "--dry-run"]].concat())
        .success()
        .stdout_has("4 files, 16 B left unfinished by killed processes");
    sandbox
        .run([&GC[..], &["--envs"]].concat())
        .success()
        .stdout_has("4 files, 16 B left unfinished by killed processes");
    for folder in &folders[..5] {
        let mut left = temporaries(&sandbox, folder);
        left.sort();
        assert_eq!(left, [".orch-tmp-in_use", ".orch-tmp-young1"], "{folder}");
    }
    assert!(
        !sandbox.path(folders[5]).exists(),
        "of another version of orch"
    );
}
