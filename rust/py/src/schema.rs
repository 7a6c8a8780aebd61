//! `Schema` and `Field`.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use jevmlx_core::{ErrorKind, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::convert::{json_value, python_value, utf8};
use crate::errors::exception;

/// What may be answered: an ordered, validated, immutable mapping from field names to specs.
#[pyclass(name = "Schema", module = "jevmlx", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct PySchema {
    pub(crate) schema: Arc<Schema>,
}

#[pymethods]
impl PySchema {
    #[new]
    #[pyo3(signature = (source, /))]
    fn new(source: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = source.py();
        if let Ok(schema) = source.cast::<Self>() {
            return Ok(Self { schema: Arc::clone(&schema.get().schema) });
        }
        let schema = if let Ok(text) = source.cast::<PyString>() {
            utf8(text, ErrorKind::SchemaSurrogate, "").and_then(|text| py.detach(|| Schema::from_json(text)))
        } else {
            json_value(source).and_then(|value| py.detach(|| Schema::from_value(value)))
        };
        match schema {
            Ok(schema) => Ok(Self { schema: Arc::new(schema) }),
            Err(error) => Err(exception(py, &error, None)),
        }
    }

    /// The fields in schema order.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let fields = (0..self.schema.fields().len()).map(|index| PyField { schema: Arc::clone(&self.schema), index });
        PyTuple::new(py, fields.map(|field| Py::new(py, field)).collect::<PyResult<Vec<_>>>()?)
    }

    /// Each field as a schema of its own under a neutral name, in schema order.
    fn isolated<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let alone = self.schema.isolated().into_iter().map(|schema| Py::new(py, Self { schema: Arc::new(schema) }));
        PyTuple::new(py, alone.collect::<PyResult<Vec<_>>>()?)
    }

    /// The schema with every field's choices moved by ⌊step·n/of⌋ places; booleans and scales only if `scales`.
    #[pyo3(signature = (step, of, scales=false))]
    fn rotated(&self, step: usize, of: usize, scales: bool) -> Self {
        Self { schema: Arc::new(self.schema.rotated(step, of, scales)) }
    }

    /// The schema with every field's choices in code-point order.
    fn canonical(&self) -> Self {
        Self { schema: Arc::new(self.schema.canonical()) }
    }

    /// The schema as plain data: canonical type names, defaults left out, order kept.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        python_value(py, &self.schema.to_json())
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for field in self.schema.fields() {
            (field.name(), field.choices()).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Schema({})", self.to_dict(py)?.repr()?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyAny>,))> {
        Ok((slf.get_type().into_any(), (slf.get().to_dict(slf.py())?,)))
    }
}

/// One field of a schema.
#[pyclass(name = "Field", module = "jevmlx", frozen, eq)]
pub(crate) struct PyField {
    schema: Arc<Schema>,
    index: usize,
}

impl PyField {
    fn field(&self) -> &Field {
        &self.schema.fields()[self.index]
    }
}

impl PartialEq for PyField {
    fn eq(&self, other: &Self) -> bool {
        self.field() == other.field()
    }
}

#[pymethods]
impl PyField {
    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.field().name()
    }

    /// `"boolean"`, `"enum"` or `"multi"`.
    #[getter]
    fn r#type(&self) -> &'static str {
        self.field().kind().name()
    }

    /// The description as the caller wrote it; empty where there is none.
    #[getter]
    fn description(&self) -> &str {
        self.field().description()
    }

    /// The choices in schema order, "none of the above" last where it is allowed; `("true", "false")` for a boolean.
    #[getter]
    fn choices<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.field().choices())
    }

    /// The gloss of each choice that has one.
    #[getter]
    fn choice_descriptions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (choice, gloss) in std::iter::zip(self.field().choices(), self.field().glosses()) {
            if !gloss.is_empty() {
                dict.set_item(choice, gloss)?;
            }
        }
        Ok(dict)
    }

    /// Whether the choices are a scale, lowest first.
    #[getter]
    fn ordered(&self) -> bool {
        self.field().ordered()
    }

    /// Whether the last choice is "none of the above", which stands for `None`.
    #[getter]
    fn none_of_above(&self) -> bool {
        self.field().none_of_above()
    }

    /// The field whose decided value this one is conditioned on.
    #[getter]
    fn depends_on(&self) -> Option<&str> {
        self.field().depends_on()
    }

    /// Constraints on which options may be selected together, as in [`Schema.to_dict`].
    #[getter]
    fn set_constraints<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(
            py,
            self.field()
                .set_constraints()
                .iter()
                .map(|constraint| python_value(py, &constraint.to_json(self.field().choices())))
                .collect::<PyResult<Vec<_>>>()?,
        )
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.field().name(), self.field().choices()).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("Field({:?}, {:?}, {} choices)", self.name(), self.r#type(), self.field().choices().len())
    }
}
