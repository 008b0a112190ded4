//! Random words for everything that reads some: an error or a value, never a panic.

use orch::base::{Size, glob, shell, suggest, text, tree_path};
use orch::exec::MaxAge;
use orch::matrix::Partition;
use rand::seq::IndexedRandom;

use crate::rng;

/// What parsers look for, and characters of one to four bytes.
const PIECES: [&str; 32] = [
    "0",
    "9",
    "1.5",
    "G",
    "iB",
    "é",
    "٣",
    "漢",
    "\u{1f600}",
    "\u{301}",
    "\u{202e}",
    " ",
    ":",
    "/",
    "://",
    "@",
    "?",
    "#",
    "[",
    "]",
    "\u{1b}[",
    "m",
    "\r",
    "\n",
    "\0",
    "hash",
    "slice",
    "d",
    "*",
    "\\",
    "'",
    "..",
];

#[test]
fn no_word_is_too_odd() {
    let mut rng = rng();
    for _ in 0..50_000 {
        let word = |rng: &mut _| {
            (0..6)
                .map(|_| *PIECES.choose(rng).unwrap())
                .collect::<String>()
        };
        let one = word(&mut rng);
        let other = word(&mut rng);
        let _ = (
            one.parse::<Size>(),
            one.parse::<MaxAge>(),
            one.parse::<Partition>(),
        );
        let _ = (
            glob::matches(&one, &other),
            suggest::nearest(&one, [other.as_str()]),
            tree_path::fault(&one),
        );
        let _ = (
            shell::word(&one),
            orch::template::slug(&one),
            text::without_secrets(&one),
        );
        assert!(!text::printable(&one).contains(text::is_unseen), "{one:?}");
    }
}
