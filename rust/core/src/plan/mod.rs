//! The compiled plan: which token sequences may follow the prompt, and what each of them means.

mod candidates;
mod compile;
mod layout;
mod waves;

use std::sync::Arc;

use sha2::{Digest, Sha256};

pub use candidates::{EncodeError, Encoder};
pub use compile::compile;
pub use layout::Layout;
pub use waves::WavePlan;

use crate::error::Error;
use crate::json::{Json, push_canonical, push_ids};
use crate::prompt::{self, Menu, Message};
use crate::schema::{Field, Schema};

/// What a candidate shows in place of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scoring {
    /// The choice itself.
    Labels,
    /// A short alias from the codebook.
    Slots,
}

impl Scoring {
    /// The name callers use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Slots => "slots",
        }
    }
}

/// One question put to the model: a common beginning, then one of several continuations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Tokens all candidates share, less the plan's lead-in.
    pub shared_ids: Vec<u32>,
    /// What follows for each candidate, in choice order. No remainder is a prefix of another.
    pub remainders: Vec<Vec<u32>>,
}

/// The rows of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldPlan {
    /// A boolean or enum shown by its choices.
    Labels {
        /// One candidate per choice.
        row: Row,
    },
    /// A boolean or enum shown under aliases.
    Slots {
        /// One candidate per choice.
        row: Row,
        /// The alias of each choice.
        aliases: Vec<String>,
        /// Whether the row has at most one branch node.
        single_branch: bool,
    },
    /// A multi field.
    Multi {
        /// The two-digit code of each option.
        codes: Vec<String>,
        /// One row per option, with the candidates `Y` and `N`.
        options: Vec<Row>,
        /// How many options apply: `0` to `4`, where `4` means four or more.
        count: Row,
    },
}

impl FieldPlan {
    /// The rows in plan order: options first, then the count.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        let (first, rest) = match self {
            Self::Labels { row } | Self::Slots { row, .. } => (std::slice::from_ref(row), None),
            Self::Multi { options, count, .. } => (options.as_slice(), Some(count)),
        };
        first.iter().chain(rest)
    }

    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        let (first, rest) = match self {
            Self::Labels { row } | Self::Slots { row, .. } => (std::slice::from_mut(row), None),
            Self::Multi { options, count, .. } => (options.as_mut_slice(), Some(count)),
        };
        first.iter_mut().chain(rest)
    }

    fn menu(&self) -> Menu<'_> {
        match self {
            Self::Labels { .. } => Menu::Labels,
            Self::Slots { aliases, .. } => Menu::Slots(aliases),
            Self::Multi { codes, .. } => Menu::Multi(codes),
        }
    }

    fn to_json(&self, field: &Field) -> Json {
        match self {
            Self::Labels { row } => Json::Object(row_json(row)),
            Self::Slots { row, aliases, single_branch } => {
                let mut out = row_json(row);
                let pairs = std::iter::zip(aliases, field.choices());
                let map = pairs.map(|(a, c)| (a.clone(), Json::String(c.clone()))).collect();
                out.push(("alias_map".to_owned(), Json::Object(map)));
                out.push(("aliases".to_owned(), strings(aliases)));
                out.push(("choices".to_owned(), strings(field.choices())));
                out.push(("codebook".to_owned(), strings(aliases)));
                out.push(("single_branch".to_owned(), Json::Bool(*single_branch)));
                Json::Object(out)
            }
            Self::Multi { codes, options, count } => {
                let suffixes = options.iter().map(|row| Json::from(row.shared_ids.as_slice())).collect();
                let remainders = options.iter().map(|row| id_lists(&row.remainders)).collect();
                let mut count_json = row_json(count);
                count_json.push(("codes".to_owned(), strings(&candidates::COUNT_CODES)));
                Json::Object(vec![
                    ("options".to_owned(), strings(field.choices())),
                    ("codes".to_owned(), strings(codes)),
                    ("suffix_ids_list".to_owned(), Json::Array(suffixes)),
                    ("remainders".to_owned(), Json::Array(remainders)),
                    ("count".to_owned(), Json::Object(count_json)),
                ])
            }
        }
    }
}

fn strings<S: AsRef<str>>(items: &[S]) -> Json {
    Json::Array(items.iter().map(|item| Json::String(item.as_ref().to_owned())).collect())
}

fn id_lists(lists: &[Vec<u32>]) -> Json {
    Json::Array(lists.iter().map(|ids| Json::from(ids.as_slice())).collect())
}

fn row_json(row: &Row) -> Vec<(String, Json)> {
    vec![
        ("shared_ids".to_owned(), Json::from(row.shared_ids.as_slice())),
        ("remainders".to_owned(), id_lists(&row.remainders)),
    ]
}

/// A schema compiled for one tokenizer and one scoring mode.
#[derive(Clone, Debug)]
pub struct Plan {
    schema: Arc<Schema>,
    scoring: Scoring,
    lead_in_ids: Vec<u32>,
    fields: Vec<FieldPlan>,
    schema_block: String,
    plan_hash: String,
}

impl Plan {
    pub(crate) fn new(schema: Arc<Schema>, scoring: Scoring, lead_in_ids: Vec<u32>, fields: Vec<FieldPlan>) -> Self {
        let menus = std::iter::zip(schema.fields(), &fields).map(|(field, plan)| (field, plan.menu()));
        let schema_block = prompt::schema_block(menus);
        let mut plan = Self { schema, scoring, lead_in_ids, fields, schema_block, plan_hash: String::new() };
        let mut text = String::new();
        push_canonical(&mut text, &plan.to_json());
        plan.plan_hash = sha256_hex(&text);
        plan
    }

    /// The schema it was compiled from.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The scoring mode.
    #[must_use]
    pub fn scoring(&self) -> Scoring {
        self.scoring
    }

    /// Tokens that every row starts with.
    #[must_use]
    pub fn lead_in_ids(&self) -> &[u32] {
        &self.lead_in_ids
    }

    /// The plan of each field, in schema order.
    #[must_use]
    pub fn fields(&self) -> &[FieldPlan] {
        &self.fields
    }

    /// The schema block of the prompt: one line per field, no LF at the end.
    #[must_use]
    pub fn schema_block(&self) -> &str {
        &self.schema_block
    }

    /// SHA-256 of the plan in its canonical JSON form, as 64 hex digits.
    ///
    /// It sees tokens, not text: schemas that differ in descriptions, glosses or field order can share it.
    #[must_use]
    pub fn plan_hash(&self) -> &str {
        &self.plan_hash
    }

    /// The plan as plain data.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let fields = std::iter::zip(self.schema.fields(), &self.fields);
        let fields = fields.map(|(field, plan)| (field.name().to_owned(), plan.to_json(field))).collect();
        Json::Object(vec![
            ("lead_in_ids".to_owned(), Json::from(self.lead_in_ids.as_slice())),
            ("fields".to_owned(), Json::Object(fields)),
        ])
    }

    /// The user message for a context.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NonceKey`] when `nonce_key` is empty.
    pub fn user_content(&self, context: &str, nonce_key: Option<&[u8]>) -> Result<String, Error> {
        prompt::user_content(&self.schema_block, context, nonce_key)
    }

    /// What stands before and after the context in [`Plan::user_content`], for callers that hold the context elsewhere.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NonceKey`] when `nonce_key` is empty.
    pub fn user_frame(&self, context: &str, nonce_key: Option<&[u8]>) -> Result<(String, String), Error> {
        prompt::user_frame(&self.schema_block, context, nonce_key)
    }

    /// The conversation for a context, as the chat template takes it.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NonceKey`] when `nonce_key` is empty.
    pub fn context_turns(
        &self,
        context: &str,
        nonce_key: Option<&[u8]>,
        supports_system: bool,
    ) -> Result<Vec<Message>, Error> {
        prompt::context_turns(&self.schema_block, context, nonce_key, supports_system)
    }

    /// The conversation that asks this plan's field alone, after the context; see [`Schema::isolated`].
    ///
    /// # Errors
    /// [`crate::ErrorKind::NonceKey`] when `nonce_key` is empty.
    pub fn isolated_turns(
        &self,
        context: &str,
        nonce_key: Option<&[u8]>,
        supports_system: bool,
    ) -> Result<Vec<Message>, Error> {
        prompt::isolated_turns(&self.schema_block, context, nonce_key, supports_system)
    }

    /// The conversation for chat messages, as the chat template takes it.
    ///
    /// # Errors
    /// [`crate::ErrorKind::MessageRole`] and [`crate::ErrorKind::MessagesEmpty`] when the messages are not an optional
    /// system message, then user and assistant in turn, starting and ending with user.
    pub fn message_turns(&self, messages: &[Message], supports_system: bool) -> Result<Vec<Message>, Error> {
        prompt::message_turns(&self.schema_block, messages, supports_system)
    }

    /// Every row's tokens as one forest for scoring.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout::new(&self.lead_in_ids, self.fields.iter().flat_map(FieldPlan::rows))
    }
}

/// SHA-256 over token ids written as a JSON list: `[1, 2, 3]`, as 64 hex digits.
///
/// ```
/// use jevmlx_core::token_ids_sha256;
/// assert_eq!(token_ids_sha256(&[]), "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945");
/// ```
#[must_use]
pub fn token_ids_sha256(ids: &[u32]) -> String {
    let mut text = String::with_capacity(ids.len() * 7 + 2);
    push_ids(&mut text, ids);
    sha256_hex(&text)
}

fn sha256_hex(text: &str) -> String {
    let mut out = String::with_capacity(64);
    prompt::push_hex(&mut out, &Sha256::digest(text));
    out
}
