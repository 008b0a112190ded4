//! What plain scalars stand for: nothing, booleans, numbers, and otherwise text. Knows nothing of where they stand.

use std::borrow::Cow;

use super::Value;
use super::fast::{Read, Unsure};

/// What a plain scalar stands for.
pub(super) fn plain_value(text: Cow<'_, str>) -> Read<Value<'_>> {
    let bytes = text.as_bytes();
    Ok(match bytes[0] {
        b'0'..=b'9' | b'+' | b'-' | b'.' => match number(bytes) {
            Number::None => Value::Text(text),
            Number::Small(value) => Value::Int(value),
            // Rare enough to be asked about one by one.
            Number::Perhaps => super::plain_scalar(&text).ok_or(Unsure)?,
        },
        b'n' | b'N' | b'~' if is_null(&text) => Value::Null,
        b't' | b'T' if text.eq_ignore_ascii_case("true") => Value::Bool(true),
        b'f' | b'F' if text.eq_ignore_ascii_case("false") => Value::Bool(false),
        _ => Value::Text(text),
    })
}

pub(super) fn is_null(text: &str) -> bool {
    text.is_empty() || text == "~" || text.eq_ignore_ascii_case("null")
}

enum Number {
    None,
    Small(i64),
    Perhaps,
}

/// Tells what is no number in any of YAML's notations from what may be one.
fn number(bytes: &[u8]) -> Number {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    if digits.len() <= 18 && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        if digits[0] == b'0' && bytes.len() > 1 {
            return Number::Perhaps;
        }
        let value = digits.iter().fold(0i64, |value, digit| value * 10 + i64::from(digit - b'0'));
        return Number::Small(if digits.len() < bytes.len() { -value } else { value });
    }
    let unsigned = bytes.strip_prefix(b"+").unwrap_or(digits);
    match unsigned.first() {
        Some(b'0'..=b'9' | b'.') => {}
        _ => return Number::None,
    }
    // `.inf` and `.nan` are the only ones with other letters.
    let special = unsigned.len() == 4
        && (unsigned[1..].eq_ignore_ascii_case(b"inf") || unsigned[1..].eq_ignore_ascii_case(b"nan"));
    let is_of_numbers = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' | b'x' | b'X' | b'o' | b'O' | b'_' | b'.' | b'+' | b'-');
    if special || unsigned.iter().all(is_of_numbers) { Number::Perhaps } else { Number::None }
}
