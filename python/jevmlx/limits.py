"""What this process may use of the machine, control groups (containers) included."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def cpu_count() -> int:
    """CPUs this process may use: its affinity, or its control group's quota where that is less (at least 1)."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    for group in _groups():
        words = _read(group / "cpu.max").split()
        if len(words) == 2 and words[0].isdigit():
            quota, period = int(words[0]), int(words[1])
            count = min(count, -(-quota // period))
    return max(1, count)


def available_memory() -> int | None:
    """Bytes this process can still take without swapping; ``None`` where the system does not say."""
    limits = []
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            limits.append(int(line.split()[1]) * 1024)
    for group in _groups():
        limit = _read(group / "memory.max").strip()
        if limit.isdigit():
            limits.append(int(limit) - _held(group))
    return max(0, min(limits)) if limits else None


def _held(group: Path) -> int:
    """Bytes a control group holds that cannot be reclaimed from its file cache."""
    held = int(_read(group / "memory.current").strip() or 0)
    for line in _read(group / "memory.stat").splitlines():
        if line.startswith("inactive_file "):
            held -= int(line.split()[1])
    return held


def _groups() -> Iterator[Path]:
    """This process's control group (version 2) and those around it."""
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        if line.startswith("0::"):
            group = _CGROUPS / line[3:].lstrip("/")
            yield group
            while group != _CGROUPS and _CGROUPS in group.parents:
                group = group.parent
                yield group


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
