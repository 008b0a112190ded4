//! GitHub's expressions, as far as the ready workflow uses them: literals, contexts, `!`, `==`, `!=`, `&&`, `||` and functions.

use serde_json::{Value, json};

/// What names and functions mean.
pub(crate) trait Context {
    /// Of `github.event_name`: null where nothing has that name.
    fn value(&self, path: &[String]) -> Value;
    fn call(&self, function: &str, arguments: &[Value]) -> Value;
}

/// A text in which each `${{ … }}` is replaced.
pub(crate) fn filled(text: &str, context: &dyn Context) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${{") {
        let (inner, behind) = after.split_once("}}").expect("`${{` without `}}`");
        out.push_str(before);
        out.push_str(&text_of(&evaluated(inner, context)));
        rest = behind;
    }
    out + rest
}

/// An `if`, which may lack its `${{ }}`.
pub(crate) fn holds(condition: &str, context: &dyn Context) -> bool {
    let inner = condition.trim();
    let inner = inner
        .strip_prefix("${{")
        .and_then(|inner| inner.strip_suffix("}}"))
        .unwrap_or(inner);
    is_true(&evaluated(inner, context))
}

fn evaluated(text: &str, context: &dyn Context) -> Value {
    let tokens = tokens(text);
    let mut parser = Parser {
        tokens: &tokens,
        context,
    };
    let value = parser.or();
    assert!(parser.tokens.is_empty(), "{text}: {:?}", parser.tokens);
    value
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Text(String),
    Name(String),
    Sign(&'static str),
}

fn tokens(text: &str) -> Vec<Token> {
    const SIGNS: [&str; 8] = ["==", "!=", "&&", "||", "!", "(", ")", ","];
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let taken = if let Some(after) = rest.strip_prefix('\'') {
            let (inner, _) = after.split_once('\'').expect("a text that does not end");
            found.push(Token::Text(inner.to_owned()));
            inner.len() + 2
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            found.push(Token::Sign(sign));
            sign.len()
        } else {
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
            let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
            assert!(end > 0, "no expression of the workflow's has `{rest}`");
            found.push(Token::Name(rest[..end].to_owned()));
            end
        };
        rest = rest[taken..].trim_start();
    }
    found
}

struct Parser<'a> {
    tokens: &'a [Token],
    context: &'a dyn Context,
}

impl Parser<'_> {
    fn takes(&mut self, sign: &'static str) -> bool {
        let is_next = self.tokens.first() == Some(&Token::Sign(sign));
        if is_next {
            self.tokens = &self.tokens[1..];
        }
        is_next
    }

    /// The value is that of the side that decided, as it is there.
    fn or(&mut self) -> Value {
        let mut value = self.and();
        while self.takes("||") {
            let other = self.and();
            if !is_true(&value) {
                value = other;
            }
        }
        value
    }

    fn and(&mut self) -> Value {
        let mut value = self.equal();
        while self.takes("&&") {
            let other = self.equal();
            if is_true(&value) {
                value = other;
            }
        }
        value
    }

    fn equal(&mut self) -> Value {
        let value = self.not();
        if self.takes("==") {
            let other = self.not();
            return json!(are_equal(&value, &other));
        }
        if self.takes("!=") {
            let other = self.not();
            return json!(!are_equal(&value, &other));
        }
        value
    }

    fn not(&mut self) -> Value {
        if self.takes("!") {
            let value = self.not();
            return json!(!is_true(&value));
        }
        self.one()
    }

    fn one(&mut self) -> Value {
        if self.takes("(") {
            let value = self.or();
            assert!(self.takes(")"), "`(` without `)`");
            return value;
        }
        let (first, rest) = self.tokens.split_first().expect("an expression ends early");
        self.tokens = rest;
        match first {
            Token::Text(text) => json!(text),
            Token::Sign(sign) => panic!("`{sign}` begins no expression"),
            Token::Name(name) if self.takes("(") => {
                let mut arguments = Vec::new();
                while !self.takes(")") {
                    arguments.push(self.or());
                    self.takes(",");
                }
                self.context.call(name, &arguments)
            }
            Token::Name(name) => match name.as_str() {
                "true" => json!(true),
                "false" => json!(false),
                "null" => Value::Null,
                name => {
                    let path: Vec<String> = name.split('.').map(str::to_owned).collect();
                    self.context.value(&path)
                }
            },
        }
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Texts are compared without regard to case; nothing is the same as an empty text.
fn are_equal(one: &Value, other: &Value) -> bool {
    text_of(one).eq_ignore_ascii_case(&text_of(other))
}

pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known;

    impl Context for Known {
        fn value(&self, path: &[String]) -> Value {
            let known = json!({"github": {"event_name": "push", "attempt": 2}, "steps": {"run": {"outputs": {}}}});
            path.iter().fold(known, |value, name| value[name].clone())
        }
        fn call(&self, function: &str, arguments: &[Value]) -> Value {
            match function {
                "always" => json!(true),
                "cancelled" => json!(false),
                _ => json!(format!("{function}/{}", arguments.len())),
            }
        }
    }

    #[test]
    fn expressions_have_githubs_values() {
        for (condition, expected) in [
            ("${{ !cancelled() && github.event_name == 'push' }}", true),
            ("github.event_name == 'PUSH'", true),
            ("github.event_name != 'push'", false),
            ("steps.run.outputs.executed != '0'", true),
            ("steps.no.such.thing", false),
            ("always() && (false || 'x')", true),
            ("!(always() || false)", false),
        ] {
            assert_eq!(holds(condition, &Known), expected, "{condition}");
        }
        let text = "a-${{ github.attempt }}-${{ github.no || 'other' }}-${{ hashFiles('x', 'y') }}";
        assert_eq!(filled(text, &Known), "a-2-other-hashFiles/2");
    }
}
