//! Python binding of `jevmlx-core`: the extension module `jevmlx._core`.
//!
//! Thin frozen classes over shared Rust values. The GIL is released around search, hashing and rendering.

#![deny(unsafe_code)]

mod blas;
mod convert;
mod errors;
mod plan;
mod schema;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::plan::{PyLayout, PyPlan, PyWavePlan, best_codes, compile_plan, context_nonce, token_ids_sha256};
    #[pymodule_export]
    use super::schema::{PyField, PySchema};
    use super::*;

    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        blas::register(m)?;
        m.add("__version__", env!("CARGO_PKG_VERSION"))?;
        m.add("DEPENDS_SUFFIX", jevmlx_core::DEPENDS_SUFFIX)?;
        m.add("PROMPT_VERSION", jevmlx_core::PROMPT_VERSION)?;
        m.add("PROMPT_VERSION_KEYED", jevmlx_core::PROMPT_VERSION_KEYED)?;
        m.add("PROMPT_VERSION_MESSAGES", jevmlx_core::PROMPT_VERSION_MESSAGES)?;
        m.add("PROMPT_VERSION_ISOLATED", jevmlx_core::PROMPT_VERSION_ISOLATED)?;
        m.add("PROMPT_VERSION_ISOLATED_KEYED", jevmlx_core::PROMPT_VERSION_ISOLATED_KEYED)?;
        m.add("SYSTEM_TEXT", jevmlx_core::SYSTEM_TEXT)?;
        m.add("ERROR_CODES", errors::codes(m.py())?)
    }
}
