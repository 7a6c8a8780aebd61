//! The schema: an ordered, validated, immutable mapping from field names to what may be answered.

mod constraints;
mod parse;
mod variants;

pub use constraints::{SetConstraint, SetRule};

use crate::error::Error;
use crate::json::Json;

/// The name a question goes by when it is asked alone, so that what a caller calls it changes nothing.
const NEUTRAL_NAME: &str = "answer";

/// The choice that an enum with `allow_none_of_above` has beside those that are written.
pub const NONE_OF_ABOVE: &str = "none of the above";

/// What kind of answer a field takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// `true` or `false`.
    Boolean,
    /// One of 1–255 choices.
    Enum,
    /// Any subset of 2–64 options.
    Multi,
}

impl FieldKind {
    /// The name in a schema's `type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Enum => "enum",
            Self::Multi => "multi",
        }
    }
}

/// One field of a [`Schema`].
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub(crate) name: String,
    pub(crate) kind: FieldKind,
    pub(crate) description: String,
    pub(crate) choices: Vec<String>,
    pub(crate) glosses: Vec<String>,
    pub(crate) ordered: bool,
    pub(crate) none_of_above: bool,
    pub(crate) depends_on: Option<String>,
    pub(crate) set_constraints: Vec<SetConstraint>,
}

impl Field {
    /// The name: non-empty, without `.`, `/` and `#`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of answer.
    #[must_use]
    pub fn kind(&self) -> FieldKind {
        self.kind
    }

    /// The description as the caller wrote it.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The description as the prompt shows it: the text before the first LF, stripped as Python's `str.strip` does.
    #[must_use]
    pub fn description_line(&self) -> &str {
        // U+001C–U+001F are white space to Python and not to Unicode's White_Space property.
        let space = |c: char| c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}');
        self.description.split('\n').next().unwrap_or_default().trim_matches(space)
    }

    /// The choices in schema order, [`NONE_OF_ABOVE`] last where it is allowed; `true`, `false` for a boolean.
    #[must_use]
    pub fn choices(&self) -> &[String] {
        &self.choices
    }

    /// The gloss of each choice, in the same order; empty where there is none.
    #[must_use]
    pub fn glosses(&self) -> &[String] {
        &self.glosses
    }

    /// Whether the choices are a scale, lowest first.
    #[must_use]
    pub fn ordered(&self) -> bool {
        self.ordered
    }

    /// Whether the last choice is [`NONE_OF_ABOVE`], which stands for no value.
    #[must_use]
    pub fn none_of_above(&self) -> bool {
        self.none_of_above
    }

    /// The field whose decided value this one is conditioned on.
    #[must_use]
    pub fn depends_on(&self) -> Option<&str> {
        self.depends_on.as_deref()
    }

    /// Constraints on which options may be selected together.
    #[must_use]
    pub fn set_constraints(&self) -> &[SetConstraint] {
        &self.set_constraints
    }

    fn to_json(&self) -> Json {
        let mut spec = vec![("type".to_owned(), Json::String(self.kind.name().to_owned()))];
        let mut put = |key: &str, value: Json| spec.push((key.to_owned(), value));
        if !self.description.is_empty() {
            put("description", Json::String(self.description.clone()));
        }
        if self.kind != FieldKind::Boolean {
            let written = &self.choices[..self.choices.len() - usize::from(self.none_of_above)];
            put("choices", Json::Array(written.iter().cloned().map(Json::String).collect()));
        }
        let glosses: Vec<_> = std::iter::zip(&self.choices, &self.glosses)
            .filter(|(_, gloss)| !gloss.is_empty())
            .map(|(choice, gloss)| (choice.clone(), Json::String(gloss.clone())))
            .collect();
        if !glosses.is_empty() {
            put("choice_descriptions", Json::Object(glosses));
        }
        if self.ordered {
            put("ordered", Json::Bool(true));
        }
        if self.none_of_above {
            put("allow_none_of_above", Json::Bool(true));
        }
        if let Some(parent) = &self.depends_on {
            put("depends_on", Json::String(parent.clone()));
        }
        if !self.set_constraints.is_empty() {
            let items = self.set_constraints.iter().map(|c| c.to_json(&self.choices)).collect();
            put("set_constraints", Json::Array(items));
        }
        Json::Object(spec)
    }
}

/// What may be answered: fields in the order they were given, which is the order they are shown in.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub(crate) fields: Vec<Field>,
}

impl Schema {
    /// Reads and validates a schema from JSON text.
    ///
    /// ```
    /// use jevmlx_core::Schema;
    /// let error = Schema::from_json(r#"{"team": {"choices": ["a", "a"]}}"#).unwrap_err();
    /// assert_eq!(error.code(), "schema.choices.duplicate");
    /// assert_eq!(error.path(), "team.choices[1]");
    /// ```
    ///
    /// # Errors
    /// Any kind whose code starts with `schema.`.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        Self::from_value(Json::parse(text)?)
    }

    /// Validates a schema that has already been read.
    ///
    /// # Errors
    /// Any kind whose code starts with `schema.`.
    pub fn from_value(value: Json) -> Result<Self, Error> {
        parse::schema(value)
    }

    /// The fields in schema order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Each field as a schema of its own under a neutral name, in schema order.
    #[must_use]
    pub fn isolated(&self) -> Vec<Self> {
        let alone = |field: &Field| Field { name: NEUTRAL_NAME.to_owned(), depends_on: None, ..field.clone() };
        self.fields.iter().map(|field| Self { fields: vec![alone(field)] }).collect()
    }

    /// The schema as plain data: canonical type names, defaults left out, order kept.
    #[must_use]
    pub fn to_json(&self) -> Json {
        Json::Object(self.fields.iter().map(|f| (f.name.clone(), f.to_json())).collect())
    }
}
