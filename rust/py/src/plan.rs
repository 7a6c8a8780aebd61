//! `Plan`, compilation with a Python tokenizer, hashes.

use std::sync::{Arc, Mutex};

use jevmlx_core::{EncodeError, Encoder, Error, ErrorKind, Layout, Message, Plan, Scoring, WavePlan, compile};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::convert::{python_value, utf8};
use crate::errors::{exception, is_ours};
use crate::schema::PySchema;

/// A Python callable from a list of texts to a list of lists of token ids.
struct PyEncoder {
    call: Py<PyAny>,
    /// What the callable raised; it becomes the cause of the error that is reported.
    raised: Mutex<Option<PyErr>>,
}

impl PyEncoder {
    fn keep(&self, error: PyErr) -> EncodeError {
        let message = error.to_string();
        if let Ok(mut raised) = self.raised.lock() {
            *raised = Some(error);
        }
        EncodeError(message)
    }
}

impl Encoder for PyEncoder {
    fn encode_batch(&self, texts: &[String]) -> Result<Vec<Vec<u32>>, EncodeError> {
        Python::attach(|py| {
            let texts = PyList::new(py, texts).map_err(|error| self.keep(error))?;
            let lists = self.call.call1(py, (texts,)).map_err(|error| self.keep(error))?;
            lists.extract::<Vec<Vec<u32>>>(py).map_err(|error| self.keep(error))
        })
    }
}

/// Compiles a schema with `encode_batch`, a callable from a list of texts to a list of lists of token ids.
#[pyfunction]
#[pyo3(signature = (schema, encode_batch, scoring))]
pub(crate) fn compile_plan(
    py: Python<'_>,
    schema: &PySchema,
    encode_batch: Py<PyAny>,
    scoring: &str,
) -> PyResult<PyPlan> {
    let scoring = match scoring {
        "labels" => Scoring::Labels,
        "slots" => Scoring::Slots,
        other => {
            let message = format!("scoring is {other:?}; allowed are \"labels\" and \"slots\"");
            let class = py.import("jevmlx.errors")?.getattr("ConfigError")?;
            return Err(PyErr::from_value(class.call1(("config.scoring", message, "scoring"))?));
        }
    };
    let plan = encoding(py, encode_batch, |encoder| compile(&schema.schema, scoring, encoder))?;
    Ok(PyPlan { plan: Arc::new(plan) })
}

/// Compiles with a Python tokenizer; what it raised becomes the cause of the error.
fn encoding<T: Send>(
    py: Python<'_>,
    encode_batch: Py<PyAny>,
    compile: impl FnOnce(&PyEncoder) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let encoder = PyEncoder { call: encode_batch, raised: Mutex::new(None) };
    py.detach(|| compile(&encoder)).map_err(|error| {
        let cause = encoder.raised.into_inner().ok().flatten();
        match cause {
            // An interrupt or exit is not the tokenizer's failure, and an error of ours says what it has to say.
            Some(cause) if !cause.is_instance_of::<PyException>(py) || is_ours(py, &cause) => cause,
            cause => exception(py, &error, cause),
        }
    })
}

/// A schema compiled for one tokenizer and one scoring mode.
#[pyclass(name = "Plan", module = "jevmlx", frozen)]
pub(crate) struct PyPlan {
    plan: Arc<Plan>,
}

impl PyPlan {
    fn turns(py: Python<'_>, turns: Result<Vec<Message>, Error>) -> PyResult<Vec<(String, String)>> {
        let turns = turns.map_err(|error| exception(py, &error, None))?;
        Ok(turns.into_iter().map(|message| (message.role, message.content)).collect())
    }
}

#[pymethods]
impl PyPlan {
    /// SHA-256 of the plan in its canonical JSON form: 64 hex digits.
    #[getter]
    fn plan_hash(&self) -> &str {
        self.plan.plan_hash()
    }

    /// The schema block of the prompt: one line per field, no LF at the end.
    #[getter]
    fn schema_block(&self) -> &str {
        self.plan.schema_block()
    }

    /// `"labels"` or `"slots"`.
    #[getter]
    fn scoring(&self) -> &'static str {
        self.plan.scoring().name()
    }

    /// The schema it was compiled from.
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema { schema: Arc::clone(self.plan.schema()) }
    }

    /// Token ids that every row starts with.
    #[getter]
    fn lead_in_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.plan.lead_in_ids())
    }

    /// The plan as plain data.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        python_value(py, &self.plan.to_json())
    }

    /// The user message for a context.
    #[pyo3(signature = (context, nonce_key=None))]
    fn user_content<'py>(
        &self,
        context: &Bound<'py, PyString>,
        nonce_key: Option<&[u8]>,
    ) -> PyResult<Bound<'py, PyString>> {
        let py = context.py();
        let frame = utf8(context, ErrorKind::PromptSurrogate, "context")
            .and_then(|context| py.detach(|| self.plan.user_frame(context, nonce_key)));
        let (before, after) = frame.map_err(|error| exception(py, &error, None))?;
        // Joined by Python, which copies the context once and decodes nothing.
        let parts = PyTuple::new(py, [&PyString::new(py, &before), context, &PyString::new(py, &after)])?;
        Ok(PyString::new(py, "").call_method1(intern!(py, "join"), (parts,))?.cast_into()?)
    }

    /// The conversation for a context, as (role, content) pairs.
    #[pyo3(signature = (context, supports_system, nonce_key=None))]
    fn context_turns(
        &self,
        context: &Bound<'_, PyString>,
        supports_system: bool,
        nonce_key: Option<&[u8]>,
    ) -> PyResult<Vec<(String, String)>> {
        let py = context.py();
        let turns = utf8(context, ErrorKind::PromptSurrogate, "context")
            .and_then(|context| py.detach(|| self.plan.context_turns(context, nonce_key, supports_system)));
        Self::turns(py, turns)
    }

    /// The conversation that asks this plan's one field alone, after the context, as (role, content) pairs.
    #[pyo3(signature = (context, supports_system, nonce_key=None))]
    fn isolated_turns(
        &self,
        context: &Bound<'_, PyString>,
        supports_system: bool,
        nonce_key: Option<&[u8]>,
    ) -> PyResult<Vec<(String, String)>> {
        let py = context.py();
        let turns = utf8(context, ErrorKind::PromptSurrogate, "context")
            .and_then(|context| py.detach(|| self.plan.isolated_turns(context, nonce_key, supports_system)));
        Self::turns(py, turns)
    }

    /// The conversation for chat messages given as (role, content) pairs, as such pairs.
    fn message_turns(
        &self,
        py: Python<'_>,
        messages: Vec<(Bound<'_, PyString>, Bound<'_, PyString>)>,
        supports_system: bool,
    ) -> PyResult<Vec<(String, String)>> {
        let read = |text: &Bound<'_, PyString>, index: usize, part: &str| {
            utf8(text, ErrorKind::PromptSurrogate, &format!("messages[{index}].{part}")).map(str::to_owned)
        };
        let messages = messages.iter().enumerate().map(|(index, (role, content))| {
            Ok(Message::new(read(role, index, "role")?, read(content, index, "content")?))
        });
        let turns = messages
            .collect::<Result<Vec<_>, Error>>()
            .and_then(|messages| py.detach(|| self.plan.message_turns(&messages, supports_system)));
        Self::turns(py, turns)
    }

    /// Every row's tokens as one forest for scoring.
    fn layout(&self) -> PyLayout {
        PyLayout { layout: self.plan.layout() }
    }

    /// The same for the fields that depend on no other.
    fn root_layout(&self) -> PyLayout {
        PyLayout { layout: self.plan.root_layout() }
    }

    /// How many fields lie above each field.
    fn depths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.plan.depths())
    }

    /// Compiles the fields of one depth, given the index of the choice decided for every field above them.
    fn wave(&self, py: Python<'_>, depth: usize, decided: Vec<usize>, encode_batch: Py<PyAny>) -> PyResult<PyWavePlan> {
        let fields = self.plan.schema().fields();
        if decided.len() != fields.len()
            || std::iter::zip(fields, &decided).any(|(field, &choice)| choice >= field.choices().len())
        {
            return Err(PyValueError::new_err("decided must hold the index of a choice for every field"));
        }
        let wave = encoding(py, encode_batch, |encoder| self.plan.wave(depth, &decided, encoder))?;
        Ok(PyWavePlan { wave })
    }

    fn __repr__(&self) -> String {
        format!(
            "Plan({} fields, scoring={:?}, plan_hash={:?})",
            self.plan.fields().len(),
            self.scoring(),
            self.plan.plan_hash()
        )
    }
}

/// The rows of fields that depend on others, under what was decided before.
#[pyclass(name = "WavePlan", module = "jevmlx._core", frozen)]
pub(crate) struct PyWavePlan {
    wave: WavePlan,
}

#[pymethods]
impl PyWavePlan {
    /// The wave's fields, as indices into the schema's.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.wave.fields().collect::<Vec<_>>())
    }

    /// SHA-256 of the wave's plan in its canonical JSON form: 64 hex digits.
    #[getter]
    fn plan_hash(&self) -> &str {
        self.wave.plan_hash()
    }

    /// The wave's plan as plain data.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        python_value(py, &self.wave.to_json())
    }

    /// Every row's tokens as one forest for scoring.
    fn layout(&self) -> PyLayout {
        PyLayout { layout: self.wave.layout() }
    }
}

/// Every row's tokens as one forest; each array is little-endian int32, as bytes. See `jevmlx.scoring.forest`.
#[pyclass(name = "Layout", module = "jevmlx._core", frozen)]
pub(crate) struct PyLayout {
    layout: Layout,
}

fn bytes<'py>(py: Python<'py>, values: &[i32]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    PyBytes::new(py, &bytes)
}

#[pymethods]
impl PyLayout {
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, &self.layout.tokens)
    }

    #[getter]
    fn parents<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, &self.layout.parents)
    }

    #[getter]
    fn depths<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, &self.layout.depths)
    }

    #[getter]
    fn branch_nodes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, &self.layout.branch_nodes)
    }

    #[getter]
    fn branch_offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, &self.layout.branch_offsets)
    }

    #[getter]
    fn branch_tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, &self.layout.branch_tokens)
    }

    #[getter]
    fn row_offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, &self.layout.row_offsets)
    }

    #[getter]
    fn step_offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, &self.layout.step_offsets)
    }

    #[getter]
    fn steps<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, &self.layout.steps)
    }
}

/// The nonce of a context's fence: plain, or keyed under a secret.
#[pyfunction]
#[pyo3(signature = (context, key=None))]
pub(crate) fn context_nonce(context: &Bound<'_, PyString>, key: Option<&[u8]>) -> PyResult<String> {
    let py = context.py();
    utf8(context, ErrorKind::PromptSurrogate, "context")
        .and_then(|context| py.detach(|| jevmlx_core::context_nonce(context, key)))
        .map_err(|error| exception(py, &error, None))
}

/// SHA-256 over token ids written as a JSON list: 64 hex digits.
#[pyfunction]
pub(crate) fn token_ids_sha256(py: Python<'_>, ids: Vec<u32>) -> String {
    py.detach(|| jevmlx_core::token_ids_sha256(&ids))
}

/// The codebook search alone: the best `n` of the candidates' indices with (branch nodes, depth, longest, variance).
#[pyfunction]
#[allow(clippy::type_complexity)]
pub(crate) fn best_codes(
    py: Python<'_>,
    candidates: Vec<Vec<u32>>,
    n: usize,
) -> PyResult<Option<(Vec<usize>, (u32, u32, u32, u64))>> {
    match py.detach(|| jevmlx_core::best_codes(&candidates, n)) {
        Ok(best) => Ok(best.map(|best| {
            let cost = best.cost;
            (best.members, (cost.branch_nodes, cost.depth, cost.longest, cost.variance))
        })),
        Err(error) => Err(exception(py, &error, None)),
    }
}
