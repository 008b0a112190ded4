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
    /// With part of the hash: so a name is looked at only when it is most likely the right one, and never to grow.
    table: HashTable<(u32, u32)>,
    hasher: DefaultHashBuilder,
}

impl Index {
    pub fn with_capacity(count: usize) -> Self {
        Self { table: HashTable::with_capacity(count), hasher: DefaultHashBuilder::default() }
    }

    pub fn find<'n>(&self, name: &str, name_of: impl Fn(u32) -> &'n str) -> Option<u32> {
        let hash = self.hash(name);
        let is_it = |(number, other): &(u32, u32)| *other == hash && name_of(*number) == name;
        self.table.find(spread(hash), is_it).map(|(number, _)| *number)
    }

    /// Adds a thing whose name is not there yet.
    pub fn add(&mut self, name: &str, number: u32) {
        let hash = self.hash(name);
        self.table.insert_unique(spread(hash), (number, hash), |(_, hash)| spread(*hash));
    }

    fn hash(&self, name: &str) -> u32 {
        self.hasher.hash_one(name) as u32
    }
}

/// The table takes its bits from both ends of a hash.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
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
            index.add(name, number as u32);
        }
        assert_eq!(index.find("n77", name_of), Some(77));
        assert_eq!(index.find("n1000", name_of), None);
    }
}
