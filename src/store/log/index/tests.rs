//! An index changes no answer, whatever becomes of it or of the log.

use std::fs;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::store::entry::step_id;
use crate::store::log::{Choice, Draft, Entry, Log};

const KEYS: u32 = 24;
const STEPS: u32 = 9;
const TREES: u32 = 12;

fn digest(number: u32) -> Digest {
    Digest::of(&number.to_le_bytes())
}

fn step(number: u32) -> Short {
    step_id(&format!("command:{number}"))
}

fn tree(number: u32) -> Draft {
    let payload = format!("tree {number}").into_bytes();
    Draft { header: Header::tree(digest(number), &payload), payload }
}

fn record(key: u32, of: u32, held: Held, payload: &str) -> Draft {
    let payload = payload.as_bytes().to_vec();
    Draft { header: Header::record(digest(key), step(of), held, Some(digest(key % TREES)), &payload), payload }
}

/// One of all kinds.
fn any(rng: &mut ChaCha8Rng) -> Draft {
    let held = [Held::No, Held::Passed, Held::Refused, Held::Flaky][rng.random_range(0..4)];
    let (key, number) = (rng.random_range(0..KEYS), rng.random_range(0..TREES));
    match rng.random_range(0..8) {
        0..2 => tree(number),
        2 => Draft { header: Header::dropped(digest(number)), payload: Vec::new() },
        _ => {
            let mut draft = record(key, key % STEPS, held, &format!("at {}", rng.random::<u64>()));
            draft.header.aside = rng.random_range(0..4) == 0;
            draft
        }
    }
}

/// A process that has just begun; it reads all if it is not to look for an index.
fn opened(dir: &Path, by_index: bool) -> Log {
    let mut log = Log::open(dir).unwrap();
    if !by_index {
        log.state.get_mut().unwrap().want_all();
    }
    log
}

fn uses_index(log: &Log) -> bool {
    let state = log.read().unwrap();
    state.is_read && !state.is_whole()
}

/// All that can be asked.
fn answers(log: &Log) -> Vec<String> {
    let held = (0..KEYS).map(|key| match log.held(&digest(key)) {
        Ok(found) => format!("{:?}", found.map(|(place, header)| (place.at, header))),
        Err(e) => e.to_string(),
    });
    let history = (0..STEPS).map(|number| {
        let mut places = Vec::new();
        let mut next = log.latest(&step(number)).unwrap();
        while let Some(place) = next {
            places.push(place.at);
            let entry = log.entry(&place);
            next = entry.ok().and_then(|entry| log.previous(&place, &entry.header));
        }
        format!("{places:?}")
    });
    let trees = (0..TREES).map(|number| match log.tree(&digest(number)) {
        Ok(found) => format!("{:?} {}", found.map(|entry| entry.payload), log.knows_tree(&digest(number)).unwrap()),
        Err(e) => e.to_string(),
    });
    held.chain(history).chain(trees).collect()
}

fn keep(log: &Log) -> bool {
    log.keep_index_from(|_| 0).unwrap()
}

struct Some3(u64);

impl Choice for Some3 {
    fn late(&mut self, _: &Entry) {}

    fn keeps(&mut self, at: u64, entry: &Entry) -> bool {
        entry.header.kind == Kind::Record && !(at + self.0).is_multiple_of(3)
    }
}

#[test]
fn an_index_gives_the_answers_of_the_whole_log() {
    let mut used = 0;
    for seed in 0..12 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let dir = tempfile::tempdir().unwrap();
        let mut processes: Vec<Log> = (0..3).map(|_| opened(dir.path(), true)).collect();
        for round in 0..150 {
            let at = rng.random_range(0..processes.len());
            match rng.random_range(0..20) {
                0..3 => drop(keep(&processes[at])),
                3..6 => processes[at] = opened(dir.path(), true),
                6 if rng.random_range(0..4) == 0 => {
                    let seen = processes[at].each(|_, _| ()).unwrap();
                    assert!(processes[at].compact(&seen, &mut Some3(round)).unwrap());
                    assert!(!processes[at].index.exists());
                }
                _ => {
                    let drafts = (0..rng.random_range(1..4)).map(|_| any(&mut rng)).collect();
                    processes[at].append(drafts).unwrap();
                }
            }
            let asked = &processes[rng.random_range(0..processes.len())];
            asked.refresh().unwrap();
            used += u32::from(uses_index(asked));
            assert_eq!(answers(asked), answers(&opened(dir.path(), false)), "seed {seed}, round {round}");
        }
        assert_eq!(processes[0].damage().unwrap(), 0);
        assert!(!uses_index(&processes[0]), "who asks for damage reads all");
    }
    assert!(used > 100, "{used}");
}

/// Many entries, of which the first are far from the end that is compared; and its index.
fn indexed(dir: &Path) -> Log {
    let log = opened(dir, false);
    for key in 0..KEYS {
        let others = [tree(key % TREES), record(key, key % STEPS, Held::No, "it failed")];
        log.append(others.into_iter().chain([record(key, key % STEPS, Held::Flaky, "it passed")]).collect()).unwrap();
    }
    let long = vec![b'x'; TAIL as usize];
    log.append(vec![Draft { header: Header::tree(digest(KEYS), &long), payload: long }]).unwrap();
    assert!(keep(&log));
    assert!(uses_index(&opened(dir, true)));
    log
}

#[test]
fn a_damaged_index_is_as_none() {
    let dir = tempfile::tempdir().unwrap();
    let log = indexed(dir.path());
    let right = answers(&log);
    let whole = fs::read(&log.index).unwrap();
    for at in (0..whole.len()).step_by(29) {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&log.index, bytes).unwrap();
        assert_eq!(answers(&opened(dir.path(), true)), right, "byte {at}");
    }
    for length in (0..whole.len()).step_by(101) {
        fs::write(&log.index, &whole[..length]).unwrap();
        assert_eq!(answers(&opened(dir.path(), true)), right, "cut to {length}");
    }
    // Who met it writes a right one.
    let mut bytes = whole.clone();
    bytes[100] ^= 4;
    fs::write(&log.index, bytes).unwrap();
    let log = opened(dir.path(), true);
    log.append(vec![record(0, 0, Held::Passed, "again")]).unwrap();
    assert!(keep(&log) && uses_index(&opened(dir.path(), true)));
}

/// An entry that the index knows and that can no longer be read must not hide what stood there before it, nor be given.
#[test]
fn a_damaged_entry_is_found_as_without_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let log = indexed(dir.path());
    let index = fs::read(&log.index).unwrap();
    let whole = fs::read(log.path()).unwrap();
    let begin = whole.len() - TAIL as usize;
    let mut used = 0;
    for (round, at) in (0..begin).step_by(23).enumerate() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        fs::write(log.path(), bytes).unwrap();
        let (by_index, by_scan) = (opened(dir.path(), true), opened(dir.path(), false));
        used += usize::from(uses_index(&by_index));
        assert_eq!(answers(&by_index), answers(&by_scan), "byte {at}");
        assert_eq!(by_index.damage().unwrap(), by_scan.damage().unwrap());
        assert!(!keep(&by_scan) || by_scan.damage().unwrap() == 0);
        // A step that is appended to has its history, and a tree that is damaged is written anew.
        if round.is_multiple_of(5) {
            let by_index = opened(dir.path(), true);
            let drafts = || (0..TREES).map(tree).chain((0..STEPS).map(|n| record(n, n, Held::Passed, "new"))).collect();
            by_index.append(drafts()).unwrap();
            let by_index = (answers(&by_index), fs::read(log.path()).unwrap());
            fs::write(log.path(), &by_index.1[..whole.len()]).unwrap();
            let by_scan = opened(dir.path(), false);
            by_scan.append(drafts()).unwrap();
            assert!(by_index == (answers(&by_scan), fs::read(log.path()).unwrap()), "byte {at}");
        }
        fs::write(log.path(), &whole).unwrap();
        fs::write(&log.index, &index).unwrap();
    }
    assert!(used > begin / 23 * 9 / 10, "{used} of {}", begin / 23);
}

/// The same file, as far as its number tells, with other content: restored by hand, or cut by a power failure and grown since.
#[test]
fn an_index_of_another_log_or_of_a_longer_one_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let log = indexed(dir.path());
    let end = fs::metadata(log.path()).unwrap().len();
    let index = fs::read(&log.index).unwrap();
    drop(log);
    let check = |what: &str| {
        let by_index = opened(dir.path(), true);
        assert!(!uses_index(&by_index), "{what}");
        assert_eq!(answers(&by_index), answers(&opened(dir.path(), false)), "{what}");
    };
    for cut in [1, TAIL, TAIL + 300, end] {
        let path = dir.path().join("log");
        let whole = fs::read(&path).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(end - cut).unwrap();
        check("cut short");
        let log = opened(dir.path(), true);
        while fs::metadata(&path).unwrap().len() < end + 1000 {
            let bytes = fs::metadata(&path).unwrap().len();
            log.append(vec![record(3, 3, Held::Passed, &format!("grown at {bytes}"))]).unwrap();
        }
        check("grown again");
        fs::write(&path, whole).unwrap();
        fs::write(dir.path().join("log.index"), &index).unwrap();
        assert!(uses_index(&opened(dir.path(), true)));
    }
    // Of another log in another folder, and of one that a copy was put in the place of.
    let other = tempfile::tempdir().unwrap();
    opened(other.path(), false).append((0..99).map(|key| record(key, 1, Held::Passed, "other")).collect()).unwrap();
    fs::write(other.path().join("log.index"), &index).unwrap();
    assert!(!uses_index(&opened(other.path(), true)));
    fs::copy(dir.path().join("log"), dir.path().join("copy")).unwrap();
    fs::rename(dir.path().join("copy"), dir.path().join("log")).unwrap();
    check("another file");
}

/// What this process knows is of a log that is gone, though its file is there.
#[test]
fn of_a_log_that_was_cut_and_grew_under_its_reader_no_index_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let log = indexed(dir.path());
    log.append(vec![record(1, 1, Held::Passed, "gone")]).unwrap();
    let cut = fs::metadata(log.path()).unwrap().len() - 20;
    File::options().write(true).open(log.path()).unwrap().set_len(cut).unwrap();
    opened(dir.path(), true).append(vec![record(2, 2, Held::Passed, &"other".repeat(9))]).unwrap();
    assert!(log.keep_index_from(|_| 0).is_err());
    assert_eq!(answers(&opened(dir.path(), true)), answers(&opened(dir.path(), false)));
}

/// Nobody knows of an entry whose writer was killed; what follows it stands in its place.
#[test]
fn a_torn_end_behind_an_index_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let log = indexed(dir.path());
    let end = fs::metadata(log.path()).unwrap().len();
    log.append(vec![record(5, 5, Held::Passed, "torn")]).unwrap();
    File::options().write(true).open(log.path()).unwrap().set_len(end + 122).unwrap();
    let log = opened(dir.path(), true);
    log.append(vec![record(6, 6, Held::Passed, "next")]).unwrap();
    assert!(uses_index(&log));
    assert_eq!(answers(&log), answers(&opened(dir.path(), false)));
    assert_eq!(log.held(&digest(6)).unwrap().unwrap().0.at, end);
}

#[test]
fn an_index_is_written_when_much_was_appended() {
    let dir = tempfile::tempdir().unwrap();
    let log = opened(dir.path(), true);
    log.append(vec![record(1, 1, Held::Passed, "short")]).unwrap();
    assert!(!log.keep_index().unwrap(), "not worth it");
    let long = "x".repeat(1 << 20);
    log.append(vec![record(2, 2, Held::Passed, &long)]).unwrap();
    assert!(log.keep_index().unwrap());
    assert!(!log.keep_index().unwrap(), "nothing is new");
    log.append(vec![record(3, 3, Held::Passed, &long)]).unwrap();
    assert!(opened(dir.path(), true).read().is_ok() && log.keep_index().unwrap());
}
