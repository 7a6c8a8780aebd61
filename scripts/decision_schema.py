"""Writes the JSON Schema of a decision to docs/decision.schema.json; a test compares the two."""

import json
from pathlib import Path

from jevmlx.results import Decision

target = Path(__file__).parent.parent / "docs" / "decision.schema.json"
target.write_text(
    json.dumps(Decision.model_json_schema(mode="serialization"), indent=2, ensure_ascii=False) + "\n", "utf-8"
)
