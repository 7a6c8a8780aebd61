//! The golden contract without Python: rendered text, token ids and plan hash of every vector under `golden/prompts`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use jevmlx_core::{
    DEPENDS_SUFFIX, EncodeError, Encoder, Message, PROMPT_VERSION, PROMPT_VERSION_ISOLATED,
    PROMPT_VERSION_ISOLATED_KEYED, PROMPT_VERSION_KEYED, PROMPT_VERSION_MESSAGES, Plan, Schema, Scoring, compile,
    token_ids_sha256,
};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, merge_maps};
use minijinja::{Environment, Value as Template, context};
use serde_json::Value;
use tokenizers::Tokenizer;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden")
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a case is rendered with.
enum Model {
    /// Ids are `ord(c) % 60`; the template joins the contents with LF.
    Fake,
    Real(Box<Real>),
}

struct Real {
    /// Encodes control tokens as ordinary text.
    data: Tokenizer,
    /// Control token → id, longest text first.
    control: Vec<(String, u32)>,
    template: String,
    specials: BTreeMap<String, String>,
}

/// Added tokens that are ordinary text although they are not white space.
const HTML: &[&str] = &[
    "table",
    "caption",
    "thead",
    "tbody",
    "tfoot",
    "tr",
    "th",
    "td",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "blockquote",
    "strong",
    "em",
    "b",
    "i",
    "u",
    "s",
    "sub",
    "sup",
    "code",
];

fn is_control(token: &Value) -> bool {
    let text = token["content"].as_str().expect("an added token's text");
    let tag = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')).map(|t| t.trim_start_matches('/'));
    let html = tag.is_some_and(|tag| HTML.contains(&tag));
    token["special"] == true || !(text.trim().is_empty() || text.trim_matches('▁').is_empty() || html)
}

impl Real {
    fn load(folder: &Path) -> Self {
        let packed = fs::read(folder.join("tokenizer.json.xz")).expect("a tokenizer");
        let mut unpacked = Vec::new();
        lzma_rs::xz_decompress(&mut packed.as_slice(), &mut unpacked).expect("xz");
        let mut spec: Value = serde_json::from_slice(&unpacked).expect("tokenizer.json");
        let mut control = Vec::new();
        for token in spec["added_tokens"].as_array_mut().expect("added tokens") {
            if is_control(token) {
                token["special"] = true.into();
                let id = token["id"].as_u64().and_then(|id| u32::try_from(id).ok()).expect("an id");
                control.push((token["content"].as_str().expect("text").to_owned(), id));
            }
        }
        control.sort_by_key(|(text, _)| std::cmp::Reverse(text.chars().count()));
        let mut data = Tokenizer::from_bytes(spec.to_string().as_bytes()).expect("a tokenizer");
        data.set_encode_special_tokens(true);
        let config = json(&folder.join("tokenizer_config.json"));
        let template = config["chat_template"].as_str().expect("a chat template").to_owned();
        let text = |v: &Value| v.as_str().or_else(|| v["content"].as_str()).map(str::to_owned);
        let specials = config.as_object().expect("an object").iter();
        let specials = specials.filter(|(k, _)| k.ends_with("_token")).filter_map(|(k, v)| Some((k.clone(), text(v)?)));
        Self { data, control, template, specials: specials.collect() }
    }

    /// Renders over stand-ins, cuts at the template's own control tokens, and encodes each piece as data.
    fn render(&self, turns: &[Message], kwargs: &Value) -> (String, Vec<u32>) {
        let mut stand_in = 0xe000..0xf8ffu32;
        let mut held: Vec<(char, &str)> = Vec::new();
        let mut turns = turns.to_vec();
        self.drop_reasoning(&mut turns);
        for (text, _) in &self.control {
            if !turns.iter().any(|turn| turn.content.contains(text.as_str())) {
                continue;
            }
            let free =
                stand_in.by_ref().filter_map(char::from_u32).find(|c| !turns.iter().any(|t| t.content.contains(*c)));
            let free = free.expect("a private-use character");
            held.push((free, text));
            for turn in &mut turns {
                turn.content = turn.content.replace(text.as_str(), &free.to_string());
            }
        }
        let treated = self.template_text(&turns, kwargs);
        let restore = |text: &str| held.iter().fold(text.to_owned(), |text, (c, token)| text.replace(*c, token));
        let mut ids = Vec::new();
        let mut rest = treated.as_str();
        while let Some((at, (text, id))) = self.next_control(rest) {
            self.encode(&restore(&rest[..at]), &mut ids);
            ids.push(*id);
            rest = &rest[at + text.len()..];
        }
        self.encode(&restore(rest), &mut ids);
        (restore(&treated), ids)
    }

    /// Qwen3's template drops an assistant's text up to `</think>`, which stand-ins would hide from it.
    fn drop_reasoning(&self, turns: &mut [Message]) {
        const END: &str = "</think>";
        if !self.control.iter().any(|(text, _)| text == END) {
            return;
        }
        for turn in turns.iter_mut().filter(|turn| turn.role == "assistant") {
            if let Some((_, answer)) = turn.content.rsplit_once(END) {
                turn.content = answer.trim_start_matches('\n').to_owned();
            }
        }
    }

    fn next_control<'a>(&'a self, text: &str) -> Option<(usize, &'a (String, u32))> {
        // The earliest, and of those the longest, which comes first in the list.
        self.control.iter().filter_map(|token| Some((text.find(&token.0)?, token))).min_by_key(|(at, _)| *at)
    }

    fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        if !text.is_empty() {
            ids.extend(self.data.encode(text, false).expect("ids").get_ids());
        }
    }

    fn template_text(&self, turns: &[Message], kwargs: &Value) -> String {
        let mut environment = Environment::new();
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        // As transformers sets them.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.expect("a syntax"));
        environment.add_function("raise_exception", |message: String| -> Result<String, minijinja::Error> {
            Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, message))
        });
        let messages: Vec<_> =
            turns.iter().map(|t| context! { role => t.role.as_str(), content => t.content.as_str() }).collect();
        let values = merge_maps([
            context! { messages => messages, add_generation_prompt => true },
            Template::from(Serde(kwargs)),
            Template::from(Serde(&self.specials)),
        ]);
        environment.render_str(&self.template, values).expect("the chat template")
    }
}

impl Encoder for Model {
    fn encode_batch(&self, texts: &[String]) -> Result<Vec<Vec<u32>>, EncodeError> {
        texts
            .iter()
            .map(|text| match self {
                Self::Fake => Ok(fake_ids(text)),
                Self::Real(real) => {
                    let encoding = real.data.encode(text.as_str(), false);
                    encoding.map(|e| e.get_ids().to_vec()).map_err(|e| EncodeError(e.to_string()))
                }
            })
            .collect()
    }
}

fn fake_ids(text: &str) -> Vec<u32> {
    text.chars().map(|c| u32::from(c) % 60).collect()
}

impl Model {
    fn render(&self, turns: &[Message], kwargs: &Value) -> (String, Vec<u32>) {
        match self {
            Self::Real(real) => real.render(turns, kwargs),
            Self::Fake => {
                let text = turns.iter().map(|turn| turn.content.as_str()).collect::<Vec<_>>().join("\n");
                let ids = fake_ids(&text);
                (text, ids)
            }
        }
    }
}

/// One ordered input of `cases.json`, compiled.
fn plan_of(case: &Value, model: &Model) -> Plan {
    let mut schema = Schema::from_json(&case["schema"].to_string()).expect("a valid schema");
    if case["isolate"] == true {
        schema = schema.isolated().swap_remove(0);
    }
    let scoring = if case["scoring"] == "slots" { Scoring::Slots } else { Scoring::Labels };
    compile(&schema, scoring, model).expect("a plan")
}

fn turns_of(case: &Value, plan: &Plan, supports_system: bool) -> (Vec<Message>, &'static str) {
    if let Some(messages) = case["messages"].as_array() {
        let text = |m: &Value, key: &str| m[key].as_str().expect("a string").to_owned();
        let messages: Vec<_> = messages.iter().map(|m| Message::new(text(m, "role"), text(m, "content"))).collect();
        return (plan.message_turns(&messages, supports_system).expect("turns"), PROMPT_VERSION_MESSAGES);
    }
    let context = case["context"].as_str().expect("a context");
    let key = case["nonce_key_hex"].as_str().map(|hex| {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect::<Vec<u8>>()
    });
    let key = key.as_deref();
    if case["isolate"] == true {
        let version = if key.is_some() { PROMPT_VERSION_ISOLATED_KEYED } else { PROMPT_VERSION_ISOLATED };
        return (plan.isolated_turns(context, key, supports_system).expect("turns"), version);
    }
    let version = if key.is_some() { PROMPT_VERSION_KEYED } else { PROMPT_VERSION };
    (plan.context_turns(context, key, supports_system).expect("turns"), version)
}

/// The plans of the fields that depend on others, under what the case decides above them.
fn assert_waves(case: &Value, vector: &Value, plan: &Plan, model: &Model, name: &str) {
    if case["decided"].is_null() {
        return;
    }
    let waves = vector["waves"].as_array().expect("waves");
    assert_eq!(waves.len(), plan.depths().into_iter().max().expect("a field"), "{name}");
    let decided = plan.schema().fields().iter().map(|field| {
        let choice = case["decided"][field.name()].as_str();
        choice.map_or(0, |choice| field.choices().iter().position(|own| own == choice).expect("a choice"))
    });
    let decided: Vec<usize> = decided.collect();
    for (wave, depth) in waves.iter().zip(1..) {
        let found = plan.wave(depth, &decided, model).expect("a wave");
        assert_eq!(wave["plan_hash"], found.plan_hash(), "{name}, wave {depth}");
        let version = format!("{}{DEPENDS_SUFFIX}", vector["prompt_version"].as_str().expect("a version"));
        assert_eq!(wave["prompt_version"], version.as_str(), "{name}");
    }
}

#[test]
fn every_vector_comes_out_byte_for_byte() {
    let cases = json(&golden().join("cases.json"));
    let cases = cases.as_array().expect("a list of cases");
    let mut models: BTreeMap<&str, Model> = BTreeMap::new();
    let mut expected = BTreeSet::new();
    for case in cases {
        let text = |key: &str| case[key].as_str().unwrap_or_else(|| panic!("{key} of {case}"));
        let name = format!("{}__{}__{}.json", text("profile"), text("tokenizer_revision"), text("case"));
        let vector = json(&golden().join("prompts").join(&name));
        let folder = text("tokenizer");
        let model = models.entry(folder).or_insert_with(|| match folder {
            "fake" => Model::Fake,
            _ => Model::Real(Box::new(Real::load(&golden().join("tokenizers").join(folder)))),
        });
        let plan = plan_of(case, model);
        let supports_system = vector["input"]["supports_system"].as_bool().expect("supports_system");
        let (turns, version) = turns_of(case, &plan, supports_system);
        let (rendered, ids) = model.render(&turns, &vector["input"]["template_kwargs"]);
        assert_eq!(vector["rendered_text"], rendered.as_str(), "{name}");
        assert_eq!(vector["prompt_version"], version, "{name}");
        assert_eq!(vector["plan_hash"], plan.plan_hash(), "{name}");
        assert_eq!(vector["token_ids_sha256"], token_ids_sha256(&ids), "{name}");
        assert_eq!(vector["prompt_sha256"], vector["token_ids_sha256"], "{name}");
        assert_waves(case, &vector, &plan, model, &name);
        // Sorted keys lose the field order, so the inputs are compared as values.
        assert_eq!(vector["input"]["schema"], case["schema"], "{name}");
        expected.insert(name);
    }
    let found =
        fs::read_dir(golden().join("prompts")).expect("vectors").map(|entry| entry.expect("a file").file_name());
    let found: BTreeSet<String> = found.map(|name| name.to_string_lossy().into_owned()).collect();
    assert_eq!(found, expected, "vectors and cases are the same set");
    assert!(expected.len() >= 149, "{} vectors", expected.len());
}
