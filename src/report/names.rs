//! Names that are too long for a column, cut so that they are still distinct.

use std::collections::HashMap;

/// The names, each of at most `most` characters unless it would be taken for another: names that begin alike keep their
/// ends, and those that end alike too stay whole.
pub(super) fn distinct(names: Vec<String>, most: usize) -> Vec<String> {
    let ways: [fn(&str, usize) -> String; 3] = [end_cut, middle_cut, |name, _| name.to_owned()];
    let mut shown: Vec<Option<String>> = vec![None; names.len()];
    for cut in ways {
        let left: Vec<usize> = (0..names.len()).filter(|at| shown[*at].is_none()).collect();
        let cuts: Vec<String> = left.iter().map(|at| cut(&names[*at], most)).collect();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for text in &cuts {
            *seen.entry(text).or_default() += 1;
        }
        for (at, text) in left.iter().zip(&cuts) {
            if seen[text.as_str()] == 1 {
                shown[*at] = Some(text.clone());
            }
        }
    }
    names
        .into_iter()
        .zip(shown)
        .map(|(name, shown)| shown.unwrap_or(name))
        .collect()
}

/// `quite-a-long-na…`
pub(super) fn end_cut(text: &str, most: usize) -> String {
    let long = text.chars().count() > most;
    if long {
        text.chars().take(most - 1).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}

/// `quite-a…name-of-it`: a third of the beginning, the rest of the end.
fn middle_cut(text: &str, most: usize) -> String {
    let all: Vec<char> = text.chars().collect();
    if all.len() <= most {
        return text.to_owned();
    }
    let head = most / 3;
    let tail = most - head - 1;
    all[..head]
        .iter()
        .chain(&['…'])
        .chain(&all[all.len() - tail..])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::distinct;

    fn shown(names: &[&str]) -> Vec<String> {
        distinct(names.iter().map(|name| (*name).to_owned()).collect(), 10)
    }

    #[test]
    fn names_are_cut_as_far_as_they_can_be_distinguished() {
        assert_eq!(
            shown(&["short", "quite-a-long-name"]),
            ["short", "quite-a-l…"]
        );
        assert_eq!(
            shown(&["test_reduce_sum", "test_reduce_max"]),
            ["tes…ce_sum", "tes…ce_max"]
        );
        // Alike at both ends: whole.
        let alike = ["test_reduce_sum_expanded", "test_reduce_max_expanded"];
        assert_eq!(shown(&alike), alike);
        let both = [
            "test_reduce_sum",
            "test_reduce_sum_expanded",
            "test_reduce_max_expanded",
        ];
        assert_eq!(shown(&both), ["tes…ce_sum", both[1], both[2]]);
    }
}
