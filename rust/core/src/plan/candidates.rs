//! Candidates: complete one-field JSON objects, each tokenized as one string.

use crate::error::{Error, ErrorKind, quoted};
use crate::json::{Json, push_text};
use crate::schema::{Field, FieldKind};

/// Answers of a count row; the last means four or more.
pub(super) const COUNT_CODES: [&str; 5] = ["0", "1", "2", "3", "4"];
/// The largest token id.
const MAX_ID: u32 = i32::MAX as u32;
/// Answers of an option row.
const APPLIES: [&str; 2] = ["Y", "N"];

/// A tokenizer, as far as compilation needs one.
pub trait Encoder {
    /// Token ids of each text, in order, without special tokens.
    ///
    /// One compile calls this at most twice.
    ///
    /// # Errors
    /// Whatever the tokenizer reports.
    fn encode_batch(&self, texts: &[String]) -> Result<Vec<Vec<u32>>, EncodeError>;
}

/// Why a tokenizer failed, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EncodeError(pub String);

/// Encodes and checks the shape of what comes back.
pub(super) fn encode(encoder: &dyn Encoder, texts: &[String]) -> Result<Vec<Vec<u32>>, Error> {
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let lists = encoder.encode_batch(texts).map_err(|EncodeError(message)| {
        Error::new(ErrorKind::TokenizerFailed, "", format!("the tokenizer raised an error: {message}"))
    })?;
    if lists.len() != texts.len() {
        return Err(Error::new(
            ErrorKind::TokenizerOutput,
            "",
            format!(
                "the tokenizer returned {} lists for {} texts; one list per text is needed",
                lists.len(),
                texts.len()
            ),
        ));
    }
    if let Some(at) = lists.iter().position(Vec::is_empty) {
        return Err(Error::new(
            ErrorKind::TokenizerEmpty,
            "",
            format!("the tokenizer returned no tokens for {}", quoted(&texts[at])),
        ));
    }
    // Ids above this are in no vocabulary, and scoring takes them as signed numbers.
    if let Some((at, id)) =
        lists.iter().enumerate().find_map(|(at, ids)| Some((at, ids.iter().find(|&&id| id > MAX_ID)?)))
    {
        return Err(Error::new(
            ErrorKind::TokenizerOutput,
            "",
            format!("the tokenizer returned the id {id} for {}; ids go from 0 to {MAX_ID}", quoted(&texts[at])),
        ));
    }
    Ok(lists)
}

/// `{J(name): J(value)}`
pub(super) fn quoted_answer(name: &str, value: &str) -> String {
    answer(name, |out| push_text(out, value))
}

fn answer(name: &str, push_value: impl FnOnce(&mut String)) -> String {
    let mut out = String::with_capacity(name.len() + 16);
    out.push('{');
    push_text(&mut out, name);
    out.push_str(": ");
    push_value(&mut out);
    out.push('}');
    out
}

/// `{J(root): v, …, J(name): value}`: an answer under the answers given before it.
pub(super) fn conditional_answer(given: &[(String, Json)], name: &str, value: &Json) -> String {
    let mut out = String::from("{");
    for (name, value) in given.iter().map(|(name, value)| (name.as_str(), value)).chain([(name, value)]) {
        if out.len() > 1 {
            out.push_str(", ");
        }
        push_text(&mut out, name);
        out.push_str(": ");
        match value {
            Json::String(text) => push_text(&mut out, text),
            Json::Bool(true) => out.push_str("true"),
            _ => out.push_str("false"),
        }
    }
    out.push('}');
    out
}

/// The candidates of a boolean or enum in labels mode.
pub(super) fn label_answers(field: &Field) -> Vec<String> {
    let bare = field.kind() == FieldKind::Boolean;
    let choices = field.choices().iter();
    choices
        .map(
            |choice| {
                if bare {
                    answer(field.name(), |out| out.push_str(choice))
                } else {
                    quoted_answer(field.name(), choice)
                }
            },
        )
        .collect()
}

/// The code of each option: `00`, `01`, …
pub(super) fn option_codes(field: &Field) -> Vec<String> {
    (0..field.choices().len()).map(|index| format!("{index:02}")).collect()
}

/// The candidates of a multi field: `Y` and `N` for each option, then the counts.
pub(super) fn multi_answers(field: &Field, codes: &[String]) -> Vec<String> {
    let mut out = Vec::with_capacity(codes.len() * APPLIES.len() + COUNT_CODES.len());
    for code in codes {
        let name = format!("{}/{code}", field.name());
        out.extend(APPLIES.iter().map(|value| quoted_answer(&name, value)));
    }
    let name = format!("{}#count", field.name());
    out.extend(COUNT_CODES.iter().map(|value| quoted_answer(&name, value)));
    out
}
