//! Schema compiler, alias codebook, hashes and byte-exact prompt text for typed decisions.
//!
//! This crate knows text and tokens. It knows no model, no file, no clock and no Python; the tokenizer is whatever
//! implements [`Encoder`].
//!
//! ```
//! use jevmlx_core::{compile, EncodeError, Encoder, Schema, Scoring};
//!
//! /// One token per character.
//! struct Characters;
//! impl Encoder for Characters {
//!     fn encode_batch(&self, texts: &[String]) -> Result<Vec<Vec<u32>>, EncodeError> {
//!         Ok(texts.iter().map(|t| t.chars().map(u32::from).collect()).collect())
//!     }
//! }
//!
//! let schema = Schema::from_json(r#"{"urgent": {"type": "boolean", "description": "needs a reply today"}}"#)?;
//! let plan = compile(&schema, Scoring::Labels, &Characters)?;
//! assert_eq!(plan.schema_block(), r#"  "urgent": "true"  "false"  // "needs a reply today""#);
//! assert_eq!(plan.plan_hash().len(), 64);
//! # Ok::<(), jevmlx_core::Error>(())
//! ```
#![forbid(unsafe_code)]

mod codebook;
mod error;
mod json;
mod plan;
mod prompt;
mod schema;

pub use codebook::{Cost, Selection, best_codes, pools};
pub use error::{Error, ErrorKind};
pub use json::Json;
pub use plan::{EncodeError, Encoder, FieldPlan, Layout, Plan, Row, Scoring, WavePlan, compile, token_ids_sha256};
pub use prompt::{
    DEPENDS_SUFFIX, Message, PROMPT_VERSION, PROMPT_VERSION_ISOLATED, PROMPT_VERSION_ISOLATED_KEYED,
    PROMPT_VERSION_KEYED, PROMPT_VERSION_MESSAGES, SYSTEM_TEXT, context_nonce,
};
pub use schema::{Field, FieldKind, NONE_OF_ABOVE, Schema, SetConstraint, SetRule};
