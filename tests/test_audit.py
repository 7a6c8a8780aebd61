"""The audit log: what is in a line, and that nothing changed goes unnoticed."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_logs import files_of, filled, lines_of, reference_verify
from jevmlx import AuditError
from jevmlx.audit import AuditLog, Verification, verify
from jevmlx.audit.lines import GENESIS


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


# What is written


def test_a_line_holds_the_entry_and_the_chain(path):
    hashes = filled(path)
    entries = lines_of(path)
    assert [entry["sha256"] for entry in entries] == hashes
    assert [entry["prev"] for entry in entries] == [GENESIS, *hashes[:-1]]
    assert [entry["seq"] for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert [entry["text"] for entry in entries] == ["é" * n for n in range(6)]
    assert all(entry["time"].endswith("Z") for entry in entries)
    assert verify(path) == Verification(6, 1, None, 0, hashes[-1])
    assert reference_verify([path]) is None
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_order_of_fields_and_any_text_survive(path):
    entry = {"kind": "note", "b": 1, "a": "\u2028\n\ud800 é", "c": 0.1 + 0.2}
    with AuditLog(path) as log:
        log.append(entry)
    stored = lines_of(path)[0]
    assert {key: stored[key] for key in entry} == entry
    assert list(stored) == ["seq", "time", "prev", *entry, "sha256"]


@pytest.mark.parametrize(
    "entry",
    [
        {},
        ["kind"],
        {"kind": 1},
        {"kind": "note", "seq": 1},
        {"kind": "note", "sha256": ""},
        {"kind": "note", "x": float("nan")},
        {"kind": "note", "x": object()},
        {"kind": "note", "x": b"bytes"},
        {"kind": "note", "x": "a" * (33 * 2**20)},
    ],
)
def test_what_is_no_entry_is_refused_and_leaves_nothing(path, entry):
    with AuditLog(path) as log, pytest.raises(AuditError) as caught:
        log.append(entry)
    assert caught.value.code == "audit.entry"
    assert path.read_bytes() == b""


@pytest.mark.parametrize("options", [{"fsync": "sometimes"}, {"max_bytes": 0}, {"max_bytes": 1.5}, {"redact": "yes"}])
def test_options_are_checked(path, options):
    with pytest.raises(AuditError) as caught:
        AuditLog(path, **options)
    assert caught.value.code == "audit.option"
    assert not path.exists()


def test_a_closed_log_refuses(path):
    log = AuditLog(path)
    log.close()
    log.close()
    with pytest.raises(AuditError) as caught:
        log.append({"kind": "note"})
    assert caught.value.code == "audit.closed"


@pytest.mark.parametrize("fsync", ["always", "second", "never"])
def test_a_log_is_gone_on_with(path, fsync):
    for _ in range(3):
        with AuditLog(path, fsync=fsync) as log:
            log.append({"kind": "note"})
    assert verify(path).lines == 3


# What is found


@pytest.fixture(scope="module")
def three_files(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "audit.jsonl"
    filled(path, 9, max_bytes=800)
    files = files_of(path)
    assert len(files) >= 3
    return path, files


@given(where=st.integers(0, 10**9), flip=st.integers(1, 255))
@settings(max_examples=300, deadline=None)
def test_any_changed_byte_is_found_and_its_line_is_named(three_files, where, flip):
    path, files = three_files
    original = {file: file.read_bytes() for file in files}
    whole = b"".join(original.values())
    at = where % len(whole)
    index = whole[:at].count(b"\n")
    for file in files:
        if at < len(original[file]):
            break
        at -= len(original[file])
    data = bytearray(original[file])
    data[at] ^= flip
    try:
        file.write_bytes(data)
        found = verify(path)
        assert found.first_broken.file == file
        assert found.first_broken.line == original[file][:at].count(b"\n") + 1
        assert found.lines == index
        assert reference_verify(files) == index + 1
    finally:
        file.write_bytes(original[file])


@pytest.mark.parametrize("flip", [1, 0x0A, 0x80])
def test_a_changed_last_newline_is_found(path, flip):
    filled(path, 3)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ flip]))
    found = verify(path)
    assert (found.lines, found.first_broken.line, found.torn_bytes) == (2, 3, 0)
    with pytest.raises(AuditError) as caught:
        AuditLog(path)
    assert caught.value.code == "audit.format"


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_removed_swapped_and_inserted_lines_are_named(three_files, data):
    path, _ = three_files
    kept = path.parent / "audit.000001.jsonl"
    original = kept.read_bytes()
    lines = original.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    how = data.draw(st.sampled_from(["removed", "inserted", "swapped"]))
    if how == "removed":
        del lines[at]
    elif how == "inserted":
        lines.insert(
            at, data.draw(st.sampled_from([*lines, *path.read_bytes().splitlines(keepends=True), b"{}\n", b"\n"]))
        )
    else:
        other = (at + 1) % len(lines)
        lines[at], lines[other] = lines[other], lines[at]
        at = min(at, other)
    try:
        kept.write_bytes(b"".join(lines))
        found = verify(path).first_broken
        if how == "removed" and at == len(lines):
            assert (found.file.name, found.line) == ("audit.000002.jsonl", 1)
        elif how == "inserted" and original.splitlines(keepends=True)[at] == lines[at]:
            # A copy of a line beside itself: the second of them is one too many.
            assert (found.file, found.line) == (kept, at + 2)
        else:
            assert (found.file, found.line) == (kept, at + 1)
    finally:
        kept.write_bytes(original)


def test_a_rewritten_line_with_a_right_hash_of_its_own_is_found_by_the_next_one(path):
    filled(path)
    lines = path.read_bytes().splitlines()
    body = lines[2][: lines[2].rindex(b',"sha256"')].replace(b'"n":2', b'"n":7')
    lines[2] = body + f',"sha256":"{hashlib.sha256(body).hexdigest()}"}}'.encode()
    path.write_bytes(b"\n".join(lines) + b"\n")
    found = verify(path).first_broken
    assert (found.line, "written after a line with hash" in found.reason) == (4, True)


@pytest.mark.parametrize(
    ("cut", "where"),
    [("half", ("audit.000001.jsonl", 2)), ("line", ("audit.000002.jsonl", 1)), ("all", ("audit.000002.jsonl", 1))],
)
def test_a_full_file_that_was_cut_or_removed_is_found(path, cut, where):
    filled(path, 9, max_bytes=800)
    first = path.with_name("audit.000001.jsonl")
    lines = first.read_bytes().splitlines(keepends=True)
    if cut == "all":
        first.unlink()
    else:
        first.write_bytes(lines[0] + (lines[1][:50] if cut == "half" else b""))
    found = verify(path).first_broken
    assert (found.file.name, found.line) == where


def test_a_cut_end_is_found_by_a_hash_kept_elsewhere(path):
    hashes = filled(path)
    assert verify(path, expect=hashes[3]).ok
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]))
    assert verify(path).ok
    assert verify(path, expect=hashes[3]).ok
    found = verify(path, expect=hashes[4])
    assert not found.ok
    assert found.first_broken.line == 5
    with pytest.raises(AuditError) as caught:
        verify(path, expect="abc")
    assert caught.value.code == "audit.option"


def test_a_running_writer_notices_a_cut_end(path):
    with AuditLog(path) as log:
        log.append({"kind": "note"})
        kept = path.read_bytes()
        log.append({"kind": "note"})
        path.write_bytes(kept)
        with pytest.raises(AuditError) as caught:
            log.append({"kind": "note"})
        path.unlink()
        with pytest.raises(AuditError) as again:
            log.append({"kind": "note"})
    assert (caught.value.code, again.value.code) == ("audit.rewound", "audit.rewound")
