# One file to set up, run and check everything. `make help` lists the targets.

# The make of macOS is 3.81, which knows no .SHELLFLAGS: recipes with a pipe or a loop say `set` themselves.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# The first interpreter that is new enough; override with PYTHON=…
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  if $$p -c '$(NEW_ENOUGH)' 2>/dev/null; then command -v $$p; break; fi; done)
UV_VERSION := $(shell sed -n '/^name = "uv"$$/{n;s/^version = "\(.*\)"$$/\1/p;}' uv.lock)
VENV := .venv
BIN := $(VENV)/bin
UV := UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv
FUZZ_SECONDS ?= 60

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.PHONY: tools
tools:
	@scripts/tools.sh "$(PYTHON)"

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
	$(BIN)/ruff check --no-cache
	$(BIN)/ruff format --check

.PHONY: types
types: setup ## Strict types, and the stubs against the extension
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest jevmlx._core

.PHONY: docs
docs: tools ## Rust documentation without warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

.PHONY: workflows
workflows: setup ## Lint the workflows
	$(BIN)/zizmor --offline --quiet .github/workflows
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

.PHONY: test-rust
test-rust: tools ## cargo test
	@mkdir -p target
	set -o pipefail; cargo test --workspace --locked 2>&1 | tee target/test-rust.log

.PHONY: golden
golden: setup ## The golden vectors, byte for byte
	$(BIN)/python golden/golden_prompts.py --check

.PHONY: test-python
test-python: model ## pytest: tests, docstring examples and documentation examples
	@mkdir -p target
	set -o pipefail; $(BIN)/python -m pytest 2>&1 | tee target/test-python.log

.PHONY: bench
bench: model ## Benchmarks: prints the figures, keeps JSON and a Markdown table in bench-results/
	@mkdir -p bench-results
	$(BIN)/python -m pytest benches --durations=10 --benchmark-json=bench-results/benchmarks.json

# Checked without the C++ runtime that fuzzing links, so that no C++ compiler is needed.
.PHONY: fuzz-check
fuzz-check: tools ## The fuzz targets still compile
	cd fuzz && CUSTOM_LIBFUZZER_PATH=/unused/libFuzzer.a cargo check --locked --quiet

.PHONY: fuzz
fuzz: tools ## Fuzz each target for FUZZ_SECONDS (needs cargo-fuzz and a C++ compiler)
	@command -v cargo-fuzz >/dev/null || { echo "missing: cargo-fuzz. Get it with: cargo install cargo-fuzz" >&2; exit 1; }
	"$(PYTHON)" scripts/seeds.py fuzz/corpus/schema_parse
	@set -e; for target in schema_parse plan_compile; do \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none $$target -- -max_total_time=$(FUZZ_SECONDS) -timeout=60; done

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf $(VENV) target fuzz/target dist bench-results python/jevmlx/_core*.so
