//! Files that the user names to be written: what they are called is never made another kind of thing.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::support::Sandbox;

/// Every option that names a file to be written, with `FILE` in the file's place.
const WRITERS: [&[&str]; 4] = [
    &["cache", "export", "--all", "FILE"],
    &[
        "report",
        "spec.yaml",
        "--format",
        "json",
        "--output",
        "FILE",
    ],
    &["run", "spec.yaml", "--trace", "FILE"],
    &["output", "command:FILE", "--latest", "--force", "--to", "."],
];

fn ran() -> Sandbox {
    let mut spec = "version: 1\ncommands:\n".to_owned();
    for output in ["null", "fifo", "link3"] {
        spec += &format!(
            "  '{output}': {{argv: [sh, -c, 'seq 99 > {output}'], outputs: ['{output}']}}\n"
        );
    }
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    sandbox.run(["run", "spec.yaml"]).success();
    sandbox
}

/// The exit code counts nowhere here: a report in which no case ran ends with 3.
fn write(sandbox: &Sandbox, writer: &[&str], to: &str) {
    let args: Vec<_> = writer.iter().map(|arg| arg.replace("FILE", to)).collect();
    let ended = sandbox.run_through(
        ["timeout", "--signal=KILL", "60"],
        &args.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    assert!(
        !ended.stderr.contains("error"),
        "{writer:?}: {}",
        ended.stderr
    );
}

#[test]
fn a_device_stays_a_device() {
    let sandbox = ran();
    let null = sandbox.path("null");
    // The system's own is never named here: were this broken, it would be replaced.
    if !Command::new("mknod")
        .arg(&null)
        .args(["c", "1", "3"])
        .status()
        .is_ok_and(|status| status.success())
    {
        crate::skipped("only root may make a device");
        return;
    }
    let before = fs::metadata(&null).unwrap();
    for writer in WRITERS {
        write(&sandbox, writer, "null");
        let after = fs::symlink_metadata(&null).unwrap();
        assert!(after.file_type().is_char_device(), "{writer:?} replaced it");
        assert_eq!(
            (before.ino(), before.mode()),
            (after.ino(), after.mode()),
            "{writer:?}"
        );
    }
}

#[test]
fn a_fifo_is_written_to() {
    let sandbox = ran();
    let fifo = sandbox.path("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    for writer in WRITERS {
        let reader = {
            let fifo = fifo.clone();
            std::thread::spawn(move || fs::read(fifo).unwrap())
        };
        write(&sandbox, writer, "fifo");
        assert!(
            fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo(),
            "{writer:?} replaced it"
        );
        assert!(
            reader.join().unwrap().len() > 50,
            "{writer:?} wrote nothing"
        );
    }
}

#[test]
fn a_link_stays_one_and_what_it_leads_to_is_replaced_whole() {
    let sandbox = ran();
    for (at, writer) in WRITERS.into_iter().enumerate() {
        let link = format!("link{at}");
        let folder = format!("there{at}");
        fs::create_dir(sandbox.path(&folder)).unwrap();
        let target = sandbox.path(&folder).join("file");
        std::os::unix::fs::symlink(Path::new(&folder).join("file"), sandbox.path(&link)).unwrap();
        // First to nothing, then to a file.
        write(&sandbox, writer, &link);
        assert!(
            fs::metadata(&target).unwrap().len() > 50,
            "{writer:?} wrote nothing"
        );
        let kept = sandbox.path("kept");
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        fs::hard_link(&target, &kept).unwrap();
        write(&sandbox, writer, &link);
        assert!(
            fs::symlink_metadata(sandbox.path(&link))
                .unwrap()
                .is_symlink(),
            "{writer:?} replaced the link"
        );
        assert_eq!(
            fs::read(&kept).unwrap(),
            b"old",
            "{writer:?} wrote over a file that somebody may be reading"
        );
        let meta = fs::metadata(&target).unwrap();
        assert!(
            meta.len() > 50 && meta.mode() & 0o777 == 0o640,
            "{writer:?}: {meta:?}"
        );
        let left = fs::read_dir(sandbox.path(&folder)).unwrap().count();
        assert_eq!(left, 1, "{writer:?} left something beside it");
        fs::remove_file(kept).unwrap();
    }
}
