"""One schema in every form that there is, each made by hand."""

import dataclasses
import enum
import json
import re
import typing
from typing import Annotated, Literal, Optional

import pydantic
import typing_extensions
from hypothesis import strategies as st

import jevmlx

WORDS = st.text(st.sampled_from("abcdefgh XY'\"\\é😀"), min_size=1, max_size=6).filter(lambda text: text.strip())
NUMBERS = st.integers(-20, 20).map(str)
OWN_KEYS = ("choice_descriptions", "ordered", "depends_on", "set_constraints")


@st.composite
def specs(draw, parents):
    """A field in the library's own form; *parents* are the fields it may depend on."""
    kind = draw(st.sampled_from(["boolean", "enum", "ordered", "nullable", "multi"]))
    spec = {"type": kind if kind in ("boolean", "multi") else "enum"}
    if kind != "boolean":
        least = 2 if kind == "multi" else 1
        words = draw(st.sampled_from([WORDS, NUMBERS]))
        spec["choices"] = draw(st.lists(words, min_size=least, max_size=5, unique=True))
        glossed = draw(st.lists(st.sampled_from(spec["choices"]), unique=True))
        if glossed:
            spec["choice_descriptions"] = {choice: f"means {choice}" for choice in glossed}
    if kind == "ordered":
        spec["ordered"] = True
    if kind == "nullable":
        spec["allow_none_of_above"] = True
    if kind == "multi" and draw(st.booleans()):
        spec["set_constraints"] = [{"type": "at_most_k", "options": spec["choices"], "k": 1}]
    if kind != "multi" and parents and draw(st.booleans()):
        spec["depends_on"] = draw(st.sampled_from(parents))
    if draw(st.booleans()):
        spec["description"] = draw(WORDS)
    return spec


@st.composite
def library_forms(draw, names=None):
    """A schema in the library's own form; by default names are identifiers, as classes need them."""
    fields = {}
    for name in names or [f"field_{index}" for index in range(draw(st.integers(1, 4)))]:
        fields[name] = draw(specs([other for other, spec in fields.items() if spec["type"] != "multi"]))
    return fields


def listed(choices):
    """Choices as the caller's form has them: numbers where all of them are."""
    return [int(choice) for choice in choices] if all(re.fullmatch(r"-?\d+", choice) for choice in choices) else choices


def annotation(spec, items, *, extra=True):
    """A field as a Python type; choices as a Literal or as an Enum, or as a Literal of an Enum's members."""
    keys = {key: spec[key] for key in OWN_KEYS if key in spec} if extra else {}
    field = pydantic.Field(description=spec.get("description"), json_schema_extra=keys or None)
    if spec["type"] == "boolean":
        return Annotated[bool, field]
    one = enum.Enum("Choice", {f"m{i}": choice for i, choice in enumerate(listed(spec["choices"]))})
    if items == "literal":
        one = Literal[tuple(listed(spec["choices"]))]
    if items == "members":
        one = Literal[tuple(one)]
    if spec["type"] == "multi":
        return Annotated[list[one], field]
    return Annotated[Optional[one] if spec.get("allow_none_of_above") else one, field]  # noqa: UP045 - built at run time


def json_schema(fields):
    """The same schema as JSON Schema, by hand."""
    properties = {}
    definitions = {}
    for index, (name, spec) in enumerate(fields.items()):
        own = {key: spec[key] for key in (*OWN_KEYS, "description") if key in spec}
        if spec["type"] == "boolean":
            properties[name] = {"type": "boolean", **own}
        elif spec["type"] == "multi":
            definitions[f"items/{index}"] = {"enum": listed(spec["choices"])}
            properties[name] = {"type": "array", "items": {"$ref": f"#/$defs/items~1{index}"}, **own}
        elif spec.get("allow_none_of_above"):
            properties[name] = {"anyOf": [{"enum": listed(spec["choices"])}, {"type": "null"}], **own}
        else:
            properties[name] = {"oneOf": [{"const": choice} for choice in listed(spec["choices"])], **own}
    return {"type": "object", "properties": properties, "$defs": definitions}


def data_class(fields, items):
    """A dataclass with this library's keys in the fields' metadata."""
    made = []
    for name, spec in fields.items():
        metadata = {key: spec[key] for key in OWN_KEYS if key in spec}
        made.append((name, annotation(spec, items, extra=False), dataclasses.field(metadata=metadata)))
    return dataclasses.make_dataclass("Data", made)


def forms(fields, items, folder):
    types = {name: annotation(spec, items) for name, spec in fields.items()}
    file = folder / "schema.json"
    file.write_text(json.dumps(fields, ensure_ascii=False), "utf-8")
    strict = pydantic.ConfigDict(strict=True)
    return {
        "mapping": fields,
        "text": json.dumps(fields),
        "file": file,
        "schema": jevmlx.Schema(fields),
        "JSON Schema": json_schema(fields),
        "JSON Schema text": json.dumps(json_schema(fields)),
        "pydantic": pydantic.create_model("Model", **{name: (one, ...) for name, one in types.items()}),
        "strict": pydantic.create_model(
            "Strict", __config__=strict, **{name: (one, ...) for name, one in types.items()}
        ),
        "dataclass": data_class(fields, items),
        "TypedDict": typing.TypedDict("Typed", types),
        "typing_extensions": typing_extensions.TypedDict("Typed", types),
    }


def prop(spec):
    """A JSON Schema of one field."""
    return {"type": "object", "properties": {"field": spec}}


def refer(**definitions):
    """A field that refers to the first of these definitions."""
    first = next(iter(definitions))
    return prop({"$ref": f"#/$defs/{first}"}) | {"$defs": definitions}
