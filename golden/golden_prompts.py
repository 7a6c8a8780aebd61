"""Checks or writes the golden vectors.

    python golden/golden_prompts.py --check     the product still renders every committed byte
    python golden/golden_prompts.py --write     compute the vectors of cases.json with the slow reference and commit them

``--check`` compares the committed bytes with a fresh render through the product. ``--write`` takes what is expected from the
reference under ``tests/reference``, never from the code under test, and refuses where the product disagrees. Vectors named
in ``published.sha256`` are never written. Exit status: 0 fine, 1 problems (one line each).
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

import jevmlx  # noqa: E402
from jevmlx._core import DEPENDS_SUFFIX  # noqa: E402
from jevmlx.tokenizers import TextTokenizer, adapt  # noqa: E402
from reference import vectors  # noqa: E402
from reference.loading import FAKE, content_sha256, load_tokenizer, revisions  # noqa: E402
from reference.vectors import Case, Vector, file_name, nonce_key, vector_bytes  # noqa: E402


def product_vector(case: Case, root: Path) -> Vector:
    """The vector of one case, rendered by the package."""
    tokenizer = load_tokenizer(case["tokenizer"], root)
    recorded = revisions(root)[case["tokenizer"]]
    profile = jevmlx.resolve_profile(recorded["model_id"], tokenizer)
    schema = jevmlx.Schema(case["schema"])
    isolated = case.get("isolate", False)
    plan = jevmlx.compile_plan(schema.isolated()[0] if isolated else schema, tokenizer, scoring=case["scoring"])
    key = nonce_key(case)
    rendered = jevmlx.render_prompt(
        plan,
        case.get("context"),
        tokenizer,
        profile,
        messages=case.get("messages"),
        nonce_key=key,
        isolated=isolated,
    )
    vector = {
        "case": case["case"],
        "input": {name: case[name] for name in vectors.ASKED if name in case}
        | {
            "supports_system": profile.supports_system,
            "system": _system(plan, case, profile.supports_system),
            "template_kwargs": dict(profile.template_kwargs),
        },
        "plan_hash": plan.plan_hash,
        "profile": profile.name,
        "prompt_sha256": rendered.sha256,
        "prompt_version": rendered.version,
        "rendered_text": rendered.text,
        "token_ids_sha256": jevmlx.token_ids_sha256(rendered.ids),
        "tokenizer_revision": recorded["revision"],
    }
    if "decided" in case:
        vector["waves"] = list(_waves(plan, case["decided"], adapt(tokenizer), rendered.version + DEPENDS_SUFFIX))
    return vector


def _waves(plan: jevmlx.Plan, decided: dict[str, str], tokenizer: TextTokenizer, version: str) -> Iterator[Vector]:
    """The plans of the fields that depend on others, depth by depth."""
    fields = plan.schema.fields
    indices = [field.choices.index(decided[field.name]) if field.name in decided else 0 for field in fields]
    for depth in range(1, max(plan.depths()) + 1):
        wave = plan.wave(depth, indices, tokenizer.encode_data)
        yield {"plan": wave.to_dict(), "plan_hash": wave.plan_hash, "prompt_version": version}


def _system(plan: jevmlx.Plan, case: Case, supports_system: bool) -> str:
    """The system block; with messages, the whole first turn, which holds it."""
    if "messages" in case:
        messages = [(message["role"], message["content"]) for message in case["messages"]]
        return plan.message_turns(messages, supports_system)[0][1]
    return plan.context_turns(case["context"], True)[0][1]


def published(root: Path) -> dict[str, str]:
    """File name → sha256 of the vectors that are given, not ours."""
    lines = (root / "published.sha256").read_text().splitlines()
    return {Path(name).name: digest for digest, name in (line.split() for line in lines)}


def check(root: Path) -> Iterator[str]:
    """One line per problem."""
    yield from _check_tokenizers(root)
    yield from _check_published(root)
    folder = root / "prompts"
    cases = {file_name(case): case for case in vectors.cases(root)}
    present = {path.name for path in folder.iterdir()}
    yield from (f"missing: {name}" for name in sorted(cases.keys() - present))
    yield from (f"extra: {name} has no case in cases.json" for name in sorted(present - cases.keys()))
    for name in sorted(cases.keys() & present):
        fresh, problem = _attempt(product_vector, cases[name], root)
        if fresh is None:
            yield f"not rendered: {name}: {problem}"
        elif stale := _stale(cases[name], fresh):
            yield f"stale: {name}: {stale}"
        elif (folder / name).read_bytes() != vector_bytes(fresh):
            yield f"differs: {name}: {_difference((folder / name).read_bytes(), fresh)}"


def write(root: Path) -> Iterator[str]:
    """Writes the vectors that are ours; yields one line per problem, and writes nothing where there is one."""
    folder = root / "prompts"
    given = published(root)
    cases = {file_name(case): case for case in vectors.cases(root)}
    problems = [*_check_tokenizers(root), *_check_published(root)]
    problems += [f"published: {name}: has no case in cases.json" for name in given.keys() - cases.keys()]
    expected: dict[str, bytes] = {}
    for name, case in cases.items():
        vector, problem = _attempt(vectors.vector_of, case, root)
        fresh, product_problem = _attempt(product_vector, case, root)
        if vector is None or fresh is None:
            problems.append(f"not rendered: {name}: {problem or product_problem}")
        elif stale := _stale(case, vector):
            problems.append(f"stale: {name}: {stale}")
        elif vector_bytes(vector) != vector_bytes(fresh):
            keys = _difference(vector_bytes(vector), fresh)
            problems.append(f"disagree: {name}: reference and product differ in {keys}")
        elif name in given and hashlib.sha256(vector_bytes(fresh)).hexdigest() != given[name]:
            problems.append(f"published: {name}: not what the product renders; this vector is never rewritten")
        else:
            expected[name] = vector_bytes(vector)
    if problems:
        yield from problems
        return
    for path in folder.iterdir():
        if path.name not in expected:
            path.unlink()
    for name in expected.keys() - given.keys():
        (folder / name).write_bytes(expected[name])


def _attempt(render: Callable[[Case, Path], Vector], case: Case, root: Path) -> tuple[Vector | None, str]:
    try:
        return render(case, root), ""
    except (ValueError, jevmlx.JevmlxError) as error:
        return None, f"{type(error).__name__}: {error}"


def _check_tokenizers(root: Path) -> Iterator[str]:
    for name, recorded in revisions(root).items():
        if name != FAKE and content_sha256(name, root) != recorded["content_sha256"]:
            yield f"tokenizer: {name}: its files are not the ones recorded for revision {recorded['revision']}"


def _check_published(root: Path) -> Iterator[str]:
    for name, digest in published(root).items():
        path = root / "prompts" / name
        if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            yield f"published: {name}: its bytes were changed"
        elif not path.exists():
            yield f"published: {name}: missing"


def _stale(case: Case, fresh: Vector) -> str:
    named = case["profile"], case["tokenizer_revision"]
    resolved = fresh["profile"], fresh["tokenizer_revision"]
    return "" if named == resolved else f"named for {named}, but {resolved} is resolved"


def _difference(committed: bytes, fresh: Vector) -> str:
    """The keys whose values differ; only the bytes where none does."""
    try:
        old: Any = vectors.parse(committed)
    except ValueError:
        return "not JSON"
    if not isinstance(old, dict):
        return "not an object"
    keys = sorted(key for key in old.keys() | fresh.keys() if old.get(key) != fresh.get(key))
    return ", ".join(keys) or "the layout of the file"


def main() -> int:
    parser = argparse.ArgumentParser(description="Check or write the golden vectors.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="compare the committed vectors with a fresh render")
    action.add_argument("--write", action="store_true", help="write our vectors from the reference")
    parser.add_argument("--root", type=Path, default=HERE, help="the golden folder (default: this script's)")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    problems = list((check if arguments.check else write)(root))
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{len(vectors.cases(root))} vectors {'hold' if arguments.check else 'written'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
