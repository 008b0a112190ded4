//! The work of each machine, where each has a store of its own: what one machine has made, another makes again.

use std::collections::BTreeMap;

/// Work that one part does as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// How long all of it takes, seconds.
    pub seconds: f64,
    /// The part that did it before, from 0, whose store holds what it made.
    pub before: Option<u64>,
}

/// Parts may be this much longer than they need be before work moves to others,
const UNEVEN: f64 = 1.25;
/// and then it moves until they are no longer than this.
const EVEN: f64 = 1.1;

/// The part of each unit, from 0: the one that did it before, or else the shortest, the longest units first.
pub fn assign<'a>(units: &BTreeMap<&'a str, Unit>, parts: u64) -> BTreeMap<&'a str, u64> {
    let mut loads = vec![0.0; parts as usize];
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    let mut open = Vec::new();
    for (name, unit) in units {
        match unit.before.filter(|part| *part < parts) {
            Some(part) => {
                loads[part as usize] += unit.seconds;
                found.insert(name, part);
            }
            None => open.push((*name, unit.seconds)),
        }
    }
    // Names are in their order, and the sort is stable.
    open.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    for (name, seconds) in open {
        let part = least(&loads);
        loads[part] += seconds;
        found.insert(name, part as u64);
    }
    let total: f64 = units.values().map(|unit| unit.seconds).sum();
    let longest = units.values().map(|unit| unit.seconds).fold(0.0, f64::max);
    let ideal = (total / parts as f64).max(longest);
    if loads[most(&loads)] > UNEVEN * ideal {
        even_out(units, &mut found, &mut loads, EVEN * ideal);
    }
    found
}

/// Moves units from the longest part to the shortest one, as long as that brings the two nearer to each other.
fn even_out(
    units: &BTreeMap<&str, Unit>,
    found: &mut BTreeMap<&str, u64>,
    loads: &mut [f64],
    wanted: f64,
) {
    loop {
        let from = most(loads);
        let to = least(loads);
        if loads[from] <= wanted {
            return;
        }
        let gap = loads[from] - loads[to];
        let apart = |seconds: f64| (seconds - gap / 2.0).abs();
        let moved = found
            .iter()
            .filter(|(_, part)| **part == from as u64)
            .map(|(name, _)| (*name, units[name].seconds))
            .filter(|(_, seconds)| *seconds > 0.0 && *seconds < gap)
            .min_by(|(_, one), (_, other)| apart(*one).total_cmp(&apart(*other)));
        let Some((name, seconds)) = moved else {
            return;
        };
        loads[from] -= seconds;
        loads[to] += seconds;
        *found.get_mut(name).expect("BUG: it was found there") = to as u64;
    }
}

/// The first of the shortest parts.
fn least(loads: &[f64]) -> usize {
    let shortest = (0..loads.len()).min_by(|one, other| loads[*one].total_cmp(&loads[*other]));
    shortest.expect("BUG: there is a part")
}

/// The first of the longest parts.
fn most(loads: &[f64]) -> usize {
    let longest = (0..loads.len())
        .rev()
        .max_by(|one, other| loads[*one].total_cmp(&loads[*other]));
    longest.expect("BUG: there is a part")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(seconds: f64, before: Option<u64>) -> Unit {
        Unit { seconds, before }
    }

    fn loads(units: &BTreeMap<&str, Unit>, found: &BTreeMap<&str, u64>, parts: u64) -> Vec<f64> {
        let of = |part| {
            let mine = found.iter().filter(|(_, at)| **at == part);
            mine.map(|(name, _)| units[name].seconds).sum()
        };
        (0..parts).map(of).collect()
    }

    #[test]
    fn long_units_are_spread_and_short_ones_fill_the_gaps() {
        let units = BTreeMap::from([
            ("a", unit(8.0, None)),
            ("b", unit(7.0, None)),
            ("c", unit(6.0, None)),
            ("d", unit(5.0, None)),
            ("e", unit(4.0, None)),
        ]);
        let found = assign(&units, 2);
        assert_eq!(found.len(), 5);
        assert_eq!(loads(&units, &found, 2), [17.0, 13.0]);
        assert_eq!(loads(&units, &assign(&units, 1), 1), [30.0]);
        // There are more parts than units.
        assert_eq!(loads(&units, &assign(&units, 7), 7)[5..], [0.0, 0.0]);
    }

    #[test]
    fn what_a_part_did_before_it_does_again_unless_it_takes_far_too_long() {
        let mut units = BTreeMap::from([
            ("a", unit(5.0, Some(1))),
            ("b", unit(4.0, Some(1))),
            ("c", unit(4.0, Some(0))),
            ("d", unit(3.5, Some(0))),
        ]);
        let found = assign(&units, 2);
        assert!(
            units
                .iter()
                .all(|(name, unit)| Some(found[name]) == unit.before)
        );
        // A new one goes where there is room.
        units.insert("e", unit(1.0, None));
        assert_eq!(assign(&units, 2)["e"], 0);
        // Three times as long as the other: one unit moves, and no more than needed.
        units.insert("a", unit(20.0, Some(1)));
        units.insert("f", unit(9.0, Some(1)));
        let found = assign(&units, 2);
        assert_eq!([found["a"], found["c"], found["d"]], [1, 0, 0]);
        let [one, other] = loads(&units, &found, 2)[..] else {
            unreachable!()
        };
        assert!(one.max(other) <= 1.1 * (one + other) / 2.0, "{one} {other}");
    }

    #[test]
    fn a_part_that_is_no_more_has_its_work_done_by_others() {
        let units = BTreeMap::from([("a", unit(1.0, Some(3))), ("b", unit(1.0, Some(0)))]);
        assert_eq!(assign(&units, 2), BTreeMap::from([("a", 1), ("b", 0)]));
    }
}
