//! A hostile tokenizer compiles to a plan that says what it said, or is refused with a code.
#![no_main]

use arbitrary::Arbitrary;
use jevmlx_core::{EncodeError, Encoder, Schema, Scoring, compile};
use libfuzzer_sys::fuzz_target;

/// How a tokenizer misbehaves; the bytes steer it.
#[derive(Arbitrary, Debug)]
enum Habit {
    /// Characters folded onto a few ids.
    Fold { vocabulary: u8, width: u8 },
    /// Ids cut from a pool, with lengths from it too: prefixes, equal lists, empty lists.
    Cut { pool: Vec<u32>, lengths: Vec<u8> },
    /// One id for everything.
    Constant { id: u32, length: u8 },
    /// Too few or too many lists.
    Miscount { add: bool },
    /// An error.
    Fail,
}

#[derive(Arbitrary, Debug)]
struct Input {
    habit: Habit,
    slots: bool,
    boolean: bool,
    choices: Vec<String>,
    options: Vec<String>,
}

impl Encoder for Habit {
    fn encode_batch(&self, texts: &[String]) -> Result<Vec<Vec<u32>>, EncodeError> {
        let encode = |(index, text): (usize, &String)| match self {
            Habit::Fold { vocabulary, width } => {
                let characters: Vec<u32> = text.chars().map(u32::from).collect();
                let sum = |chunk: &[u32]| chunk.iter().fold(7u32, |h, c| h.wrapping_mul(31).wrapping_add(*c));
                characters.chunks(1 + usize::from(*width)).map(|c| sum(c) % (u32::from(*vocabulary) + 1)).collect()
            }
            Habit::Cut { pool, lengths } => {
                let length = lengths.get(index % lengths.len().max(1)).map_or(3, |l| usize::from(*l));
                pool.iter().copied().cycle().skip(index % 7).take(if pool.is_empty() { 0 } else { length }).collect()
            }
            Habit::Constant { id, length } => vec![*id; usize::from(*length)],
            Habit::Miscount { .. } | Habit::Fail => vec![1],
        };
        let mut lists: Vec<Vec<u32>> = texts.iter().enumerate().map(encode).collect();
        match self {
            Habit::Fail => return Err(EncodeError("no".into())),
            Habit::Miscount { add: true } => lists.push(vec![1]),
            Habit::Miscount { add: false } => drop(lists.pop()),
            _ => {}
        }
        Ok(lists)
    }
}

fuzz_target!(|input: Input| {
    let quote = |texts: &[String]| json_list(texts);
    let mut fields = vec![format!("\"e\": {{\"choices\": {}}}", quote(&input.choices))];
    if input.boolean {
        fields.push("\"b\": {\"type\": \"boolean\"}".into());
    }
    if !input.options.is_empty() {
        fields.push(format!("\"m\": {{\"type\": \"multi\", \"choices\": {}}}", quote(&input.options)));
    }
    let Ok(schema) = Schema::from_json(&format!("{{{}}}", fields.join(", "))) else { return };
    let scoring = if input.slots { Scoring::Slots } else { Scoring::Labels };
    match compile(&schema, scoring, &input.habit) {
        Ok(plan) => {
            let layout = plan.layout();
            assert_eq!(layout.branch_offsets.len(), layout.branch_nodes.len() + 1);
            assert!(layout.steps.iter().all(|&step| (step as usize) < layout.branch_tokens.len()));
        }
        Err(error) => assert!(!error.code().is_empty()),
    }
});

/// A JSON list of strings, every character escaped.
fn json_list(texts: &[String]) -> String {
    let escape = |text: &String| text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
    format!("[{}]", texts.iter().map(|text| format!("\"{}\"", escape(text))).collect::<Vec<_>>().join(", "))
}
