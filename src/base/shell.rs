//! Words of a shell line that a person copies: quoted when they must be, plain when they need not.

use std::borrow::Cow;
use std::path::Path;

/// One word that any POSIX shell reads back as `text`.
pub fn word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(quoted(text))
    }
}

/// Always in single quotes: for what would be a glob to some shells, and may be.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// An option and its path as words of a shell line, after a space.
pub fn path_option(name: &str, path: &Path) -> String {
    format!(" {name} {}", word(&path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_from_a_shell_as_they_were() {
        for text in [
            "specs/all.yaml",
            "",
            "a b",
            "it's",
            "$HOME",
            "a\nb",
            "\\",
            "*",
            "!",
            "~",
            "é",
            "-x",
        ] {
            let line = format!("printf '%s' {}", word(text));
            let out = std::process::Command::new("sh")
                .args(["-c", &line])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), text, "{line}");
        }
        assert_eq!(word("specs/all.yaml"), "specs/all.yaml");
        assert_eq!(quoted("run:a"), "'run:a'");
    }
}
