//! How old a measurement may be: `30m`, `12h`, `7d`, `2w`. Knows nothing of where records are kept.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

/// The limit of `--max-age`, shown as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaxAge {
    text: String,
    limit: SignedDuration,
}

impl MaxAge {
    pub fn length(&self) -> Duration {
        self.limit.unsigned_abs()
    }

    /// Whether what began then (RFC 3339) is too old now. A date that cannot be read proves no age, so it is too old.
    pub fn is_exceeded(&self, started: &str) -> bool {
        self.is_exceeded_at(started, Timestamp::now())
    }

    fn is_exceeded_at(&self, started: &str, now: Timestamp) -> bool {
        started
            .parse::<Timestamp>()
            .map_or(true, |then| now.duration_since(then) > self.limit)
    }
}

impl fmt::Display for MaxAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for MaxAge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "`{text}` is not an age\n  hint: give minutes, hours, days or weeks: `30m`, `12h`, `7d`, `2w`"
            )
        };
        let span: Span = text.trim().parse().map_err(|_| bad())?;
        // Months and years have no length of their own, so they are none.
        let limit = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok();
        let limit = limit.filter(|limit| !limit.is_negative()).ok_or_else(bad)?;
        Ok(Self {
            text: text.trim().to_owned(),
            limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_hours_days_and_weeks() {
        for (text, seconds) in [
            ("30m", 1800),
            ("12h", 43_200),
            ("7d", 604_800),
            ("2w", 1_209_600),
            ("1d 2h", 93_600),
            ("0s", 0),
        ] {
            assert_eq!(
                text.parse::<MaxAge>().unwrap().limit.as_secs(),
                seconds,
                "{text}"
            );
        }
        for text in ["", "7", "d", "-7d", "7d ago", "2mo", "1y", "seven days"] {
            assert!(text.parse::<MaxAge>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_limit_itself_is_not_beyond_it() {
        let age: MaxAge = "1h".parse().unwrap();
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        assert!(!age.is_exceeded_at("2026-03-01T11:00:00Z", now));
        assert!(age.is_exceeded_at("2026-03-01T10:59:59Z", now));
        assert!(
            !age.is_exceeded_at("2026-03-01T12:30:00Z", now),
            "another host's clock may be ahead"
        );
        assert!(age.is_exceeded_at("yesterday", now));
    }
}
