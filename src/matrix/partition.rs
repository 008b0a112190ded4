//! One of several parts of what is requested, so that as many machines can share it: `model:1/4`, `hash:1/4`, `slice:1/4`.
//!
//! Every id is in exactly one part. With `model` all cases of a model are in one part, so that no part makes or exports it
//! again, and parts take about as long as each other ([`super::shards`]). With `hash` an id's part depends on nothing else: it is the first 64 bits of the
//! blake3 digest of the id, modulo the number of parts, on every host and in every release. With `slice` parts differ by
//! at most one in size, but an added id can move others.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::base::Digest;
use crate::base::words::words;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    method: Method,
    /// The number of the part, from 1.
    part: u64,
    parts: u64,
}

words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Method { "model" => Model, "hash" => Hash, "slice" => Slice }
}

impl Partition {
    /// Whether models are kept together.
    pub fn is_by_model(&self) -> bool {
        self.method == Method::Model
    }

    /// The number of the part, from 0.
    pub fn part(&self) -> u64 {
        self.part - 1
    }

    pub fn parts(&self) -> u64 {
        self.parts
    }

    /// The ids of this part, of a partition that is by ids.
    pub fn pick<'a>(&self, all: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let is_mine = |(position, id): &(usize, &str)| {
            let number = match self.method {
                Method::Slice => *position as u64,
                Method::Hash | Method::Model => number(id),
            };
            number % self.parts == self.part - 1
        };
        all.iter()
            .copied()
            .enumerate()
            .filter(is_mine)
            .map(|(_, id)| id)
            .collect()
    }
}

fn number(id: &str) -> u64 {
    let digits = &Digest::of(id.as_bytes()).to_string()[..16];
    u64::from_str_radix(digits, 16).expect("BUG: a digest is shown as hexadecimal digits")
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.method.word(), self.part, self.parts)
    }
}

impl FromStr for Partition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const HINT: &str = "hint: the first of four parts is `model:1/4`; `hash:1/4` and `slice:1/4` part by cases";
        let bad = |why: &str| format!("`{text}` is no partition: {why}\n  {HINT}");
        let (method, numbers) = text
            .split_once(':')
            .ok_or_else(|| bad("it names no method"))?;
        let known = Method::ALL.into_iter().find(|known| known.word() == method);
        let method = known.ok_or_else(|| bad(&format!("no method is called `{method}`")))?;
        let (part, parts) = numbers.split_once('/').ok_or_else(|| bad("it lacks `/`"))?;
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| bad(&format!("`{text}` is no whole number")))
        };
        let part = number(part)?;
        let parts = number(parts)?;
        match part {
            0 => Err(bad("parts are counted from 1")),
            part if part > parts => Err(bad(&format!("there are only {parts} parts"))),
            _ => Ok(Self {
                method,
                part,
                parts,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, count: usize, all: &BTreeSet<&str>) -> Vec<Vec<String>> {
        let part = |n| {
            format!("{method}:{n}/{count}")
                .parse::<Partition>()
                .unwrap()
                .pick(all)
        };
        (1..=count)
            .map(|n| part(n).into_iter().map(str::to_owned).collect())
            .collect()
    }

    #[test]
    fn every_id_is_in_exactly_one_part() {
        let names: Vec<String> = (0..100).map(|n| format!("bert-{n}:cpu-fp32")).collect();
        let all: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        for method in ["hash", "slice"] {
            for count in [1, 2, 3, 7, 200] {
                let mut union: Vec<String> = parts(method, count, &all).concat();
                union.sort();
                assert_eq!(
                    union,
                    all.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>(),
                    "{method} of {count}"
                );
            }
        }
        assert!(
            parts("slice", 3, &all)
                .iter()
                .all(|part| [33, 34].contains(&part.len()))
        );
    }

    /// These stand for what other hosts and releases compute; a change here moves cases between everybody's machines.
    #[test]
    fn the_hash_of_an_id_never_changes() {
        let all = BTreeSet::from([
            "bert:cpu-fp32",
            "t5:openvino-fp16",
            "vit:qnn-fp16",
            "command:card",
        ]);
        assert_eq!(number("bert:cpu-fp32"), 15_697_244_312_947_131_443); // as Python's blake3 says too
        assert_eq!(parts("hash", 4, &all)[0], ["command:card"]);
        assert_eq!(
            parts("hash", 4, &all)[3],
            ["bert:cpu-fp32", "t5:openvino-fp16", "vit:qnn-fp16"]
        );
    }

    #[test]
    fn an_id_keeps_its_hashed_part_when_others_come() {
        let few = BTreeSet::from(["a:cpu-fp32", "b:cpu-fp32"]);
        let more = BTreeSet::from(["a:cpu-fp32", "aa:cpu-fp32", "b:cpu-fp32"]);
        let at = |all| {
            parts("hash", 5, all)
                .iter()
                .position(|part| part.contains(&"b:cpu-fp32".to_owned()))
        };
        assert_eq!(at(&few), at(&more));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("1/4", "names no method"),
            ("hsh:1/4", "no method is called `hsh`"),
            ("hash:1", "lacks `/`"),
            ("hash:0/4", "counted from 1"),
            ("hash:5/4", "only 4 parts"),
            ("hash:x/4", "`x` is no whole number"),
            ("hash:1/", "`` is no whole number"),
        ] {
            let error = text.parse::<Partition>().unwrap_err();
            assert!(
                error.contains(why) && error.contains("hint: "),
                "{text}: {error}"
            );
        }
    }
}
