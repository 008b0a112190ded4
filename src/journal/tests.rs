//! A journal that is written, cut off, pruned, and read back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;
use crate::event::{Event, Holds, Listener, Slot};

fn head(started: &str) -> Head {
    Head {
        version: 1,
        started: started.into(),
        command: "orch run".into(),
        folder: "/".into(),
        host: "here".into(),
        jobs: 2,
        again: "orch run specs/all.yaml".into(),
    }
}

fn began(step: &str) -> Event {
    Event::began(step, Slot::Job(1), None, Holds::ONE_CORE)
}

#[test]
fn what_is_read_is_what_happened() {
    let dir = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let journal = Journal::new(
        &dir.path().join("runs"),
        "20260102T030405.678Z-1a",
        head("2026-01-02T03:04:05.678Z"),
        start,
    );
    journal.tell(Event::Started {
        steps: 3,
        to_run: 2,
        cases: 0,
        recorded: BTreeMap::new(),
    });
    assert!(
        !dir.path().join("runs").exists(),
        "a run that executes nothing writes nothing"
    );
    journal.tell(began("a"));
    journal.tell(began("b"));
    let begin = start + Duration::from_secs(1);
    journal.tell(Event::ended(
        "a",
        Outcome::Fail,
        Some("no disk"),
        begin,
        begin + Duration::from_millis(250),
    ));
    let path = files(&dir.path().join("runs")).unwrap().remove(0);
    assert!(read(&path).unwrap().unwrap().goes_on);
    journal.finish(2.0, true, 7).unwrap();
    drop(journal);
    let run = read(&path).unwrap().unwrap();
    assert_eq!(run.steps.len(), 1);
    let ExecutedStep {
        step,
        outcome,
        reason,
        why,
        slot,
        at,
        seconds,
        waited,
        ..
    } = &run.steps[0];
    assert_eq!(
        (step.as_str(), *outcome, reason.as_deref()),
        ("a", Outcome::Fail, Some("no disk"))
    );
    assert_eq!(
        (why.as_str(), slot.as_deref()),
        ("never ran", Some("job 1"))
    );
    assert_eq!((*at, *seconds, *waited), (1.0, 0.25, 0.005));
    assert_eq!(run.cut_off, ["b"]);
    let end = run.end.unwrap();
    assert_eq!((end.seconds, end.interrupted, end.hits), (2.0, true, 7));
    assert_eq!(end.outcomes, BTreeMap::from([(Outcome::Fail, 1)]));
    assert!(!run.goes_on && run.unreadable == 0);
}

#[test]
fn a_torn_last_line_is_counted_and_the_rest_read() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path(), "2026-1a", head("2026"), Instant::now());
    journal.tell(began("a"));
    journal.finish(1.0, false, 0).unwrap();
    let path = files(dir.path()).unwrap().remove(0);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 9]).unwrap();
    let run = read(&path).unwrap().unwrap();
    assert!(run.end.is_none() && run.unreadable == 1 && run.cut_off == ["a"]);
    std::fs::write(&path, "{").unwrap();
    assert!(read(&path).unwrap().is_none());
}

#[test]
fn the_oldest_make_room() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.jsonl"), "theirs").unwrap();
    for n in 0..KEPT + 5 {
        let name = format!("2026{n:03}-1a");
        let journal = Journal::new(dir.path(), &name, head("2026"), Instant::now());
        journal.tell(began("a"));
        journal.finish(1.0, false, 0).unwrap();
    }
    assert!(dir.path().join("notes.jsonl").exists());
    let kept = files(dir.path()).unwrap();
    assert_eq!(kept.len(), KEPT);
    assert!(
        kept[0]
            .to_str()
            .unwrap()
            .contains(&format!("2026{:03}-", KEPT + 4))
    );
}
