//! A disk that is full, at whatever point of a step: told with its place and a remedy, nothing half-published, and the next
//! run goes on. The disk is a small one of its own, which only root may mount.

use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::scene::{Scene, complaints};
use std::collections::BTreeSet;

const RUN: [&str; 5] = ["run", "spec.yaml", "--json", "--jobs", "2"];
const DISK: &str = "size=48m,nr_inodes=3000";

/// A disk in memory. This thread and the processes that it starts see it, and nobody else.
struct Disk(PathBuf);

impl Disk {
    /// None, said, where it is not permitted.
    fn mount(at: PathBuf) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let root = c"/";
        let disk = c"tmpfs";
        let kind = c"tmpfs";
        let place = c_path(&at);
        let options = CString::new(DISK).unwrap();
        // SAFETY: strings that end with zero and live until the calls return. The thread's own view of mounts is changed, not
        // the process's.
        let done = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(
                    disk.as_ptr(),
                    root.as_ptr(),
                    std::ptr::null(),
                    libc::MS_REC | libc::MS_PRIVATE,
                    std::ptr::null(),
                ) == 0
                && libc::mount(
                    disk.as_ptr(),
                    place.as_ptr(),
                    kind.as_ptr(),
                    0,
                    options.as_ptr().cast(),
                ) == 0
        };
        if !done {
            let error = std::io::Error::last_os_error();
            println!("SKIPPED: a small disk cannot be mounted here, only root may: {error}");
        }
        done.then_some(Self(at))
    }

    /// Fills it up, but for some bytes.
    fn fill(&self, left: usize) {
        let mut filler = fs::File::create(self.0.join("filler")).unwrap();
        while filler.write_all(&[1; 4096]).is_ok() {}
        let size = filler.metadata().unwrap().len();
        filler.set_len(size.saturating_sub(left as u64)).unwrap();
    }

    /// Makes files until no more can be made, but for a few: then folders and links cannot be made, either.
    fn crowd(&self, left: usize) {
        let dir = self.0.join("crowd");
        fs::create_dir(&dir).unwrap();
        let file = |n: usize| dir.join(n.to_string());
        let most = (0..).find(|n| fs::File::create(file(*n)).is_err()).unwrap();
        (0..left.min(most)).for_each(|n| fs::remove_file(file(n)).unwrap());
    }

    fn free(&self) {
        let _ = fs::remove_file(self.0.join("filler"));
        let _ = fs::remove_dir_all(self.0.join("crowd"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let at = c_path(&self.0);
        // SAFETY: as above.
        unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

#[test]
fn a_full_disk_is_reported_and_the_next_run_goes_on() {
    let mut scene = Scene::new();
    let Some(disk) = Disk::mount(scene.sandbox.path("cache")) else {
        return;
    };
    scene.write(1, false);
    scene.sandbox.run(RUN).success();
    let mut failures = BTreeSet::new();
    let bytes = [0, 4, 8, 16, 32, 64, 128, 256, 1024].map(|kib| ("KiB", kib));
    let files = [0, 4, 8, 12, 16, 24, 40, 60].map(|files| ("files", files));
    for (salt, (what, left)) in bytes.into_iter().chain(files).enumerate() {
        scene.write(salt as u64 + 2, false);
        scene.forget_notes();
        if what == "KiB" {
            disk.fill(left << 10)
        } else {
            disk.crowd(left)
        }
        let full = scene.sandbox.run(RUN);
        println!("--- {left} {what}: {:?}\n{}", full.code, full.stderr);
        let ok = Scene::reported_ok(&full.stderr);
        if full.code != Some(0) {
            // A step failed, or nothing could be kept of any.
            assert!(matches!(full.code, Some(1 | 2)), "{:?}", full.code);
            let full = full
                .stderr_has("No space left on device")
                .stderr_has("--cache-dir")
                .stderr_has("[DIR]/cache");
            failures.insert(full.stderr);
        }
        scene
            .sandbox
            .run(["cache", "verify"])
            .success()
            .stdout_has("everything is as it was published");
        disk.free();
        let before = scene.notes().len();
        scene
            .sandbox
            .run(RUN)
            .success()
            .stderr_lacks("warning")
            .stderr_lacks("FAIL");
        let notes = scene.notes();
        assert!(
            notes[before..].iter().all(|note| !ok.contains(&note.step)),
            "{left} {what}: {ok:?} {:?}",
            &notes[before..]
        );
        // Who was in want of space may have done its work in vain: not more than that is done again.
        let done: Vec<_> = notes
            .into_iter()
            .filter(|note| ok.contains(&note.step))
            .collect();
        assert_eq!(complaints(&done, &BTreeSet::new()), Vec::<String>::new());
        scene
            .sandbox
            .run(["cache", "verify"])
            .success()
            .stdout_has("everything is as it was published");
        scene.sandbox.run(RUN).success().summary([("executed", 0)]);
    }
    disk.fill(0);
    scene.sandbox.run(RUN).success().summary([("executed", 0)]);
    let no_pages = scene
        .sandbox
        .run(RUN.into_iter().chain(["--out-dir", "cache/out"]))
        .code(2);
    no_pages
        .stderr_has("cache/out")
        .stderr_has("No space left on device");
    disk.free();
    scene.sandbox.run(RUN).success().summary([("failed", 0)]);
    assert!(
        failures.len() > 4,
        "the disk was full at few points only: {failures:?}"
    );
}
