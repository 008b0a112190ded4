//! The strict template environment over the embedded `templates/` folder: the only home of minijinja.
//!
//! An undefined name is an error, never an empty string, so a template that does not fit its context cannot make output
//! that merely looks right. What is put into a `.html.j2`, `.svg.j2` or `.xml.j2` is escaped for HTML. What is put into a `.py.j2` may stand in strings between
//! double quotes, docstrings and comments, and cannot leave them; elsewhere in the code it passes `pyrepr` or
//! `identifier`, and `safe` is for text of orch's own. Knows nothing of what the templates say.

use std::sync::LazyLock;

use include_dir::{Dir, include_dir};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, ValueKind};
use minijinja::{
    AutoEscape, Environment, ErrorKind, Output, UndefinedBehavior, Value, escape_formatter,
};
use serde::Serialize;

use crate::base::fs::embedded;
use crate::base::text::printable;

static TEMPLATES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/templates");

static ENVIRONMENT: LazyLock<Result<Environment<'static>, TemplateError>> =
    LazyLock::new(|| environment(&TEMPLATES));

/// A template that does not parse, or that asks for what its context does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template `{name}`{}: {reason}", line.map(|line| format!(" line {line}")).unwrap_or_default())]
pub struct TemplateError {
    /// Path below `templates/`, e.g. `pipelines/text.py.j2`; of the included template when the error is there.
    pub name: String,
    pub line: Option<usize>,
    pub reason: String,
}

/// Renders the embedded template `name` (its path below `templates/`) with the fields of `ctx`.
pub fn render(name: &str, ctx: impl Serialize) -> Result<String, TemplateError> {
    let environment = ENVIRONMENT.as_ref().map_err(Clone::clone)?;
    render_in(environment, name, ctx)
}

/// The embedded source of a template, e.g. for the digest of what a generated file was made from.
pub fn source(name: &str) -> Option<&'static str> {
    TEMPLATES.get_file(name)?.contents_utf8()
}

/// Paths of all embedded templates below `templates/`, sorted.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = files(&TEMPLATES)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names
}

fn render_in(
    environment: &Environment<'_>,
    name: &str,
    ctx: impl Serialize,
) -> Result<String, TemplateError> {
    let template = environment
        .get_template(name)
        .map_err(|error| described(name, &error))?;
    template
        .render(Value::from(Serde(ctx)))
        .map_err(|error| described(name, &error))
}

fn environment(dir: &'static Dir<'static>) -> Result<Environment<'static>, TemplateError> {
    let mut environment = strict();
    for (name, source) in files(dir) {
        environment
            .add_template(name, source)
            .map_err(|error| described(name, &error))?;
    }
    Ok(environment)
}

fn strict() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    environment.set_syntax(syntax.expect("BUG: the default delimiters are valid"));
    environment.set_auto_escape_callback(|name| match name {
        name if [".html.j2", ".svg.j2", ".xml.j2"]
            .iter()
            .any(|end| name.ends_with(end)) =>
        {
            AutoEscape::Html
        }
        name if name.ends_with(".py.j2") => AutoEscape::Custom(PYTHON.into()),
        _ => AutoEscape::None,
    });
    environment.set_formatter(|out, state, value| match state.auto_escape() {
        AutoEscape::Custom(_) if !value.is_safe() => python_text(out, value),
        AutoEscape::Custom(_) => Ok(out.write_str(&value.to_string())?),
        // A browser shows control characters in many ways, and obeys those that reorder text.
        AutoEscape::Html if !value.is_safe() && value.as_str().is_some() => {
            let shown = printable(value.as_str().unwrap_or_default()).into_owned();
            escape_formatter(out, state, &Value::from(shown))
        }
        _ => escape_formatter(out, state, value),
    });
    environment.add_filter("json", json);
    environment.add_filter("pyrepr", pyrepr);
    environment.add_filter("identifier", identifier);
    environment.add_filter("slug", |text: &str| slug(text));
    environment
}

const PYTHON: &str = "python";

/// A value inside of a string, a docstring or a comment of Python. Braces are escaped because the string may be formatted.
fn python_text(out: &mut Output<'_>, value: &Value) -> Result<(), minijinja::Error> {
    let text = match value.kind() {
        ValueKind::Undefined => return Err(minijinja::Error::from(ErrorKind::UndefinedError)),
        ValueKind::String | ValueKind::Number => value.to_string(),
        kind => {
            let detail = format!("a {kind} does not stand in Python as it is: use `pyrepr`");
            return Err(minijinja::Error::new(ErrorKind::InvalidOperation, detail));
        }
    };
    Ok(out.write_str(
        &python_escaped(&text)
            .replace('{', "\\x7b")
            .replace('}', "\\x7d"),
    )?)
}

/// Filter `identifier`: a name in Python's code.
fn identifier(text: &str) -> Result<Value, minijinja::Error> {
    let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(rest) {
        return Ok(Value::from_safe_string(text.to_owned()));
    }
    Err(minijinja::Error::new(
        ErrorKind::InvalidOperation,
        format!("`{text}` is no name in Python"),
    ))
}

/// Every UTF-8 file of the folder and its subfolders. The templates are text, so another file is no template.
fn files(dir: &'static Dir<'static>) -> Vec<(&'static str, &'static str)> {
    embedded(dir)
        .into_iter()
        .filter_map(|file| Some((file.path().to_str()?, file.contents_utf8()?)))
        .collect()
}

/// The innermost error that has a line is the one to mend: an `include` wraps it in errors of the including templates.
fn described(name: &str, error: &minijinja::Error) -> TemplateError {
    let mut innermost = error;
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(inner) = inner.downcast_ref::<minijinja::Error>() {
            innermost = inner;
        }
        source = inner.source();
    }
    let reason = match innermost.detail() {
        Some(detail) => format!("{}: {detail}", innermost.kind()),
        None => innermost.kind().to_string(),
    };
    let place = if innermost.line().is_some() {
        innermost
    } else {
        error
    };
    TemplateError {
        name: place.name().unwrap_or(name).to_owned(),
        line: place.line(),
        reason,
    }
}

/// Filter `json`: JSON that may stand in an HTML `<script>` as it is; `<`, `>`, `&` and the two line separators that
/// JavaScript once knew are written as escapes, so no text in it can end the script element.
fn json(value: &Value) -> Result<Value, minijinja::Error> {
    Ok(Value::from_safe_string(script_json(&plain(value)?)))
}

/// The text of the filter `json`, for callers that already hold a JSON value.
pub fn script_json(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value)
        .expect("BUG: a value of strings, numbers and lists serialises");
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(c)))
            }
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Filter `pyrepr`: a Python literal with the value of this JSON value.
fn pyrepr(value: &Value) -> Result<Value, minijinja::Error> {
    Ok(Value::from_safe_string(python(&plain(value)?)))
}

fn plain(value: &Value) -> Result<serde_json::Value, minijinja::Error> {
    if value.kind() == ValueKind::Undefined {
        return Err(minijinja::Error::from(ErrorKind::UndefinedError));
    }
    serde_json::to_value(value).map_err(|error| {
        minijinja::Error::new(
            ErrorKind::BadSerialization,
            format!("not a JSON value: {error}"),
        )
    })
}

fn python(value: &serde_json::Value) -> String {
    use serde_json::Value as Json;
    let joined = |items: Vec<String>| items.join(", ");
    match value {
        Json::Null => "None".to_owned(),
        Json::Bool(true) => "True".to_owned(),
        Json::Bool(false) => "False".to_owned(),
        Json::Number(number) => number.to_string(),
        Json::String(text) => python_string(text),
        Json::Array(items) => format!("[{}]", joined(items.iter().map(python).collect())),
        Json::Object(fields) => {
            let field =
                |(name, item): (&String, _)| format!("{}: {}", python_string(name), python(item));
            format!("{{{}}}", joined(fields.iter().map(field).collect()))
        }
    }
}

/// Double-quoted, as formatters of Python want it.
fn python_string(text: &str) -> String {
    format!("\"{}\"", python_escaped(text))
}

/// Control characters and the invisible ones that reorder or hide text are escaped, so that what a reader sees is what
/// Python reads.
fn python_escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() && u32::from(c) < 0x100 => {
                out.push_str(&format!("\\x{:02x}", u32::from(c)))
            }
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

/// Filter `slug`: lower-case ASCII letters, digits and single underscores, so it may stand in a Python name, a file name
/// or an HTML id after a prefix. Different texts can have one slug: `qwen2.5` and `qwen2_5`.
pub fn slug(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('_') {
            slug.push('_');
        }
    }
    slug.truncate(slug.trim_end_matches('_').len());
    slug
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(
        name: &'static str,
        source: &'static str,
        ctx: serde_json::Value,
    ) -> Result<String, TemplateError> {
        let mut environment = strict();
        environment
            .add_template(name, source)
            .map_err(|error| described(name, &error))?;
        environment
            .add_template("part.j2", "ok\n{{ absent }}\n")
            .unwrap();
        render_in(&environment, name, ctx)
    }

    #[test]
    fn every_embedded_template_parses() {
        assert_eq!(environment(&TEMPLATES).err(), None);
        assert!(names().contains(&"report.html.j2"), "{:?}", names());
        assert!(source("report.html.j2").is_some());
    }

    #[test]
    fn undefined_names_are_errors_with_name_and_line() {
        for source in [
            "a\n{{ nothing }}",
            "a\n{{ nothing|json }}",
            "a\n{{ nothing|pyrepr }}",
            "a\n{% if nothing %}{% endif %}",
        ] {
            let error = rendered("x.py.j2", source, json!({"some": 1})).unwrap_err();
            assert_eq!(
                (error.name.as_str(), error.line),
                ("x.py.j2", Some(2)),
                "{source}: {error}"
            );
            assert!(
                error
                    .to_string()
                    .starts_with("template `x.py.j2` line 2: undefined value"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_error_inside_an_include_names_the_included_template() {
        let error = rendered("x.j2", "{% include 'part.j2' %}", json!({})).unwrap_err();
        assert_eq!(
            (error.name.as_str(), error.line),
            ("part.j2", Some(2)),
            "{error}"
        );
    }

    #[test]
    fn a_syntax_error_and_an_unknown_template_are_named() {
        let error = rendered("x.j2", "\n\n{% if %}", json!({})).unwrap_err();
        assert_eq!(
            (error.name.as_str(), error.line),
            ("x.j2", Some(3)),
            "{error}"
        );
        let error = render("no/such.j2", json!({})).unwrap_err();
        assert_eq!(error.name, "no/such.j2");
        assert!(error.reason.contains("not found"), "{error}");
    }

    #[test]
    fn html_is_escaped_by_the_name_of_the_template() {
        let ctx = json!({"t": "<b>&\"'"});
        assert_eq!(
            rendered("x.html.j2", "{{ t }}", ctx.clone()).unwrap(),
            "&lt;b&gt;&amp;&quot;&#x27;"
        );
        assert_eq!(rendered("x.j2", "{{ t }}", ctx).unwrap(), "<b>&\"'");
    }

    #[test]
    fn json_cannot_leave_a_script_element() {
        let ctx = json!({"t": {"k": "</script><!-- \u{2028} &"}});
        let text = rendered("x.html.j2", "{{ t|json }}", ctx.clone()).unwrap();
        assert!(!text.contains(['<', '>', '&', '\u{2028}']), "{text}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            ctx["t"]
        );
    }

    #[test]
    fn pyrepr_writes_python() {
        let value = json!({"n": null, "yes": true, "no": false, "i": -3, "f": 0.001, "big": 1e20, "l": [[], {}], "s": "a'\"\\\n\u{1}é\u{202e}"});
        assert_eq!(
            rendered("x.py.j2", "{{ v|pyrepr }}", json!({"v": value})).unwrap(),
            r#"{"n": None, "yes": True, "no": False, "i": -3, "f": 0.001, "big": 1e+20, "l": [[], {}], "s": "a'\"\\\n\x01é\u202e"}"#
        );
    }

    #[test]
    fn text_cannot_leave_its_place_in_python() {
        let python = |source, t: serde_json::Value| rendered("x.py.j2", source, json!({"t": t}));
        assert_eq!(
            python("\"{{ t }}\"", json!("a\"{b}\\\n\r\u{7f}é")).unwrap(),
            r#""a\"\x7bb\x7d\\\n\r\x7fé""#
        );
        assert_eq!(python("{{ t }}", json!(3)).unwrap(), "3");
        assert!(
            python("{{ t }}", json!(["a"]))
                .unwrap_err()
                .reason
                .contains("use `pyrepr`")
        );
        assert_eq!(
            python("{{ t|identifier }}", json!("Bert_2")).unwrap(),
            "Bert_2"
        );
        for bad in ["", "2a", "a.b", "a;b", "é"] {
            assert!(
                python("{{ t|identifier }}", json!(bad))
                    .unwrap_err()
                    .reason
                    .contains("no name in Python"),
                "{bad}"
            );
        }
    }

    #[test]
    fn slugs() {
        assert_eq!(slug("Qwen2.5-VL"), "qwen2_5_vl");
        assert_eq!(slug("cpu-fp32"), "cpu_fp32");
        assert_eq!(slug("--é/x--"), "x");
    }

    #[test]
    fn blocks_leave_no_blank_lines() {
        let text = rendered(
            "x.py.j2",
            "a\n  {% if true %}\nb\n  {% endif %}\nc\n",
            json!({}),
        )
        .unwrap();
        assert_eq!(text, "a\nb\nc\n");
    }
}
