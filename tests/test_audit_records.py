"""Decisions in the audit log: what is stored of them, what is not, and that they come out the same again."""

import hashlib
import json

import pytest
from typer.testing import CliRunner

import jevmlx
from audit_logs import filled, lines_of
from jevmlx import AuditError
from jevmlx.audit import AuditLog, replay
from jevmlx.cli.audit import audit as commands
from jevmlx.results import DecisionError

SCHEMA = {"urgent": {"type": "boolean"}, "team": {"choices": ["billing", "sales"]}}
ERROR = DecisionError(
    index=3, code="prompt.messages.key", message="a message has tool_calls", path="messages[0].tool_calls"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


# Records


def test_a_record_holds_question_options_and_result(engine, path):
    options = {
        "scoring": "slots",
        "nonce_key": b"a very secret key",
        "temperature": 1.0,
        "permutations": 1,
        "policy": {"team": jevmlx.Threshold(min_probability=0.6, otherwise="review")},
    }
    decision = engine.decide(SCHEMA, "My card", **options)
    with AuditLog(path) as log:
        log.record(SCHEMA, "My card", None, options, decision)
        log.record(json.dumps(SCHEMA), None, [{"role": "user", "content": "x"}], {}, ERROR)
    assert b"secret" not in path.read_bytes()
    made, failed = lines_of(path)
    assert made["kind"] == "decision"
    assert made["context"] == "My card"
    assert list(made["schema"]) == list(SCHEMA)
    assert made["options"] == {
        "scoring": "slots",
        "temperature": 1.0,
        "policy": {"team": {"min_probability": 0.6, "min_margin": None, "otherwise": "review"}},
        "nonce_keyed": True,
    }
    assert made["result"] == json.loads(decision.to_json())
    assert failed["kind"] == "error"
    assert failed["messages"] == [{"role": "user", "content": "x"}]
    assert failed["error"] == ERROR.to_dict()["error"]
    with AuditLog(path) as log, pytest.raises(jevmlx.ConfigError):
        log.record(SCHEMA, "x", None, {"scorign": "labels"}, decision)


PRIVATE = "Ms Ünlü of 7 Rue Lepic"


def test_a_redacted_log_holds_nothing_of_the_text(engine, path):
    messages = [{"role": "user", "content": PRIVATE}]
    quoting = DecisionError(index=0, code="prompt.messages.key", message=PRIVATE, path=f"messages[0].{PRIVATE}")
    raw = PRIVATE.encode("latin-1")
    with AuditLog(path, redact=True) as log:
        log.record(SCHEMA, PRIVATE, None, {}, engine.decide(SCHEMA, PRIVATE))
        log.record(SCHEMA, None, messages, {}, engine.decide(SCHEMA, messages=messages))
        log.record(SCHEMA, PRIVATE, None, {}, quoting)
        log.record(SCHEMA, raw, None, {}, quoting)
        log.record(SCHEMA, PRIVATE.encode(), None, {}, quoting)
    data = path.read_bytes()
    for word in PRIVATE.split():
        if len(word) > 2:
            assert word.encode() not in data
            assert json.dumps(word)[1:-1].encode() not in data
            assert word.encode("latin-1") not in data
    entries = lines_of(path)
    digest = hashlib.sha256(PRIVATE.encode()).hexdigest()
    assert [entry.get("context_sha256") for entry in entries] == [
        digest,
        None,
        digest,
        hashlib.sha256(raw).hexdigest(),
        digest,
    ]
    listed = json.dumps(messages, ensure_ascii=False, separators=(",", ":")).encode()
    assert entries[1]["messages_sha256"] == hashlib.sha256(listed).hexdigest()
    assert entries[2]["error"] == {"index": 0, "code": "prompt.messages.key"}


def test_bytes_that_are_no_text_are_stored_as_their_hash(path):
    with AuditLog(path) as log:
        log.record(SCHEMA, b"\xff\xfe", None, {}, ERROR)
    assert lines_of(path)[0]["context_sha256"] == hashlib.sha256(b"\xff\xfe").hexdigest()


# Replay


def test_recorded_decisions_come_out_the_same_again(engine, path):
    schema = {**SCHEMA, "topics": {"type": "multi", "choices": ["refund", "outage"]}}
    with AuditLog(path) as log:
        for options in ({}, {"scoring": "slots", "temperature": 0.7, "legal_mass": False}):
            log.record(
                schema, "My card was charged", None, options, engine.decide(schema, "My card was charged", **options)
            )
        messages = [{"role": "user", "content": "hello"}]
        log.record(SCHEMA, None, messages, {"isolate": False}, engine.decide(SCHEMA, messages=messages))
        log.append({"kind": "note"})
        log.record(SCHEMA, 5, None, {}, ERROR)
    found = list(replay(path, engine))
    assert [(item.seq, item.status, item.reason) for item in found] == [(n, "same", None) for n in (1, 2, 3)]


def test_every_bit_that_differs_is_named_and_the_model_first(engine, path):
    decision = engine.decide(SCHEMA, "My card")
    data = json.loads(decision.to_json())
    score = data["fields"]["team"]["log_scores"]["sales"]
    data["fields"]["team"]["log_scores"]["sales"] = score + abs(score) * 2**-52
    entry = {"kind": "decision", "schema": SCHEMA, "context": "My card", "options": {}, "result": data}
    other = json.loads(json.dumps(entry))
    other["result"]["provenance"]["model_revision"] = "older"
    with AuditLog(path) as log:
        log.append(entry)
        log.append(other)
        log.append({**entry, "options": {"scoring": "nonsense"}})
        log.append({**entry, "schema": {}})
    one, two, three, four = replay(path, engine)
    assert (one.status, [difference.path for difference in one.differences]) == (
        "different",
        ["fields.team.log_scores.sales"],
    )
    assert json.loads(json.dumps(one.to_dict()))["differences"][0]["replayed"] == score
    assert [difference.path for difference in two.differences] == [
        "provenance.model_revision",
        "fields.team.log_scores.sales",
    ]
    assert two.reason.startswith("another model revision: recorded older")
    assert "config.scoring" in three.reason
    assert "schema.empty" in four.reason


def test_what_cannot_be_replayed_says_why(engine, path):
    decision = engine.decide(SCHEMA, "x")
    (merged, _) = engine.decide_many(SCHEMA, ["x", "y"], merge=True)
    with AuditLog(path, redact=True) as log:
        log.record(SCHEMA, "x", None, {}, decision)
    with AuditLog(path) as log:
        log.record(SCHEMA, "x", None, {"nonce_key": b"k"}, decision)
        log.record(SCHEMA, "x", None, {}, merged)
        stored = {"kind": "decision", "schema": SCHEMA, "context": "x", "result": json.loads(decision.to_json())}
        log.append({**stored, "options": {"calibration_sha256": "ab"}})
        log.append({**stored, "options": {"calibration": "/etc/hostname"}})
        log.append({"kind": "decision"})
    found = list(replay(path, engine))
    assert {item.status for item in found} == {"skipped"}
    for item, word in zip(
        found, ("hash", "nonce key", "shared", "calibration", "does not know", "record()"), strict=True
    ):
        assert word in item.reason


def test_a_broken_log_is_replayed_up_to_there(engine, path):
    decision = engine.decide(SCHEMA, "x")
    with AuditLog(path) as log:
        for _ in range(3):
            log.record(SCHEMA, "x", None, {}, decision)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b'"decision"', b'"decisiom"') + lines[2])
    replayed = replay(path, engine)
    assert next(replayed).status == "same"
    with pytest.raises(AuditError) as caught:
        next(replayed)
    assert caught.value.code == "audit.broken"
    assert "line 2" in caught.value.message


# The command line


def test_verify_prints_a_line_or_names_the_broken_one(path):
    hashes = filled(path, 3)
    done = CliRunner().invoke(commands, ["verify", str(path), "--expect", hashes[1]])
    assert (done.exit_code, done.output) == (0, f"ok: 3 line(s) in 1 file(s), last hash {hashes[-1]}\n")
    path.write_bytes(path.read_bytes().replace(b'"n":1', b'"n":5'))
    done = CliRunner().invoke(commands, ["verify", str(path)])
    assert done.exit_code == 1
    assert done.output.startswith(f"broken: {path}, line 2: it was changed")
    done = CliRunner().invoke(commands, ["verify", str(path), "--json"])
    assert done.exit_code == 1
    data = json.loads(done.output)
    assert (data["ok"], data["lines"], data["first_broken"]["line"]) == (False, 1, 2)


def test_replay_counts_and_names_differences(engine, path):
    decision = engine.decide(SCHEMA, "x")
    changed = json.loads(decision.to_json())
    changed["values"]["team"] = "nobody"
    with AuditLog(path) as log:
        log.record(SCHEMA, "x", None, {}, decision)
        log.append({"kind": "decision", "schema": SCHEMA, "context": "x", "options": {}, "result": changed})
    done = CliRunner().invoke(commands, ["replay", str(path)])
    assert done.exit_code == 1
    assert "values.team: nobody → " in done.output
    assert done.output.endswith("1 the same, 1 different, 0 not replayed\n")
