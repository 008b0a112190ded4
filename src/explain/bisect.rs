//! The first release that is wrong, by halving.

use std::collections::BTreeMap;

use serde::Serialize;

/// The behaviour of one release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "answer", content = "why")]
pub enum Trial {
    Right,
    Wrong,
    /// It cannot be installed, or cannot load the model.
    Untestable(String),
}

/// What halving came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Since {
    /// `first` is wrong and `last_right` is right; releases between them cannot be tested.
    Release {
        first: String,
        last_right: String,
        untestable: Vec<String>,
    },
    /// The oldest release that can be tested is wrong already.
    NeverRight { oldest: String },
    /// The last release, which was known to be wrong, is right.
    NotWrong { release: String },
    /// No release but the last can be tested.
    Untestable,
}

/// Finds the first wrong release. `releases` are in ascending order, and the last one is the one that is known to be wrong.
/// Each is tried at most once; the second result has those that were tried, in the same order.
pub fn first_wrong<E>(
    releases: &[String],
    mut test: impl FnMut(&str) -> Result<Trial, E>,
) -> Result<(Since, Vec<(String, Trial)>), E> {
    let mut trials = Trials {
        releases,
        known: BTreeMap::new(),
    };
    let since = trials.search(&mut test)?;
    let known = trials
        .known
        .into_iter()
        .map(|(at, trial)| (releases[at].clone(), trial))
        .collect();
    Ok((since, known))
}

struct Trials<'a> {
    releases: &'a [String],
    known: BTreeMap<usize, Trial>,
}

impl Trials<'_> {
    fn search<E>(&mut self, test: &mut impl FnMut(&str) -> Result<Trial, E>) -> Result<Since, E> {
        let Some(last) = self.releases.len().checked_sub(1) else {
            return Ok(Since::Untestable);
        };
        match self.at(last, test)? {
            Trial::Wrong => {}
            Trial::Right => {
                let release = self.releases[last].clone();
                return Ok(Since::NotWrong { release });
            }
            Trial::Untestable(_) => return Ok(Since::Untestable),
        }
        let Some(oldest) = self.oldest(last, test)? else {
            return Ok(Since::Untestable);
        };
        if self.at(oldest, test)? == Trial::Wrong {
            let oldest = self.releases[oldest].clone();
            return Ok(Since::NeverRight { oldest });
        }
        let mut right = oldest;
        let mut wrong = last;
        while let Some(at) = self.between(right, wrong, test)? {
            match self.at(at, test)? {
                Trial::Right => right = at,
                _ => wrong = at,
            }
        }
        Ok(Since::Release {
            first: self.releases[wrong].clone(),
            last_right: self.releases[right].clone(),
            untestable: self.releases[right + 1..wrong].to_vec(),
        })
    }

    fn at<E>(
        &mut self,
        at: usize,
        test: &mut impl FnMut(&str) -> Result<Trial, E>,
    ) -> Result<Trial, E> {
        if let Some(known) = self.known.get(&at) {
            return Ok(known.clone());
        }
        let trial = test(&self.releases[at])?;
        self.known.insert(at, trial.clone());
        Ok(trial)
    }

    fn is_testable<E>(
        &mut self,
        at: usize,
        test: &mut impl FnMut(&str) -> Result<Trial, E>,
    ) -> Result<bool, E> {
        Ok(!matches!(self.at(at, test)?, Trial::Untestable(_)))
    }

    /// The oldest release below `last` that can be tried; one in the middle where the oldest ones cannot.
    fn oldest<E>(
        &mut self,
        last: usize,
        test: &mut impl FnMut(&str) -> Result<Trial, E>,
    ) -> Result<Option<usize>, E> {
        if last == 0 {
            return Ok(None);
        }
        if self.is_testable(0, test)? {
            return Ok(Some(0));
        }
        // Releases that cannot be tried are mostly the oldest ones.
        let mut untestable = 0;
        let mut testable = None;
        let mut end = last;
        while untestable + 1 < end {
            let middle = usize::midpoint(untestable, end);
            if self.is_testable(middle, test)? {
                testable = Some(middle);
                end = middle;
            } else {
                untestable = middle;
            }
        }
        Ok(testable)
    }

    /// A release between these two that can be tried, the nearest to the middle.
    fn between<E>(
        &mut self,
        right: usize,
        wrong: usize,
        test: &mut impl FnMut(&str) -> Result<Trial, E>,
    ) -> Result<Option<usize>, E> {
        let middle = usize::midpoint(right, wrong);
        let mut inside: Vec<usize> = (right + 1..wrong).collect();
        inside.sort_by_key(|at| at.abs_diff(middle));
        for at in inside {
            if self.is_testable(at, test)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn releases(count: usize) -> Vec<String> {
        (0..count).map(|minor| format!("1.{minor}.0")).collect()
    }

    fn found(count: usize, trial: impl Fn(usize) -> Trial) -> (Since, Vec<(String, Trial)>, usize) {
        let releases = releases(count);
        let mut tries = 0;
        let test = |release: &str| {
            tries += 1;
            let at = releases.iter().position(|known| known == release).unwrap();
            Ok::<_, Infallible>(trial(at))
        };
        let (since, known) = first_wrong(&releases, test).unwrap();
        (since, known, tries)
    }

    #[test]
    fn every_planted_break_is_found_in_few_trials() {
        for count in [2, 3, 7, 30, 36, 64] {
            for broken in 1..count {
                let (since, known, tries) = found(count, |at| match at >= broken {
                    true => Trial::Wrong,
                    false => Trial::Right,
                });
                let Since::Release {
                    first,
                    last_right,
                    untestable,
                } = since
                else {
                    panic!("{count}, {broken}: {since:?}");
                };
                assert_eq!(first, format!("1.{broken}.0"));
                assert_eq!(last_right, format!("1.{}.0", broken - 1));
                assert!(untestable.is_empty());
                // Both ends, and one for each halving of what lies between.
                let most = 2 + (count as f64 - 1.0).log2().ceil() as usize;
                assert!(tries <= most, "{count}, {broken}: {tries} > {most}");
                assert_eq!(known.len(), tries);
            }
        }
    }

    #[test]
    fn what_was_never_right_and_what_is_not_wrong_are_distinguished() {
        let (since, _, tries) = found(30, |_| Trial::Wrong);
        let oldest = "1.0.0".to_owned();
        assert_eq!((since, tries), (Since::NeverRight { oldest }, 2));
        let (since, ..) = found(30, |_| Trial::Right);
        let release = "1.29.0".to_owned();
        assert_eq!(since, Since::NotWrong { release });
        assert_eq!(found(0, |_| Trial::Right).0, Since::Untestable);
        assert_eq!(found(1, |_| Trial::Wrong).0, Since::Untestable);
    }

    #[test]
    fn releases_that_cannot_be_tried_are_skipped_and_listed() {
        let why = || Trial::Untestable("no wheel".into());
        // The oldest ten have no wheel, and neither have three around the break.
        let (since, ..) = found(40, |at| match at {
            0..10 | 24..27 => why(),
            10..24 => Trial::Right,
            _ => Trial::Wrong,
        });
        assert_eq!(
            since,
            Since::Release {
                first: "1.27.0".into(),
                last_right: "1.23.0".into(),
                untestable: vec!["1.24.0".into(), "1.25.0".into(), "1.26.0".into()],
            }
        );
        let (since, ..) = found(5, |at| if at == 4 { Trial::Wrong } else { why() });
        assert_eq!(since, Since::Untestable);
    }
}
