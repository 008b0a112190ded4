//! Processes side by side, in one: each with its own open files, as processes have them.

use std::time::Duration;

use super::*;

fn draft(payload: &str) -> Entry {
    Entry::new(Kind::Tree, Digest::of(payload.as_bytes()), payload.into())
}

fn bytes_of(draft: &Entry) -> Vec<u8> {
    [&draft.header.to_bytes()[..], &draft.payload].concat()
}

fn knows(log: &Log, payload: &str) -> bool {
    log.knows_tree(&Digest::of(payload.as_bytes())).unwrap()
}

/// A log of one entry, `first`.
fn opened() -> (tempfile::TempDir, Log) {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path()).unwrap();
    log.append(vec![draft("first")]).unwrap();
    (dir, log)
}

/// The file to write to past the log, and how long it is.
fn end_of(log: &Log) -> (File, u64) {
    let file = File::options().write(true).open(log.path()).unwrap();
    let end = file.metadata().unwrap().len();
    (file, end)
}

/// `other` holds the lock and does two things to the end of the log; between them, `reader` begins to read.
fn while_it_waits(
    reader: &Log,
    other: &Log,
    first: impl Fn(&File, u64),
    then: impl Fn(&File, u64),
) {
    let (file, end) = end_of(reader);
    other.gate.lock().unwrap();
    first(&file, end);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| reader.refresh());
        std::thread::sleep(Duration::from_millis(50));
        then(&file, end);
        other.gate.unlock().unwrap();
        reading.join().unwrap().unwrap();
    });
}

/// Another process that holds the lock and has not written all of its entry: on some file systems the end of a write is seen
/// before its beginning.
#[test]
fn a_reader_does_not_take_an_entry_that_is_being_written_for_a_damaged_one() {
    let (dir, reader) = opened();
    let other = Log::open(dir.path()).unwrap();
    let entry = bytes_of(&draft(&"second".repeat(99)));
    let begins = |file: &File, end| file.write_all_at(&entry[60..], end + 60).unwrap();
    while_it_waits(&reader, &other, begins, |file, end| {
        file.write_all_at(&entry[..60], end).unwrap()
    });
    assert_eq!(reader.damage().unwrap(), 0);
    assert!(knows(&reader, &"second".repeat(99)));
    reader.append(vec![draft("third")]).unwrap();
    other.refresh().unwrap();
    assert!(
        ["first", "third"]
            .iter()
            .all(|payload| knows(&other, payload))
    );
    assert_eq!(other.damage().unwrap(), 0);
}

/// An append of two entries whose second one does not fit is taken back as a whole. Who has seen the first must not go on
/// behind it.
#[test]
fn what_a_failing_writer_takes_back_was_seen_by_nobody() {
    let (dir, reader) = opened();
    let other = Log::open(dir.path()).unwrap();
    let begins = |file: &File, end| {
        file.write_all_at(&bytes_of(&draft("taken back")), end)
            .unwrap()
    };
    while_it_waits(&reader, &other, begins, |file, end| {
        file.set_len(end).unwrap()
    });
    assert!(!knows(&reader, "taken back"));
    let long = "longer than what was taken back";
    other.append(vec![draft(long), draft("last")]).unwrap();
    reader.append(vec![draft("mine")]).unwrap();
    let third = Log::open(dir.path()).unwrap();
    assert!(
        ["first", long, "last", "mine"]
            .iter()
            .all(|payload| knows(&third, payload))
    );
    assert_eq!(third.damage().unwrap(), 0);
}

#[test]
fn a_log_that_was_cut_below_what_was_read_is_read_anew() {
    let (dir, log) = opened();
    let (file, end) = end_of(&log);
    log.append(vec![draft("second")]).unwrap();
    file.set_len(end + 7).unwrap();
    log.append(vec![draft("third")]).unwrap();
    assert!(knows(&log, "first") && knows(&log, "third") && !knows(&log, "second"));
    let other = Log::open(dir.path()).unwrap();
    assert!(knows(&other, "first") && knows(&other, "third"));
    assert_eq!(other.damage().unwrap(), 0);
}

/// A power failure may leave zeros where data was not yet written, in every length.
#[test]
fn a_tail_of_zeros_or_of_half_an_entry_costs_that_entry_only() {
    let whole = bytes_of(&draft("second"));
    for kept in 0..whole.len() {
        for zeros in [0, whole.len() - kept, 4096] {
            let (dir, log) = opened();
            let (file, end) = end_of(&log);
            file.write_all_at(&[&whole[..kept], &vec![0; zeros]].concat(), end)
                .unwrap();
            let next = Log::open(dir.path()).unwrap();
            next.append(vec![draft("third")]).unwrap();
            let last = Log::open(dir.path()).unwrap();
            for log in [&log, &next, &last] {
                log.refresh().unwrap();
                assert!(
                    knows(log, "first") && knows(log, "third"),
                    "{kept} bytes and {zeros} zeros"
                );
            }
        }
    }
}
