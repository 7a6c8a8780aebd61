//! The one place where a core error becomes a Python exception.

use jevmlx_core::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The exception class of a code, by the part before its first dot.
fn class_name(kind: ErrorKind) -> &'static str {
    match kind.code().split('.').next() {
        Some("schema") => "SchemaError",
        Some("compile") => "CompileError",
        Some("tokenizer") => "TokenizerError",
        Some("prompt") => "PromptError",
        _ => "JevmlxError",
    }
}

/// The exception for `error`; `cause` becomes its `__cause__`.
pub(crate) fn exception(py: Python<'_>, error: &Error, cause: Option<PyErr>) -> PyErr {
    let made = py
        .import("jevmlx.errors")
        .and_then(|module| module.getattr(class_name(error.kind())))
        .and_then(|class| class.call1((error.code(), error.message(), error.path())));
    match made {
        Ok(value) => {
            let raised = PyErr::from_value(value);
            raised.set_cause(py, cause);
            raised
        }
        Err(failed) => failed,
    }
}

/// Whether an exception belongs to this package's family.
pub(crate) fn is_ours(py: Python<'_>, error: &PyErr) -> bool {
    let family = py.import("jevmlx.errors").and_then(|module| module.getattr("JevmlxError"));
    family.and_then(|family| error.value(py).is_instance(&family)).unwrap_or(false)
}

/// Every (code, exception class name), in the order of the documentation.
pub(crate) fn codes(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, ErrorKind::ALL.iter().map(|&kind| (kind.code(), class_name(kind))))
}
