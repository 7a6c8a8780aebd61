"""Golden vectors computed by the reference alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import prompt
from .jsontext import plan_hash, token_ids_sha256
from .loading import GOLDEN, load_tokenizer, revisions
from .plan import compile_plan, compile_wave
from .render import Profile, Rendered, encoder_of, render, resolve_profile
from .schema import Field, alone, fields_of

Case = dict[str, Any]
Vector = dict[str, Any]

# What the caller asked, copied from a case into the vector's input.
ASKED = ("context", "decided", "isolate", "messages", "nonce_key_hex", "schema", "scoring")


def cases(golden: Path = GOLDEN) -> list[Case]:
    """The ordered inputs of every vector."""
    loaded: list[Case] = json.loads((golden / "cases.json").read_text(encoding="utf-8"))
    return loaded


def file_name(case: Case) -> str:
    return f"{case['profile']}__{case['tokenizer_revision']}__{case['case']}.json"


def vector_bytes(vector: Vector) -> bytes:
    """The committed form: two-space indent, sorted keys, ASCII escapes, LF at the end."""
    return (json.dumps(vector, indent=2, sort_keys=True) + "\n").encode("ascii")


def parse(data: bytes) -> Any:
    """What a committed vector says; ValueError where it is not JSON."""
    return json.loads(data)


def nonce_key(case: Case) -> bytes | None:
    return bytes.fromhex(case["nonce_key_hex"]) if "nonce_key_hex" in case else None


def rendered_of(case: Case, golden: Path = GOLDEN) -> Rendered:
    """The prompt of one case."""
    tokenizer, profile, fields, plan = _prepare(case, golden)
    asked = (case.get("context"), case.get("messages"), nonce_key(case), case.get("isolate", False))
    return render(fields, plan, tokenizer, profile, *asked)


def vector_of(case: Case, golden: Path = GOLDEN) -> Vector:
    """The vector of one case."""
    tokenizer, profile, fields, plan = _prepare(case, golden)
    rendered = rendered_of(case, golden)
    digest = token_ids_sha256(rendered.ids)
    vector = {
        "case": case["case"],
        "input": {key: case[key] for key in ASKED if key in case}
        | {
            "supports_system": profile.supports_system,
            "system": _system(rendered, case),
            "template_kwargs": profile.template_kwargs,
        },
        "plan_hash": plan_hash(plan),
        "profile": profile.name,
        "prompt_sha256": digest,
        "prompt_version": rendered.version,
        "rendered_text": rendered.text,
        "token_ids_sha256": digest,
        "tokenizer_revision": revisions(golden)[case["tokenizer"]]["revision"],
    }
    if "decided" in case:
        vector["waves"] = []
        encode = encoder_of(tokenizer).encode
        while (wave := compile_wave(fields, plan, len(vector["waves"]) + 1, case["decided"], encode))["fields"]:
            version = rendered.version + prompt.DEPENDS_SUFFIX
            vector["waves"].append({"plan": wave, "plan_hash": plan_hash(wave), "prompt_version": version})
    return vector


def _prepare(case: Case, golden: Path) -> tuple[Any, Profile, list[Field], dict[str, Any]]:
    tokenizer = load_tokenizer(case["tokenizer"], golden)
    profile = resolve_profile(revisions(golden)[case["tokenizer"]]["model_id"], tokenizer)
    fields = fields_of(case["schema"])
    if case.get("isolate"):
        fields = [alone(field) for field in fields]
    return tokenizer, profile, fields, compile_plan(fields, encoder_of(tokenizer).encode, case["scoring"])


def _system(rendered: Rendered, case: Case) -> str:
    """The system block; with messages, the whole first turn, which holds it."""
    return rendered.turns[0]["content"] if "messages" in case else prompt.SYSTEM
