//! Properties of parsing and compilation over random schemas and toy tokenizers.

use jevmlx_core::{EncodeError, Encoder, ErrorKind, FieldKind, Json, Layout, Plan, Row, Schema, Scoring, compile};
use proptest::prelude::*;

/// A toy tokenizer: characters, possibly merged in pairs, folded onto a small vocabulary.
#[derive(Clone, Debug)]
struct Toy {
    vocabulary: u32,
    pairs: bool,
}

impl Toy {
    fn ids(&self, text: &str) -> Vec<u32> {
        let characters: Vec<u32> = text.chars().map(u32::from).collect();
        let width = if self.pairs { 2 } else { 1 };
        let fold = |chunk: &[u32]| chunk.iter().fold(chunk.len() as u32, |h, &c| h.wrapping_mul(31).wrapping_add(c));
        characters.chunks(width).map(|chunk| fold(chunk) % self.vocabulary).collect()
    }
}

impl Encoder for Toy {
    fn encode_batch(&self, texts: &[String]) -> Result<Vec<Vec<u32>>, EncodeError> {
        Ok(texts.iter().map(|text| self.ids(text)).collect())
    }
}

fn toys() -> impl Strategy<Value = Toy> {
    (prop_oneof![2u32..40, 40u32..200_000], any::<bool>()).prop_map(|(vocabulary, pairs)| Toy { vocabulary, pairs })
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,6}", "[^./#]{1,8}"]
}

fn specs() -> impl Strategy<Value = Json> {
    let text = |s: String| Json::String(s);
    let object =
        |entries: Vec<(&str, Json)>| Json::Object(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect());
    let choices = |least: usize, most: usize| {
        prop::collection::hash_set(".{0,6}", least..=most).prop_map(move |set| {
            let mut sorted: Vec<String> = set.into_iter().collect();
            sorted.sort();
            Json::Array(sorted.into_iter().map(text).collect())
        })
    };
    prop_oneof![
        ".{0,10}".prop_map(move |d| object(vec![("type", text("boolean".into())), ("description", text(d))])),
        (choices(1, 40), ".{0,10}").prop_map(move |(c, d)| object(vec![("choices", c), ("description", text(d))])),
        choices(2, 8).prop_map(move |c| object(vec![("type", text("multi".into())), ("choices", c)])),
    ]
}

fn schemas() -> impl Strategy<Value = Schema> {
    prop::collection::vec((names(), specs()), 1..5).prop_map(|entries| {
        let mut seen = std::collections::HashSet::new();
        let entries = entries.into_iter().filter(|(name, _)| seen.insert(name.clone())).collect();
        Schema::from_value(Json::Object(entries)).expect("a valid schema")
    })
}

/// The candidates of a row in labels mode, as the contract writes them.
fn candidates(plan: &Plan) -> Vec<Vec<String>> {
    let quote = |s: &str| serde_json::to_string(s).expect("JSON");
    let mut rows = Vec::new();
    for field in plan.schema().fields() {
        let answer = |name: &str, value: String| format!("{{{}: {value}}}", quote(name));
        match field.kind() {
            FieldKind::Boolean => rows.push(field.choices().iter().map(|c| answer(field.name(), c.clone())).collect()),
            FieldKind::Enum => rows.push(field.choices().iter().map(|c| answer(field.name(), quote(c))).collect()),
            FieldKind::Multi => {
                for index in 0..field.choices().len() {
                    let name = format!("{}/{index:02}", field.name());
                    rows.push(["Y", "N"].iter().map(|v| answer(&name, quote(v))).collect());
                }
                let name = format!("{}#count", field.name());
                rows.push((0..5).map(|k| answer(&name, quote(&k.to_string()))).collect());
            }
        }
    }
    rows
}

/// Follows each candidate's steps back through the layout and checks that they are its branchings.
fn check_layout(layout: &Layout, rows: &[&Row]) -> Result<(), TestCaseError> {
    let at = |list: &[i32], index: usize| usize::try_from(list[index]).expect("an offset");
    let mut candidate = 0;
    for (index, row) in rows.iter().enumerate() {
        prop_assert_eq!(at(&layout.row_offsets, index), candidate);
        for remainder in &row.remainders {
            let mut expected = Vec::new();
            for depth in 0..remainder.len() {
                let mut next: Vec<u32> = Vec::new();
                for other in row.remainders.iter().filter(|r| r.starts_with(&remainder[..depth]) && r.len() > depth) {
                    if !next.contains(&other[depth]) {
                        next.push(other[depth]);
                    }
                }
                if next.len() > 1 {
                    expected.push((next, remainder[depth]));
                }
            }
            let steps = at(&layout.step_offsets, candidate)..at(&layout.step_offsets, candidate + 1);
            prop_assert_eq!(steps.len(), expected.len());
            for (step, (allowed, token)) in std::iter::zip(steps, expected) {
                let entry = at(&layout.steps, step);
                prop_assert_eq!(layout.branch_tokens[entry] as u32, token);
                let branch = layout.branch_offsets.partition_point(|&offset| offset as usize <= entry) - 1;
                let range = at(&layout.branch_offsets, branch)..at(&layout.branch_offsets, branch + 1);
                let found: Vec<u32> = layout.branch_tokens[range].iter().map(|&t| t as u32).collect();
                prop_assert_eq!(found, allowed);
            }
            candidate += 1;
        }
    }
    for (node, &parent) in layout.parents.iter().enumerate() {
        prop_assert!(parent < node as i32);
        let above = if parent < 0 { -1 } else { layout.depths[parent as usize] };
        prop_assert_eq!(layout.depths[node], above + 1);
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_plan_says_what_the_tokenizer_said(schema in schemas(), toy in toys()) {
        let plan = match compile(&schema, Scoring::Labels, &toy) {
            Ok(plan) => plan,
            Err(error) => {
                prop_assert!(matches!(
                    error.kind(),
                    ErrorKind::TokenIdentical | ErrorKind::TokenPrefix | ErrorKind::NoCommonToken
                ));
                return Ok(());
            }
        };
        let rows: Vec<&Row> = plan.fields().iter().flat_map(|field| field.rows()).collect();
        for (row, texts) in std::iter::zip(&rows, candidates(&plan)) {
            for (remainder, text) in std::iter::zip(&row.remainders, &texts) {
                prop_assert_eq!([plan.lead_in_ids(), &row.shared_ids, remainder].concat(), toy.ids(text));
            }
        }
        check_layout(&plan.layout(), &rows)?;
    }

    #[test]
    fn slots_compile_or_say_why(schema in schemas(), toy in toys()) {
        if let Ok(plan) = compile(&schema, Scoring::Slots, &toy) {
            let rows: Vec<&Row> = plan.fields().iter().flat_map(|field| field.rows()).collect();
            check_layout(&plan.layout(), &rows)?;
        }
    }

    #[test]
    fn any_text_parses_or_is_refused(text in any::<String>()) {
        let _ = Schema::from_json(&text);
    }

    #[test]
    fn a_schema_survives_its_plain_form(schema in schemas()) {
        prop_assert_eq!(Schema::from_value(schema.to_json()).expect("valid"), schema);
    }
}
