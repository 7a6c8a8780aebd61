//! Python binding of `jevmlx-core`: the extension module `jevmlx._core`.

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use super::*;

    /// The version of the package.
    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        m.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
