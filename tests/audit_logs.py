"""Audit logs for tests, and the slow, obvious way to check one."""

import hashlib
import json

from jevmlx.audit import AuditLog


def filled(path, count=6, **options):
    """A log with lines of different lengths; their hashes."""
    with AuditLog(path, fsync="never", **options) as log:
        return [log.append({"kind": "note", "text": "é" * n, "n": n}) for n in range(count)]


def lines_of(*files):
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def reference_verify(files):
    """The chain as the documentation states it, line by line, with nothing of the package: number of the first bad line."""
    prev = "0" * 64
    for seq, line in enumerate(b"".join(file.read_bytes() for file in files).removesuffix(b"\n").split(b"\n"), 1):
        try:
            entry = json.loads(line)
            body = line[: line.rindex(b',"sha256":')]
            good = (
                entry["sha256"] == hashlib.sha256(body).hexdigest()
                and line == body + f',"sha256":"{entry["sha256"]}"}}'.encode()
            )
            if not good or entry["seq"] != seq or entry["prev"] != prev:
                return seq
        except (ValueError, KeyError, TypeError):
            return seq
        prev = entry["sha256"]
    return None


def files_of(path):
    """A log's files, the oldest first."""
    return [*sorted(path.parent.glob("audit.0*.jsonl")), path]
