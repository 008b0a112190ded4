//! Paths of pages: what is no plain letter of a file's name and of an address is written by its number.

use std::fmt::Write as _;

use crate::report::view::View;

/// `bert@b4`; `a b` is `a~20b`.
pub(super) fn file(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'@' => out.push(byte.into()),
            b'.' if at > 0 => out.push('.'),
            other => {
                let _ = write!(out, "~{other:02x}");
            }
        }
    }
    out
}

/// The page of a case: `pairs/bert/cpu-fp32.html`.
pub(super) fn pair(view: &View<'_>, at: usize) -> String {
    format!("pairs/{}.html", below(view, at))
}

/// What programs read of a case: `pairs/bert/cpu-fp32.json`.
pub(super) fn data(view: &View<'_>, at: usize) -> String {
    format!("pairs/{}.json", below(view, at))
}

/// The path of a case below a folder: `bert/cpu-fp32`.
pub(super) fn below(view: &View<'_>, at: usize) -> String {
    let place = view.place(at);
    let row = file(&place.row.name());
    let variant = file(&place.variant.name());
    format!("{row}/{variant}")
}

#[cfg(test)]
mod tests {
    use super::file;

    #[test]
    fn no_name_leaves_its_folder_or_meets_another() {
        assert_eq!(file("bert-2.5_x@b4-s8"), "bert-2.5_x@b4-s8");
        assert_eq!(file("../a"), "~2e.~2fa");
        assert_ne!(file("a b"), file("a~20b"));
        assert_eq!(file("é"), "~c3~a9");
    }
}
