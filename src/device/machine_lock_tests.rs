//! Locks of two open files, as two processes have them.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Mutex;

use super::*;

fn folder(dir: &Path) -> Folder {
    Folder::open(dir, OFlags::empty()).unwrap()
}

fn device(name: &str, share: Share) -> DeviceUse {
    DeviceUse {
        name: name.to_owned(),
        file: name.to_owned(),
        share,
    }
}

/// What is obtained at once.
fn now(dir: &Path, uses: Vec<DeviceUse>) -> Option<MachineLock> {
    MachineLock::take_in(folder(dir), uses, |_| false)
}

/// What is waited for.
fn at_last(dir: &Path, uses: Vec<DeviceUse>) -> MachineLock {
    MachineLock::take_in(folder(dir), uses, |wait| {
        assert!(wait.waited < Duration::from_secs(20), "{wait}");
        true
    })
    .unwrap()
}

#[test]
fn who_times_is_alone_and_others_are_together() {
    let dir = tempfile::tempdir().unwrap();
    let alone = || vec![device("gpu", Share::Alone)];
    let together = || vec![device("gpu", Share::Together)];
    let one = now(dir.path(), together()).unwrap();
    let other = now(dir.path(), together()).unwrap();
    assert!(now(dir.path(), alone()).is_none());
    drop(one);
    assert!(now(dir.path(), alone()).is_none());
    drop(other);
    let timed = at_last(dir.path(), alone());
    assert!(now(dir.path(), together()).is_none());
    assert!(now(dir.path(), alone()).is_none());
    assert!(now(dir.path(), vec![device("other", Share::Alone)]).is_some());
    drop(timed);
    at_last(dir.path(), together());
}

#[test]
fn a_device_that_is_looked_at_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let looked = || {
        let found = folder(dir.path()).lock("gpu", Share::Alone, Patience::None);
        found.unwrap().is_none()
    };
    assert!(!looked());
    let _used = at_last(dir.path(), vec![device("gpu", Share::Together)]);
    assert!(looked());
    at_last(dir.path(), vec![device("gpu", Share::Together)]);
}

#[test]
fn a_message_says_what_the_other_process_does() {
    let dir = tempfile::tempdir().unwrap();
    let words = |share| {
        let mut words = String::new();
        MachineLock::take_in(folder(dir.path()), vec![device("cpu", share)], |wait| {
            words = wait.to_string();
            false
        });
        words
    };
    let measured = at_last(dir.path(), vec![device("cpu", Share::Alone)]);
    assert_eq!(
        words(Share::Together),
        "waiting for cpu: another orch measures on it"
    );
    drop(measured);
    let _used = at_last(dir.path(), vec![device("cpu", Share::Together)]);
    assert_eq!(words(Share::Alone), "waiting for cpu: another orch uses it");
}

/// Two streams of untimed work that always overlap would keep a timed run waiting for ever.
#[test]
fn untimed_work_does_not_overtake_a_timed_run_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    let order = Mutex::new(Vec::new());
    let first = at_last(dir.path(), vec![device("gpu", Share::Together)]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _timed = at_last(dir.path(), vec![device("gpu", Share::Alone)]);
            crate::base::lock(&order).push("timed");
        });
        let waits = || now(dir.path(), vec![device("gpu", Share::Together)]).is_none();
        let start = Instant::now();
        while !waits() {
            assert!(start.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(5));
        }
        scope.spawn(|| {
            let _later = at_last(dir.path(), vec![device("gpu", Share::Together)]);
            crate::base::lock(&order).push("untimed");
        });
        thread::sleep(Duration::from_millis(100));
        assert!(crate::base::lock(&order).is_empty());
        drop(first);
    });
    assert_eq!(order.into_inner().unwrap(), ["timed", "untimed"]);
}

#[test]
fn who_gives_up_keeps_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let uses = || vec![device("gpu", Share::Alone), device("cpu", Share::Alone)];
    let held = at_last(dir.path(), vec![device("cpu", Share::Alone)]);
    assert!(now(dir.path(), uses()).is_none());
    drop(held);
    at_last(dir.path(), uses());
}

#[test]
fn several_devices_are_locked_in_one_order_and_the_processor_last() {
    let mut uses = [
        DeviceUse::cpu(Share::Together),
        device("pci-2", Share::Alone),
        device("pci-1", Share::Alone),
    ];
    uses.sort_by(DeviceUse::before);
    let names: Vec<_> = uses.iter().map(|device| &*device.file).collect();
    assert_eq!(names, ["pci-1", "pci-2", "cpu"]);
    let dir = tempfile::tempdir().unwrap();
    let pair = |first, second| vec![device(first, Share::Alone), device(second, Share::Alone)];
    thread::scope(|scope| {
        for (first, second) in [("a", "b"), ("b", "a")] {
            let dir = dir.path();
            scope.spawn(move || {
                for _ in 0..50 {
                    at_last(dir, pair(first, second));
                }
            });
        }
    });
}

#[test]
fn a_device_is_named_by_its_place_and_not_by_its_number() {
    let lease = |pci: Option<&str>, uuid: Option<&str>| Lease {
        id: "cuda:1".into(),
        name: "H200".into(),
        uuid: uuid.map(str::to_owned),
        pci: pci.map(str::to_owned),
        memory_bytes: None,
        env: Default::default(),
    };
    let file = |lease| DeviceUse::leased(&lease, Share::Alone).file;
    assert_eq!(
        file(lease(Some("0000:C1:00.0"), Some("GPU-a"))),
        "pci-0000_c1_00.0"
    );
    assert_eq!(file(lease(None, Some("GPU-a1"))), "uuid-gpu-a1");
    assert_eq!(file(lease(None, None)), "id-cuda_1");
    assert_eq!(file(lease(Some("../x"), None)), "pci-.._x");
}

#[test]
fn a_lock_that_was_cleared_away_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let _lost = at_last(dir.path(), vec![device("gpu", Share::Alone)]);
    std::fs::remove_file(dir.path().join("gpu")).unwrap();
    let _held = at_last(dir.path(), vec![device("gpu", Share::Alone)]);
    assert!(now(dir.path(), vec![device("gpu", Share::Alone)]).is_none());
    let stale = folder(dir.path()).file("gpu").unwrap();
    std::fs::remove_file(dir.path().join("gpu")).unwrap();
    assert!(!folder(dir.path()).has("gpu", &stale).unwrap());
}

#[test]
fn nothing_is_opened_through_a_link_or_waited_for_at_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("secret"), "x").unwrap();
    symlink(at("secret"), at("gpu.queue")).unwrap();
    assert!(folder(dir.path()).file("gpu.queue").is_err());
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("pipe"),
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    assert!(folder(dir.path()).file("pipe").is_err());
    std::fs::create_dir(at("real")).unwrap();
    symlink(at("real"), at("link")).unwrap();
    assert!(Folder::of_all(&at("link")).is_err());
    let locked = now(dir.path(), vec![device("gpu", Share::Alone)]).unwrap();
    assert!(locked._files.is_empty());
}

#[test]
fn the_folder_of_all_users_is_open_to_all_and_so_are_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("orch-devices");
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
    let folder = Folder::of_all(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o1777);
    folder.file("gpu").unwrap();
    let made = std::fs::metadata(path.join("gpu")).unwrap();
    assert_eq!(made.mode() & 0o777, 0o644);
    let user = rustix::process::geteuid().as_raw();
    assert!(Folder::of_user(&dir.path().join("own"), user).is_ok());
    assert!(Folder::of_user(&dir.path().join("own"), user + 1).is_err());
}
