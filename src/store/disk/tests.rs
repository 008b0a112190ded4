//! The store on a real disk: what is published is found, what is damaged is reported.

use super::*;
use crate::key::KeyDoc;

fn opened() -> (tempfile::TempDir, DiskStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = DiskStore::open(dir.path()).unwrap();
    (dir, store)
}

fn made(scratch: &Scratch, text: &str) -> PathBuf {
    let dir = scratch.dir("made").unwrap();
    fs::write(dir.join("a.txt"), text).unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    fs::write(dir.join("sub/b.txt"), "b").unwrap();
    dir
}

fn record(store: &DiskStore, outcome: Outcome, output: Option<Digest>) -> Record {
    let mut key = KeyDoc::default();
    key.set("kind", "test");
    let record = Record {
        step: "convert:m:onnx".into(),
        key,
        outcome,
        output,
        started: "2026-01-01T00:00:00Z".into(),
        seconds: 0.1 + 0.2,
        facts: serde_json::json!({"z": 1, "a": [1.5, null]}).into(),
        ..Record::default()
    };
    store.keep(&record, None).unwrap();
    record
}

fn flip_a_bit(path: &Path, at: usize) {
    use std::os::unix::fs::PermissionsExt;
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn equal_content_is_one_tree_wherever_it_was_made() {
    let (dir, store) = opened();
    let scratch = store.scratch().unwrap();
    let one = store.publish(&made(&scratch, "x")).unwrap();
    let two = store.publish(&made(&scratch, "x")).unwrap();
    let other = store.publish(&made(&scratch, "y")).unwrap();
    assert_eq!(one, two);
    assert_ne!(one, other);
    let stats = store.stats().unwrap();
    assert_eq!(
        (stats.trees, stats.files),
        (2, 3),
        "x, y, and the b that both hold"
    );
    let at = dir.path().join("at");
    store.lay_out(&one, &at, LaidAs::Links).unwrap();
    assert_eq!(fs::read_to_string(at.join("a.txt")).unwrap(), "x");
    assert_eq!(store.read_file(&one, "sub/b.txt").unwrap().unwrap(), b"b");
}

#[test]
fn only_an_answer_is_a_hit() {
    let (_dir, store) = opened();
    let failed = record(&store, Outcome::Fail, None);
    assert!(store.lookup(&failed.key.digest()).unwrap().is_none());
    assert_eq!(
        store.latest("convert:m:onnx").unwrap().unwrap().outcome,
        Outcome::Fail
    );
    record(&store, Outcome::Pass, None);
    assert!(store.lookup(&failed.key.digest()).unwrap().is_some());
    let history: Vec<_> = store
        .history("convert:m:onnx", 9)
        .unwrap()
        .iter()
        .map(|record| record.outcome)
        .collect();
    assert_eq!(history, [Outcome::Pass, Outcome::Fail], "newest first");
}

#[test]
fn processes_read_what_others_append() {
    let (dir, ours) = opened();
    let theirs = DiskStore::open(dir.path()).unwrap();
    let key = record(&ours, Outcome::Pass, None).key.digest();
    assert!(theirs.lookup(&key).unwrap().is_some());
    let tree = theirs
        .publish(&made(&theirs.scratch().unwrap(), "late"))
        .unwrap();
    let _lock = ours.lock_key(&key, |_| false).unwrap().unwrap();
    assert!(ours.has_tree(&tree), "known once the lock is held");
    // A log that replaces the old one is followed.
    theirs.heal(&[]).unwrap();
    let again = record(&ours, Outcome::Fail, None);
    assert_eq!(
        DiskStore::open(dir.path())
            .unwrap()
            .history(&again.step, 9)
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_torn_end_is_cut_off_and_nothing_else_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join(LAYOUT).join("log");
    let whole = {
        let store = DiskStore::open(dir.path()).unwrap();
        store
            .publish(&made(&store.scratch().unwrap(), "x"))
            .unwrap();
        record(&store, Outcome::Pass, None);
        fs::read(&log).unwrap()
    };
    let second = DiskStore::open(dir.path())
        .unwrap()
        .log
        .latest(&step_id("convert:m:onnx"))
        .unwrap()
        .unwrap()
        .at as usize;
    for length in (second..whole.len()).step_by(7) {
        fs::write(&log, &whole[..length]).unwrap();
        let store = DiskStore::open(dir.path()).unwrap();
        assert_eq!(store.stats().unwrap().trees, 1);
        assert!(store.latest("convert:m:onnx").unwrap().is_none());
        record(&store, Outcome::Fail, None);
        assert!(store.verify(&|_| ()).unwrap().is_empty(), "cut at {length}");
        assert_eq!(
            DiskStore::open(dir.path())
                .unwrap()
                .stats()
                .unwrap()
                .records,
            1
        );
    }
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is_and_heals() {
    let (dir, writer) = opened();
    let scratch = writer.scratch().unwrap();
    let publish = |store: &DiskStore| store.publish(&made(&scratch, "weights")).unwrap();
    let digest = publish(&writer);
    let key = record(&writer, Outcome::Pass, Some(digest)).key.digest();
    let log = writer.log.path().to_owned();
    let blobs = writer.manifest(&digest).unwrap().files;
    let blob = writer.blob(&blobs[0]);
    let length = fs::metadata(&log).unwrap().len() as usize;
    let victims = (0..length)
        .step_by(13)
        .map(|at| (log.clone(), at))
        .chain([(blob, 0)]);
    for (victim, at) in victims {
        let whole = fs::read(&log).unwrap();
        assert_eq!(whole.len(), length);
        flip_a_bit(&victim, at);
        // A fresh process has verified nothing yet.
        let store = DiskStore::open(dir.path()).unwrap();
        let noticed =
            store.check_tree(&digest).is_err() || !matches!(store.lookup(&key), Ok(Some(_)));
        assert!(
            noticed,
            "byte {at} of {} was read without complaint",
            victim.display()
        );
        let problems = store.verify(&|_| ()).unwrap();
        assert_eq!(
            problems
                .iter()
                .map(|problem| &problem.path)
                .collect::<BTreeSet<_>>(),
            [&victim].into(),
            "{at}"
        );
        store.heal(&problems).unwrap();
        assert!(store.verify(&|_| ()).unwrap().is_empty());
        publish(&store);
        assert!(store.check_tree(&digest).is_ok());
        fs::write(&log, whole).unwrap();
    }
}

/// Landlock sees no modes, so a step may open a file of the store for writing, in vain; the next one finds it closed.
#[cfg(unix)]
#[test]
fn what_was_opened_for_writing_is_closed_again() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, store) = opened();
    let tree = store
        .publish(&made(&store.scratch().unwrap(), "x"))
        .unwrap();
    for file in store.check_tree(&tree).unwrap().files {
        let path = store.blob(&file);
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o444);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        store.check_tree(&tree).unwrap();
        assert_eq!(mode(), 0o444, "{}", file.path);
    }
}

/// Two of a new store's first files may belong into one folder, which neither finds.
#[test]
fn threads_that_put_the_first_files_into_one_folder_all_succeed() {
    let first = |text: &String| Digest::of(text.as_bytes()).to_string().starts_with("00");
    let texts: Vec<String> = (0..)
        .map(|n| format!("content {n}"))
        .filter(first)
        .take(8)
        .collect();
    let dir = tempfile::tempdir().unwrap();
    for round in 0..300 {
        let root = dir.path().join(round.to_string());
        fs::create_dir(&root).unwrap();
        let blobs = Blobs::new(&root);
        let together = std::sync::Barrier::new(texts.len());
        let put = |(n, text): (usize, &String)| {
            together.wait();
            blobs
                .put("x".into(), text.as_bytes(), &root.join(n.to_string()))
                .unwrap()
        };
        let put = &put;
        std::thread::scope(|scope| {
            texts
                .iter()
                .enumerate()
                .for_each(|one| drop(scope.spawn(move || put(one))))
        });
    }
}

/// The package `onnx` refuses external data that has several names.
#[test]
fn weights_beside_a_graph_are_laid_out_as_lone_files() {
    let (dir, store) = opened();
    let scratch = store.scratch().unwrap();
    let made = scratch.dir("made").unwrap();
    let files = ["model.onnx", "manifest.json", "part 0.bin", "sub/weights"];
    fs::create_dir_all(made.join("sub")).unwrap();
    for file in files {
        fs::write(made.join(file), file).unwrap();
    }
    let tree = store.publish(&made).unwrap();
    let at = dir.path().join("at");
    store.lay_out(&tree, &at, LaidAs::Links).unwrap();
    let names = files.map(|file| fs::metadata(at.join(file)).unwrap().nlink());
    assert_eq!(names, [2, 2, 1, 1]);
}
