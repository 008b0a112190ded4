//! Figures as people read them: sizes, counts, moments. One number looks the same wherever it is shown.

use std::fmt::Display;

use jiff::Timestamp;

/// Binary units: `1.5 GiB`, `312 MiB`.
pub fn bytes(value: u64) -> String {
    scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"], 9.95)
}

/// Decimal units: `83.9 k`, `1.2 M`, `7.0 B`.
pub fn amount(value: u64) -> String {
    scaled(value, 1000.0, &["", " k", " M", " B"], 99.95)
}

/// The value in the unit that leaves three digits, with a tenth below `fine`.
fn scaled(value: u64, base: f64, units: &[&str], fine: f64) -> String {
    let mut size = value as f64;
    let mut unit = 0;
    while size >= 999.5 && unit + 1 < units.len() {
        size /= base;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && size < fine);
    format!("{size:.digits$}{}", units[unit])
}

/// A span of time, rounded as one that is expected may be: `3.9 s`, `48 s`, `35 min`, `5.2 h`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        ..9.95 => format!("{seconds:.1} s"),
        ..119.5 => format!("{seconds:.0} s"),
        ..7_170.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// `1 case`, `2 cases`.
pub fn counted(count: impl Count, noun: &str) -> String {
    format!("{count} {noun}{}", plural(count, "", "s"))
}

/// The word for so many.
pub fn plural<'w>(count: impl Count, one: &'w str, more: &'w str) -> &'w str {
    if count == From::from(true) { one } else { more }
}

/// Whole numbers of any size.
pub trait Count: Copy + Display + PartialEq + From<bool> {}

impl<N: Copy + Display + PartialEq + From<bool>> Count for N {}

/// A moment to the second, as records keep it: `2026-01-02T03:04:05Z`.
pub fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// This moment.
pub fn now() -> String {
    moment(Timestamp::now())
}

/// This moment to the millisecond: `2026-01-02T03:04:05.678Z`.
pub fn exactly_now() -> String {
    Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
        .to_string()
}

/// The day in UTC: `2026-01-02`.
pub fn today() -> String {
    Timestamp::now().strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_as_they_grow() {
        assert_eq!(
            [0.04, 3.94, 48.2, 119.6, 18_720.0].map(duration),
            ["0.0 s", "3.9 s", "48 s", "2 min", "5.2 h"]
        );
    }

    #[test]
    fn figures_are_as_people_read_them() {
        assert_eq!(
            [
                bytes(512),
                bytes(1536),
                bytes(312 << 20),
                bytes(1000 << 20),
                bytes(126 << 30)
            ],
            ["512 B", "1.5 KiB", "312 MiB", "1.0 GiB", "126 GiB"]
        );
        assert_eq!(
            [
                amount(999),
                amount(83_904),
                amount(512_000),
                amount(7_000_000_000)
            ],
            ["999", "83.9 k", "512 k", "7.0 B"]
        );
        assert_eq!(
            [
                counted(0, "case"),
                counted(1_u64, "case"),
                counted(2_usize, "case")
            ],
            ["0 cases", "1 case", "2 cases"]
        );
        assert_eq!(
            moment(Timestamp::from_second(1_767_323_045).unwrap()),
            "2026-01-02T03:04:05Z"
        );
    }
}
