"""The audit log under crashes, many writers, and disks that refuse: nothing acknowledged is lost."""

import hashlib
import signal
import subprocess
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from filelock import FileLock

from audit_logs import files_of, filled, lines_of, reference_verify
from isolation import command, environment
from jevmlx import AuditError
from jevmlx.audit import AuditLog, verify


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


# Crashes


def test_a_line_cut_anywhere_is_dropped_and_said(path):
    filled(path, 3)
    whole = path.read_bytes()
    kept = whole[: whole[:-1].rindex(b"\n") + 1]
    for cut in range(len(kept) + 1, len(whole)):
        path.write_bytes(whole[:cut])
        assert verify(path).torn_bytes == cut - len(kept)
        with pytest.warns(RuntimeWarning, match=f"its {cut - len(kept)} bytes were dropped"):
            AuditLog(path, fsync="never").close()
        assert path.read_bytes().startswith(kept)
        repair = lines_of(path)[-1]
        assert (repair["kind"], repair["seq"], repair["dropped_bytes"]) == ("repair", 3, cut - len(kept))
        assert repair["dropped_sha256"] == hashlib.sha256(whole[len(kept) : cut]).hexdigest()
        assert verify(path).ok


def test_a_first_line_cut_anywhere_is_dropped_too(path):
    filled(path, 1)
    whole = path.read_bytes()
    for cut in (1, 5, 20, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.warns(RuntimeWarning, match="dropped"):
            AuditLog(path, fsync="never").close()
        assert [entry["kind"] for entry in lines_of(path)] == ["repair"]


def test_a_line_torn_by_another_process_is_repaired_by_the_next_append(path):
    with AuditLog(path) as log:
        log.append({"kind": "note"})
        with path.open("ab") as file:
            file.write(b'{"seq":2,"time":"2026')
        with pytest.warns(RuntimeWarning, match="its 21 bytes"):
            log.append({"kind": "note"})
    assert [entry["kind"] for entry in lines_of(path)] == ["note", "repair", "note"]
    assert verify(path).ok


@pytest.mark.parametrize("rotated", [False, True])
def test_zeros_left_by_a_crash_of_the_machine_are_dropped(path, rotated):
    filled(path, 2)
    if rotated:
        path.rename(path.with_name("audit.000001.jsonl"))
    with path.open("ab") as file:
        file.write(bytes(300))
    assert (verify(path).ok, verify(path).torn_bytes) == (True, 300)
    with pytest.warns(RuntimeWarning, match="its 300 bytes"):
        AuditLog(path).close()
    assert verify(path).lines == 3


@pytest.mark.parametrize(
    "content",
    [b"\n", b"plain text", b"plain text\n", b'{"a": 1}\n', b'{"seq": 1}', bytes(100), b"\x89PNG\r\n\x1a\n\0\0"],
)
def test_a_file_that_is_no_log_is_left_as_it_is(path, content):
    path.write_bytes(content)
    with pytest.raises(AuditError) as caught:
        AuditLog(path)
    assert caught.value.code == "audit.format"
    assert path.read_bytes() == content
    assert verify(path).first_broken.line == 1


def test_a_log_with_something_else_at_its_end_is_left_as_it_is(path):
    filled(path, 2)
    with path.open("ab") as file:
        file.write(b"a remark")
    with pytest.raises(AuditError) as caught:
        AuditLog(path)
    assert caught.value.code == "audit.format"
    assert path.read_bytes().endswith(b"a remark")
    assert verify(path).first_broken.line == 3


def test_a_death_between_two_files_is_gone_on_from(path):
    hashes = filled(path, 3)
    path.rename(path.with_name("audit.000001.jsonl"))
    assert verify(path).last_hash == hashes[-1]
    with AuditLog(path) as log:
        log.append({"kind": "note"})
    assert lines_of(path)[0]["prev"] == hashes[-1]
    assert verify(path).lines == 4


WRITER = """
from jevmlx.audit import AuditLog
log = AuditLog({path!r}, max_bytes={max_bytes}, fsync={fsync!r})
for n in range({count}):
    print(log.append({{"kind": "note", "writer": {writer}, "n": n, "text": "x" * (n * 37 % 500)}}), flush=True)
"""


def writer(path, number, count, *, fsync="always", max_bytes=20_000):
    program = WRITER.format(path=str(path), writer=number, count=count, fsync=fsync, max_bytes=max_bytes)
    return subprocess.Popen(command(program), env=environment(), stdout=subprocess.PIPE)


def test_a_killed_process_loses_nothing_it_was_told_is_written(path):
    acknowledged = []
    for round_ in range(3):
        process = writer(path, round_, 10**6)
        acknowledged += [process.stdout.readline() for _ in range(40 + 31 * round_)]
        process.send_signal(signal.SIGKILL)
        # What it said before it died was written as well.
        rest = process.stdout.read().splitlines(keepends=True)
        acknowledged += [line for line in rest if line.endswith(b"\n")]
        process.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        AuditLog(path).close()
    assert verify(path).ok
    files = files_of(path)
    written = {entry["sha256"] for entry in lines_of(*files)}
    assert {line.decode().strip() for line in acknowledged} <= written


# Many at once


def test_processes_that_append_at_once_make_one_chain(path):
    processes = [writer(path, number, 150, max_bytes=10_000) for number in range(4)]
    said = [set(process.communicate()[0].decode().split()) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    found = verify(path)
    assert (found.ok, found.lines) == (True, 600)
    assert found.files > 10
    files = files_of(path)
    assert reference_verify(files) is None
    entries = lines_of(*files)
    for number, hashes in enumerate(said):
        own = [entry for entry in entries if entry["writer"] == number]
        assert [entry["n"] for entry in own] == list(range(150))
        assert {entry["sha256"] for entry in own} == hashes


def test_a_log_can_be_verified_while_it_is_written(path):
    filled(path, 1)
    process = writer(path, 0, 400, fsync="never", max_bytes=3000)
    seen = []
    while process.poll() is None:
        found = verify(path)
        assert found.first_broken is None
        seen.append(found.lines)
    process.stdout.close()
    assert seen == sorted(seen)
    assert verify(path).lines == 401


def test_200_threads_make_one_chain(path):
    with AuditLog(path, max_bytes=5000) as log:
        start = threading.Barrier(200)

        def work(number):
            start.wait()
            return [log.append({"kind": "note", "thread": number}) for _ in range(3)]

        with ThreadPoolExecutor(200) as pool:
            hashes = [digest for result in pool.map(work, range(200)) for digest in result]
    assert len(set(hashes)) == 600
    found = verify(path)
    assert (found.ok, found.lines) == (True, 600)


def test_a_forked_process_may_append(path):
    program = f"""
import os, threading
from jevmlx.audit import AuditLog
log = AuditLog({str(path)!r}, fsync="never")
def work():
    for n in range(100):
        log.append({{"kind": "note"}})
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
children = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    children.append(child)
for thread in threads: thread.join()
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""
    done = subprocess.run(command(program), env=environment(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = verify(path)
    assert (found.ok, found.lines) == (True, 900)


# Disks and folders


def test_a_full_disk_leaves_no_part_of_a_line(path):
    program = f"""
import resource
from jevmlx import AuditError
from jevmlx.audit import AuditLog
log = AuditLog({str(path)!r})
log.append({{"kind": "note"}})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    log.append({{"kind": "note", "text": "x" * 2000}})
except AuditError as error:
    print(error.code)
print(log.append({{"kind": "note", "text": "short"}}))
"""
    done = subprocess.run(command(program), env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    code, digest = done.stdout.split()
    assert code == "audit.write"
    assert verify(path).lines == 2
    assert verify(path, expect=digest).ok


def test_a_torn_line_is_said_also_where_a_full_disk_has_no_room_for_the_record(path):
    filled(path, 3)
    whole = path.read_bytes()
    kept = whole[: whole[:-1].rindex(b"\n") + 1]
    path.write_bytes(whole[: len(kept) + 30])
    program = f"""
import resource
import warnings
from jevmlx import AuditError
from jevmlx.audit import AuditLog
resource.setrlimit(resource.RLIMIT_FSIZE, ({len(kept) + 30}, resource.RLIM_INFINITY))
with warnings.catch_warnings(record=True) as caught:
    try:
        AuditLog({str(path)!r})
    except AuditError as error:
        print(error.code, caught[0].message)
"""
    done = subprocess.run(command(program), env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("audit.write ")
    assert "its 30 bytes were dropped" in done.stdout
    assert path.read_bytes() == kept


def test_a_lock_that_is_held_too_long_is_one_clear_error(path, monkeypatch):
    monkeypatch.setattr("jevmlx.audit.log.LOCK_TIMEOUT_S", 0.05)
    with AuditLog(path) as log:
        with FileLock(f"{path}.lock"), pytest.raises(AuditError) as caught:
            log.append({"kind": "note"})
        assert caught.value.code == "audit.lock"
        log.append({"kind": "note"})
    assert verify(path).lines == 1


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    folder = tmp_path / "read-only"
    folder.mkdir()
    for part in (tmp_path, *tmp_path.parents[:2]):
        part.chmod(0o755)
    folder.chmod(0o555)
    # Root may write anywhere, so it has to be somebody else who tries.
    program = f"""
import os
from jevmlx import AuditError
from jevmlx.audit import AuditLog, verify
if os.geteuid() == 0:
    os.seteuid(65534)
for run in (lambda: AuditLog({str(folder / "audit.jsonl")!r}), lambda: verify({str(folder / "audit.jsonl")!r})):
    try:
        run()
    except AuditError as error:
        print(error.code)
"""
    done = subprocess.run(command(program), env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["audit.file", "audit.file"]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["missing/audit.jsonl", "."])
def test_a_path_that_cannot_be_a_log_is_one_clear_error(tmp_path, name):
    for run in (AuditLog, verify):
        with pytest.raises(AuditError) as caught:
            run(tmp_path / name)
        assert caught.value.code == "audit.file"
    assert list(tmp_path.iterdir()) == []


def test_two_names_of_one_log_are_one_log(path, tmp_path):
    filled(path, 3)
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    with AuditLog(link, max_bytes=500) as other, AuditLog(path, max_bytes=500) as log:
        for _ in range(3):
            other.append({"kind": "note"})
            log.append({"kind": "note"})
    assert link.is_symlink()
    assert verify(link) == verify(path)
    assert verify(path).lines == 9
