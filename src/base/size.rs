//! Sizes as people write them: `500M`, `10GiB`.

use std::str::FromStr;

/// What to write in place of what is no size.
pub const REMEDY: &str = "give a number and a unit: `500M`, `10G`, `1.5TiB`";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    /// Reads a size as other programs do: `G` and `GiB` are of 1024, `GB` is of 1000.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is no size\n  hint: {REMEDY}");
        let text = text.trim();
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let number: f64 = text[..end].parse().map_err(|_| bad())?;
        let unit = text[end..].trim().to_ascii_lowercase();
        let (letter, rest) = unit.split_at(unit.chars().next().map_or(0, char::len_utf8));
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
        if (letter != "b" || rest.is_empty()) && bytes < u64::MAX as f64 {
            Ok(Self(bytes as u64))
        } else {
            Err(bad())
        }
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
        for bad in [
            "",
            "G",
            "-1G",
            "1X",
            "1GG",
            "1GiBs",
            "1 2",
            "1bb",
            "99999999P",
            "1.2.3G",
            "1e3",
            "4 é",
            "10é",
            "1Kİ",
            "١",
        ] {
            assert_eq!(size(bad), Err(()), "{bad}");
        }
    }
}
