//! Text that programs, services or other machines made, as it may be shown: no passwords, nothing that a terminal obeys.

use std::borrow::Cow;

/// URLs in `text` without the user's name and password, and without queries: those of signed addresses open doors.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find("://") else { return Cow::Borrowed(text) };
    let mut told = String::with_capacity(text.len());
    let (mut rest, mut at) = (text, first);
    loop {
        let (before, url) = rest.split_at(at + 3);
        told.push_str(before);
        let ends =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '`' | '<' | '>' | ')' | ',');
        let url_end = url.find(ends).unwrap_or(url.len());
        push_url(&mut told, &url[..url_end]);
        rest = &url[url_end..];
        match rest.find("://") {
            Some(next) => at = next,
            None => break,
        }
    }
    told.push_str(rest);
    Cow::Owned(told)
}

/// A URL from its host on.
fn push_url(told: &mut String, url: &str) {
    let (place, query) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    // A colon is followed by a port, or by a password, of which no slash, mark or `@` can be told from the URL's own.
    let is_port = |(_, port): (&str, &str)| port.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once('@') {
        Some((_, host)) => told.extend([host, path]),
        None if host.starts_with('[') || host.split_once(':').is_none_or(is_port) => told.extend([host, path]),
        None => return told.push('…'),
    }
    if !query.is_empty() {
        told.extend([&query[..1], "…"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_without_what_opens_doors() {
        for (text, told) in [
            ("no URL: at all?", "no URL: at all?"),
            ("s3://bucket/a@b", "s3://bucket/a@b"),
            ("GET https://me:pw@host:80/a?sig=x#y, then", "GET https://host:80/a?…, then"),
            ("(https://h?sig=x) `http://u@h/p`", "(https://h?…) `http://h/p`"),
            ("webdav://me:p/w@host/x", "webdav://…"),
            ("webdav://me:p?w@host/x", "webdav://…"),
            ("http://[::1]:80/x http://h:8080", "http://[::1]:80/x http://h:8080"),
            ("://", "://"),
            ("x://é:ü@ö/ß?", "x://ö/ß?…"),
        ] {
            assert_eq!(without_secrets(text), told, "{text}");
        }
    }
}
