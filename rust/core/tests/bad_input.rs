//! Every rule of the contract broken on purpose: (input, code, path).

use jevmlx_core::{EncodeError, Encoder, Schema, Scoring, compile};

#[test]
fn schemas() {
    let many = |n: usize| (0..n).map(|i| format!("\"c{i}\"")).collect::<Vec<_>>().join(", ");
    let long = "x".repeat(1 << 20);
    let cases: Vec<(String, &str, &str)> = [
        ("", "schema.json", ""),
        ("{", "schema.json", ""),
        ("[]", "schema.type", ""),
        ("null", "schema.type", ""),
        ("{}", "schema.empty", ""),
        ("{\"a\": NaN}", "schema.json", "a"),
        ("{\"a\": 1}", "schema.type", "a"),
        ("{\"a\": {}, \"a\": {}}", "schema.json.duplicate_key", "a"),
        ("{\"a\": {\"type\": \"enum\", \"type\": \"enum\"}}", "schema.json.duplicate_key", "a.type"),
        ("{\"a\": {\"choices\": [\"\\ud800\"]}}", "schema.surrogate", "a.choices[0]"),
        ("{\"\": {\"type\": \"boolean\"}}", "schema.field_name", ""),
        ("{\"a.b\": {\"type\": \"boolean\"}}", "schema.field_name", "a.b"),
        ("{\"a/b\": {\"type\": \"boolean\"}}", "schema.field_name", "a/b"),
        ("{\"a#b\": {\"type\": \"boolean\"}}", "schema.field_name", "a#b"),
        ("{\"a\": {\"type\": \"text\"}}", "schema.unknown_type", "a.type"),
        ("{\"a\": {\"type\": 1}}", "schema.type", "a.type"),
        ("{\"a\": {\"type\": \"boolean\", \"kind\": 1}}", "schema.unknown_key", "a.kind"),
        ("{\"a\": {\"type\": \"boolean\", \"description\": null}}", "schema.type", "a.description"),
        ("{\"a\": {\"type\": \"boolean\", \"choices\": [\"false\", \"true\"]}}", "schema.choices.boolean", "a.choices"),
        ("{\"a\": {}}", "schema.missing_key", "a.choices"),
        ("{\"a\": {\"choices\": []}}", "schema.choices.count", "a.choices"),
        ("{\"a\": {\"choices\": \"x\"}}", "schema.type", "a.choices"),
        ("{\"a\": {\"choices\": [\"x\", 1]}}", "schema.type", "a.choices[1]"),
        ("{\"a\": {\"choices\": [\"x\", \"y\", \"x\"]}}", "schema.choices.duplicate", "a.choices[2]"),
        ("{\"a\": {\"type\": \"multi\", \"choices\": [\"x\"]}}", "schema.choices.count", "a.choices"),
        ("{\"a\": {\"choices\": [\"x\"], \"choice_descriptions\": []}}", "schema.type", "a.choice_descriptions"),
        ("{\"a\": {\"choices\": [\"x\"], \"choice_descriptions\": {\"y\": \"\"}}}", "schema.choice_descriptions.unknown", "a.choice_descriptions.y"),
        ("{\"a\": {\"choices\": [\"x\"], \"choice_descriptions\": {\"x\": 1}}}", "schema.type", "a.choice_descriptions.x"),
        ("{\"a\": {\"type\": \"boolean\", \"ordered\": true}}", "schema.ordered", "a.ordered"),
        ("{\"a\": {\"choices\": [\"x\"], \"ordered\": \"yes\"}}", "schema.type", "a.ordered"),
        (
            "{\"a\": {\"type\": \"boolean\", \"allow_none_of_above\": true}}",
            "schema.allow_none_of_above",
            "a.allow_none_of_above",
        ),
        ("{\"a\": {\"choices\": [\"x\"], \"allow_none_of_above\": 1}}", "schema.type", "a.allow_none_of_above"),
        (
            "{\"a\": {\"choices\": [\"x\", \"none of the above\"], \"allow_none_of_above\": true}}",
            "schema.allow_none_of_above",
            "a.allow_none_of_above",
        ),
        (
            "{\"a\": {\"choices\": [\"x\"], \"ordered\": true, \"allow_none_of_above\": true}}",
            "schema.allow_none_of_above",
            "a.allow_none_of_above",
        ),
        ("{\"a\": {\"choices\": [\"x\"], \"depends_on\": \"b\"}}", "schema.depends_on", "a.depends_on"),
        ("{\"a\": {\"choices\": [\"x\"], \"depends_on\": \"a\"}}", "schema.depends_on", "a.depends_on"),
        ("{\"a\": {\"type\": \"boolean\", \"depends_on\": \"b\"}, \"b\": {\"type\": \"boolean\", \"depends_on\": \"a\"}}", "schema.depends_on", "a.depends_on"),
        ("{\"a\": {\"type\": \"boolean\", \"depends_on\": \"m\"}, \"m\": {\"type\": \"multi\", \"choices\": [\"x\", \"y\"]}}", "schema.depends_on", "a.depends_on"),
        ("{\"m\": {\"type\": \"multi\", \"choices\": [\"x\", \"y\"], \"depends_on\": \"a\"}, \"a\": {\"type\": \"boolean\"}}", "schema.depends_on", "m.depends_on"),
        ("{\"a\": {\"type\": \"boolean\", \"set_constraints\": []}}", "schema.set_constraints", "a.set_constraints"),
    ]
    .into_iter()
    .map(|(input, code, path)| (input.to_owned(), code, path))
    .chain([
        (format!("{{\"a\": {{\"choices\": [{}]}}}}", many(256)), "schema.choices.count", "a.choices"),
        (format!("{{\"a\": {{\"type\": \"multi\", \"choices\": [{}]}}}}", many(65)), "schema.choices.count", "a.choices"),
        (format!("{{\"{long}\": {{\"type\": \"boolean\"}}}}"), "schema.field_name", long.as_str()),
        (format!("{{\"a\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000)), "schema.json.depth", ""),
    ])
    .collect();
    for (input, code, path) in cases {
        let shown = input.get(..80).unwrap_or(&input);
        let error = Schema::from_json(&input).expect_err(shown);
        assert_eq!(error.code(), code, "{shown}: {error}");
        if code != "schema.json.depth" {
            assert_eq!(error.path(), path, "{shown}: {error}");
        }
        assert!(error.message().len() < 400, "a message that can be read: {}", error.message().len());
    }
}

#[test]
fn set_constraints() {
    let cases = [
        ("1", "schema.type", "m.set_constraints"),
        ("[1]", "schema.type", "m.set_constraints[0]"),
        ("[{}]", "schema.set_constraints", "m.set_constraints[0].type"),
        ("[{\"type\": 1}]", "schema.type", "m.set_constraints[0].type"),
        ("[{\"type\": \"none\"}]", "schema.set_constraints", "m.set_constraints[0].type"),
        ("[{\"type\": \"at_most_one\"}]", "schema.set_constraints", "m.set_constraints[0].options"),
        ("[{\"type\": \"at_most_one\", \"options\": []}]", "schema.set_constraints", "m.set_constraints[0].options"),
        (
            "[{\"type\": \"at_most_one\", \"options\": [\"z\"]}]",
            "schema.set_constraints",
            "m.set_constraints[0].options[0]",
        ),
        (
            "[{\"type\": \"at_most_one\", \"options\": [\"x\", \"x\"]}]",
            "schema.set_constraints",
            "m.set_constraints[0].options[1]",
        ),
        (
            "[{\"type\": \"at_most_one\", \"options\": [\"x\"], \"k\": 1}]",
            "schema.set_constraints",
            "m.set_constraints[0].k",
        ),
        ("[{\"type\": \"exact_k\", \"options\": [\"x\"]}]", "schema.set_constraints", "m.set_constraints[0].k"),
        (
            "[{\"type\": \"exact_k\", \"options\": [\"x\"], \"k\": 2}]",
            "schema.set_constraints",
            "m.set_constraints[0].k",
        ),
        ("[{\"type\": \"exact_k\", \"options\": [\"x\"], \"k\": 1.5}]", "schema.type", "m.set_constraints[0].k"),
        (
            "[{\"type\": \"implies\", \"if_option\": \"x\"}]",
            "schema.set_constraints",
            "m.set_constraints[0].then_option",
        ),
        (
            "[{\"type\": \"implies\", \"if_option\": \"x\", \"then_option\": \"x\"}]",
            "schema.set_constraints",
            "m.set_constraints[0].then_option",
        ),
    ];
    for (constraints, code, path) in cases {
        let input = format!(
            "{{\"m\": {{\"type\": \"multi\", \"choices\": [\"x\", \"y\"], \"set_constraints\": {constraints}}}}}"
        );
        let error = Schema::from_json(&input).expect_err(constraints);
        assert_eq!((error.code(), error.path()), (code, path), "{constraints}: {error}");
    }
}

/// A tokenizer that misbehaves in one way.
struct Hostile(fn(&str) -> Result<Vec<u32>, EncodeError>, usize);

impl Encoder for Hostile {
    fn encode_batch(&self, texts: &[String]) -> Result<Vec<Vec<u32>>, EncodeError> {
        texts.iter().skip(self.1).map(|text| self.0(text)).collect()
    }
}

#[test]
fn tokenizers() {
    let enumeration = "{\"f\": {\"choices\": [\"A\", \"AB\"]}}";
    let characters = |text: &str| Ok(text.chars().map(u32::from).collect());
    let cases: Vec<(&str, Scoring, Hostile, &str, &str)> = vec![
        (enumeration, Scoring::Labels, Hostile(|_| Ok(vec![]), 0), "tokenizer.empty", ""),
        (enumeration, Scoring::Labels, Hostile(|_| Err(EncodeError("no".into())), 0), "tokenizer.failed", ""),
        (enumeration, Scoring::Labels, Hostile(characters, 1), "tokenizer.output", ""),
        (enumeration, Scoring::Labels, Hostile(|_| Ok(vec![u32::MAX]), 0), "tokenizer.output", ""),
        (enumeration, Scoring::Labels, Hostile(|_| Ok(vec![7]), 0), "compile.token_identical", "f"),
        (enumeration, Scoring::Slots, Hostile(|_| Ok(vec![7]), 0), "compile.no_codebook", "f"),
        (enumeration, Scoring::Labels, Hostile(|t| Ok(vec![7; t.len()]), 0), "compile.token_prefix", "f"),
        (enumeration, Scoring::Labels, Hostile(|t| Ok(vec![t.len() as u32]), 0), "compile.no_common_token", "f"),
        (
            enumeration,
            Scoring::Slots,
            Hostile(|t| Ok(t.bytes().rev().map(u32::from).skip(2).collect()), 0),
            "compile.no_common_token",
            "f",
        ),
    ];
    for (index, (schema, scoring, tokenizer, code, path)) in cases.into_iter().enumerate() {
        let schema = Schema::from_json(schema).expect("valid");
        let error = compile(&schema, scoring, &tokenizer).expect_err("a hostile tokenizer");
        assert_eq!((error.code(), error.path()), (code, path), "case {index}: {error}");
    }
}

#[test]
fn compile_errors_name_both_offenders() {
    let schema = Schema::from_json("{\"f\": {\"choices\": [\"yes\", \"no\", \"nono\"]}}").expect("valid");
    let tokenizer = Hostile(|text| Ok(text.chars().filter(|&c| c != '"' && c != '}').map(u32::from).collect()), 0);
    let error = compile(&schema, Scoring::Labels, &tokenizer).expect_err("a prefix");
    assert_eq!(error.code(), "compile.token_prefix");
    assert!(error.message().contains("\\\"no\\\"") && error.message().contains("\\\"nono\\\""), "{error}");
}
