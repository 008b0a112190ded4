//! Characters that names may have. Names are in step ids, file names, generated code, pages and on terminals. Each of
//! these escapes them; unreadable names are refused here.

use crate::base::text::is_unseen;
use crate::spec::error::Sink;
use crate::spec::shape::At;

/// A file's name holds several of them.
const LONGEST: usize = 100;

/// A name that becomes a part of step ids (`run:bert:cpu-fp32`) and of file names.
pub(super) fn good_name<N: AsRef<str>>(name: &At<N>, what: &str, sink: &mut Sink) {
    let text = name.value.as_ref();
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || !text.chars().all(good) {
        let message = format!("`{text}` cannot be the name of a {what}");
        sink.error_hint(
            name.span,
            message,
            "use letters, digits, `.`, `_` and `-`, beginning with a letter or digit",
        );
    } else if text.len() > LONGEST {
        let message = format!("the name of a {what} has {} characters", text.len());
        sink.error_hint(
            name.span,
            message,
            format!("use at most {LONGEST}: it becomes a part of file names"),
        );
    }
}

/// A name that others have chosen: of a tensor, a task, an option.
pub(super) fn plain_name<N: AsRef<str>>(name: &At<N>, what: &str, sink: &mut Sink) {
    let text = name.value.as_ref();
    let article = if what.starts_with(['a', 'e', 'i', 'o']) {
        "an"
    } else {
        "a"
    };
    let bad = |c: char| is_unseen(c) || matches!(c, '\n' | '\t' | '"' | '\'' | '`' | '\\');
    if text.trim().is_empty() || text.contains(bad) {
        let message = format!(
            "`{}` cannot be the name of {article} {what}",
            text.escape_debug()
        );
        sink.error_hint(
            name.span,
            message,
            "leave out quotes, backslashes, line breaks and invisible characters",
        );
    } else if text.len() > 255 {
        sink.error(
            name.span,
            format!(
                "the name of {article} {what} has {} bytes, more than 255",
                text.len()
            ),
        );
    }
}

/// Text for people.
pub(super) fn one_line(text: &At<String>, what: &str, sink: &mut Sink) {
    if text
        .value
        .trim_end()
        .contains(|c| is_unseen(c) || c == '\n')
    {
        sink.error(
            text.span,
            format!("`{what}` must be one line of readable text"),
        );
    }
}
