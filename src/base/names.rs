//! Names in large numbers: equal texts kept once, and numbered things found by name. The only home of hashbrown.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashSet, HashTable};

/// Up to so many texts are kept once: those that repeat come early, and a set of millions that do not is only heavy.
const MOST: usize = 1 << 16;

/// Longer texts hardly repeat.
const LONGEST: usize = 64;

/// Gives equal short texts the same allocation.
#[derive(Debug, Default)]
pub struct Texts {
    known: HashSet<Arc<str>>,
}

impl Texts {
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if text.len() > LONGEST {
            return text.into();
        }
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        if self.known.len() < MOST {
            self.known.insert(new.clone());
        }
        new
    }
}

/// Finds numbered things by name. It holds their numbers only; whoever asks knows their names.
#[derive(Debug, Clone, Default)]
pub struct Index {
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Index {
    pub fn find<'n>(&self, name: &str, name_of: impl Fn(u32) -> &'n str) -> Option<u32> {
        self.table.find(self.hasher.hash_one(name), |number| name_of(*number) == name).copied()
    }

    /// Adds a thing whose name is not there yet.
    pub fn add<'n>(&mut self, name: &str, number: u32, name_of: impl Fn(u32) -> &'n str) {
        let hash = |other: &u32| self.hasher.hash_one(name_of(*other));
        self.table.insert_unique(self.hasher.hash_one(name), number, hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_kept_once() {
        let mut texts = Texts::default();
        let (a, b, c) = (texts.share("out"), texts.share("out"), texts.share("in"));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!((&*a, &*c), ("out", "in"));
    }

    #[test]
    fn things_are_found_by_name() {
        let names: Vec<String> = (0..1000).map(|number| format!("n{number}")).collect();
        let name_of = |number: u32| names[number as usize].as_str();
        let mut index = Index::default();
        for (number, name) in names.iter().enumerate() {
            assert_eq!(index.find(name, name_of), None);
            index.add(name, number as u32, name_of);
        }
        assert_eq!(index.find("n77", name_of), Some(77));
        assert_eq!(index.find("n1000", name_of), None);
    }
}
