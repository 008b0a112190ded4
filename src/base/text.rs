//! Text that programs, services or other machines made, as it may be shown: no passwords, nothing that a terminal obeys.

use std::borrow::Cow;
use std::error::Error;

/// URLs in `text` without the user's name and password, and without queries: those of signed addresses open doors.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find("://") else {
        return Cow::Borrowed(text);
    };
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let mut at = first;
    loop {
        let (before, url) = rest.split_at(at + 3);
        shown.push_str(before);
        let ends = |c: char| {
            c.is_whitespace()
                || c.is_control()
                || matches!(c, '"' | '\'' | '`' | '<' | '>' | ')' | ',')
        };
        let url_end = url.find(ends).unwrap_or(url.len());
        push_url(&mut shown, &url[..url_end]);
        rest = &url[url_end..];
        match rest.find("://") {
            Some(next) => at = next,
            None => break,
        }
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// A URL from its host on.
fn push_url(shown: &mut String, url: &str) {
    let (place, query) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    // A colon is followed by a port, or by a password, in which no slash, mark or `@` can be distinguished from the URL's own.
    let is_port = |(_, port): (&str, &str)| port.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once('@') {
        Some((_, host)) => shown.extend([host, path]),
        None if host.starts_with('[') || host.split_once(':').is_none_or(is_port) => {
            shown.extend([host, path])
        }
        None => return shown.push('…'),
    }
    if !query.is_empty() {
        shown.extend([&query[..1], "…"]);
    }
}

/// What a terminal or a page may show: colours and other sequences for terminals are left out; control characters, and
/// those that hide or reorder text, are written out. Line ends and tabs stay; a lone carriage return is a space.
pub fn printable(text: &str) -> Cow<'_, str> {
    cleaned(text, |_| false)
}

/// [`printable`], with its colours: for text that has orch's own in it.
pub fn with_colours(text: &str) -> Cow<'_, str> {
    let is_colour = |sequence: &str| {
        let parameters = sequence
            .strip_prefix("\u{1b}[")
            .and_then(|rest| rest.strip_suffix('m'));
        parameters.is_some_and(|parameters| {
            parameters
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b';')
        })
    };
    cleaned(text, is_colour)
}

/// An edited text with lines that end as those of the text before do: where all of these end in CRLF, all do.
pub fn ending_as(before: &str, edited: String) -> String {
    let is_crlf = before.contains("\r\n") && !before.replace("\r\n", "").contains('\n');
    if is_crlf {
        edited.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        edited
    }
}

/// Spaces that fill `text` up to a width in characters. `format!` takes no width above 65,535.
pub fn padding(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(text.chars().count()))
}

/// The last line that says something, without the blanks around it.
pub fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// The first `most` characters, and an ellipsis where there were more.
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
    }
}

/// What an error says, as `message` words it, with the causes below it that `message` does not hold. One line for each cause.
pub fn with_causes(message: String, error: &dyn Error) -> String {
    std::iter::successors(error.source(), |&cause| cause.source()).fold(message, |text, cause| {
        let cause = cause.to_string();
        let cause = cause.lines().next().unwrap_or_default();
        if text.contains(cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}

/// An error with its causes on one line.
pub fn error_text(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

/// A text for records and messages, both [`printable`] and [`without_secrets`]: one of them is not enough.
pub fn shown(text: &str) -> String {
    without_secrets(&printable(text)).into_owned()
}

fn cleaned(text: &str, keeps: impl Fn(&str) -> bool) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_unseen) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let first = rest.chars().next().expect("BUG: it was found");
        let sequence = sequence_len(rest);
        match first {
            _ if sequence > 0 && keeps(&rest[..sequence]) => shown.push_str(&rest[..sequence]),
            _ if sequence > 0 => {}
            '\r' if rest.starts_with("\r\n") => {}
            '\r' => shown.push(' '),
            first => shown.extend(first.escape_unicode()),
        }
        rest = &rest[sequence.max(first.len_utf8())..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Whether a reader would not see this character, or not see the others as they stand.
pub fn is_unseen(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The length of the sequence that `text` begins with: `ESC [`, parameters, a letter. Longer ones could hide what follows.
fn sequence_len(text: &str) -> usize {
    let Some(body) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let parameters = body
        .bytes()
        .take(32)
        .take_while(|byte| (0x20..0x40).contains(byte))
        .count();
    let ends = body
        .as_bytes()
        .get(parameters)
        .is_some_and(|byte| (0x40..0x7f).contains(byte));
    if ends { parameters + 3 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_ends_lines_as_the_file_does() {
        let edited = || "a\r\nnew\nb".to_owned();
        assert_eq!(ending_as("a\r\nb", edited()), "a\r\nnew\r\nb");
        // Mixed before, or without an end: what is there stays.
        assert_eq!(ending_as("a\nb\r\n", edited()), edited());
        assert_eq!(ending_as("", "new\n".into()), "new\n");
    }

    #[test]
    fn a_text_is_cut_between_characters_and_only_if_it_is_longer() {
        assert_eq!(
            [0, 2, 3, 4].map(|most| shortened("añb", most).into_owned()),
            ["…", "añ…", "añb", "añb"]
        );
        assert_eq!(last_line("a\n  b \n\n \t\n"), Some("b"));
        assert_eq!([last_line(""), last_line(" \n\n")], [None, None]);
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        for (text, expected) in [
            ("plain é\n\ttext", "plain é\n\ttext"),
            (
                "\u{1b}[1;31mred\u{1b}[0m \u{1b}[2K10 %\r20 %\r\n",
                "red 10 % 20 %\n",
            ),
            (
                "\u{1b}]0;title\u{7} all \u{1b}[",
                "\\u{1b}]0;title\\u{7} all \\u{1b}[",
            ),
            ("\u{9b}31m \u{202e}abc \0", "\\u{9b}31m \\u{202e}abc \\u{0}"),
        ] {
            assert_eq!(printable(text), expected, "{text:?}");
        }
        assert_eq!(
            with_colours("\u{1b}[1;31mred\u{1b}[0m\u{1b}[2K\u{1b}[<m\r"),
            "\u{1b}[1;31mred\u{1b}[0m "
        );
    }

    #[test]
    fn urls_are_shown_without_what_opens_doors() {
        for (text, expected) in [
            ("no URL: at all?", "no URL: at all?"),
            ("s3://bucket/a@b", "s3://bucket/a@b"),
            (
                "GET https://me:pw@host:80/a?sig=x#y, then",
                "GET https://host:80/a?…, then",
            ),
            (
                "(https://h?sig=x) `http://u@h/p`",
                "(https://h?…) `http://h/p`",
            ),
            ("webdav://me:p/w@host/x", "webdav://…"),
            ("webdav://me:p?w@host/x", "webdav://…"),
            (
                "http://[::1]:80/x http://h:8080",
                "http://[::1]:80/x http://h:8080",
            ),
            ("://", "://"),
            ("x://é:ü@ö/ß?", "x://ö/ß?…"),
        ] {
            assert_eq!(without_secrets(text), expected, "{text}");
        }
    }
}
