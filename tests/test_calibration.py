"""Fits recover what is known, figures follow their definitions, and a calibration holds for what it was made for only."""

import json
import math
import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jevmlx
from jevmlx.calibration import (
    Calibration,
    Example,
    FieldObservations,
    FieldTruth,
    Made,
    Observations,
    calibrate,
    fit,
    read_examples,
    reliability_figure,
    split,
)
from jevmlx.calibration.data import checked_examples
from jevmlx.calibration.fit import choice_nll, fit_line, fit_temperature
from jevmlx.calibration.metrics import BINS, choice_outcomes, metrics, option_outcomes
from reference import calibration as reference

MADE = Made(
    model_id="m",
    model_revision="r",
    prompt_version="v",
    scoring="labels",
    prior_correction=False,
    permutations=1,
    rotate_scales=False,
)


def choices(rng, n, width, temperature):
    """Log scores whose truth is drawn at a temperature: what a fit must find."""
    scores = np.log(rng.dirichlet(np.ones(width), n))
    p = np.exp(scores / temperature)
    p /= p.sum(axis=1, keepdims=True)
    return scores, np.array([rng.choice(width, p=row) for row in p])


def observed(rng, temperatures, n):
    """Observations with a known temperature per kind of field."""
    fields = []
    for kind, temperature in temperatures.items():
        scores, truth = choices(rng, n, 2 if kind == "boolean" else 4, temperature)
        fields.append(FieldObservations(FieldTruth(kind, kind, np.arange(n), truth), scores))
    return Observations(MADE, tuple(fields))


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_a_known_temperature_is_found(temperature):
    scores, truth = choices(np.random.default_rng(1), 6000, 4, temperature)
    found, at_bound = fit_temperature(scores, truth)
    assert found == pytest.approx(temperature, rel=0.1)
    assert not at_bound


def test_a_known_line_is_found():
    rng = np.random.default_rng(2)
    log_odds = rng.normal(0, 2, 8000)
    applies = (rng.random(8000) < 1 / (1 + np.exp(-(0.5 * log_odds - 0.7)))).astype(np.int64)
    line, at_bound = fit_line(log_odds, applies)
    assert (line.a, line.b) == (pytest.approx(0.5, rel=0.1), pytest.approx(-0.7, abs=0.1))
    assert not at_bound


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 30))
def test_no_fit_is_worse_than_none_on_what_it_was_fitted_on(seed, n):
    rng = np.random.default_rng(seed)
    scores, truth = np.log(rng.dirichlet(np.ones(3), n)), rng.integers(0, 3, n)
    temperature, _ = fit_temperature(scores, truth)
    assert choice_nll(scores, truth, temperature) <= choice_nll(scores, truth, 1.0) + 1e-9


def test_separable_answers_stop_at_the_bound():
    scores = np.log([[0.9, 0.1]] * 30)
    found, at_bound = fit_temperature(scores, np.zeros(30, np.int64))
    assert at_bound
    assert found < 1


def test_one_temperature_for_all_kinds_sharpens_some_too_much():
    """Each kind has its own: the fit of all together is worse for both."""
    known = {"boolean": 0.5, "enum": 4.0}
    rng = np.random.default_rng(3)
    fitted, held = observed(rng, known, 2000), observed(rng, known, 2000)
    found = fit(fitted, held, data_sha256="0" * 64)
    for kind, temperature in known.items():
        assert found.temperature(kind) == pytest.approx(temperature, rel=0.2)
    padded = np.pad(fitted.fields[0].scores, ((0, 0), (0, 2)), constant_values=-np.inf)
    scores = np.concatenate([padded, fitted.fields[1].scores])
    truth = np.concatenate([field.labels.truth for field in fitted.fields])
    shared, _ = fit_temperature(scores, truth)
    for field in held.fields:
        own = found.temperature(field.labels.kind)
        assert choice_nll(field.scores, field.labels.truth, own) < choice_nll(field.scores, field.labels.truth, shared)
        report = found.reports[field.labels.kind]
        assert report.after.nll.value < report.before.nll.value
        assert report.after.ece_width.value < report.before.ece_width.value


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), width=st.integers(1, 5), temperature=st.floats(0.3, 4))
def test_figures_of_choices_follow_their_definitions(seed, n, width, temperature):
    rng = np.random.default_rng(seed)
    scores, truth = np.log(rng.dirichlet(np.ones(width), n)), rng.integers(0, width, n)
    found = metrics(choice_outcomes(np.arange(n), scores, truth, temperature), resamples=20)
    rows = [reference.softmax(row, temperature) for row in scores.tolist()]
    right = [p.index(max(p)) == t for p, t in zip(rows, truth.tolist(), strict=True)]
    stated = [max(p) for p in rows]
    assert found.nll.value == pytest.approx(reference.nll(rows, truth.tolist()))
    assert found.brier.value == pytest.approx(reference.brier(rows, truth.tolist()))
    assert found.accuracy.value == pytest.approx(reference.accuracy(rows, truth.tolist()))
    assert found.ece_width.value == pytest.approx(reference.ece_width(stated, right, BINS), abs=1e-9)
    for interval in (found.accuracy, found.nll, found.brier, found.ece_width, found.ece_mass):
        assert interval.low <= interval.high


@settings(max_examples=80, deadline=None)
@given(log_odds=st.lists(st.integers(-8, 8), min_size=1, max_size=40), seed=st.integers(0, 10**6))
def test_figures_of_options_follow_their_definitions(log_odds, seed):
    applies = np.random.default_rng(seed).integers(0, 2, len(log_odds))
    found = metrics(option_outcomes(np.arange(len(log_odds)), np.array(log_odds, float), applies), resamples=20)
    p = [1 / (1 + math.exp(-x)) for x in log_odds]
    pairs = list(zip(p, applies.tolist(), strict=True))
    assert found.brier.value == pytest.approx(sum((q - a) ** 2 for q, a in pairs) / len(p))
    assert found.nll.value == pytest.approx(sum(-math.log(q if a else 1 - q) for q, a in pairs) / len(p))
    assert found.ece_width.value == pytest.approx(reference.ece_width(p, applies.tolist(), BINS), abs=1e-9)
    assert found.ece_mass.value == pytest.approx(reference.ece_mass(p, applies.tolist(), BINS), abs=1e-9)


def test_intervals_are_the_same_every_time_and_hold_the_value():
    scores, truth = choices(np.random.default_rng(5), 300, 3, 2.0)
    one, other = (metrics(choice_outcomes(np.arange(300), scores, truth, 1.0)) for _ in range(2))
    assert one == other
    assert one.nll.low < one.nll.value < one.nll.high


WORDS = ("refund", "order", "late", "parcel", "invoice", "login", "password", "phone", "broken", "delivery", "price")


def test_near_duplicates_are_never_parted():
    draw = random.Random(4)
    texts = [" ".join(draw.choices(WORDS, k=12)) for _ in range(60)]
    examples = [
        Example(form(text), {"x": True})
        for text in texts
        for form in (str, str.upper, lambda t: t + "!!", lambda t: f"{t} 4711", lambda t: t.replace(" ", "  "))
    ]
    draw.shuffle(examples)
    fitted, held = split(examples, 0.4)
    sides = {text: set() for text in texts}
    for side, part in enumerate((fitted, held)):
        for example in part:
            plain = " ".join(example.context.lower().replace("!!", "").replace("4711", "").split())
            sides[plain].add(side)
    assert all(len(side) == 1 for side in sides.values())
    assert 0.15 < len(held) / len(examples) < 0.65
    assert split(list(reversed(examples)), 0.4) == (fitted, held)


def made(**changes):
    values = {"boolean": 2.0}
    fitted, held = (observed(np.random.default_rng(seed), values, 200) for seed in (6, 7))
    found = fit(fitted, held, data_sha256="0" * 64)
    return found.model_copy(update=changes)


def test_a_bundle_comes_back_as_it_was(tmp_path):
    path = tmp_path / "calibration.json"
    found = made()
    found.save(path)
    again = Calibration.load(path)
    assert again == found
    assert again.sha256 == found.sha256
    assert [entry.name for entry in tmp_path.iterdir()] == ["calibration.json"]


def test_a_bundle_goes_to_other_processes():
    found = made()
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert again.temperature("boolean") == found.temperature("boolean")


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".png"])
def test_a_figure_is_the_same_every_time(tmp_path, suffix):
    first, second = (tmp_path / f"{name}{suffix}" for name in "ab")
    reliability_figure(made(), first)
    reliability_figure(made(), second)
    assert first.read_bytes() == second.read_bytes()


def test_a_figure_needs_its_library(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(jevmlx.CalibrationError) as caught:
        reliability_figure(made(), tmp_path / "a.svg")
    assert caught.value.code == "calibration.figures"
    assert "jevmlx[figures]" in caught.value.message


@pytest.mark.parametrize(
    ("kind", "truth", "scores"),
    [
        ("enum", [0, 1], [[0.0, 1.0], [0.0, math.nan]]),
        ("enum", [0, 1], [[0.0, 1.0], [0.0, -math.inf]]),
        ("enum", [0, 2], [[0.0, 1.0], [0.0, 1.0]]),
        ("enum", [-1, 0], [[0.0, 1.0], [0.0, 1.0]]),
        ("enum", [0], [[0.0, 1.0], [0.0, 1.0]]),
        ("enum", [0], [0.0]),
        ("multi", [[0, 2]], [[0.0, 1.0]]),
        ("multi", [0], [[0.0, 1.0]]),
    ],
)
def test_observations_that_do_not_fit_are_refused(kind, truth, scores):
    labels = FieldTruth("field", kind, np.arange(len(truth)), np.array(truth))
    with pytest.raises(jevmlx.CalibrationError) as caught:
        FieldObservations(labels, np.array(scores))
    assert (caught.value.code, caught.value.path) == ("calibration.observations", "field")


def spoil(data, **changes):
    return json.dumps(data | changes)


@pytest.mark.parametrize(
    "text",
    [
        lambda data: spoil(data, format="jevmlx-calibration-9"),
        lambda data: spoil(data, temperatures={"boolean": 0}),
        lambda data: spoil(data, temperatures={"boolean": float("nan")}),
        lambda data: spoil(data, temperatures={"other": 1.0}),
        lambda data: spoil(data, multi={"a": -1.0, "b": 0.0}),
        lambda data: spoil(data, extra=1),
        lambda data: json.dumps(data)[:-9],
        lambda data: "[]",
    ],
)
def test_a_damaged_bundle_is_refused(tmp_path, text):
    path = tmp_path / "calibration.json"
    path.write_text(text(json.loads(made().model_dump_json())))
    with pytest.raises(jevmlx.CalibrationError) as caught:
        Calibration.load(path)
    assert caught.value.code == "calibration.file"


def test_a_bundle_that_is_not_there(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(jevmlx.CalibrationError) as caught:
            Calibration.load(path)
        assert caught.value.code == "calibration.file"
    with pytest.raises(jevmlx.CalibrationError) as caught:
        made().save(tmp_path / "no" / "such.json")
    assert caught.value.code == "calibration.file"


@pytest.mark.parametrize("name", list(Made.model_fields))
def test_every_difference_in_use_is_refused(name):
    found = made()
    use = found.made_for.model_dump()
    found.check(**use)
    use[name] = {"permutations": 2}.get(name, not use[name] if isinstance(use[name], bool) else "slots")
    with pytest.raises(jevmlx.CalibrationError) as caught:
        found.check(**use)
    assert caught.value.code == "calibration.mismatch"
    assert name in caught.value.message


SCHEMA = jevmlx.Schema(
    {
        "urgent": {"type": "boolean"},
        "team": {"choices": ["billing", "sales"], "allow_none_of_above": True},
        "topics": {"type": "multi", "choices": ["a", "b"]},
    }
)


@pytest.mark.parametrize(
    ("line", "code", "path"),
    [
        ("not JSON", "calibration.data.json", "line 1"),
        ('{"context": "x", "context": "y", "labels": {}}', "calibration.data.json", "line 1"),
        ('{"labels": {"urgent": true}}', "calibration.data.key", "line 1"),
        ('{"context": 3, "labels": {"urgent": true}}', "calibration.data.context", "line 1.context"),
        ('{"context": "x", "labels": {}}', "calibration.data.labels", "line 1.labels"),
        ('{"context": "x", "labels": {"other": true}}', "calibration.data.field", "line 1.labels"),
        ('{"context": "x", "labels": {"urgent": "yes"}}', "calibration.data.value", "line 1.labels.urgent"),
        ('{"context": "x", "labels": {"urgent": null}}', "calibration.data.value", "line 1.labels.urgent"),
        ('{"context": "x", "labels": {"team": "hr"}}', "calibration.data.value", "line 1.labels.team"),
        ('{"context": "x", "labels": {"topics": "a"}}', "calibration.data.value", "line 1.labels.topics"),
        ('{"context": "x", "labels": {"topics": ["a", "a"]}}', "calibration.data.value", "line 1.labels.topics"),
        ("", "calibration.data.empty", "data"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, code, path):
    file = tmp_path / "labels.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(jevmlx.CalibrationError) as caught:
        read_examples(file, SCHEMA)
    assert (caught.value.code, caught.value.path) == (code, path)


def test_good_lines_are_read(tmp_path):
    file = tmp_path / "labels.jsonl"
    file.write_text(
        '{"context": "x", "labels": {"team": null, "topics": []}, "id": 7}\n\n{"context": "", "labels": {"urgent": false}}'
    )
    first, second = read_examples(file, SCHEMA)
    assert dict(first.labels) == {"team": None, "topics": ()}
    assert (second.line, dict(second.labels)) == (3, {"urgent": False})


def labelled():
    draw = random.Random(8)
    for index in range(60):
        text = " ".join(draw.choices(WORDS, k=8))
        yield {"context": text, "labels": {"urgent": index % 2 == 0, "topics": ["refund"] if "refund" in text else []}}


def test_a_calibration_from_a_real_model(engine, tmp_path):
    schema = {"urgent": {"type": "boolean"}, "topics": {"type": "multi", "choices": ["refund", "price"]}}
    told = []
    found = calibrate(engine, schema, labelled(), held_out=0.4, progress=lambda *at: told.append(at))
    assert told[-1] == (60, 60)
    assert set(found.reports) == {"boolean", "multi"}
    decision = engine.decide(schema, "My parcel is late.", calibration=found)
    plain = engine.decide(schema, "My parcel is late.")
    assert decision.provenance.calibration_sha256 == found.sha256
    assert decision.provenance.temperature is None
    scores = plain["urgent"].log_scores
    assert decision["urgent"].log_scores == scores
    sharpened = [score / found.temperature("boolean") for score in scores.values()]
    assert list(decision["urgent"].probabilities.values()) == pytest.approx(reference.softmax(sharpened, 1.0))
    for option, result in decision["topics"].options.items():
        assert result.log_odds == pytest.approx(found.log_odds(plain["topics"].options[option].log_odds))
        assert result.selected is (result.log_odds > 0) or decision["topics"].count.applied
    # The same through a file, and through every face that takes one.
    path = tmp_path / "calibration.json"
    found.save(path)
    assert engine.decide(schema, "My parcel is late.", calibration=path).fields == decision.fields
    (streamed,) = engine.decide_many(schema, ["My parcel is late."], calibration=str(path))
    assert streamed.fields == decision.fields
    for change in ({"scoring": "slots"}, {"prior_correction": True}, {"permutations": 2}, {"isolate": True}):
        with pytest.raises(jevmlx.CalibrationError) as caught:
            engine.decide(schema, "x", calibration=found, **change)
        assert caught.value.code == "calibration.mismatch"
    figure = tmp_path / "reliability.svg"
    reliability_figure(found, figure)
    assert figure.read_text().startswith("<?xml")
    with pytest.raises(jevmlx.CalibrationError) as caught:
        reliability_figure(found, tmp_path / "reliability.txt")
    assert caught.value.code == "calibration.figures"


@pytest.mark.parametrize(
    ("data", "options", "code"),
    [
        ([{"context": "x", "labels": {"urgent": True}}] * 3, {}, "calibration.split"),
        (
            [{"context": w, "labels": {"urgent": i % 2 == 0}} for i, w in enumerate(WORDS)],
            {"held_out": 0.5},
            "calibration.few",
        ),
        (labelled(), {"temperature": 1.0}, "calibration.option"),
        (labelled(), {"held_out": 1.5}, "calibration.split"),
        (7, {}, "calibration.data.type"),
    ],
)
def test_what_cannot_be_fitted_is_refused(engine, data, options, code):
    schema = {"urgent": {"type": "boolean"}, "topics": {"type": "multi", "choices": ["refund", "price"]}}
    with pytest.raises(jevmlx.CalibrationError) as caught:
        calibrate(engine, schema, data, **options)
    assert caught.value.code == code


def test_labels_that_are_all_the_same_are_refused():
    examples = [
        {"context": f"{a} {b} {c}", "labels": {"urgent": True}} for a in WORDS for b in WORDS[:5] for c in "xyz"
    ]
    checked = checked_examples(((item, 0) for item in examples), SCHEMA)
    with pytest.raises(jevmlx.CalibrationError) as caught:
        calibrate(None, SCHEMA, checked)
    assert caught.value.code == "calibration.one_class"
