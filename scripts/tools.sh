#!/usr/bin/env bash
# Names every tool that is missing and how to get it: scripts/tools.sh PYTHON
set -uo pipefail
python=${1:-}
rust=1.88
missing=0

lacks() {
  echo "missing: $1" >&2
  missing=1
}

if [ -z "$python" ] || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  lacks "Python 3.11 or newer. Get it from your package manager or https://www.python.org, or name one: make PYTHON=/path/to/python3"
elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  lacks "the venv module of $python. On Debian and Ubuntu: apt install python3-venv"
fi

if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
  lacks "a Rust toolchain, $rust or newer. Get it from https://rustup.rs"
else
  found=$(rustc --version | cut -d ' ' -f 2)
  if [ "$(printf '%s\n' "$rust" "$found" | sort -t . -k 1,1n -k 2,2n | head -n 1)" != "$rust" ]; then
    lacks "Rust $rust or newer; this is $found. With rustup: rustup update stable"
  fi
  if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
    lacks "rustfmt and clippy. With rustup: rustup component add rustfmt clippy; else your package manager has them"
  fi
fi

if ! command -v cc >/dev/null; then
  lacks "a C compiler, to link with. On Debian and Ubuntu: apt install build-essential; on a Mac: xcode-select --install"
fi

exit $missing
