//! A hostile tokenizer compiles to a plan that holds what it said, or is refused with a code.
#![no_main]

use std::cell::RefCell;
use std::collections::HashSet;

use arbitrary::Arbitrary;
use jevmlx_core::{EncodeError, Encoder, FieldPlan, Plan, Row, Schema, Scoring, compile};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    habit: Habit,
    slots: bool,
    boolean: bool,
    choices: Names,
    options: Option<Names>,
}

/// The choices of a field.
#[derive(Arbitrary, Debug)]
enum Names {
    Given(Vec<String>),
    /// As many as that: sizes that a fuzzer would not spell out.
    Counted(u8),
}

impl Names {
    fn list(&self) -> Vec<String> {
        match self {
            Names::Given(names) => names.clone(),
            Names::Counted(count) => (0..*count).map(|i| i.to_string()).collect(),
        }
    }
}

/// How a tokenizer misbehaves; the bytes steer it.
#[derive(Arbitrary, Debug)]
enum Habit {
    /// Characters folded onto a few ids.
    Fold { vocabulary: u8, width: u8 },
    /// Ids cut from a pool, with lengths from it too: prefixes, equal lists, empty lists.
    Cut { pool: Vec<u32>, lengths: Vec<u8> },
    /// Another path of a shallow tree for each text, with `width` children a node: many branches.
    Tree { width: u8, start: u32, tail: u8 },
    /// One id for everything.
    Constant { id: u32, length: u16 },
    /// Too few or too many lists.
    Miscount { add: bool },
    /// An error.
    Fail,
}

impl Habit {
    fn encode(&self, index: usize, text: &str) -> Vec<u32> {
        match self {
            Habit::Fold { vocabulary, width } => {
                let characters: Vec<u32> = text.chars().map(u32::from).collect();
                let sum = |chunk: &[u32]| chunk.iter().fold(7u32, |h, c| h.wrapping_mul(31).wrapping_add(*c));
                characters.chunks(1 + usize::from(*width)).map(|c| sum(c) % (u32::from(*vocabulary) + 1)).collect()
            }
            Habit::Cut { pool, lengths } => {
                let length = lengths.get(index % lengths.len().max(1)).map_or(3, |l| usize::from(*l));
                pool.iter().copied().cycle().skip(index % 7).take(if pool.is_empty() { 0 } else { length }).collect()
            }
            Habit::Tree { width, start, tail } => {
                let width = u32::from(*width).max(2);
                let mut rest = (index as u32).wrapping_add(*start);
                let mut ids = vec![0];
                while rest > 0 {
                    ids.push(1 + rest % width);
                    rest /= width;
                }
                ids.extend(std::iter::repeat_n(u32::MAX, index % (1 + usize::from(*tail))));
                ids
            }
            Habit::Constant { id, length } => vec![*id; usize::from(*length)],
            Habit::Miscount { .. } | Habit::Fail => vec![1],
        }
    }
}

/// A tokenizer of such a habit, and all it ever said.
struct Hostile<'a> {
    habit: &'a Habit,
    said: RefCell<HashSet<Vec<u32>>>,
}

impl Encoder for Hostile<'_> {
    fn encode_batch(&self, texts: &[String]) -> Result<Vec<Vec<u32>>, EncodeError> {
        let mut lists: Vec<_> = texts.iter().enumerate().map(|(i, text)| self.habit.encode(i, text)).collect();
        match self.habit {
            Habit::Fail => return Err(EncodeError("no".into())),
            Habit::Miscount { add: true } => lists.push(vec![1]),
            Habit::Miscount { add: false } => drop(lists.pop()),
            _ => {}
        }
        self.said.borrow_mut().extend(lists.iter().cloned());
        Ok(lists)
    }
}

fuzz_target!(|input: Input| {
    let mut fields = vec![format!("\"e\": {{\"choices\": {}}}", json_list(&input.choices.list()))];
    if input.boolean {
        fields.push("\"b\": {\"type\": \"boolean\"}".into());
    }
    if let Some(options) = &input.options {
        fields.push(format!("\"m\": {{\"type\": \"multi\", \"choices\": {}}}", json_list(&options.list())));
    }
    let Ok(schema) = Schema::from_json(&format!("{{{}}}", fields.join(", "))) else { return };
    let scoring = if input.slots { Scoring::Slots } else { Scoring::Labels };
    let encoder = Hostile { habit: &input.habit, said: RefCell::default() };
    match compile(&schema, scoring, &encoder) {
        Ok(plan) => check(&plan, &encoder.said.borrow()),
        Err(error) => assert!(!error.code().is_empty() && !error.message().is_empty()),
    }
});

fn check(plan: &Plan, said: &HashSet<Vec<u32>>) {
    for (field, compiled) in plan.schema().fields().iter().zip(plan.fields()) {
        compiled.rows().for_each(|row| check_row(plan, row, said));
        if let FieldPlan::Slots { row, aliases, .. } = compiled {
            assert_eq!(aliases.len(), field.choices().len());
            assert_eq!(aliases.iter().collect::<HashSet<_>>().len(), aliases.len());
            assert_eq!(row.remainders.len(), aliases.len());
        }
    }
    let layout = plan.layout();
    assert_eq!(layout.branch_offsets.len(), layout.branch_nodes.len() + 1);
    assert!(layout.steps.iter().all(|&step| (step as usize) < layout.branch_tokens.len()));
}

/// Every candidate is what the tokenizer said of it, whole, and none is a prefix of another.
fn check_row(plan: &Plan, row: &Row, said: &HashSet<Vec<u32>>) {
    for remainder in &row.remainders {
        assert!(said.contains(&[plan.lead_in_ids(), &row.shared_ids, remainder].concat()));
    }
    let mut sorted: Vec<_> = row.remainders.iter().collect();
    sorted.sort();
    assert!(sorted.windows(2).all(|pair| !pair[1].starts_with(pair[0])));
}

/// A JSON list of strings, every character escaped.
fn json_list(texts: &[String]) -> String {
    let escape = |text: &String| text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
    format!("[{}]", texts.iter().map(|text| format!("\"{}\"", escape(text))).collect::<Vec<_>>().join(", "))
}
