//! A set of steps of one plan: a bit for each, because a set that holds a million of them is the usual case.

use crate::step::StepId;

#[derive(Debug, Clone, Default)]
pub struct StepSet {
    words: Vec<u64>,
    len: usize,
}

impl StepSet {
    /// True if it was not there.
    pub fn insert(&mut self, id: StepId) -> bool {
        let (word, bit) = place(id);
        if word >= self.words.len() {
            self.words.resize((word + 1).next_power_of_two(), 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.len += usize::from(is_new);
        is_new
    }

    pub fn contains(&self, id: &StepId) -> bool {
        let (word, bit) = place(*id);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = StepId> + '_ {
        self.words.iter().zip(0..).flat_map(|(word, at)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(StepId(at * 64 + bit))
            })
        })
    }
}

fn place(id: StepId) -> (usize, u64) {
    (id.0 as usize / 64, 1 << (id.0 % 64))
}

impl Extend<StepId> for StepSet {
    fn extend<I: IntoIterator<Item = StepId>>(&mut self, ids: I) {
        ids.into_iter().for_each(|id| {
            self.insert(id);
        });
    }
}

impl FromIterator<StepId> for StepSet {
    fn from_iter<I: IntoIterator<Item = StepId>>(ids: I) -> Self {
        let mut set = Self::default();
        set.extend(ids);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_put_in_once_and_in_order() {
        let ids = [700, 0, 63, 64, 3, 700, 127, 128, 0];
        let mut set: StepSet = ids.into_iter().map(StepId).collect();
        assert_eq!(set.iter().map(|id| id.0).collect::<Vec<_>>(), [0, 3, 63, 64, 127, 128, 700]);
        assert_eq!(set.len(), 7);
        assert!(set.contains(&StepId(63)) && !set.contains(&StepId(62)) && !set.contains(&StepId(5000)));
        assert!(!set.insert(StepId(3)) && set.insert(StepId(4)));
        assert!(StepSet::default().is_empty() && !set.is_empty());
    }
}
