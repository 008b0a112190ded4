//! Globs over names: `*` for any run of characters, `?` for one. Not for paths: `/` is a character like any other.

/// Whether `pattern` matches the whole of `text`.
pub fn matches(pattern: &str, text: &str) -> bool {
    // Most patterns are names, and each rule of a spec is matched with each case.
    if !pattern.contains(['*', '?']) {
        return pattern == text;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let mut p = 0;
    let mut t = 0;
    // Where to go back to on a mismatch: behind the last star, with one character more taken by it.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((star, taken)) => {
                    retry = Some((star, taken + 1));
                    p = star;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// Whether any pattern matches; an empty list of patterns matches everything.
pub fn any<S: AsRef<str>>(patterns: &[S], text: &str) -> bool {
    patterns.is_empty()
        || patterns
            .iter()
            .any(|pattern| matches(pattern.as_ref(), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "bert", true),
            ("bert", "bert", true),
            ("bert", "berty", false),
            ("b*t", "bert-fp32-t", true),
            ("b*t", "bert-fp32", false),
            ("qwen?", "qwen2", true),
            ("qwen?", "qwen", false),
            ("*-fp16*", "cpu-fp16-b4", true),
            ("a*b*c", "aXbXbXc", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text}");
        }
        assert!(any::<&str>(&[], "anything"));
    }

    #[test]
    fn many_stars_do_not_explode() {
        let text = "a".repeat(10_000);
        assert!(!matches("*a*a*a*a*a*a*a*a*b", &text));
    }
}
