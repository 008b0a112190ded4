//! Takes the values of declared variables out of what a program says, before it reaches a log. The only home of
//! aho-corasick.
//!
//! A value that the program writes in another form (reversed, in base64, a character a line) is not recognised.

use std::ffi::OsStr;

use aho_corasick::{AhoCorasick, MatchKind};

/// A shorter value is too often part of a word, and too easily guessed to be a secret.
const SHORTEST: usize = 8;
/// What these hold is no secret, and stands in many a message.
const PLAIN: [&str; 2] = ["PATH", "HOME"];

#[derive(Default)]
pub(super) struct Redact {
    /// None if there is nothing to take out.
    search: Option<AhoCorasick>,
    /// What replaces each value.
    notes: Vec<String>,
    /// What may be the beginning of a value.
    held: Vec<u8>,
    longest: usize,
}

impl Redact {
    /// Collects the values to hide. Of a value in several lines, each line counts for itself as well: that is how keys
    /// are printed.
    pub(super) fn of<'a>(variables: impl Iterator<Item = (&'a str, &'a OsStr)>) -> Self {
        let mut values: Vec<(Vec<u8>, &str)> = Vec::new();
        for (name, value) in variables.filter(|(name, _)| !PLAIN.contains(name)) {
            let bytes = value.as_encoded_bytes();
            let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
            values.extend(
                lines
                    .chain([bytes])
                    .filter(|text| text.len() >= SHORTEST)
                    .map(|text| (text.to_vec(), name)),
            );
        }
        let longest = values
            .iter()
            .map(|(value, _)| value.len())
            .max()
            .unwrap_or_default();
        let search = (longest > 0).then(|| {
            let mut builder = AhoCorasick::builder();
            let built = builder
                .match_kind(MatchKind::LeftmostLongest)
                .build(values.iter().map(|(value, _)| value));
            built.expect("BUG: an environment is too small to be too large")
        });
        let notes = values
            .iter()
            .map(|(_, name)| format!("[value of {name}]"))
            .collect();
        Self {
            search,
            notes,
            held: Vec::new(),
            longest,
        }
    }

    /// How much of the output so far can be passed on.
    pub(super) fn pass(&mut self, output: &[u8]) -> Vec<u8> {
        if self.search.is_none() {
            return output.to_vec();
        }
        self.held.extend_from_slice(output);
        // A value may begin in the last bytes and go on in the next ones; one that ends before them is whole.
        self.release(self.longest - 1)
    }

    /// The rest, when nothing more will be written.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        self.release(0)
    }

    fn release(&mut self, kept: usize) -> Vec<u8> {
        let Some(search) = &self.search else {
            return Vec::new();
        };
        let mut released = Vec::with_capacity(self.held.len());
        let sure = self.held.len().saturating_sub(kept);
        let mut at = 0;
        for found in search
            .find_iter(&self.held)
            .take_while(|found| found.start() < sure)
        {
            released.extend_from_slice(&self.held[at..found.start()]);
            released.extend_from_slice(self.notes[found.pattern().as_usize()].as_bytes());
            at = found.end();
        }
        let until = sure.max(at);
        released.extend_from_slice(&self.held[at..until]);
        self.held.drain(..until);
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(pieces: &[&[u8]]) -> String {
        let key = "-----BEGIN KEY-----\nabcdefghijkl\nmn\n-----END KEY-----\n";
        let variables = [
            ("A", "longsecret"),
            ("B", "longsecret-longer"),
            ("SHORT", "seven77"),
            ("KEY", key),
            ("PATH", "a path of its own"),
        ];
        let mut redact = Redact::of(
            variables
                .iter()
                .map(|(name, value)| (*name, OsStr::new(*value))),
        );
        let mut output: Vec<u8> = pieces.iter().flat_map(|piece| redact.pass(piece)).collect();
        output.extend(redact.rest());
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn however_it_is_cut_the_longest_value_goes_and_all_else_stays() {
        let output = b"a longsecret-longer, a longsecret-lon, seven77; abcdefghijkl\nlongsecret, a path of its own";
        let expected = "a [value of B], a [value of A]-lon, seven77; [value of KEY]\n[value of A], a path of its own";
        for first in 0..=output.len() {
            for second in first..=output.len() {
                assert_eq!(
                    redacted(&[&output[..first], &output[first..second], &output[second..]]),
                    expected,
                    "{first} {second}"
                );
            }
        }
        assert_eq!(redacted(&[b"longsecre"]), "longsecre");
        assert_eq!(redacted(&[]), "");
    }

    #[test]
    fn without_values_nothing_waits() {
        let mut redact = Redact::of([("SHORT", OsStr::new("seven77"))].into_iter());
        assert_eq!(redact.pass(b"seven77"), b"seven77");
    }
}
