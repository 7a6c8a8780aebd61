//! The one error type: a stable code, the place, and a sentence.

use std::fmt;

/// What went wrong. Each kind has one stable, dotted [code](ErrorKind::code).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not JSON.
    Json,
    /// A JSON object names the same key twice.
    DuplicateKey,
    /// Values are nested deeper than any schema needs.
    Depth,
    /// A string of the schema holds a lone surrogate, which has no UTF-8 form.
    SchemaSurrogate,
    /// A value has the wrong type.
    Type,
    /// The schema has no fields.
    Empty,
    /// A field name is empty, too long, or holds `.`, `/` or `#`.
    FieldName,
    /// The schema's texts are larger than the limit.
    Size,
    /// A key is not one of those a field may have.
    UnknownKey,
    /// A required key is missing.
    MissingKey,
    /// `type` names no field type.
    UnknownType,
    /// Too few or too many choices.
    ChoiceCount,
    /// Two choices are the same string.
    DuplicateChoice,
    /// A boolean's choices are not `true`, `false`.
    BooleanChoices,
    /// A gloss is given for something that is not a choice.
    UnknownChoice,
    /// `ordered` on a field that is not an enum.
    Ordered,
    /// `allow_none_of_above` where it cannot be.
    NoneOfAbove,
    /// `depends_on` names no enum or boolean field, or closes a cycle.
    DependsOn,
    /// A set constraint is malformed or misplaced.
    SetConstraint,
    /// Two candidates of a row have the same token ids.
    TokenIdentical,
    /// One candidate's token ids are a strict prefix of another's.
    TokenPrefix,
    /// A row's candidates have no common first token.
    NoCommonToken,
    /// No pool holds enough aliases that this tokenizer can tell apart.
    NoCodebook,
    /// The exact codebook search would exceed its work limit.
    CodebookLimit,
    /// The tokenizer raised an error.
    TokenizerFailed,
    /// The tokenizer did not return one list of token ids per text.
    TokenizerOutput,
    /// The tokenizer returned no token for a text.
    TokenizerEmpty,
    /// A chat message has a role or a place that is not allowed.
    MessageRole,
    /// A chat message's content is not a string.
    MessageContent,
    /// There are no chat messages.
    MessagesEmpty,
    /// A context or message holds a lone surrogate, which has no UTF-8 form.
    PromptSurrogate,
    /// The key of a keyed nonce is empty.
    NonceKey,
}

impl ErrorKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: &'static [ErrorKind] = &[
        Self::Json,
        Self::DuplicateKey,
        Self::Depth,
        Self::SchemaSurrogate,
        Self::Type,
        Self::Empty,
        Self::FieldName,
        Self::Size,
        Self::UnknownKey,
        Self::MissingKey,
        Self::UnknownType,
        Self::ChoiceCount,
        Self::DuplicateChoice,
        Self::BooleanChoices,
        Self::UnknownChoice,
        Self::Ordered,
        Self::NoneOfAbove,
        Self::DependsOn,
        Self::SetConstraint,
        Self::TokenIdentical,
        Self::TokenPrefix,
        Self::NoCommonToken,
        Self::NoCodebook,
        Self::CodebookLimit,
        Self::TokenizerFailed,
        Self::TokenizerOutput,
        Self::TokenizerEmpty,
        Self::MessageRole,
        Self::MessageContent,
        Self::MessagesEmpty,
        Self::PromptSurrogate,
        Self::NonceKey,
    ];

    /// The stable code, for instance `schema.choices.duplicate`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Json => "schema.json",
            Self::DuplicateKey => "schema.json.duplicate_key",
            Self::Depth => "schema.json.depth",
            Self::SchemaSurrogate => "schema.surrogate",
            Self::PromptSurrogate => "prompt.surrogate",
            Self::Type => "schema.type",
            Self::Empty => "schema.empty",
            Self::FieldName => "schema.field_name",
            Self::Size => "schema.size",
            Self::UnknownKey => "schema.unknown_key",
            Self::MissingKey => "schema.missing_key",
            Self::UnknownType => "schema.unknown_type",
            Self::ChoiceCount => "schema.choices.count",
            Self::DuplicateChoice => "schema.choices.duplicate",
            Self::BooleanChoices => "schema.choices.boolean",
            Self::UnknownChoice => "schema.choice_descriptions.unknown",
            Self::Ordered => "schema.ordered",
            Self::NoneOfAbove => "schema.allow_none_of_above",
            Self::DependsOn => "schema.depends_on",
            Self::SetConstraint => "schema.set_constraints",
            Self::TokenIdentical => "compile.token_identical",
            Self::TokenPrefix => "compile.token_prefix",
            Self::NoCommonToken => "compile.no_common_token",
            Self::NoCodebook => "compile.no_codebook",
            Self::CodebookLimit => "compile.codebook_limit",
            Self::TokenizerFailed => "tokenizer.failed",
            Self::TokenizerOutput => "tokenizer.output",
            Self::TokenizerEmpty => "tokenizer.empty",
            Self::MessageRole => "prompt.messages.role",
            Self::MessageContent => "prompt.messages.content",
            Self::MessagesEmpty => "prompt.messages.empty",
            Self::NonceKey => "prompt.nonce_key",
        }
    }
}

/// An error with its kind, the place in the input, and a sentence that says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    kind: ErrorKind,
    path: String,
    message: String,
}

impl Error {
    /// Makes an error; `path` is `field.key[index]`, empty where the input as a whole is at fault.
    pub fn new(kind: ErrorKind, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, path: path.into(), message: message.into() }
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The stable code of the kind.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// Where in the input: `field.key[index]`, or empty.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What was wrong, what is allowed, what to do.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            write!(f, "{} [{}]", self.message, self.code())
        } else {
            write!(f, "{} [{} at {}]", self.message, self.code(), self.path)
        }
    }
}

/// A text as it may stand in a message: JSON-quoted, and shortened in the middle when it is long.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 40; // characters kept at each end
    let count = text.chars().count();
    if count <= 2 * SHOWN {
        return crate::json::text(text);
    }
    let head: String = text.chars().take(SHOWN).collect();
    let tail: String = text.chars().skip(count - SHOWN).collect();
    format!("{} ({count} characters)", crate::json::text(&format!("{head}…{tail}")))
}
