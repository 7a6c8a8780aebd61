"""Adds up the test counts of cargo's and pytest's logs and prints them as the last lines."""

import re
import sys
from pathlib import Path


def main(rust_log: str, python_log: str) -> int:
    """Prints a line per runner and their sum; fails where a log holds no tests."""
    rust = [0, 0, 0]
    for match in re.finditer(
        r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", Path(rust_log).read_text()
    ):
        rust = [held + int(found) for held, found in zip(rust, match.groups(), strict=True)]
    summary = Path(python_log).read_text().strip().splitlines()[-1]
    python = [sum(map(int, re.findall(rf"(\d+) {word}", summary))) for word in ("passed", "failed", "skipped")]
    print(f"cargo test: {rust[0]} passed, {rust[1]} failed, {rust[2]} ignored")
    print(f"pytest: {python[0]} passed, {python[1]} failed, {python[2]} skipped")
    print(f"{rust[0] + python[0]} passed, {rust[1] + python[1]} failed")
    return 0 if rust[0] and python[0] and not rust[1] + python[1] else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
