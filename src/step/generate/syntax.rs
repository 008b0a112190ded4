//! Says whether a text is Python, without starting one. The only home of the Python parser.

use rustpython_ruff_python_parser::parse_module;

/// `Ok` when `source` parses as a Python module; otherwise where it does not and why, e.g. `line 3: Expected an expression`.
pub fn parses(source: &str) -> Result<(), String> {
    match parse_module(source) {
        Ok(_) => Ok(()),
        Err(error) => {
            let before = &source.as_bytes()[..error.location.start().to_usize().min(source.len())];
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
            Err(format!("line {line}: {}", error.error))
        }
    }
}

/// What of a module is neither string nor comment.
#[cfg(test)]
pub(super) fn code(source: &str) -> String {
    let module = parse_module(source).unwrap_or_else(|error| panic!("{error}:\n{source}"));
    let is_text = |kind: &str| kind.contains("String") || kind == "Comment";
    let tokens = module.tokens().iter().map(|token| token.as_tuple());
    let tokens = tokens.filter(|(kind, _)| !is_text(&format!("{kind:?}")));
    let ranges = tokens.map(|(_, range)| &source[range.start().to_usize()..range.end().to_usize()]);
    ranges.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::parses;

    #[test]
    fn python_parses() {
        parses("from __future__ import annotations\n\nx: int = 1\nprint(f\"{x!r:>{x}}\")\n").unwrap();
    }

    #[test]
    fn an_error_names_its_line() {
        let error = parses("x = 1\n\ndef f(:\n    pass\n").unwrap_err();
        assert!(error.starts_with("line 3: "), "{error}");
        let error = parses("if True:\nx = 1\n").unwrap_err();
        assert!(error.starts_with("line 2: "), "{error}");
        let error = parses("x = f\"{\"\n").unwrap_err();
        assert!(error.starts_with("line 1: "), "{error}");
    }
}
