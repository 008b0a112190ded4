//! A store of which a part lies on another disk, behind a link.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use crate::support::Sandbox;

const SPEC: &str = "version: 1
commands:
  a: {argv: [sh, -c, 'echo a > y; mkdir d; head -c 3000000 /dev/zero > d/large'], outputs: [y, d]}
  b: {argv: [sh, -c, 'cat in/y > z; wc -c < in/d/large >> z'], inputs: {in: {step: 'command:a'}}, outputs: [z]}
  c: {write: {t: text}}
";

#[test]
fn blobs_or_working_folders_may_lie_on_another_disk() {
    for part in ["tmp", "blobs"] {
        let sandbox = Sandbox::new().file("spec.yaml", SPEC);
        let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
            crate::skipped("there is no /dev/shm");
            return;
        };
        if fs::metadata(other.path()).unwrap().dev()
            == fs::metadata(sandbox.path(".")).unwrap().dev()
        {
            crate::skipped("/dev/shm is the same disk");
            return;
        }
        // It makes an empty store.
        sandbox.run(["cache", "gc", "--max-size", "1G"]).success();
        fs::remove_dir_all(sandbox.store(part)).unwrap();
        symlink(other.path(), sandbox.store(part)).unwrap();
        sandbox.run(["run", "spec.yaml"]).success();
        assert!(
            part == "tmp" || fs::read_dir(other.path()).unwrap().next().is_some(),
            "{part} was not used"
        );
        assert_eq!(sandbox.output("command:b", "z"), "a\n3000000\n", "{part}");
        sandbox.run(["cache", "verify"]).success();
        sandbox
            .run(["run", "spec.yaml"])
            .success()
            .stdout_has("0 executed");
    }
}
