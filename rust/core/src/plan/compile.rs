//! Compilation: a schema and a tokenizer become a [`Plan`], with at most two calls to the tokenizer.

use std::sync::Arc;

use super::candidates::{Encoder, encode, label_answers, multi_answers, option_codes, quoted_answer};
use super::{FieldPlan, Plan, Row, Scoring};
use crate::codebook::{self, pools};
use crate::error::{Error, ErrorKind, quoted};
use crate::schema::{Field, FieldKind, Schema};

/// Compiles a schema for a tokenizer.
///
/// # Errors
/// Any kind whose code starts with `compile.` or `tokenizer.`; the path is the field's name.
pub fn compile(schema: &Schema, scoring: Scoring, encoder: &dyn Encoder) -> Result<Plan, Error> {
    let schema = Arc::new(schema.clone());
    let fields = schema.fields();
    // First call: every fixed candidate, and the single-character aliases of fields they can serve.
    let first: Vec<Vec<String>> = fields.iter().map(|field| first_texts(field, scoring)).collect();
    let mut first_ids = encode_all(encoder, &first)?;
    // Second call: the two-character aliases, where no single-character pool does.
    let slots = |field: &Field| scoring == Scoring::Slots && field.kind() != FieldKind::Multi;
    let mut second = vec![Vec::new(); fields.len()];
    for (index, field) in fields.iter().enumerate() {
        if slots(field) && !codebook::single_characters_suffice(&first_ids[index], field.choices().len()) {
            second[index] = alias_answers(field, pools::pairs());
        }
    }
    let mut second_ids = encode_all(encoder, &second)?;
    let mut plans = Vec::with_capacity(fields.len());
    for (index, field) in fields.iter().enumerate() {
        let ids = std::mem::take(&mut first_ids[index]);
        plans.push(if slots(field) {
            slots_plan(field, &ids, &std::mem::take(&mut second_ids[index]))?
        } else {
            fixed_plan(field, ids, &first[index])?
        });
    }
    let lead_in_ids = lead_in(plans.iter_mut().flat_map(FieldPlan::rows_mut).collect());
    Ok(Plan::new(Arc::clone(&schema), scoring, lead_in_ids, plans))
}

/// Encodes every field's texts in one call and hands each field its lists.
fn encode_all(encoder: &dyn Encoder, texts: &[Vec<String>]) -> Result<Vec<Vec<Vec<u32>>>, Error> {
    let mut lists = encode(encoder, &texts.concat())?.into_iter();
    Ok(texts.iter().map(|texts| lists.by_ref().take(texts.len()).collect()).collect())
}

fn first_texts(field: &Field, scoring: Scoring) -> Vec<String> {
    match (field.kind(), scoring) {
        (FieldKind::Multi, _) => multi_answers(field, &option_codes(field)),
        (_, Scoring::Labels) => label_answers(field),
        (_, Scoring::Slots) if field.choices().len() <= pools::singles().len() => {
            alias_answers(field, pools::singles())
        }
        (_, Scoring::Slots) => Vec::new(),
    }
}

fn alias_answers(field: &Field, pool: &[String]) -> Vec<String> {
    pool.iter().map(|alias| quoted_answer(field.name(), alias)).collect()
}

fn slots_plan(field: &Field, singles: &[Vec<u32>], pairs: &[Vec<u32>]) -> Result<FieldPlan, Error> {
    let chosen = codebook::choose(field.name(), singles, pairs, field.choices().len())?;
    let row = row(field, chosen.ids, &chosen.aliases)?;
    Ok(FieldPlan::Slots { row, aliases: chosen.aliases, single_branch: chosen.branch_nodes <= 1 })
}

fn fixed_plan(field: &Field, ids: Vec<Vec<u32>>, texts: &[String]) -> Result<FieldPlan, Error> {
    if field.kind() != FieldKind::Multi {
        return Ok(FieldPlan::Labels { row: row(field, ids, texts)? });
    }
    let codes = option_codes(field);
    let mut ids = ids.into_iter();
    let mut texts = texts.chunks(2);
    let mut options = Vec::with_capacity(codes.len());
    for _ in &codes {
        let pair = ids.by_ref().take(2).collect();
        options.push(row(field, pair, texts.next().unwrap_or_default())?);
    }
    let rest: Vec<_> = texts.flatten().cloned().collect();
    let count = row(field, ids.collect(), &rest)?;
    Ok(FieldPlan::Multi { codes, options, count })
}

/// Splits candidates into what they share and what follows; refuses those that no path of tokens tells apart.
pub(super) fn row(field: &Field, candidates: Vec<Vec<u32>>, texts: &[String]) -> Result<Row, Error> {
    let refuse = |kind, first: usize, second: usize, what: &str| {
        let (a, b) = (quoted(&texts[first]), quoted(&texts[second]));
        Error::new(
            kind,
            field.name(),
            format!(
                "field {}: {a} and {b} {what}; reword a choice, rename the field, or use the other scoring mode",
                quoted(field.name())
            ),
        )
    };
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|&a, &b| candidates[a].cmp(&candidates[b]).then(a.cmp(&b)));
    // Sorted, whatever starts with a list follows it directly.
    for pair in order.windows(2) {
        let (a, b) = (&candidates[pair[0]], &candidates[pair[1]]);
        if a == b {
            return Err(refuse(
                ErrorKind::TokenIdentical,
                pair[0],
                pair[1],
                "have the same token ids for this tokenizer",
            ));
        }
        if b.starts_with(a) {
            let what = "cannot be told apart: the first one's token ids are a prefix of the second one's";
            return Err(refuse(ErrorKind::TokenPrefix, pair[0], pair[1], what));
        }
    }
    let shared = common_prefix(candidates.iter().map(Vec::as_slice));
    if shared == 0 {
        let other = candidates.iter().position(|c| c[0] != candidates[0][0]).unwrap_or(0);
        return Err(refuse(ErrorKind::NoCommonToken, 0, other, "have no common first token for this tokenizer"));
    }
    let shared_ids = candidates[0][..shared].to_vec();
    let remainders = candidates.into_iter().map(|ids| ids[shared..].to_vec()).collect();
    Ok(Row { shared_ids, remainders })
}

fn common_prefix<'a>(mut lists: impl Iterator<Item = &'a [u32]>) -> usize {
    let Some(first) = lists.next() else { return 0 };
    lists.fold(first.len(), |length, list| std::iter::zip(&first[..length], list).take_while(|(a, b)| a == b).count())
}

/// Takes what all rows start with off each of them.
pub(super) fn lead_in(mut rows: Vec<&mut Row>) -> Vec<u32> {
    let length = common_prefix(rows.iter().map(|row| row.shared_ids.as_slice()));
    let lead_in = rows.first().map_or_else(Vec::new, |row| row.shared_ids[..length].to_vec());
    for row in &mut rows {
        row.shared_ids.drain(..length);
    }
    lead_in
}
