//! A line: an object, and what its values look like.

use serde_json::{Map, Value};

use crate::field::{Elem, Field, Kind};

/// What some programs write before UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Precedes the name of a float for which JSON has no number, in a text that is otherwise its name. A character that no font and no
/// standard gives a meaning.
const FLOAT: char = '\u{F8FF}';
/// How Python, among others, writes such floats all the same.
const NAMES: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// The object of a line.
pub(super) fn object_of(line: &[u8]) -> serde_json::Result<Map<String, Value>> {
    serde_json::from_slice(line).or_else(|error| match with_floats(line) {
        Some(line) => serde_json::from_str(&line),
        None => Err(error),
    })
}

/// The line with texts for floats that JSON has no numbers for; none where it has no such float.
fn with_floats(line: &[u8]) -> Option<String> {
    let mut rest = std::str::from_utf8(line).ok()?;
    let (mut out, mut in_text, mut found) = (String::with_capacity(line.len() + 32), false, false);
    while let Some(c) = rest.chars().next() {
        let named = NAMES.iter().find(|name| !in_text && rest.starts_with(**name));
        let taken = match (named, c) {
            (Some(name), _) => {
                out.extend(['"', FLOAT]);
                out.push_str(name);
                out.push('"');
                found = true;
                rest = &rest[name.len()..];
                continue;
            }
            // What follows a backslash does not end a text.
            (None, '\\') if in_text => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (None, c) => c.len_utf8(),
        };
        in_text ^= c == '"';
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    found.then_some(out)
}

/// The float that a value is, if it is one.
pub(super) fn float_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => text.strip_prefix(FLOAT).filter(|name| NAMES.contains(name))?.parse().ok(),
        _ => None,
    }
}

/// Whether a value is a number that is not whole.
fn is_float(value: &Value) -> bool {
    value.is_f64() || (value.is_string() && float_of(value).is_some())
}

/// What a value looks like. Null and an empty list could be anything; objects are not read.
pub(super) fn field_of(name: &str, value: &Value) -> Option<Field> {
    let made = |elem, kind, item| Some(Field { name: name.to_owned(), elem, kind, item });
    let number = |is_float| if is_float { Elem::F64 } else { Elem::I64 };
    match value {
        Value::Bool(_) => made(Elem::Bool, Kind::Fixed, vec![]),
        value if float_of(value).is_some() => made(number(is_float(value)), Kind::Fixed, vec![]),
        Value::String(_) => made(Elem::U8, Kind::Text { utf8: true }, vec![]),
        Value::Array(items) => match items.first()? {
            Value::Array(inner) => {
                let mut all = items.iter().filter_map(Value::as_array).flatten();
                made(number(all.any(is_float)), Kind::Ragged, vec![inner.len()])
            }
            Value::Bool(_) => made(Elem::Bool, Kind::Ragged, vec![]),
            first if float_of(first).is_some() => made(number(items.iter().any(is_float)), Kind::Ragged, vec![]),
            _ => None,
        },
        Value::Null | Value::Object(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_that_json_has_no_numbers_for_are_read() {
        let line = br#"{"a": NaN, "b": [1, -Infinity, Infinity], "c": "NaN, \"Infinity", "NaN": 1}"#;
        let object = object_of(line).unwrap();
        assert!(float_of(&object["a"]).unwrap().is_nan());
        let floats: Vec<f64> = object["b"].as_array().unwrap().iter().filter_map(float_of).collect();
        assert_eq!(floats, [1.0, f64::NEG_INFINITY, f64::INFINITY]);
        assert_eq!(object["c"], "NaN, \"Infinity");
        assert_eq!(field_of("a", &object["a"]).unwrap().elem, Elem::F64);
        assert_eq!(field_of("b", &object["b"]).unwrap().elem, Elem::F64);
        assert_eq!(field_of("c", &object["c"]).unwrap().kind, Kind::Text { utf8: true });
        assert!(object_of(b"{\"a\": nan}").is_err() && object_of(b"{\"a\": \"\xFF\"}").is_err());
    }
}
