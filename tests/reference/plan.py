"""From fields to the compiled plan: candidates, shared ids, remainders, codebooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import codebook
from .codebook import Candidate, branch_depths, common_prefix, conflict
from .jsontext import json_text
from .schema import Field

Encode = Callable[[list[str]], "list[list[int]]"]
COUNTS = ["0", "1", "2", "3", "4"]
COUNT_ROW = "count"


def compile_plan(fields: Sequence[Field], encode: Encode, scoring: str) -> dict[str, Any]:
    """The plan with exactly the keys of the contract; ValueError where it cannot be compiled."""
    compiled = {f.name: _field(f, encode, scoring) for f in fields}
    rows = [row for entry in compiled.values() for row in _shared(entry)]
    lead_in = common_prefix(rows)
    for entry in compiled.values():
        _strip(entry, len(lead_in))
    return {"lead_in_ids": lead_in, "fields": compiled}


def compile_wave(
    fields: Sequence[Field], plan: dict[str, Any], depth: int, decided: dict[str, str], encode: Encode
) -> dict[str, Any]:
    """The rows of the fields that have ``depth`` others above them, under what those were decided to be."""
    by_name = {f.name: f for f in fields}
    compiled = {}
    for f in fields:
        above: list[Field] = []
        parent = f.depends_on
        while parent is not None:
            above.insert(0, by_name[parent])
            parent = by_name[parent].depends_on
        if len(above) != depth:
            continue
        given = [(g.name, _shown(g, plan, decided[g.name])) for g in above]
        texts = []
        for choice in f.choices:
            members = [*given, (f.name, _shown(f, plan, choice))]
            texts.append("{" + ", ".join(f"{json_text(name)}: {json_text(value)}" for name, value in members) + "}")
        compiled[f.name] = _row(f.name, encode(texts), f.choices) | {"given": [list(pair) for pair in given]}
    lead_in = common_prefix([entry["shared_ids"] for entry in compiled.values()])
    for entry in compiled.values():
        _strip_row(entry, len(lead_in))
    return {"lead_in_ids": lead_in, "fields": compiled}


def _shown(f: Field, plan: dict[str, Any], choice: str) -> str | bool:
    """A choice as candidates show it: its alias, or its JSON value."""
    entry = plan["fields"][f.name]
    if "aliases" in entry:
        return str(entry["aliases"][f.choices.index(choice)])
    return choice == "true" if f.type == "boolean" else choice


def branch_nodes(remainders: Sequence[Sequence[int]]) -> int:
    return len(branch_depths(remainders))


def _field(f: Field, encode: Encode, scoring: str) -> dict[str, Any]:
    if f.type == "multi":
        return _multi(f, encode)
    if scoring == "slots":
        return _slots(f, encode)
    values = [choice == "true" for choice in f.choices] if f.type == "boolean" else f.choices
    return _row(f.name, encode([f"{{{json_text(f.name)}: {json_text(value)}}}" for value in values]), f.choices)


def _slots(f: Field, encode: Encode) -> dict[str, Any]:
    pools = [_candidates(f.name, codes, encode) for codes in codebook.pools()]
    chosen = codebook.choose(pools, len(f.choices), codebook.exact)
    if chosen is None:
        raise ValueError(f"{f.name}: no codebook of {len(f.choices)} codes")
    aliases = [code for code, _ in chosen]
    row = _row(f.name, [list(ids) for _, ids in chosen], aliases)
    return row | {
        "alias_map": dict(zip(aliases, f.choices, strict=True)),
        "aliases": aliases,
        "choices": f.choices,
        "codebook": aliases,
        "single_branch": branch_nodes(row["remainders"]) <= 1,
    }


def _candidates(name: str, codes: list[str], encode: Encode) -> list[Candidate]:
    texts = [json_text({name: code}) for code in codes]
    return [(code, tuple(ids)) for code, ids in zip(codes, encode(texts), strict=True)]


def _multi(f: Field, encode: Encode) -> dict[str, Any]:
    codes = [f"{i:02d}" for i in range(len(f.choices))]
    rows = [
        _row(f"{f.name}/{code}", encode([json_text({f"{f.name}/{code}": answer}) for answer in "YN"]), ["Y", "N"])
        for code in codes
    ]
    counts = _row(f"{f.name}#count", encode([json_text({f"{f.name}#count": count}) for count in COUNTS]), COUNTS)
    return {
        "options": f.choices,
        "codes": codes,
        "suffix_ids_list": [row["shared_ids"] for row in rows],
        "remainders": [row["remainders"] for row in rows],
        COUNT_ROW: counts | {"codes": COUNTS},
    }


def _row(name: str, candidates: list[list[int]], labels: Sequence[str]) -> dict[str, Any]:
    """Shared ids and remainders of one row, in choice order."""
    for i, a in enumerate(candidates):
        for j in range(i + 1, len(candidates)):
            if conflict(a, candidates[j]):
                raise ValueError(
                    f"{name}: {labels[i]!r} and {labels[j]!r} are equal or one is a token prefix of the other"
                )
    shared = common_prefix(candidates)
    if not shared:
        raise ValueError(f"{name}: the candidates have no common first token")
    return {"shared_ids": shared, "remainders": [ids[len(shared) :] for ids in candidates]}


def _shared(entry: dict[str, Any]) -> list[list[int]]:
    if COUNT_ROW in entry:
        return [*entry["suffix_ids_list"], entry[COUNT_ROW]["shared_ids"]]
    return [entry["shared_ids"]]


def _strip(entry: dict[str, Any], n: int) -> None:
    if COUNT_ROW in entry:
        entry["suffix_ids_list"] = [ids[n:] for ids in entry["suffix_ids_list"]]
        _strip_row(entry[COUNT_ROW], n)
    else:
        _strip_row(entry, n)


def _strip_row(row: dict[str, Any], n: int) -> None:
    row["shared_ids"] = row["shared_ids"][n:]
