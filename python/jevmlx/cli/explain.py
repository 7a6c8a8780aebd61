"""``jevmlx explain``: what the model is given for a schema and a text, without loading its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .answer import context
from .shared import Asked, JsonOption, ModelOption, RevisionOption, SchemaArgument, Source

if TYPE_CHECKING:
    from .. import Schema
    from ..questions import Group, Question


def explain(
    schema: SchemaArgument,
    source: Source,
    how: Asked,
    model: ModelOption = "embedded",
    revision: RevisionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show exactly what the model is given: prompts, plans, rows and hashes. No model weights are loaded."""
    from . import schemas, show

    found = explanation(schemas.load(schema).schema, context(source), model, revision, how.options())
    if as_json:
        show.json_data(found)
    else:
        show.explanation(found)


def explanation(
    schema: Schema, text: str, model: str, revision: str | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Every prompt with its plan, rows and hashes, as plain data.

    Args:
        schema: The schema.
        text: The text to decide on.
        model: ``"embedded"``, a folder, or a hub id.
        revision: Hub revision.
        options: Of ``Engine.decide``.

    Raises:
        JevmlxError: The input is at fault, or the model's tokenizer cannot be read.
    """
    from .. import compile_plan, resolve_profile
    from ..compiled import CompiledSchema
    from ..models import load_tokenizer, resolve
    from ..models.weights import context_window, read_config
    from ..options import Options, check_schema
    from ..questions import ask_alone, ask_together
    from ..tokenizers import adapt

    checked = Options.of(options)
    check_schema(schema, checked)
    source = resolve(model, revision=revision)
    tokenizer = load_tokenizer(source)
    profile = resolve_profile(source.model_id, tokenizer)
    adapted = adapt(tokenizer)

    def compiled(one: Schema, scoring: str) -> CompiledSchema:
        return CompiledSchema.of(compile_plan(one, adapted, scoring), adapted, profile)

    ask = ask_alone if checked.isolate else ask_together
    asked = ask(compiled, schema, text, None, checked, context_window(read_config(source.path)))
    return {
        "model": {"id": source.model_id, "revision": source.revision or source.content_hash},
        "profile": {
            "name": profile.name,
            "template_kwargs": dict(profile.template_kwargs),
            "supports_system": profile.supports_system,
            "pinned_date": profile.pinned_date,
        },
        "prompts": [_prompt(group, question) for group in asked.groups for question in group.questions],
    }


def _prompt(group: Group, question: Question) -> dict[str, Any]:
    prompt, plan = question.prompt, question.compiled.plan
    data = plan.to_dict()
    return {
        "role": question.role,
        "fields": [name for name, _ in group.fields],
        "version": prompt.version,
        "text": prompt.text,
        "ids": prompt.ids,
        "rows": rows(data),
        "plan": data,
        "hashes": {"prompt_sha256": prompt.sha256, "plan_hash": plan.plan_hash},
    }


def rows(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a plan as plain data, in the order of the fields: tokens, branch nodes and candidates of each."""
    found = []
    lead_in = len(plan["lead_in_ids"])

    def add(field: str, row: str, shared: list[int], remainders: list[list[int]], names: list[str]) -> None:
        found.append(
            {
                "field": field,
                "row": row,
                "tokens": lead_in + len(shared),
                "branch_nodes": branch_nodes(remainders),
                "candidates": ", ".join(names),
            }
        )

    for name, spec in plan["fields"].items():
        if "options" in spec:
            labels = [f"{code} = {option}" for code, option in zip(spec["codes"], spec["options"], strict=True)]
            for label, shared, remainders in zip(labels, spec["suffix_ids_list"], spec["remainders"], strict=True):
                add(name, label, shared, remainders, ["Y", "N"])
            add(name, "count", spec["count"]["shared_ids"], spec["count"]["remainders"], spec["count"]["codes"])
        else:
            names = [f"{a} = {c}" for a, c in spec["alias_map"].items()] if "alias_map" in spec else []
            add(name, "", spec["shared_ids"], spec["remainders"], names or [f"{len(spec['remainders'])} choices"])
    return found


def branch_nodes(remainders: list[list[int]]) -> int:
    """How often the model chooses between several tokens on the way to the answers."""
    following: dict[tuple[int, ...], set[int]] = {}
    for remainder in remainders:
        for index, token in enumerate(remainder):
            following.setdefault(tuple(remainder[:index]), set()).add(token)
    return sum(len(tokens) > 1 for tokens in following.values())
