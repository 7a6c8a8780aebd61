//! Between Python objects and the core's JSON values and strings.

use jevmlx_core::{Error, ErrorKind, Json};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};

/// Deeper than any schema; also ends a structure that holds itself.
const MAX_DEPTH: usize = 32;

/// A Python string as UTF-8; a lone surrogate is an error with its position.
pub(crate) fn utf8<'a>(text: &'a Bound<'_, PyString>, kind: ErrorKind, path: &str) -> Result<&'a str, Error> {
    text.to_str().map_err(|error| {
        let at = error.value(text.py()).getattr("start").and_then(|start| start.extract::<usize>());
        let place = at.map_or_else(|_| String::new(), |at| format!(" at character {at}"));
        Error::new(kind, path, format!("the text holds a lone surrogate{place}: it has no UTF-8 form; remove it"))
    })
}

/// A schema given as Python data.
pub(crate) fn json_value(value: &Bound<'_, PyAny>) -> Result<Json, Error> {
    read(value, "", 0)
}

fn read(value: &Bound<'_, PyAny>, path: &str, depth: usize) -> Result<Json, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(
            ErrorKind::Depth,
            path,
            format!("values are nested deeper than {MAX_DEPTH} levels; a schema needs five"),
        ));
    }
    if value.is_none() {
        return Ok(Json::Null);
    }
    // A bool is an int to Python, so it is asked for first.
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Json::Bool(flag.is_true()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Json::String(utf8(text, ErrorKind::SchemaSurrogate, path)?.to_owned()));
    }
    if let Ok(number) = value.cast::<PyInt>() {
        // Beyond 64 bits no rule allows it; the rule that refuses it names it a number all the same.
        return Ok(number.extract::<i64>().map_or(Json::Float(f64::INFINITY), Json::Int));
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Json::Float(number.value()));
    }
    if value.cast::<PyList>().is_ok() || value.cast::<PyTuple>().is_ok() {
        return items(value, path, depth);
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        return entries(mapping, path, depth);
    }
    Err(wrong(path, &format!("a Python {} has no JSON form", type_name(value))))
}

fn items(value: &Bound<'_, PyAny>, path: &str, depth: usize) -> Result<Json, Error> {
    let items = value.try_iter().map_err(|error| wrong(path, &error.to_string()))?;
    let items = items.enumerate().map(|(index, item)| {
        let item = item.map_err(|error| wrong(path, &error.to_string()))?;
        read(&item, &format!("{path}[{index}]"), depth + 1)
    });
    Ok(Json::Array(items.collect::<Result<_, _>>()?))
}

fn entries(mapping: &Bound<'_, PyMapping>, path: &str, depth: usize) -> Result<Json, Error> {
    let failed = |error: PyErr| wrong(path, &error.to_string());
    let dict = match mapping.as_any().cast::<PyDict>() {
        Ok(dict) => dict.clone(),
        Err(_) => {
            let copy = PyDict::new(mapping.py());
            copy.update(mapping).map_err(failed)?;
            copy
        }
    };
    let mut out = Vec::with_capacity(dict.len());
    for (key, item) in dict.iter() {
        let Ok(key) = key.cast::<PyString>() else {
            return Err(wrong(path, &format!("a key is a Python {}; every key must be a string", type_name(&key))));
        };
        let key = utf8(key, ErrorKind::SchemaSurrogate, path)?.to_owned();
        let place = if depth == 0 { key.clone() } else { format!("{path}.{key}") };
        let item = read(&item, &place, depth + 1)?;
        out.push((key, item));
    }
    Ok(Json::Object(out))
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

fn wrong(path: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::Type,
        path,
        format!("{what}; a schema holds objects, lists, strings, whole numbers and booleans only"),
    )
}

/// A JSON value as Python data.
pub(crate) fn python_value<'py>(py: Python<'py>, value: &Json) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Json::Null => py.None().into_bound(py),
        Json::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Json::Int(number) => number.into_pyobject(py)?.into_any(),
        Json::Float(number) => PyFloat::new(py, *number).into_any(),
        Json::String(text) => PyString::new(py, text).into_any(),
        Json::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(python_value(py, item)?)?;
            }
            list.into_any()
        }
        Json::Object(entries) => {
            let dict = PyDict::new(py);
            for (key, item) in entries {
                dict.set_item(key, python_value(py, item)?)?;
            }
            dict.into_any()
        }
    })
}
