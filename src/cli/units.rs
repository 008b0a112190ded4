//! Sizes and ages as people write them: `500M`, `10GiB`, `12h`, `2w`.

use std::str::FromStr;
use std::time::Duration;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

impl FromStr for Size {
    type Err = String;

    /// As other programs do: `G` and `GiB` are of 1024, `GB` is of 1000.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is no size\n  hint: give a number and a unit: `500M`, `10G`, `1.5TiB`");
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number: f64 = text[..end].parse().map_err(|_| bad())?;
        let unit = text[end..].trim().to_ascii_lowercase();
        let (letter, rest) = unit.split_at(unit.len().min(1));
        let power = match letter {
            "" | "b" => 0,
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            "p" => 5,
            _ => return Err(bad()),
        };
        let base: f64 = match rest {
            "" | "i" | "ib" => 1024.0,
            "b" => 1000.0,
            _ => return Err(bad()),
        };
        let bytes = number * base.powi(power);
        if (letter != "b" || rest.is_empty()) && bytes < u64::MAX as f64 { Ok(Self(bytes as u64)) } else { Err(bad()) }
    }
}

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Age(pub(super) Duration);

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("`{text}` is no age\n  hint: give minutes, hours, days or weeks: `30m`, `12h`, `7d`, `2w`");
        let span: jiff::Span = text.trim().parse().map_err(|_| bad())?;
        // Months and years have no length of their own.
        if span.get_months() != 0 || span.get_years() != 0 {
            return Err(bad());
        }
        let length = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| bad())?;
        Duration::try_from(length).map(Self).map_err(|_| bad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        let size = |text: &str| text.parse::<Size>().map(|size| size.0).map_err(drop);
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("17B", 17),
            ("1k", 1024),
            ("500M", 500 << 20),
            ("10G", 10 << 30),
            ("10GiB", 10 << 30),
            ("10 gib", 10 << 30),
            ("10Gi", 10 << 30),
            ("10GB", 10_000_000_000),
            ("1.5T", 3 << 39),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "G", "-1G", "1X", "1GG", "1GiBs", "1 2", "1bb", "99999999P", "1.2.3G", "1e3"] {
            assert_eq!(size(bad), Err(()), "{bad}");
        }
    }

    #[test]
    fn ages_as_people_write_them() {
        let age = |text: &str| text.parse::<Age>().map(|age| age.0.as_secs()).map_err(drop);
        for (text, seconds) in
            [("30m", 1800), ("12h", 43_200), ("7d", 604_800), ("2w", 1_209_600), ("1d 2h", 93_600), ("0s", 0)]
        {
            assert_eq!(age(text), Ok(seconds), "{text}");
        }
        for bad in ["", "7", "1mo", "1y", "-1d", "soon"] {
            assert_eq!(age(bad), Err(()), "{bad}");
        }
    }
}
