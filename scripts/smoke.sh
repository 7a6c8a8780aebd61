#!/bin/sh
# Installs the wheel in a folder and checks a published value with it: scripts/smoke.sh DIST
# Without the dependencies: not every platform that the wheel runs on has MLX.
set -eu
venv=$(mktemp -d)
python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$1"/jevmlx-*-cp311-abi3-*.whl
cd "$venv"
bin/python - <<'PYTHON'
import jevmlx

assert jevmlx.context_nonce("The applicant pays late sometimes.") == "C389525abe2404839"
print("jevmlx", jevmlx.__version__, "works")
PYTHON
rm -rf "$venv"
