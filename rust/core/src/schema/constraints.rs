//! Constraints inside a multi field: which options may be selected together.

use super::parse::{strings, wrong_type};
use crate::error::{Error, ErrorKind, quoted};
use crate::json::Json;

/// What a constraint demands of the options selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetRule {
    /// At most this many of the options.
    AtMost(usize),
    /// At least this many of the options.
    AtLeast(usize),
    /// Exactly this many of the options.
    Exactly(usize),
    /// If the first option is selected, so is the second.
    Implies,
}

/// One constraint over options of a multi field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetConstraint {
    name: String,
    rule: SetRule,
    options: Vec<usize>,
}

impl SetConstraint {
    /// The name it was written with, for instance `mutually_exclusive`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it demands.
    #[must_use]
    pub fn rule(&self) -> SetRule {
        self.rule
    }

    /// The options it speaks of, as indices into the field's choices.
    #[must_use]
    pub fn options(&self) -> &[usize] {
        &self.options
    }

    /// The constraint as plain data; `choices` are the field's.
    #[must_use]
    pub fn to_json(&self, choices: &[String]) -> Json {
        let choice = |&at: &usize| Json::String(choices[at].clone());
        let mut out = vec![("type".to_owned(), Json::String(self.name.clone()))];
        if self.rule == SetRule::Implies {
            out.push(("if_option".to_owned(), choice(&self.options[0])));
            out.push(("then_option".to_owned(), choice(&self.options[1])));
            return Json::Object(out);
        }
        out.push(("options".to_owned(), Json::Array(self.options.iter().map(choice).collect())));
        if let (true, SetRule::AtMost(k) | SetRule::AtLeast(k) | SetRule::Exactly(k)) =
            (self.name.ends_with("_k"), self.rule)
        {
            out.push(("k".to_owned(), Json::Int(k as i64)));
        }
        Json::Object(out)
    }
}

pub(super) fn parse(field: &str, value: Json, choices: &[String]) -> Result<Vec<SetConstraint>, Error> {
    let path = format!("{field}.set_constraints");
    let Json::Array(items) = value else {
        return Err(wrong_type(&path, "set_constraints", "a list of objects", &value));
    };
    items
        .into_iter()
        .enumerate()
        .map(|(index, item)| Reader { path: format!("{path}[{index}]"), choices }.constraint(item))
        .collect()
}

struct Reader<'a> {
    path: String,
    choices: &'a [String],
}

impl Reader<'_> {
    fn refuse<T>(&self, key: &str, message: impl Into<String>) -> Result<T, Error> {
        let path = if key.is_empty() { self.path.clone() } else { format!("{}.{key}", self.path) };
        Err(Error::new(ErrorKind::SetConstraint, path, message))
    }

    fn constraint(&self, item: Json) -> Result<SetConstraint, Error> {
        let Json::Object(mut entries) = item else {
            return Err(wrong_type(&self.path, "a set constraint", "an object", &item));
        };
        let mut take = |key: &str| entries.iter().position(|(k, _)| k == key).map(|at| entries.remove(at).1);
        let name = match take("type") {
            Some(Json::String(name)) => name,
            Some(other) => {
                return Err(wrong_type(&format!("{}.type", self.path), "type", "a string", &other));
            }
            None => return self.refuse("type", "a set constraint needs a type"),
        };
        let (rule, options) = match name.as_str() {
            "implies" => {
                let pair =
                    [self.option("if_option", take("if_option"))?, self.option("then_option", take("then_option"))?];
                if pair[0] == pair[1] {
                    return self.refuse("then_option", "an option cannot imply itself");
                }
                (SetRule::Implies, pair.to_vec())
            }
            "mutually_exclusive" | "at_most_one" => (SetRule::AtMost(1), self.options(take("options"))?),
            "at_least_one" => (SetRule::AtLeast(1), self.options(take("options"))?),
            "at_most_k" | "at_least_k" | "exact_k" => {
                let options = self.options(take("options"))?;
                let k = self.count(take("k"), options.len())?;
                let rule = match name.as_str() {
                    "at_most_k" => SetRule::AtMost(k),
                    "at_least_k" => SetRule::AtLeast(k),
                    _ => SetRule::Exactly(k),
                };
                (rule, options)
            }
            other => {
                return self.refuse(
                    "type",
                    format!(
                        "{} is no set constraint; allowed are mutually_exclusive, at_most_one, at_least_one, at_most_k, at_least_k, exact_k, implies",
                        quoted(other)
                    ),
                );
            }
        };
        match entries.first() {
            None => Ok(SetConstraint { name, rule, options }),
            Some((key, _)) => self.refuse(key, format!("{} is no key of {name}", quoted(key))),
        }
    }

    fn option(&self, key: &str, value: Option<Json>) -> Result<usize, Error> {
        match value {
            Some(Json::String(option)) => self.index(key, &option),
            Some(other) => Err(wrong_type(&format!("{}.{key}", self.path), key, "a string", &other)),
            None => self.refuse(key, format!("implies needs {key}: one of the field's choices")),
        }
    }

    fn options(&self, value: Option<Json>) -> Result<Vec<usize>, Error> {
        let Some(value) = value else {
            return self.refuse("options", "this constraint needs options: a list of the field's choices");
        };
        let names = strings(&format!("{}.options", self.path), value)?;
        if names.is_empty() {
            return self.refuse("options", "options is empty; name at least one choice");
        }
        let mut options = Vec::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            let key = format!("options[{at}]");
            let index = self.index(&key, name)?;
            if options.contains(&index) {
                return self.refuse(&key, format!("{} stands twice in options", quoted(name)));
            }
            options.push(index);
        }
        Ok(options)
    }

    fn index(&self, key: &str, option: &str) -> Result<usize, Error> {
        match self.choices.iter().position(|choice| choice == option) {
            Some(at) => Ok(at),
            None => self.refuse(key, format!("{} is not a choice of this field", quoted(option))),
        }
    }

    fn count(&self, value: Option<Json>, most: usize) -> Result<usize, Error> {
        let allowed = format!("k must be a whole number from 0 to the number of options, {most}");
        match value {
            Some(Json::Int(k)) => match usize::try_from(k) {
                Ok(k) if k <= most => Ok(k),
                _ => self.refuse("k", format!("{allowed}, not {k}")),
            },
            Some(other) => Err(wrong_type(&format!("{}.k", self.path), "k", "a whole number", &other)),
            None => self.refuse("k", format!("{allowed}; it is missing")),
        }
    }
}
