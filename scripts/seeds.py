"""Writes the schemas of the golden cases into a folder, one file each: where a fuzzer of schemas starts from."""

import json
import sys
from pathlib import Path


def main(folder: str) -> None:
    """Writes ``FOLDER/seed-N`` for every case of ``golden/cases.json``."""
    cases = json.loads(Path("golden/cases.json").read_text(encoding="utf-8"))
    Path(folder).mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(cases):
        (Path(folder) / f"seed-{number}").write_text(json.dumps(case["schema"]), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
