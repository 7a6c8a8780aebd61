"""The documented codes are exactly those that can be raised."""

import ast
import re
from pathlib import Path

import jevmlx
from jevmlx import _core, errors

ROOT = Path(__file__).parent.parent


def raised_in_python():
    """(class, code) of every error constructed in the package; a code may end in a part that is filled in."""
    found = set()
    for path in (ROOT / "python/jevmlx").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name.endswith("Error") and (hasattr(errors, name) or name == "RequestError"):
                    first = node.args[0]
                    if isinstance(first, ast.Constant) and isinstance(first.value, str):
                        found.add(first.value)
                    elif isinstance(first, ast.JoinedStr):
                        found.add(
                            "".join(
                                str(getattr(part, "value", "*")) if isinstance(part, ast.Constant) else "*"
                                for part in first.values
                            )
                        )
    return found


def documented():
    return set(re.findall(r"^\| `([a-z_.]+)` \|", (ROOT / "docs/errors.md").read_text("utf-8"), re.M))


def test_documentation_names_every_code_and_no_other():
    raised = raised_in_python() | {code for code, _ in _core.ERROR_CODES}
    # Codes with a filled-in part: both of a message's keys, and the modes of compilation.
    patterns = [re.compile(code.replace(".", r"\.").replace("*", "[a-z_]+")) for code in raised if "*" in code]
    plain = {code for code in raised if "*" not in code} | {"config.scoring"}
    assert plain <= documented()
    for code in documented() - plain:
        assert any(pattern.fullmatch(code) for pattern in patterns), f"{code} is documented and never raised"


def test_every_error_is_of_the_family():
    for name in dir(jevmlx):
        value = getattr(jevmlx, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, jevmlx.JevmlxError)
