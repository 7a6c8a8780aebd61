# One file to set up, run and check everything. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The first interpreter that is new enough; override with PYTHON=…
PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3,$(shell command -v $(p) 2>/dev/null)))
UV_VERSION := 0.13.9
VENV := .venv
BIN := $(VENV)/bin
UV := UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv
FUZZ_SECONDS ?= 60

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.PHONY: tools
tools:
	@missing=0; \
	if [ -z "$(PYTHON)" ] || ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  echo "missing: Python 3.11 or newer. Install it from your package manager or python.org, or pass PYTHON=/path/to/python3."; missing=1; \
	elif ! "$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null; then \
	  echo "missing: Python's venv module. On Debian and Ubuntu: apt install python3-venv."; missing=1; fi; \
	if ! command -v cargo >/dev/null; then \
	  echo "missing: a Rust toolchain (cargo), 1.88 or newer. Get it from https://rustup.rs."; missing=1; fi; \
	if ! command -v cc >/dev/null; then \
	  echo "missing: a C compiler to link with. On Debian and Ubuntu: apt install build-essential; on a Mac: xcode-select --install."; missing=1; fi; \
	exit $$missing

$(BIN)/uv: | tools
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.PHONY: setup
setup: tools $(BIN)/uv ## Make .venv with everything locked, and build the extension
	$(UV) sync --locked --quiet

.PHONY: model
model: setup
	$(BIN)/jevmlx models pull embedded

.PHONY: demo
demo: model ## Decide an example with the embedded model and print the table
	@echo
	@cat examples/support_triage.txt
	@echo
	@$(BIN)/jevmlx decide examples/support_triage.json --file examples/support_triage.txt

.PHONY: test
test: lint types docs workflows fuzz-check test-rust golden test-python ## Run every test and check
	@$(BIN)/python scripts/counts.py target/test-rust.log target/test-python.log

.PHONY: lint
lint: setup ## Format and lint checks of Rust and Python
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check

.PHONY: types
types: setup ## Strict types, and the stubs against the extension
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest jevmlx._core

.PHONY: docs
docs: ## Rust documentation without warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

.PHONY: workflows
workflows: setup ## Lint the workflows
	$(BIN)/zizmor --offline --quiet .github/workflows
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

.PHONY: test-rust
test-rust: ## cargo test
	@mkdir -p target
	cargo test --workspace --locked 2>&1 | tee target/test-rust.log

.PHONY: golden
golden: setup ## The golden vectors, byte for byte
	$(BIN)/python golden/golden_prompts.py --check

.PHONY: test-python
test-python: model ## pytest: tests, docstring examples and documentation examples
	@mkdir -p target
	$(BIN)/python -m pytest 2>&1 | tee target/test-python.log

.PHONY: bench
bench: model ## Benchmarks: prints the figures, keeps JSON and a Markdown table in bench-results/
	@mkdir -p bench-results
	$(BIN)/python -m pytest benches --benchmark-json=bench-results/benchmarks.json

.PHONY: fuzz-check
fuzz-check: ## The fuzz targets still compile
	cd fuzz && cargo check --locked --quiet

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZ_SECONDS (needs cargo-fuzz)
	@command -v cargo-fuzz >/dev/null || { echo "missing: cargo-fuzz. Get it with: cargo install cargo-fuzz"; exit 1; }
	for target in schema_parse plan_compile; do \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none $$target -- -max_total_time=$(FUZZ_SECONDS); done

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf $(VENV) target fuzz/target dist bench-results python/jevmlx/_core*.so
