//! Holds generated texts to Python's syntax, without starting a Python.

use rustpython_ruff_python_parser::{Parsed, parse_module};

fn parsed(source: &str) -> Parsed<impl Sized + use<>> {
    parse_module(source).unwrap_or_else(|error| panic!("no Python: {error}:\n{source}"))
}

pub(super) fn assert_parses(source: &str) {
    parsed(source);
}

/// What of a module is neither string nor comment.
pub(super) fn code(source: &str) -> String {
    let is_text = |kind: &str| kind.contains("String") || kind == "Comment";
    let module = parsed(source);
    let tokens = module.tokens().iter().map(|token| token.as_tuple());
    let tokens = tokens.filter(|(kind, _)| !is_text(&format!("{kind:?}")));
    let ranges = tokens.map(|(_, range)| &source[range.start().to_usize()..range.end().to_usize()]);
    ranges.collect::<Vec<_>>().join(" ")
}
