//! Figures and names as people read them; shared by all pages so that one number looks the same everywhere.

use super::CaseResult;
use crate::base::figures::counted;
use crate::base::text::shown;
use crate::record::Outcome;

/// Three significant digits: `0.012 ms`, `1.23 ms`, `123 ms`, `12.3 s`.
pub fn ms(value: f64) -> String {
    let (value, unit) = if value.abs() < 9_999.5 {
        (value, "ms")
    } else {
        (value / 1000.0, "s")
    };
    let digits = match value.abs() {
        size if size < 0.0995 => 3,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// `0.4 s`, `83 s`, `12 min 5 s`.
pub fn seconds(value: f64) -> String {
    match value {
        _ if value < 9.95 => format!("{value:.1} s"),
        _ if value < 99.5 => format!("{value:.0} s"),
        _ => format!(
            "{} min {} s",
            value.round() as u64 / 60,
            value.round() as u64 % 60
        ),
    }
}

/// An error figure: `0`, `2.1e-6`.
pub fn error(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else {
        format!("{value:.1e}")
    }
}

/// Cosine similarity, with the digits in which good ones differ: never rounded up to 1.
pub fn cosine(value: Option<f64>) -> String {
    match value {
        None => "undefined".to_owned(),
        Some(value) if value >= 1.0 => "1".to_owned(),
        Some(value) => format!("{:.6}", (value * 1e6).floor() / 1e6),
    }
}

/// A share of equal tokens: `0.985`, never rounded up to 1.
pub fn tokens(share: f64) -> String {
    ((share * 1e4).floor() / 1e4).to_string()
}

/// The day of an RFC 3339 time.
pub fn day(time: &str) -> &str {
    time.get(..10).unwrap_or(time)
}

/// An RFC 3339 time in UTC to the second: `2026-01-31 08:00:00 UTC`.
pub fn moment(time: &str) -> String {
    format!("{} UTC", time.get(..19).unwrap_or(time).replace('T', " "))
}

/// `2026-01-12 to 2026-01-14`, or the day if it is one.
pub fn days(first: &str, last: &str) -> String {
    if first == last {
        first.to_owned()
    } else {
        format!("{first} to {last}")
    }
}

/// `3 rounds`, or `1 to 5 rounds` where cases have unlike numbers. A report that names no rounds has one of each case. None of no case.
pub(super) fn rounds_of(counts: impl Iterator<Item = usize> + Clone) -> Option<String> {
    let counts = counts.map(|count| count.max(1));
    let (least, most) = counts.clone().min().zip(counts.max())?;
    let rounds = counted(most, "round");
    Some(if least == most {
        rounds
    } else {
        format!("{least} to {rounds}")
    })
}

/// `1.55 ms – 1.61 ms`
pub(super) fn span(low: Option<f64>, high: Option<f64>) -> Option<String> {
    low.zip(high)
        .map(|(low, high)| format!("{} – {}", ms(low), ms(high)))
}

/// `2026-01-14 in an earlier run`
pub(super) fn measured(case: &CaseResult) -> Option<String> {
    let when = case.measured.as_deref();
    match case.cached {
        true => Some(format!(
            "{} in an earlier run",
            when.map_or("at an unknown time", day)
        )),
        false => when.map(|when| format!("{} in this run", day(when))),
    }
}

/// Shown instead of a figure, for a case that was only checked.
pub(super) const UNTIMED: &str = "untimed";

fn kind_and_glyph(status: Outcome) -> (&'static str, &'static str) {
    match status {
        Outcome::Pass => ("pass", "✓"),
        Outcome::PassFallback => ("fallback", "↪"),
        Outcome::Flaky => ("flaky", "≈"),
        Outcome::Indecisive => ("indecisive", "?"),
        Outcome::Xfail => ("xfail", "⊖"),
        Outcome::Xpass => ("fail", "⊕"),
        Outcome::Mock => ("mock", "∅"),
        Outcome::SkipUnavailable => ("unavailable", "—"),
        Outcome::SkipUnsupported => ("unsupported", "⊘"),
        Outcome::Incomplete => ("incomplete", "…"),
        _ => ("fail", "✗"),
    }
}

/// What a page marks alike, and what its readers can choose.
pub(super) fn kind(status: Outcome) -> &'static str {
    kind_and_glyph(status).0
}

/// The kind of a case: an unexpected success that does not fail the run is not a failure.
pub(super) fn kind_of(case: &CaseResult) -> &'static str {
    if case.status == Outcome::Xpass && !case.is_failure() {
        "flaky"
    } else {
        kind(case.status)
    }
}

/// A sign besides the word, so that colour never carries meaning alone.
pub fn glyph(status: Outcome) -> &'static str {
    kind_and_glyph(status).1
}

/// The word in a cell of the matrix: short, and loud only for failures.
pub(super) fn word(status: Outcome) -> &'static str {
    match kind(status) {
        "pass" => "passed",
        "fail" => status.label(),
        kind => kind,
    }
}

/// Whether a case in this state has figures to show: of a result that is not known to be wrong.
pub fn has_figure(status: Outcome) -> bool {
    matches!(
        status,
        Outcome::Pass
            | Outcome::PassFallback
            | Outcome::Flaky
            | Outcome::Indecisive
            | Outcome::Xpass
    )
}

/// The remark beside a figure that is not a plain pass.
pub(super) fn remark(status: Outcome) -> Option<&'static str> {
    (has_figure(status) && status != Outcome::Pass).then(|| word(status))
}

/// One line: runs of white space become one space; of what a terminal would obey nothing is left.
pub fn one_line(text: &str) -> String {
    shown(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_keep_three_digits() {
        for (value, text) in [
            (0.0, "0.000 ms"),
            (0.0123, "0.012 ms"),
            (0.0996, "0.10 ms"),
            (1.234, "1.23 ms"),
            (9.996, "10.0 ms"),
            (12.34, "12.3 ms"),
            (99.96, "100 ms"),
            (1234.4, "1234 ms"),
            (9999.6, "10.0 s"),
            (123_456.0, "123 s"),
        ] {
            assert_eq!(ms(value), text);
        }
    }

    #[test]
    fn other_units() {
        assert_eq!(
            [seconds(0.41), seconds(9.96), seconds(99.6), seconds(725.2)],
            ["0.4 s", "10 s", "1 min 40 s", "12 min 5 s"]
        );
        assert_eq!([error(0.0), error(2.14e-6)], ["0", "2.1e-6"]);
        assert_eq!(
            [tokens(1.0), tokens(0.999_99), tokens(0.25)],
            ["1", "0.9999", "0.25"]
        );
        assert_eq!(
            [cosine(None), cosine(Some(1.0)), cosine(Some(0.999_999_9))],
            ["undefined", "1", "0.999999"]
        );
        assert_eq!([day("2026-01-02T03:04:05Z"), day("?")], ["2026-01-02", "?"]);
        assert_eq!(one_line(" a\n\tb \u{1b}[31mred"), "a b red");
    }
}
