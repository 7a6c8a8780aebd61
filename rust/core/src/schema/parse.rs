//! From a JSON value to a validated [`Schema`]: every rule broken is an error with its place and what is allowed.

use std::collections::{HashMap, HashSet};

use super::constraints;
use super::{Field, FieldKind, NONE_OF_ABOVE, Schema};
use crate::error::{Error, ErrorKind, quoted};
use crate::json::Json;

const KEYS: [&str; 8] = [
    "type",
    "description",
    "choices",
    "choice_descriptions",
    "ordered",
    "allow_none_of_above",
    "depends_on",
    "set_constraints",
];
/// An enum's choices together, and a multi field's options.
const ENUM_CHOICES: (usize, usize) = (1, 255);
const MULTI_OPTIONS: (usize, usize) = (2, 64);
const TYPES: &str = "\"boolean\", \"enum\" (also \"choice\", \"selection\"), \"multi\"";

/// Every candidate repeats its field's name, so a long one costs up to 1,296 times its length.
const MAX_NAME_BYTES: usize = 4096;
/// All texts of a schema together. A prompt of this size fits no model.
const MAX_SCHEMA_BYTES: usize = 16 << 20;

pub(super) fn schema(value: Json) -> Result<Schema, Error> {
    let Json::Object(entries) = value else {
        return Err(wrong_type("", "a schema", "an object from field names to field specs", &value));
    };
    if entries.is_empty() {
        return Err(Error::new(ErrorKind::Empty, "", "the schema has no fields; give at least one"));
    }
    check_size(&entries)?;
    let fields = entries.into_iter().map(|(name, spec)| field(name, spec)).collect::<Result<Vec<_>, _>>()?;
    check_dependencies(&fields)?;
    Ok(Schema { fields })
}

/// An error that says which type was expected and which was found.
pub(super) fn wrong_type(path: &str, what: &str, expected: &str, found: &Json) -> Error {
    Error::new(ErrorKind::Type, path, format!("{what} must be {expected}, not {}", found.type_name()))
}

fn check_size(entries: &[(String, Json)]) -> Result<(), Error> {
    fn size(value: &Json) -> usize {
        match value {
            Json::String(s) => s.len(),
            Json::Array(items) => items.iter().map(size).sum(),
            Json::Object(entries) => entries.iter().map(|(k, v)| k.len() + size(v)).sum(),
            _ => 0,
        }
    }
    let total: usize = entries.iter().map(|(name, spec)| name.len() + size(spec)).sum();
    if total <= MAX_SCHEMA_BYTES {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Size,
        "",
        format!("the schema's texts are {total} bytes together; at most {MAX_SCHEMA_BYTES} are allowed"),
    ))
}

fn field(name: String, spec: Json) -> Result<Field, Error> {
    check_name(&name)?;
    let Json::Object(entries) = spec else {
        return Err(wrong_type(&name, "a field's spec", "an object", &spec));
    };
    let mut keys = Keys::new(&name, entries)?;
    let kind = keys.kind()?;
    let description = keys.string("description")?.unwrap_or_default();
    let mut choices = keys.choices(kind)?;
    let ordered = keys.flag("ordered", kind, ErrorKind::Ordered, "can be a scale")?;
    let none_of_above =
        keys.flag("allow_none_of_above", kind, ErrorKind::NoneOfAbove, "can allow none of the above")?;
    if none_of_above {
        keys.add_none_of_above(&mut choices, ordered)?;
    }
    let glosses = keys.glosses(&choices)?;
    let depends_on = keys.string("depends_on")?;
    let set_constraints = match keys.take("set_constraints") {
        None => Vec::new(),
        Some(value) if kind == FieldKind::Multi => constraints::parse(&name, value, &choices)?,
        Some(_) => {
            return Err(Error::new(
                ErrorKind::SetConstraint,
                format!("{name}.set_constraints"),
                format!("set_constraints belong to multi fields; this one is {}", kind.name()),
            ));
        }
    };
    Ok(Field { name, kind, description, choices, glosses, ordered, none_of_above, depends_on, set_constraints })
}

fn check_name(name: &str) -> Result<(), Error> {
    let refuse = |message: String| Err(Error::new(ErrorKind::FieldName, name, message));
    if name.is_empty() {
        return refuse("a field name is empty; give every field a name".to_owned());
    }
    if name.len() > MAX_NAME_BYTES {
        let length = name.len();
        return refuse(format!("a field name is {length} bytes long; at most {MAX_NAME_BYTES} are allowed"));
    }
    match name.find(['.', '/', '#']) {
        None => Ok(()),
        Some(at) => refuse(format!(
            "the field name {} holds {:?} at byte {at}; names may not hold '.', '/' or '#', which mark rows",
            quoted(name),
            name[at..].chars().next().unwrap_or_default(),
        )),
    }
}

/// The keys of one field's spec, taken one by one.
struct Keys<'a> {
    field: &'a str,
    values: HashMap<String, Json>,
}

impl<'a> Keys<'a> {
    fn new(field: &'a str, entries: Vec<(String, Json)>) -> Result<Self, Error> {
        if let Some((key, _)) = entries.iter().find(|(key, _)| !KEYS.contains(&key.as_str())) {
            return Err(Error::new(
                ErrorKind::UnknownKey,
                format!("{field}.{key}"),
                format!("{} is no key of a field; allowed are {}", quoted(key), KEYS.join(", ")),
            ));
        }
        Ok(Self { field, values: entries.into_iter().collect() })
    }

    fn take(&mut self, key: &str) -> Option<Json> {
        self.values.remove(key)
    }

    fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.field)
    }

    fn string(&mut self, key: &str) -> Result<Option<String>, Error> {
        match self.take(key) {
            None => Ok(None),
            Some(Json::String(value)) => Ok(Some(value)),
            Some(other) => Err(wrong_type(&self.path(key), key, "a string", &other)),
        }
    }

    fn kind(&mut self) -> Result<FieldKind, Error> {
        match self.string("type")?.as_deref() {
            Some("boolean") => Ok(FieldKind::Boolean),
            None | Some("enum" | "choice" | "selection") => Ok(FieldKind::Enum),
            Some("multi") => Ok(FieldKind::Multi),
            Some(other) => Err(Error::new(
                ErrorKind::UnknownType,
                self.path("type"),
                format!("{} is no field type; allowed are {TYPES}", quoted(other)),
            )),
        }
    }

    fn choices(&mut self, kind: FieldKind) -> Result<Vec<String>, Error> {
        let path = self.path("choices");
        let value = self.take("choices");
        if kind == FieldKind::Boolean {
            let both = vec!["true".to_owned(), "false".to_owned()];
            let given = value.map(|value| strings(&path, value)).transpose()?;
            return match given {
                Some(given) if given != both => Err(Error::new(
                    ErrorKind::BooleanChoices,
                    path,
                    "a boolean's choices are exactly \"true\", \"false\", in that order; leave the key out",
                )),
                _ => Ok(both),
            };
        }
        let Some(value) = value else {
            return Err(Error::new(
                ErrorKind::MissingKey,
                path,
                format!("a field of type {} needs choices: a list of strings", kind.name()),
            ));
        };
        let choices = strings(&path, value)?;
        let (least, most) = if kind == FieldKind::Multi { MULTI_OPTIONS } else { ENUM_CHOICES };
        if !(least..=most).contains(&choices.len()) {
            return Err(Error::new(
                ErrorKind::ChoiceCount,
                path,
                format!("a field of type {} has {least}–{most} choices, not {}", kind.name(), choices.len()),
            ));
        }
        let mut seen = HashMap::new();
        for (index, choice) in choices.iter().enumerate() {
            if let Some(first) = seen.insert(choice.as_str(), index) {
                return Err(Error::new(
                    ErrorKind::DuplicateChoice,
                    format!("{path}[{index}]"),
                    format!("{} already stands at index {first}; choices must be distinct", quoted(choice)),
                ));
            }
        }
        Ok(choices)
    }

    fn glosses(&mut self, choices: &[String]) -> Result<Vec<String>, Error> {
        let path = self.path("choice_descriptions");
        let mut glosses = vec![String::new(); choices.len()];
        let Some(value) = self.take("choice_descriptions") else {
            return Ok(glosses);
        };
        let Json::Object(entries) = value else {
            return Err(wrong_type(&path, "choice_descriptions", "an object from choices to strings", &value));
        };
        let index: HashMap<&str, usize> = choices.iter().enumerate().map(|(i, c)| (c.as_str(), i)).collect();
        for (choice, gloss) in entries {
            let place = format!("{path}.{choice}");
            let Some(&at) = index.get(choice.as_str()) else {
                return Err(Error::new(
                    ErrorKind::UnknownChoice,
                    place,
                    format!("{} is not a choice of this field; every key must be one", quoted(&choice)),
                ));
            };
            let Json::String(gloss) = gloss else {
                return Err(wrong_type(&place, "a choice's description", "a string", &gloss));
            };
            glosses[at] = gloss;
        }
        Ok(glosses)
    }

    /// A key that only enums may have: true or false, false where it is missing.
    fn flag(&mut self, key: &str, kind: FieldKind, error: ErrorKind, what: &str) -> Result<bool, Error> {
        let path = self.path(key);
        match self.take(key) {
            None => Ok(false),
            Some(Json::Bool(_)) if kind != FieldKind::Enum => {
                Err(Error::new(error, path, format!("only an enum {what}; this field is {}", kind.name())))
            }
            Some(Json::Bool(value)) => Ok(value),
            Some(other) => Err(wrong_type(&path, key, "true or false", &other)),
        }
    }

    fn add_none_of_above(&self, choices: &mut Vec<String>, ordered: bool) -> Result<(), Error> {
        let refuse =
            |message: String| Err(Error::new(ErrorKind::NoneOfAbove, self.path("allow_none_of_above"), message));
        if ordered {
            return refuse(
                "none of the above is no level of a scale; leave out ordered, or ask in a boolean field of its own whether the scale applies"
                    .to_owned(),
            );
        }
        if choices.iter().any(|choice| choice == NONE_OF_ABOVE) {
            return refuse(format!("{} is already a choice; take it out, it is added last", quoted(NONE_OF_ABOVE)));
        }
        if choices.len() == ENUM_CHOICES.1 {
            return refuse(format!(
                "none of the above would be choice {}; at most {} are allowed",
                choices.len() + 1,
                ENUM_CHOICES.1
            ));
        }
        choices.push(NONE_OF_ABOVE.to_owned());
        Ok(())
    }
}

/// A list of strings.
pub(super) fn strings(path: &str, value: Json) -> Result<Vec<String>, Error> {
    let Json::Array(items) = value else {
        let name = path.rsplit('.').next().unwrap_or(path);
        return Err(wrong_type(path, name, "a list of strings", &value));
    };
    items
        .into_iter()
        .enumerate()
        .map(|(index, item)| match item {
            Json::String(string) => Ok(string),
            other => Err(wrong_type(&format!("{path}[{index}]"), "each item", "a string", &other)),
        })
        .collect()
}

/// Each parent exists, is scalar, and no chain of parents closes.
fn check_dependencies(fields: &[Field]) -> Result<(), Error> {
    let by_name: HashMap<&str, &Field> = fields.iter().map(|f| (f.name.as_str(), f)).collect();
    for field in fields {
        let Some(parent) = field.depends_on.as_deref() else {
            continue;
        };
        let refuse =
            |message: String| Err(Error::new(ErrorKind::DependsOn, format!("{}.depends_on", field.name), message));
        if field.kind == FieldKind::Multi {
            return refuse("a multi field cannot depend on another field".to_owned());
        }
        match by_name.get(parent) {
            None => return refuse(format!("{} is no field of this schema", quoted(parent))),
            Some(found) if found.kind == FieldKind::Multi => {
                return refuse(format!(
                    "{} is a multi field; only enum and boolean fields can be depended on",
                    quoted(parent)
                ));
            }
            Some(_) => {}
        }
        let mut seen = HashSet::from([field.name.as_str()]);
        let mut next = Some(parent);
        while let Some(name) = next {
            if !seen.insert(name) {
                return refuse(format!("the dependency on {} closes a cycle", quoted(parent)));
            }
            next = by_name.get(name).and_then(|f| f.depends_on.as_deref());
        }
    }
    Ok(())
}
