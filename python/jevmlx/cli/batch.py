"""Deciding a JSON Lines file into a JSON Lines file, line by line, so that an interrupted run can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .. import Engine, JevmlxError, Schema


def run(
    engine: Engine, schema: Schema, source: Path, target: Path, *, resume: bool, options: dict[str, Any]
) -> tuple[int, int]:
    """Decides every line of ``source`` that ``target`` does not hold yet.

    A line of ``source`` is ``{"context": …}`` or ``{"messages": …}``; other keys are ignored. A line of ``target`` is a decision
    or an error record, with the line's number and the hash of what was asked.

    Args:
        engine: The engine.
        schema: The schema.
        source: JSON Lines to decide.
        target: JSON Lines to write.
        resume: Whether to go on where ``target`` ends.
        options: For ``Engine.decide_many``.

    Returns:
        How many lines were decided, and how many of them are error records.

    Raises:
        JevmlxError: A file cannot be used, or ``target`` belongs to another input.
    """
    try:
        lines = source.read_bytes().splitlines()
        done = _resume_at(target, lines) if resume else 0
        with target.open("r+b" if resume and target.exists() else "wb") as out:
            out.seek(0, 2)
            return _decide(engine, schema, lines[done:], done, out, options)
    except OSError as error:
        raise JevmlxError("input.file", f"{error.filename} cannot be used: {error.strerror}", str(source)) from error


def _decide(
    engine: Engine, schema: Schema, lines: list[bytes], first: int, out: BinaryIO, options: dict[str, Any]
) -> tuple[int, int]:
    columns = (TextColumn("deciding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    failed = 0
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("", total=first + len(lines), completed=first)
        results = engine.decide_many(schema, _contexts(lines), **options)
        for number, (line, result) in enumerate(zip(lines, results, strict=True), first):
            record = {"line": number, "input_sha256": _hash(line), **result.to_dict()}
            failed += "error" in record
            out.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
            # A line is whole or not there: what is written is worth keeping if the next one is interrupted.
            out.flush()
            progress.advance(task)
    return len(lines), failed


def _contexts(lines: list[bytes]) -> Iterator[Any]:
    """What each line asks about; a line that cannot be read is passed on as what makes an error record of it."""
    for line in lines:
        try:
            record = json.loads(line)
        except (UnicodeDecodeError, json.JSONDecodeError):
            # Not UTF-8 stays bytes, which says so; what is not JSON is no context either.
            yield line if _undecodable(line) else None
            continue
        if not isinstance(record, dict):
            yield None
        else:
            yield record.get("context", record.get("messages"))


def _undecodable(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _resume_at(target: Path, lines: list[bytes]) -> int:
    """How many lines ``target`` holds; a last line that was cut is dropped."""
    if not target.exists():
        return 0
    held = target.read_bytes()
    whole = held[: held.rfind(b"\n") + 1]
    done = whole.splitlines()
    for number, line in enumerate(done):
        try:
            record = json.loads(line)
            same = record["line"] == number and number < len(lines) and record["input_sha256"] == _hash(lines[number])
        except (ValueError, KeyError, TypeError):
            same = False
        if not same:
            raise JevmlxError(
                "input.resume",
                f"line {number + 1} of the output does not answer line {number + 1} of the input; "
                "write to another file, or leave --resume out to start anew",
                str(target),
            )
    if len(whole) < len(held):
        with target.open("r+b") as file:
            file.truncate(len(whole))
    return len(done)
