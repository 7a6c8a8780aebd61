"""The writer: one line at a time, by any number of threads and processes."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, Literal, Self, get_args

from filelock import FileLock, Timeout

from ..asking import SchemaLike
from ..checks import is_whole
from ..disk import to_disk
from ..errors import AuditError
from ..options import Options
from ..results import Decision, DecisionError
from . import files, lines
from .entries import entry_of

Fsync = Literal["always", "second", "never"]

# Some thirty thousand decisions about short texts.
DEFAULT_MAX_BYTES = 128 * 2**20
# Seconds to wait for other processes; each holds the lock for one line.
LOCK_TIMEOUT_S = 60.0
# Seconds between two looks at a lock that is held; a line takes less than one of them.
_LOCK_POLL_S = 0.001


class AuditLog:
    """A log to append to.

    A line is in the file, whole, when :meth:`append` returns, and not there at all when it raises. Many threads and processes may
    append to one log, each process with its own ``AuditLog``; one that is inherited by a fork may be used as well. A line cut by
    a crash is dropped when the log is next opened or appended to: a warning and a line of kind ``"repair"`` say so.

    Args:
        path: The file; made if it is missing, readable for its owner only. ``<path>.lock`` is made beside it.
        fsync: ``"always"``: a line is on the disk when :meth:`append` returns. ``"second"``: an append takes all lines so far
            to the disk if the last one to do so was a second or more ago. ``"never"``: when the operating system sees fit. With
            any of them a killed process loses nothing; it is a crash of the machine that tells them apart.
        max_bytes: Size a file may reach before the next one is begun.
        redact: Whether :meth:`record` stores hashes in place of contexts and messages, and of errors their codes alone.

    Raises:
        AuditError: ``audit.file``, ``audit.format``, ``audit.lock``, ``audit.option`` or ``audit.write``.

    Example:
        >>> import tempfile
        >>> with AuditLog(Path(tempfile.mkdtemp()) / "audit.jsonl") as log:
        ...     digest = log.append({"kind": "note", "text": "a model was rolled out"})
        >>> len(digest)
        64
    """

    _file: FileIO | None

    def __init__(
        self, path: str | Path, *, fsync: Fsync = "always", max_bytes: int = DEFAULT_MAX_BYTES, redact: bool = False
    ) -> None:
        _check_options(fsync, max_bytes, redact)
        # One log has one lock and one set of full files, whatever name leads to it.
        self._path = Path(os.path.realpath(path))
        self._fsync = fsync
        self._max_bytes = max_bytes
        self._redact = redact
        self._closed = False
        # Number and hash of the last line as last seen.
        self._seen = (0, lines.GENESIS)
        self._synced_at = time.monotonic()
        self._begin()
        _logs.add(self)
        self._check_path()
        with self._held():
            self._refresh()

    def append(self, entry: Mapping[str, Any]) -> str:
        """Appends a line.

        Args:
            entry: Plain data with a ``kind``; ``seq``, ``time``, ``prev`` and ``sha256`` are added.

        Returns:
            The line's hash. Kept somewhere else, it shows later that the log was not cut off before it.

        Raises:
            AuditError: ``audit.entry``: this is no entry; ``audit.write``: it could not be written, and nothing of it is left;
                ``audit.rewound``: lines are gone that were there before; ``audit.closed``; or as for :class:`AuditLog`.
        """
        members = lines.payload(entry)
        with self._held():
            self._refresh()
            return self._write(members)

    def record(
        self,
        schema: SchemaLike,
        context: str | bytes | None,
        messages: Sequence[Mapping[str, str]] | None,
        options: Mapping[str, Any] | Options,
        result: Decision | DecisionError,
    ) -> str:
        """Appends a decision, or what was wrong with a context: kind ``"decision"`` or ``"error"``.

        Args:
            schema: What was asked.
            context: What about, unless ``messages`` are given.
            messages: What about.
            options: The keyword arguments of the call; see :class:`jevmlx.DecideOptions`. A nonce key is never stored.
            result: What came out.

        Returns:
            The line's hash.

        Raises:
            JevmlxError: As for :meth:`append`, or schema or options are at fault.
        """
        return self.append(entry_of(schema, context, messages, options, result, redact=self._redact))

    def close(self) -> None:
        """Closes the file; with ``fsync="second"`` what was written is on the disk then. Again does nothing.

        Raises:
            AuditError: ``audit.write``: it is not on the disk.
        """
        with self._mutex:
            self._closed = True
            file, self._file = self._file, None
            if file is None:
                return
            try:
                if self._fsync == "second":
                    files.to_disk(file.fileno())
            except OSError as error:
                raise _not_written(error, self._path) from error
            finally:
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_path(self) -> None:
        # The lock would make missing folders, also those of a mistyped name.
        if not self._path.parent.is_dir() or self._path.is_dir():
            message = "an audit log is a file in a folder that exists; make the folder, or name another file"
            raise AuditError("audit.file", message, str(self._path))

    def _begin(self) -> None:
        """The state before a first look, also in a forked process: a thread that is not there may have been half way through."""
        self._mutex = threading.Lock()
        self._file = None
        # A size that no file has makes the next look read the end.
        self._size = -1

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Nobody else appends meanwhile."""
        with self._mutex:
            if self._closed:
                raise AuditError("audit.closed", "the audit log was closed; open it again", str(self._path))
            # A lock of its own for each line: none that is held is ever inherited by a fork.
            lock = FileLock(f"{self._path}.lock", timeout=LOCK_TIMEOUT_S, mode=0o600)
            try:
                lock.acquire(poll_interval=_LOCK_POLL_S)
            except Timeout as error:
                message = (
                    f"another process has held the log's lock for {LOCK_TIMEOUT_S:g} s; end it, or write elsewhere"
                )
                raise AuditError("audit.lock", message, str(self._path)) from error
            except OSError as error:
                raise _unusable(error, self._path) from error
            try:
                yield
            finally:
                lock.release()

    def _refresh(self) -> None:
        """Sees what other processes did: opens the file they write to, and reads its end if it has changed."""
        try:
            if self._file is None or not files.same_file(self._file.fileno(), self._path):
                self._open()
            size = os.fstat(self._descriptor).st_size
            if size != self._size:
                self._read_end(size)
        except OSError as error:
            raise _unusable(error, self._path) from error
        except lines.NotALine as reason:
            message = (
                f"this log cannot be gone on with; of its last line: {reason}; verify it, or write to another file"
            )
            raise AuditError("audit.format", message, str(self._path)) from reason

    @property
    def _descriptor(self) -> int:
        assert self._file is not None  # noqa: S101 - opened by _refresh
        return self._file.fileno()

    def _open(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._size = None, -1
        file = FileIO(self._path, "a+", opener=_private_file)
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise OSError(None, "it is no file")
        if self._fsync != "never":
            # Whoever made the file may have left its name to the operating system.
            to_disk(self._path.parent)
        self._file = file

    def _read_end(self, size: int) -> None:
        end = files.end_of(self._descriptor, size)
        seq, sha256 = self._last(end)
        if end.torn:
            lines.check_torn(end.torn, seq + 1)
        seen, seen_sha256 = self._seen
        if seq < seen or (seq == seen and sha256 != seen_sha256):
            message = (
                f"line {seen} was written and is gone, and the log ends with line {seq}: something cut it off, moved "
                "or rewrote it; keep what is left as it is, and write to another file"
            )
            raise AuditError("audit.rewound", message, str(self._path))
        self._seen, self._size = (seq, sha256), size
        if end.torn:
            self._repair(end.torn)

    def _last(self, end: files.End) -> tuple[int, str]:
        """Number and hash of the last line; it is in the last full file while the current one has none."""
        raw = end.line
        if raw is None:
            full = files.full_files(self._path)
            if not full:
                return 0, lines.GENESIS
            with full[-1][1].open("rb") as file:
                raw = files.end_of(file.fileno(), os.fstat(file.fileno()).st_size).line or b""
        line = lines.parse(raw)
        return line.seq, line.sha256

    def _repair(self, torn: bytes) -> None:
        size = self._size - len(torn)
        os.ftruncate(self._descriptor, size)
        self._size = size
        digest = hashlib.sha256(torn).hexdigest()
        try:
            self._write(lines.payload({"kind": "repair", "dropped_bytes": len(torn), "dropped_sha256": digest}))
        finally:
            # Said in any case: a disk that is full may have no room for the record.
            message = f"{self._path}: the last line was cut by a crash; its {len(torn)} bytes were dropped"
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def _write(self, members: bytes) -> str:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        seq = self._seen[0] + 1
        line, digest = lines.build(seq, now, self._seen[1], members)
        try:
            if self._size and self._size + len(line) > self._max_bytes:
                self._rotate()
            self._write_whole(line)
        except OSError as error:
            raise _not_written(error, self._path) from error
        self._seen, self._size = (seq, digest), self._size + len(line)
        return digest

    def _write_whole(self, line: bytes) -> None:
        try:
            files.write_all(self._descriptor, line)
            if self._fsync == "always" or (self._fsync == "second" and time.monotonic() - self._synced_at >= 1):
                files.to_disk(self._descriptor)
                self._synced_at = time.monotonic()
        except BaseException:  # an interrupt as well
            # Should this fail too, the next append finds a file of another size and drops the torn line.
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise

    def _rotate(self) -> None:
        full = files.full_files(self._path)
        if self._fsync != "never":
            files.to_disk(self._descriptor)
        self._path.rename(files.numbered(self._path, full[-1][0] + 1 if full else 1))
        self._open()
        self._size = 0


_logs: weakref.WeakSet[AuditLog] = weakref.WeakSet()


def _after_fork() -> None:
    for log in list(_logs):
        log._begin()


os.register_at_fork(after_in_child=_after_fork)


def _private_file(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _check_options(fsync: object, max_bytes: object, redact: object) -> None:
    if fsync not in get_args(Fsync):
        message = f'fsync is {fsync!r}; allowed are "always", "second" and "never"'
        raise AuditError("audit.option", message, "fsync")
    if not is_whole(max_bytes, 1):
        raise AuditError("audit.option", f"max_bytes is {max_bytes!r}; a whole number from 1 on is needed", "max_bytes")
    if not isinstance(redact, bool):
        raise AuditError("audit.option", f"redact is {redact!r}; true or false is needed", "redact")


def _unusable(error: OSError, path: Path) -> AuditError:
    message = f"the audit log cannot be opened: {error.strerror or error}; check its folder and who may write there"
    return AuditError("audit.file", message, str(path))


def _not_written(error: OSError, path: Path) -> AuditError:
    message = f"the line could not be written, and nothing of it is in the log: {error.strerror or error}; make room and try again"
    return AuditError("audit.write", message, str(path))
