"""What a decision means, with a real model: waves, rotations, the prior, none of the above, thresholds and constraints."""

import copy
import json
import math
import pickle
from pathlib import Path

import pytest

import jevmlx
from jevmlx.results import Decision
from reference import plan as reference_plan
from reference import schema as reference_schema
from reference.scorer import rows_of, score_row

TEXT = "My card was charged twice and nobody answers."
TOLERANCE = 2e-3  # nats, float32: passes of other shapes differ by less
TREE = {
    "team": {"choices": ["billing", "technical", "sales"], "description": "Who should answer"},
    "urgent": {"type": "boolean", "description": "Needs a reply today"},
    "case": {"choices": ["refund", "invoice"], "depends_on": "team", "allow_none_of_above": True},
    "amount": {"choices": ["small", "large"], "depends_on": "case", "ordered": True},
    "angry": {"type": "boolean", "depends_on": "urgent"},
    "topics": {"type": "multi", "choices": ["card", "delivery"]},
}


def slow_scores(engine, schema, scoring, decided, context=TEXT):
    """Every scalar field's log scores by full passes, later waves under what was decided."""
    fields = reference_schema.fields_of(schema)
    plan = jevmlx.compile_plan(schema, engine.tokenizer, scoring)
    prompt = jevmlx.render_prompt(plan, context, engine.tokenizer, engine.profile)

    def encode(texts):
        return [engine.tokenizer.encode(text, add_special_tokens=False) for text in texts]

    found = {}
    data = plan.to_dict()
    roots = {field.name for field in fields if field.depends_on is None}
    for name, row, tokens in rows_of(data):
        if name in roots and row == "":
            found[name] = score_row(engine.model, prompt.ids, tokens)[0]
    depth = 1
    while (wave := reference_plan.compile_wave(fields, data, depth, decided, encode))["fields"]:
        for name, _, tokens in rows_of(wave):
            found[name] = score_row(engine.model, prompt.ids, tokens)[0]
        depth += 1
    return found


def chosen(decision):
    """Field → the choice shown for its value."""
    shown = {True: "true", False: "false", None: "none of the above"}
    return {name: shown.get(value, value) for name, value in decision.values.items() if not isinstance(value, tuple)}


@pytest.mark.parametrize("scoring", ["labels", "slots"])
def test_later_waves_agree_with_the_slow_reference(engine, scoring):
    decision = engine.decide(TREE, TEXT, scoring=scoring)
    assert decision.provenance.prompt_version == "jevmlx-parallel-v9+depends"
    (prompt,) = decision.provenance.prompts
    assert len(prompt.waves) == 2
    for name, scores in slow_scores(engine, TREE, scoring, chosen(decision)).items():
        assert list(decision[name].log_scores.values()) == pytest.approx(scores, abs=TOLERANCE), name
    # Nothing of the prompt is computed twice.
    again = engine.decide(TREE, TEXT, scoring=scoring)
    flat = {name: {k: v for k, v in spec.items() if k != "depends_on"} for name, spec in TREE.items()}
    assert again.timings.computed_tokens == engine.decide(flat, TEXT, scoring=scoring).timings.computed_tokens
    assert again.fields == decision.fields


def test_no_field_moves_those_above_it(engine):
    """The plan of a schema with later waves is the plan without them: depends_on changes only what hangs below."""
    roots = engine.decide({**TREE, "angry": {"type": "boolean"}}, TEXT)
    whole = engine.decide(TREE, TEXT)
    assert roots["team"].log_scores == pytest.approx(whole["team"].log_scores, abs=TOLERANCE)
    assert whole["case"].log_scores != roots["team"].log_scores


@pytest.mark.parametrize(
    "options", [{"permutations": 3}, {"prior_correction": True}, {"permutations": 2, "rotate_scales": True}]
)
def test_rotations_and_the_prior_are_what_they_say(engine, options):
    schema = {
        "team": {"choices": ["technical", "billing", "sales"], "choice_descriptions": {"billing": "charges"}},
        "urgent": {"type": "boolean"},
        "mood": {"choices": ["calm", "angry"], "ordered": True},
    }
    decision = engine.decide(schema, TEXT, **options)
    k, scales = options.get("permutations", 1), options.get("rotate_scales", False)
    for index, (name, result) in enumerate(decision.fields.items()):
        scores = [0.0] * len(result.log_scores)
        for step in range(k):
            turned = jevmlx.Schema(schema).rotated(step, k, scales)
            for at, score in enumerate(
                scores_of(engine, turned, name, jevmlx.Schema(schema).fields[index].choices, TEXT)
            ):
                scores[at] += score / k
        if options.get("prior_correction"):
            canonical = jevmlx.Schema(schema).canonical()
            choices = jevmlx.Schema(schema).fields[index].choices
            prior = scores_of(engine, canonical, name, choices, "(no context provided)")
            scores = [score - less for score, less in zip(scores, prior, strict=True)]
        norm = math.log(sum(map(math.exp, scores)))
        expected = [score - norm for score in scores]
        assert list(result.log_scores.values()) == pytest.approx(expected, abs=TOLERANCE)


def scores_of(engine, schema, name, choices, context):
    """A field's log scores by full passes, put into the caller's order."""
    plan = jevmlx.compile_plan(schema, engine.tokenizer, "labels")
    prompt = jevmlx.render_prompt(plan, context, engine.tokenizer, engine.profile)
    (tokens,) = [tokens for field, _, tokens in rows_of(plan.to_dict()) if field == name]
    shown = next(field.choices for field in schema.fields if field.name == name)
    scores = dict(zip(shown, score_row(engine.model, prompt.ids, tokens)[0], strict=True))
    return [scores[choice] for choice in choices]


def test_the_prior_does_not_depend_on_order_and_is_held(engine):
    one = {"team": {"choices": ["billing", "sales", "hr"]}}
    other = {"team": {"choices": ["hr", "billing", "sales"]}}
    first = engine.decide(one, TEXT, prior_correction=True)
    prior = [made for made in first.provenance.prompts if made.role == "prior"]
    again = engine.decide(other, TEXT, prior_correction=True)
    assert [made for made in again.provenance.prompts if made.role == "prior"] == prior
    assert again.timings.computed_tokens < first.timings.computed_tokens
    # What was held gives the same bits as what was computed.
    assert engine.decide(one, TEXT, prior_correction=True).fields == first.fields


def test_a_labels_own_prior_does_not_decide(engine):
    """Where nothing is said, nothing is known, whatever the labels are called: their wording does not decide."""
    schema = {"team": {"choices": ["billing department", "the", "zygomorphic"]}}
    raw = engine.decide(schema, "(no context provided)")["team"]
    corrected = engine.decide(schema, "(no context provided)", prior_correction=True)["team"]
    assert raw.confidence > 0.5
    assert list(corrected.probabilities.values()) == pytest.approx([1 / 3] * 3)


def test_rotating_all_the_way_leaves_no_favoured_place(engine):
    """With every rotation averaged, the order of the choices no longer matters."""
    choices = ["billing", "technical", "sales"]
    found = [
        engine.decide({"team": {"choices": choices[by:] + choices[:by]}}, TEXT, permutations=3)["team"].log_scores
        for by in range(3)
    ]
    for other in found[1:]:
        assert other == pytest.approx(found[0], abs=TOLERANCE)


def test_how_often_the_order_decides_is_one_call(engine):
    schema = {"team": {"choices": ["billing", "sales"], "allow_none_of_above": True}, "urgent": {"type": "boolean"}}
    texts = [TEXT, "What do you sell?", "It rains."]
    found = jevmlx.flip_rate(engine, schema, texts, rotations=3)
    expected = 0
    for text in texts:
        orders = [jevmlx.Schema(schema).rotated(step, 3) for step in range(3)]
        best = [engine.decide(order, text)["team"].ranked(1)[0].choice for order in orders]
        expected += len(set(best)) > 1
    assert (found.contexts, found.refused, dict(found.flips)) == (3, 0, {"team": expected})
    assert found.rates == {"team": expected / 3}
    with pytest.raises(jevmlx.ConfigError) as caught:
        jevmlx.flip_rate(engine, schema, texts, rotations=1)
    assert caught.value.code == "config.rotations"


def test_none_of_the_above_is_none(engine):
    schema = {"team": {"choices": ["zzz"], "allow_none_of_above": True}}
    result = engine.decide(schema, TEXT)["team"]
    assert list(result.probabilities) == ["zzz", "none of the above"]
    best = max(result.probabilities, key=result.probabilities.get)
    assert result.value == (None if best == "none of the above" else best)
    assert result.status == "decided"


def test_thresholds(engine):
    plain = engine.decide(TREE, TEXT)
    strict = engine.decide(TREE, TEXT, abstain_below_margin=1e6)
    for name, result in strict.fields.items():
        assert (result.value, result.status, result.raw_value) == (None, "abstain", plain[name].value)
        assert result.reason
        assert result.probabilities == plain[name].probabilities
    policy = {"team": {"min_probability": 1.0, "otherwise": "review"}, "*": {"min_margin": 0}}
    reviewed = engine.decide(TREE, TEXT, policy=policy)
    assert (reviewed["team"].status, reviewed["team"].value) == ("review", plain["team"].value)
    assert reviewed["urgent"].status == "decided"
    # Where a parent has no value, neither has what was asked given its value.
    parent = engine.decide(TREE, TEXT, abstain_below_margin={"team": 1e6})
    assert [parent[name].status for name in ("team", "case", "amount", "urgent")] == ["abstain"] * 3 + ["decided"]
    assert "team" in parent["case"].reason


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"policy": {"none": {"min_margin": 1}}}, "config.policy"),
        ({"policy": {"team": {}}}, "config.policy"),
        ({"policy": {"team": {"min_probability": 2}}}, "config.policy"),
        ({"policy": {"team": {"min_margin": 1, "otherwise": "guess"}}}, "config.policy"),
        ({"policy": []}, "config.policy"),
        ({"abstain_below_margin": -1}, "config.abstain_below_margin"),
        ({"abstain_below_margin": "1"}, "config.abstain_below_margin"),
        ({"permutations": 0}, "config.permutations"),
        ({"permutations": True}, "config.permutations"),
        ({"prior_correction": 1}, "config.flag"),
        ({"isolate": True}, "config.isolate"),
        ({"unknown": 1}, "config.option"),
        ({"calibration": 1}, "config.calibration"),
        ({"constraints": [{"type": "never"}]}, "constraints.type"),
        ({"constraints": [{"type": "excludes", "pairs": []}]}, "constraints.value"),
    ],
)
def test_bad_options(engine, options, code):
    with pytest.raises(jevmlx.JevmlxError) as caught:
        engine.decide(TREE, TEXT, **options)
    assert caught.value.code == code


def pair(field, value):
    return {"field": field, "value": value}


def test_constraints_change_what_they_must_and_say_so(engine):
    plain = engine.decide(TREE, TEXT)
    team, urgent = plain["team"].value, plain["urgent"].value
    rule = {"type": "excludes", "name": "not both", "pairs": [pair("team", team), pair("urgent", urgent)]}
    found = engine.decide(TREE, TEXT, constraints=[rule])
    moved = [name for name in ("team", "urgent") if found[name].value != plain[name].value]
    assert len(moved) == 1
    result = found[moved[0]]
    assert (result.raw_value, result.overridden.by) == (plain[moved[0]].value, ("not both",))
    raw, own = (
        list(plain[moved[0]].log_scores.values())[list(plain[moved[0]].probabilities).index(value)]
        for value in (plain[moved[0]].value, result.value)
    )
    assert result.overridden.cost == pytest.approx(raw - own)
    # What depends on a field that was moved is asked given the value that the answer holds.
    for name, scores in slow_scores(engine, TREE, "labels", chosen(found)).items():
        assert list(found[name].log_scores.values()) == pytest.approx(scores, abs=TOLERANCE), name


def test_what_is_final_is_named_where_nothing_is_left(engine):
    value = engine.decide(TREE, TEXT)["team"].value
    case = {"type": "implies", "if": pair("team", value), "then": pair("case", "refund")}
    other = {"type": "implies", "if": pair("team", value), "then": pair("case", "invoice")}
    with pytest.raises(jevmlx.ConstraintError) as caught:
        engine.decide(TREE, TEXT, constraints=[case, other])
    assert caught.value.code == "constraints.infeasible"
    assert '"team" was final' in caught.value.message


def test_set_constraints_hold(engine):
    options = ["card", "delivery", "money", "weather"]
    schema = {
        "topics": {
            "type": "multi",
            "choices": options,
            "set_constraints": [{"type": "exact_k", "options": options, "k": 3}],
        }
    }
    free = engine.decide({"topics": {"type": "multi", "choices": options}}, TEXT)["topics"]
    result = engine.decide(schema, TEXT)["topics"]
    assert len(result.value) == 3
    assert result.raw_value == free.value
    assert (result.overridden is None) == (len(free.value) == 3)
    ranked = sorted(options, key=lambda option: -free.options[option].log_odds)
    assert set(result.value) == set(ranked[:3])
    wrong = [{"type": "exact_k", "options": options, "k": 3}, {"type": "at_most_one", "options": options}]
    with pytest.raises(jevmlx.SchemaError) as caught:
        engine.decide({"topics": {"type": "multi", "choices": options, "set_constraints": wrong}}, TEXT)
    assert caught.value.code == "schema.set_constraints.unsatisfiable"


def test_typed_values(engine):
    import pydantic

    class Ticket(pydantic.BaseModel):
        urgent: bool

    decision = engine.decide(Ticket, TEXT)
    assert decision.typed == Ticket(urgent=decision["urgent"].value)
    assert engine.judge(TEXT, "Needs a reply").answer.value in (True, False)
    with pytest.raises(jevmlx.SchemaError) as caught:
        _ = engine.decide(Ticket, TEXT, abstain_below_margin=1e6).typed
    assert caught.value.code == "schema.input.value"


def test_a_result_is_what_its_published_schema_says(engine):
    from jsonschema import Draft202012Validator

    path = Path(__file__).parent.parent / "docs" / "decision.schema.json"
    published = json.loads(path.read_text("utf-8"))
    assert published == Decision.model_json_schema(mode="serialization")
    validator = Draft202012Validator(published)
    validator.check_schema(published)
    decision = engine.decide(TREE, TEXT, permutations=2, constraints=[])
    data = json.loads(decision.to_json())
    validator.validate(data)
    assert not validator.is_valid(data | {"values": 3})
    # And it can be read again.
    again = Decision.model_validate_json(decision.to_json())
    assert again.values == decision.values


def test_results_can_be_copied_and_sent_to_other_processes(engine):
    decision = engine.decide(TREE, TEXT)
    for again in (pickle.loads(pickle.dumps(decision)), copy.deepcopy(decision)):
        assert again == decision
        assert again.typed == decision.typed


def test_bad_constraints_are_said_before_any_context(engine):
    wrong = [{"type": "excludes", "fields": ["nowhere", "team"]}]
    with pytest.raises(jevmlx.ConstraintError):
        engine.decide_many(TREE, [TEXT, TEXT], constraints=wrong)


def test_results_cannot_be_changed(engine):
    decision = engine.decide(TREE, TEXT)
    with pytest.raises(ValueError, match="frozen"):
        decision["team"].value = "other"
    with pytest.raises(TypeError):
        decision.fields["team"] = None
    html = engine.choose(TEXT, ["<b>&", "x"])._repr_html_()
    assert "&lt;b&gt;&amp;" in html
    assert "<b>&" not in html
