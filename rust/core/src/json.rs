//! JSON: a value that keeps key order, a reader that refuses what Python's would let pass, and the dialects of
//! Python's `json.dumps` that the contract hashes and shows.

use std::cell::RefCell;
use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::error::{Error, ErrorKind, quoted};

/// Levels of nesting a schema can use are five; this leaves room for a clear message about the sixth.
const MAX_DEPTH: usize = 32;

/// A JSON value whose objects keep the order of their keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// An object; the reader guarantees distinct keys.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads JSON text strictly: duplicate keys, lone surrogates, `NaN` and deep nesting are errors with their path.
    ///
    /// # Errors
    /// [`ErrorKind::Json`], [`ErrorKind::DuplicateKey`], [`ErrorKind::Depth`], [`ErrorKind::SchemaSurrogate`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let state = State::default();
        let mut reader = serde_json::Deserializer::from_str(text);
        Seed { state: &state, depth: 0 }
            .deserialize(&mut reader)
            .and_then(|value| reader.end().map(|()| value))
            .map_err(|error| {
                let path = state.path.borrow().concat();
                if let Some((kind, message)) = state.refusal.take() {
                    return Error::new(kind, path, message);
                }
                if let Some(offset) = lone_surrogate(text) {
                    return Error::new(
                        ErrorKind::SchemaSurrogate,
                        path,
                        format!(
                            "lone surrogate escape at byte {offset} of the JSON text: it has no UTF-8 form; remove it"
                        ),
                    );
                }
                Error::new(ErrorKind::Json, path, format!("not valid JSON: {error}"))
            })
    }

    /// What a message calls this value's type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

impl From<&[u32]> for Json {
    fn from(ids: &[u32]) -> Self {
        Self::Array(ids.iter().map(|&id| Self::Int(i64::from(id))).collect())
    }
}

/// Where the reader is, and why it stopped.
#[derive(Default)]
struct State {
    path: RefCell<Vec<String>>,
    refusal: RefCell<Option<(ErrorKind, String)>>,
}

impl State {
    fn refuse<E: serde::de::Error>(&self, kind: ErrorKind, message: String) -> E {
        *self.refusal.borrow_mut() = Some((kind, message));
        E::custom("refused")
    }
}

#[derive(Clone, Copy)]
struct Seed<'s> {
    state: &'s State,
    depth: usize,
}

impl Seed<'_> {
    /// Reads one nested value; the path keeps its step when the value fails, so that the error can name it.
    fn nested<T, E>(self, step: String, read: impl FnOnce(Self) -> Result<T, E>) -> Result<T, E> {
        self.state.path.borrow_mut().push(step);
        let value = read(Seed { depth: self.depth + 1, ..self })?;
        self.state.path.borrow_mut().pop();
        Ok(value)
    }

    fn check_depth<E: serde::de::Error>(self) -> Result<(), E> {
        if self.depth < MAX_DEPTH {
            return Ok(());
        }
        Err(self
            .state
            .refuse(ErrorKind::Depth, format!("values are nested deeper than {MAX_DEPTH} levels; a schema needs five")))
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Json, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Float(value as f64), Json::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        self.check_depth()?;
        let mut items = Vec::new();
        while let Some(item) = self.nested(format!("[{}]", items.len()), |seed| seq.next_element_seed(seed))? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        self.check_depth()?;
        let mut entries: Vec<(String, Json)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let step = if self.depth == 0 { key.clone() } else { format!(".{key}") };
            let value = self.nested(step, |seed| {
                if !seen.insert(key.clone()) {
                    let message = format!("the key {} stands twice in one object; keep one", quoted(&key));
                    return Err(self.state.refuse(ErrorKind::DuplicateKey, message));
                }
                map.next_value_seed(seed)
            })?;
            entries.push((key, value));
        }
        Ok(Json::Object(entries))
    }
}

/// Byte offset of the first `\u` escape that is half of no surrogate pair.
fn lone_surrogate(text: &str) -> Option<usize> {
    let unit = |at: usize| -> Option<u16> {
        let digits = text.as_bytes().get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = text.as_bytes().get(at..)?.iter().position(|&b| b == b'\\') {
        at += found;
        match unit(at) {
            Some(0xd800..=0xdbff) => match unit(at + 6) {
                Some(0xdc00..=0xdfff) => at += 12,
                _ => return Some(at),
            },
            Some(0xdc00..=0xdfff) => return Some(at),
            _ => at += 2,
        }
    }
    None
}

/// Appends `value` as JSON text: non-ASCII kept as it is.
pub(crate) fn push_text(out: &mut String, value: &str) {
    out.push('"');
    let mut start = 0;
    for (at, byte) in value.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&value[start..at]);
        push_escape(out, char::from(byte));
        start = at + 1;
    }
    out.push_str(&value[start..]);
    out.push('"');
}

/// `value` as JSON text.
pub(crate) fn text(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    push_text(&mut out, value);
    out
}

fn push_escape(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\u{c}' => out.push_str("\\f"),
        '\r' => out.push_str("\\r"),
        _ => {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

/// Appends `value` in the plan dialect: everything outside printable ASCII escaped, keys sorted by code point.
pub(crate) fn push_canonical(out: &mut String, value: &Json) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Int(number) => {
            let _ = write!(out, "{number}");
        }
        // No plan holds a float; `{:?}` is Python's shortest form for the common range.
        Json::Float(number) => {
            let _ = write!(out, "{number:?}");
        }
        Json::String(string) => push_ascii(out, string),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                push_canonical(out, item);
            }
            out.push(']');
        }
        Json::Object(entries) => {
            let mut sorted: Vec<_> = entries.iter().collect();
            // UTF-8 sorts as code points do.
            sorted.sort_by(|a, b| a.0.cmp(&b.0));
            out.push('{');
            for (index, (key, item)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                push_ascii(out, key);
                out.push_str(": ");
                push_canonical(out, item);
            }
            out.push('}');
        }
    }
}

fn push_ascii(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        if matches!(c, ' '..='~') && c != '"' && c != '\\' {
            out.push(c);
        } else {
            push_escape(out, c);
        }
    }
    out.push('"');
}

/// Appends a flat list of token ids: `[1, 2, 3]`.
pub(crate) fn push_ids(out: &mut String, ids: &[u32]) {
    out.push('[');
    for (index, id) in ids.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        let _ = write!(out, "{id}");
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_escapes_only_what_json_must() {
        assert_eq!(text("a\"\\\u{8}\t\n\u{c}\r\u{1}\u{1f}"), r#""a\"\\\b\t\n\f\r\u0001\u001f""#);
        assert_eq!(text("é\u{7f}\u{2028}😀"), "\"é\u{7f}\u{2028}😀\"");
    }

    #[test]
    fn canonical_escapes_beyond_ascii_and_sorts_by_code_point() {
        let value = Json::parse(r#"{"\uffff": 1, "😀": [true, null], "b": "\u007fé😀", "a": -2}"#).unwrap();
        let mut out = String::new();
        push_canonical(&mut out, &value);
        assert_eq!(out, r#"{"a": -2, "b": "\u007f\u00e9\ud83d\ude00", "\uffff": 1, "\ud83d\ude00": [true, null]}"#);
    }

    #[test]
    fn ids_are_a_flat_list() {
        let mut out = String::new();
        push_ids(&mut out, &[0, 17, u32::MAX]);
        assert_eq!(out, "[0, 17, 4294967295]");
    }

    #[test]
    fn refusals_name_the_place() {
        let cases = [
            ("{\"a\": {\"b\": 1, \"b\": 2}}", ErrorKind::DuplicateKey, "a.b"),
            ("{\"a\": {}, \"a\": {}}", ErrorKind::DuplicateKey, "a"),
            ("{\"a\": [\"\\ud800\"]}", ErrorKind::SchemaSurrogate, "a[0]"),
            ("{\"a\": [\"x\", \"\\udc00x\"]}", ErrorKind::SchemaSurrogate, "a[1]"),
            ("{\"a\": \"\\ud800\\u0041\"}", ErrorKind::SchemaSurrogate, "a"),
            ("{\"a\": \"\\\\ud800\", }", ErrorKind::Json, ""),
            ("{\"a\": NaN}", ErrorKind::Json, "a"),
            ("", ErrorKind::Json, ""),
            ("{} {}", ErrorKind::Json, ""),
        ];
        for (input, kind, path) in cases {
            let error = Json::parse(input).unwrap_err();
            assert_eq!((error.kind(), error.path()), (kind, path), "{input}: {error}");
        }
        let deep = "[".repeat(200_000);
        assert_eq!(Json::parse(&deep).unwrap_err().kind(), ErrorKind::Depth);
    }
}
