//! Interleavings that another process could bring about, one by one.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::base::{Digest, fs as bfs};
use crate::key::KeyDoc;
use crate::record::{Outcome, Record};
use crate::store::{LaidAs, StoreError};

/// One store, as two processes have it.
fn opened() -> (tempfile::TempDir, DiskStore, DiskStore) {
    let dir = tempfile::tempdir().unwrap();
    let open = || DiskStore::open(dir.path()).unwrap();
    let ours = open();
    let theirs = open();
    (dir, ours, theirs)
}

/// A folder outside of the store's own, which collections sweep.
fn made(store: &DiskStore, text: &str) -> PathBuf {
    let dir = store.root().join(format!("made-{}", bfs::Nonce::next()));
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("file"), text).unwrap();
    dir
}

fn record(step: &str, output: Option<Digest>) -> Record {
    let mut key = KeyDoc::default();
    key.set("step", step);
    key.set("output", format!("{output:?}"));
    let step = step.into();
    let started = "2026-01-01T00:00:00Z".into();
    Record {
        step,
        key,
        outcome: Outcome::Pass,
        output,
        started,
        ..Record::default()
    }
}

/// Makes a tree and a record of it.
fn execute(store: &DiskStore, step: &str, text: &str) -> Record {
    let tree = store.publish(&made(store, text)).unwrap();
    let record = record(step, Some(tree));
    store.keep(&record, None).unwrap();
    record
}

fn all() -> Limits {
    Limits {
        max_bytes: Some(0),
        ..Limits::default()
    }
}

/// What a collection would take out, not yet done.
fn everything<'a>(store: &DiskStore, survey: &'a Survey) -> Sorting<'a> {
    let chosen = choose(
        survey,
        &all(),
        Clock {
            now: i64::MAX,
            running_since: None,
            read: None,
        },
    );
    assert_eq!(chosen.blobs.len(), 0);
    Sorting::of(survey, chosen, |blob| {
        store.is_newer(blob, SystemTime::now() + GRACE)
    })
}

#[test]
fn what_is_appended_between_the_choice_and_the_compaction_stays() {
    let (dir, ours, theirs) = opened();
    let old = execute(&ours, "run:old", "same");
    let (survey, seen) = Survey::of(&ours.log).unwrap();
    let mut sorting = everything(&ours, &survey);
    assert_eq!(sorting.trees_gone(), 1);
    // Another process makes the same tree under another key, and something new.
    let same = execute(&theirs, "run:same", "same");
    let new = execute(&theirs, "run:new", "new");
    assert_eq!(same.output, old.output);
    assert!(ours.log.compact(&seen, &mut sorting).unwrap());
    let kept = sorting.done();
    assert_eq!((kept.records, kept.blobs.len()), (2, 2));
    let later = SystemTime::now() + GRACE;
    ours.sweep_blobs(
        &kept.blobs,
        &survey.blobs,
        Horizon {
            named: later,
            unnamed: later,
        },
        false,
    )
    .unwrap();
    for store in [&ours, &theirs, &DiskStore::open(dir.path()).unwrap()] {
        for record in [&same, &new] {
            assert!(store.lookup(&record.key.digest()).unwrap().is_some());
            store.check_tree(&record.output.unwrap()).unwrap();
        }
    }
    assert!(ours.lookup(&old.key.digest()).unwrap().is_none());
    assert_eq!(ours.latest("run:new").unwrap().unwrap().key, new.key);
    assert!(ours.verify(&|_| ()).unwrap().is_empty());
}

#[test]
fn a_choice_that_was_made_of_an_older_log_is_not_carried_out() {
    let (_dir, ours, theirs) = opened();
    execute(&ours, "run:a", "a");
    execute(&ours, "run:b", "b");
    let (survey, seen) = Survey::of(&ours.log).unwrap();
    let mut sorting = everything(&ours, &survey);
    theirs.heal(&[]).unwrap(); // puts another log in its place
    let kept = execute(&theirs, "run:c", "c");
    assert!(!ours.log.compact(&seen, &mut sorting).unwrap());
    assert_eq!(ours.stats().unwrap().held, 3);
    assert!(ours.lookup(&kept.key.digest()).unwrap().is_some());
}

#[test]
fn a_writer_that_knew_the_tree_before_it_was_collected_appends_it_again() {
    let (_dir, ours, theirs) = opened();
    execute(&ours, "run:a", "a");
    let files = theirs.place(&made(&theirs, "a")).unwrap();
    assert!(theirs.has_tree(&files.digest()), "theirs knows the tree");
    ours.collect(&all(), false).unwrap();
    // Its content counts as new, as if the collection had begun before.
    theirs.place(&made(&theirs, "a")).unwrap();
    let record = record("run:b", Some(files.digest()));
    theirs.keep(&record, Some(&files)).unwrap();
    ours.log.refresh().unwrap();
    assert!(ours.lookup(&record.key.digest()).unwrap().is_some());
    ours.check_tree(&files.digest()).unwrap();
}

#[test]
fn a_hit_found_before_a_compaction_is_still_read_rightly_after_it() {
    let (_dir, ours, theirs) = opened();
    execute(&ours, "run:gone", "gone");
    let records = ["run:a", "run:b"].map(|step| execute(&ours, step, step));
    let hits = records
        .each_ref()
        .map(|record| theirs.hit(&record.key.digest()).unwrap().unwrap());
    let keep = records.iter().map(|record| record.key.digest()).collect();
    let done = ours.collect(&Limits { keep, ..all() }, false).unwrap();
    assert_eq!((done.records.large, done.kept_records), (1, 2));
    // Makes theirs follow to the new log, in which everything stands elsewhere.
    theirs.keep(&record("run:late", None), None).unwrap();
    for (hit, record) in hits.iter().zip(&records) {
        assert_eq!(theirs.record(hit).unwrap().step, record.step);
    }
}

#[test]
fn verified_content_that_was_collected_is_found_missing_and_not_believed() {
    let (dir, ours, theirs) = opened();
    let record = execute(&theirs, "run:a", "a");
    let tree = record.output.unwrap();
    theirs.check_tree(&tree).unwrap();
    ours.collect(&all(), false).unwrap();
    let failed = theirs.lay_out(&tree, &dir.path().join("at"), LaidAs::Links);
    assert!(
        matches!(failed, Err(StoreError::Damaged { .. })),
        "{failed:?}"
    );
    assert!(
        theirs.check_tree(&tree).is_err(),
        "else the step that made it would not run again"
    );
}

#[test]
fn content_that_no_entry_names_goes_when_it_is_old() {
    let (_dir, ours, _) = opened();
    ours.place(&made(&ours, "orphan")).unwrap();
    let survey = Survey::default();
    let now = SystemTime::now();
    let sweep = |unnamed, dry_run| {
        let horizon = Horizon {
            named: now + GRACE,
            unnamed,
        };
        let swept = ours
            .sweep_blobs(&Default::default(), &survey.blobs, horizon, dry_run)
            .unwrap();
        (swept.gone.count, swept.too_new.count)
    };
    assert_eq!(sweep(now - GRACE, false), (0, 1));
    assert_eq!(sweep(now + GRACE, true), (1, 0));
    assert_eq!(sweep(now + GRACE, false), (1, 0));
    assert_eq!(sweep(now + GRACE, false), (0, 0));
}

#[test]
fn a_tree_on_its_way_into_a_record_stays() {
    let (_dir, ours, theirs) = opened();
    let tree = theirs.publish(&made(&theirs, "report")).unwrap();
    let done = ours.collect(&all(), false).unwrap();
    assert_eq!((done.trees, done.blobs.count), (0, 0));
    theirs.keep(&record("report", Some(tree)), None).unwrap();
    ours.check_tree(&tree).unwrap();
}
