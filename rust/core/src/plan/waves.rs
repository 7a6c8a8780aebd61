//! Waves: fields that depend on others are scored after them, given their decided values, on the same prompt.
//!
//! A wave's candidates are the objects of the plan's own rows with all decided ancestors in front, the root first:
//! `{J(root): v, …, J(child): c}`. They are tokenized whole and checked like any row; the plan and its hash stay as they are.

use super::candidates::{Encoder, conditional_answer, encode};
use super::compile::{lead_in, row};
use super::{FieldPlan, Layout, Plan, Row, row_json, sha256_hex};
use crate::error::Error;
use crate::json::{Json, push_canonical};
use crate::schema::FieldKind;

/// The rows of one wave, under what was decided before it.
#[derive(Clone, Debug)]
pub struct WavePlan {
    lead_in_ids: Vec<u32>,
    fields: Vec<WaveField>,
    plan_hash: String,
}

#[derive(Clone, Debug)]
struct WaveField {
    index: usize,
    name: String,
    /// The decided ancestors, root first: name and value as the candidates show it.
    given: Vec<(String, Json)>,
    row: Row,
}

impl WavePlan {
    /// The wave's fields, as indices into the schema's.
    pub fn fields(&self) -> impl Iterator<Item = usize> {
        self.fields.iter().map(|field| field.index)
    }

    /// SHA-256 of the wave's plan in its canonical JSON form, as 64 hex digits.
    #[must_use]
    pub fn plan_hash(&self) -> &str {
        &self.plan_hash
    }

    /// The wave's plan as plain data.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let fields = self.fields.iter().map(|field| {
            let mut json = row_json(&field.row);
            // A list, since the canonical form sorts an object's keys.
            let given = field.given.iter().map(|(name, v)| Json::Array(vec![Json::String(name.clone()), v.clone()]));
            json.push(("given".to_owned(), Json::Array(given.collect())));
            (field.name.clone(), Json::Object(json))
        });
        Json::Object(vec![
            ("lead_in_ids".to_owned(), Json::from(self.lead_in_ids.as_slice())),
            ("fields".to_owned(), Json::Object(fields.collect())),
        ])
    }

    /// Every row's tokens as one forest for scoring.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout::new(&self.lead_in_ids, self.fields.iter().map(|field| &field.row))
    }
}

impl Plan {
    /// How many fields lie above each field: fields of depth 0 are scored first, those of depth 1 given their answers.
    #[must_use]
    pub fn depths(&self) -> Vec<usize> {
        (0..self.schema.fields().len()).map(|index| self.ancestors(index).len()).collect()
    }

    /// The rows of the fields that depend on no other.
    #[must_use]
    pub fn root_layout(&self) -> Layout {
        let roots = std::iter::zip(self.schema.fields(), &self.fields);
        let roots = roots.filter(|(field, _)| field.depends_on().is_none()).map(|(_, plan)| plan);
        Layout::new(&self.lead_in_ids, roots.flat_map(FieldPlan::rows))
    }

    /// Compiles the fields of one depth, given what was decided above them.
    ///
    /// # Arguments
    /// * `depth` – which fields: see [`Plan::depths`]; at least 1.
    /// * `decided` – per field of the schema, the index of the choice decided; read for the ancestors of those fields only.
    ///
    /// # Errors
    /// Any kind whose code starts with `compile.` or `tokenizer.`; the path is the field's name.
    ///
    /// # Panics
    /// Where `decided` is shorter than the schema, or no index of a choice.
    pub fn wave(&self, depth: usize, decided: &[usize], encoder: &dyn Encoder) -> Result<WavePlan, Error> {
        let schema_fields = self.schema.fields();
        let members: Vec<(usize, Vec<(String, Json)>)> = (0..schema_fields.len())
            .map(|index| (index, self.ancestors(index)))
            .filter(|(_, above)| above.len() == depth)
            .map(|(index, above)| {
                let given =
                    above.into_iter().map(|at| (schema_fields[at].name().to_owned(), self.shown(at, decided[at])));
                (index, given.collect())
            })
            .collect();
        let texts: Vec<Vec<String>> = members
            .iter()
            .map(|(index, given)| {
                let field = &schema_fields[*index];
                (0..field.choices().len())
                    .map(|choice| conditional_answer(given, field.name(), &self.shown(*index, choice)))
                    .collect()
            })
            .collect();
        let mut ids = encode(encoder, &texts.concat())?.into_iter();
        let mut fields = Vec::with_capacity(members.len());
        for ((index, given), texts) in std::iter::zip(members, &texts) {
            let field = &schema_fields[index];
            let row = row(field, ids.by_ref().take(texts.len()).collect(), texts)?;
            fields.push(WaveField { index, name: field.name().to_owned(), given, row });
        }
        let lead_in_ids = lead_in(fields.iter_mut().map(|field| &mut field.row).collect());
        let mut wave = WavePlan { lead_in_ids, fields, plan_hash: String::new() };
        let mut text = String::new();
        push_canonical(&mut text, &wave.to_json());
        wave.plan_hash = sha256_hex(&text);
        Ok(wave)
    }

    /// The fields above a field, root first.
    fn ancestors(&self, index: usize) -> Vec<usize> {
        let fields = self.schema.fields();
        let parent = |index: usize| {
            let name = fields[index].depends_on()?;
            fields.iter().position(|field| field.name() == name)
        };
        let mut above: Vec<usize> = std::iter::successors(parent(index), |&at| parent(at)).collect();
        above.reverse();
        above
    }

    /// A choice as candidates show it: its alias, or its JSON value.
    fn shown(&self, field: usize, choice: usize) -> Json {
        let spec = &self.schema.fields()[field];
        match &self.fields[field] {
            FieldPlan::Slots { aliases, .. } => Json::String(aliases[choice].clone()),
            _ if spec.kind() == FieldKind::Boolean => Json::Bool(spec.choices()[choice] == "true"),
            _ => Json::String(spec.choices()[choice].clone()),
        }
    }
}
