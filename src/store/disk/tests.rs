//! The store on a real disk: what is published is found, what is damaged is told.

use super::*;
use crate::key::KeyDoc;
use crate::record::Outcome;

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
        reason: None,
        output,
        started: "2026-01-01T00:00:00Z".into(),
        seconds: 0.1 + 0.2,
        host: "h".into(),
        facts: serde_json::json!({"z": 1, "a": [1.5, null]}),
        measure: None,
        numerics: None,
        repro: None,
        why: None,
    };
    store.remember(&record).unwrap();
    record
}

#[cfg(unix)]
fn flip_a_bit(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn equal_content_is_one_tree_wherever_it_was_made() {
    let dir = tempfile::tempdir().unwrap();
    let store = DiskStore::open(dir.path()).unwrap();
    let scratch = store.scratch().unwrap();
    let one = store.publish(&made(&scratch, "x")).unwrap();
    let two = store.publish(&made(&scratch, "x")).unwrap();
    let other = store.publish(&made(&scratch, "y")).unwrap();
    assert_eq!(one, two);
    assert_ne!(one, other);
    assert_eq!(store.stats().unwrap().trees, 2);
    assert_eq!(fs::read_to_string(store.verified_tree(&one).unwrap().join("a.txt")).unwrap(), "x");
}

#[test]
fn only_success_is_a_hit() {
    let dir = tempfile::tempdir().unwrap();
    let store = DiskStore::open(dir.path()).unwrap();
    let failed = record(&store, Outcome::Fail, None);
    assert!(store.lookup(&failed.key.digest()).unwrap().is_none());
    assert_eq!(store.latest("convert:m:onnx").unwrap().unwrap().outcome, Outcome::Fail);
    record(&store, Outcome::Pass, None);
    assert!(store.lookup(&failed.key.digest()).unwrap().is_some());
}

#[cfg(unix)]
#[test]
fn a_flipped_bit_is_found_wherever_it_is_and_heals() {
    let dir = tempfile::tempdir().unwrap();
    let writer = DiskStore::open(dir.path()).unwrap();
    let scratch = writer.scratch().unwrap();
    let digest = writer.publish(&made(&scratch, "weights")).unwrap();
    let key = record(&writer, Outcome::Pass, Some(digest)).key.digest();
    for victim in [
        writer.tree_path(&digest).join("a.txt"),
        writer.fan("trees", &digest).join("manifest.json"),
        writer.fan("records", &key),
    ] {
        flip_a_bit(&victim);
        // A fresh process has verified nothing yet.
        let store = DiskStore::open(dir.path()).unwrap();
        let noticed = store.verified_tree(&digest).is_err() || store.lookup(&key).is_err();
        assert!(noticed, "{} was read without complaint", victim.display());
        let problems = store.verify().unwrap();
        assert_eq!(problems.len(), 1, "{problems:?}");
        store.heal(&problems).unwrap();
        assert!(store.verify().unwrap().is_empty());
        store.publish(&made(&scratch, "weights")).unwrap();
        record(&store, Outcome::Pass, Some(digest));
    }
}
