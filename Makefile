# Every command a developer needs. `make help` lists them; CI runs `make test`.
#
# MAKE-1: everything installed goes into .venv, also when another virtualenv or conda is active.
# MAKE-2: what `make test` runs is built with one cargo profile (dev, whose engine is optimised) in one target directory,
#         and with the same settings of the Python bindings, so that no crate is built twice for it.
# MAKE-3: what a check needs and does not find is named on the screen, never skipped in silence.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

VENV := .venv
VENV_PYTHON := $(CURDIR)/$(VENV)/bin/python
# rustup may just have been installed in this very shell.
export PATH := $(PATH):$(HOME)/.cargo/bin
# The same for cargo and for maturin, or each would rebuild the bindings the other has built (MAKE-2). The stable ABI is
# all that the bindings need to know of Python, so the file names no interpreter.
export PYO3_CONFIG_FILE := $(CURDIR)/$(VENV)/pyo3-config.txt
export PYO3_BUILD_EXTENSION_MODULE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONNOUSERSITE := 1

PIP_INSTALL := "$(VENV_PYTHON)" -m pip install --quiet
MATURIN := env -u CONDA_PREFIX -u PYTHONPATH PIP_QUIET=1 VIRTUAL_ENV="$(CURDIR)/$(VENV)" "$(VENV_PYTHON)" -m maturin
# Requirements are written once, in pyproject.toml; $(1) is an expression over it.
REQUIRED = $$("$(VENV_PYTHON)" -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); print(*$(1))')
EXTRA = $(call REQUIRED,p["project"]["optional-dependencies"]["$(1)"])

# gt-python is among them, or its dependencies would be built twice with other features; it has no Rust tests (its library
# is marked `test = false`, as a harness cannot be linked without an interpreter): its tests are the Python ones.
CRATES := --workspace
PYTHON_SOURCES := python tests examples bench
# Said at the beginning of each part of `make test`, so that its output tells where the time goes.
STAGE = @echo "== $$(date +%T)" $@
# Many Rust tests wait more than they compute.
TEST_THREADS := $(shell expr 2 '*' "$$(getconf _NPROCESSORS_ONLN)")
export RUST_TEST_THREADS ?= $(TEST_THREADS)
export NEXTEST_TEST_THREADS ?= $(TEST_THREADS)
# Each of these processes computes with one thread. A file's tests run in one process, one after the other.
PYTEST_PARALLEL := -n 2 --dist loadfile
# Where `make bench` finds torch: .venv, unless an interpreter that has it is named.
BENCH_PYTHON := $(if $(GT_BENCH_PYTHON),$(GT_BENCH_PYTHON),$(VENV_PYTHON))
BENCH_ENV := $(if $(GT_BENCH_PYTHON),PYTHONPATH="$(CURDIR)/python")

.PHONY: help
help: ## list the commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

.PHONY: demo
demo: build ## build, install into .venv, train a small Qwen3 on this repository's text, let it write
	@"$(VENV_PYTHON)" examples/qwen3.py --size tiny --batch-size 16 --seq-len 128 --steps 800 --lr 6e-3 --max-loss 2.5 --sample "//! The "
	@printf '%s\n' '' 'GT is installed in $(VENV). Next:' \
	  '  source $(VENV)/bin/activate         # then `python my_script.py` and `gt --help`' \
	  '  python examples/mlp.py              # a small classifier' \
	  '  docs/getting-started.md             # train, save, reload, then use two workers'

.PHONY: build
build: $(VENV)/.maturin ## build the extension in release mode and install it into .venv
	@$(MATURIN) develop --release

.PHONY: build-dev
build-dev: $(VENV)/.maturin ## the same with the profile the tests use
	@$(MATURIN) develop --profile dev

WHEELS := target/wheels
WHEEL_PROFILE := release
.PHONY: wheel
wheel: $(VENV)/.maturin ## build a wheel into target/wheels, and beside it the debug information that the wheel leaves out
	@command -v objcopy >/dev/null || { echo "make wheel needs objcopy: install binutils"; exit 1; }
	@$(PIP_INSTALL) wheel
	@rm -rf "$(WHEELS)"
	@$(MATURIN) build --profile $(WHEEL_PROFILE) --out "$(WHEELS)/whole"
	@"$(VENV_PYTHON)" -m wheel unpack --dest "$(WHEELS)/whole" "$(WHEELS)"/whole/*.whl
	@library=$$(echo "$(WHEELS)"/whole/*/gt/_core*.so); debug="$(WHEELS)/$$(basename "$$library").debug"; \
	objcopy --only-keep-debug --compress-debug-sections "$$library" "$$debug"; \
	objcopy --strip-unneeded --add-gnu-debuglink="$$debug" "$$library"
	@"$(VENV_PYTHON)" -m wheel pack --dest-dir "$(WHEELS)" "$(WHEELS)"/whole/*/
	@rm -rf "$(WHEELS)/whole"
	@ls -lh "$(WHEELS)"

.PHONY: test
test: lint test-rust test-python test-stream ## everything CI runs: lints, Rust tests, Python tests, also through a server

.PHONY: test-rust
test-rust: $(VENV)/.maturin ## Rust unit, integration, table and documentation tests
	$(STAGE)
	@if cargo nextest --version >/dev/null 2>&1; then \
	  cargo nextest run $(CRATES); \
	else \
	  echo "cargo-nextest is not installed: running cargo test, which sets no time limit on a test"; \
	  cargo test $(CRATES) --lib --bins --tests --examples; \
	fi
	$(STAGE): examples in documentation
	cargo test $(CRATES) --doc

.PHONY: test-python
test-python: build-dev $(VENV)/.test ## Python tests against an extension built for testing, and the types users see
	$(STAGE)
	"$(VENV_PYTHON)" -m pytest $(PYTEST_PARALLEL) -m "not heavy and not undisturbed"
	"$(VENV_PYTHON)" -m pytest -m "undisturbed and not heavy"
	"$(VENV_PYTHON)" -m mypy --strict examples/typed_example.py

.PHONY: test-stream
test-stream: build-dev $(VENV)/.test ## what a server could change, through one: over Unix sockets, then over TCP with TLS
	$(STAGE)
	"$(VENV_PYTHON)" tests/through_server.py unix -q $(PYTEST_PARALLEL)
	"$(VENV_PYTHON)" tests/through_server.py tls -q $(PYTEST_PARALLEL)

ARM := aarch64-unknown-linux-gnu
.PHONY: test-arm
test-arm: ## the CPU engine's tests as an ARM machine runs them, by emulation (needs rustup, gcc-aarch64-linux-gnu, qemu-user-static)
	@for tool in rustup aarch64-linux-gnu-gcc qemu-aarch64-static; do \
	  command -v $$tool >/dev/null || { echo "make test-arm needs $$tool, which is not installed"; exit 1; }; \
	done
	rustup target add $(ARM)
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu" \
	cargo test -p gt-engine-cpu --target $(ARM) --test conformance --test math_ulp --test bits --test composites

.PHONY: test-all
test-all: test ## `make test`, then the heavy cases, and every Python test through a server
	@if cargo nextest --version >/dev/null 2>&1; then \
	  cargo nextest run $(CRATES) --run-ignored only --no-tests pass; \
	else \
	  cargo test $(CRATES) --lib --bins --tests --examples -- --ignored; \
	fi
	@# 5 is pytest's way to say that no test is marked so.
	"$(VENV_PYTHON)" -m pytest -m heavy --timeout 1800 || [ $$? -eq 5 ]
	"$(VENV_PYTHON)" tests/through_server.py unix --all -q $(PYTEST_PARALLEL)
	"$(VENV_PYTHON)" tests/through_server.py tls --all -q $(PYTEST_PARALLEL)

.PHONY: lint
lint: $(VENV)/.test ## rustfmt, ruff, labels, clippy and cargo-deny; cheapest first
	$(STAGE)
	cargo fmt --all --check
	"$(VENV_PYTHON)" -m ruff check $(PYTHON_SOURCES)
	"$(VENV_PYTHON)" -m ruff format --check $(PYTHON_SOURCES)
	"$(VENV_PYTHON)" tests/labels.py
	@if cargo deny --version >/dev/null 2>&1; then \
	  cargo deny check bans licenses sources; \
	  if cargo deny fetch db >/dev/null 2>&1; then \
	    cargo deny check advisories; \
	  else \
	    echo "SKIPPED: security advisories of dependencies are NOT checked, because their database on github.com cannot be fetched"; \
	  fi; \
	else \
	  echo "SKIPPED: security advisories, licences and sources of dependencies are NOT checked, because cargo-deny is not"; \
	  echo "installed. It takes minutes to build: cargo install --locked cargo-deny. Advisories also need access to github.com."; \
	fi
	cargo clippy --workspace --all-targets -- -D warnings

.PHONY: messages
messages: $(VENV)/.test ## print every error, warning, log line and help text that a user can meet, to be read in one go
	@"$(VENV_PYTHON)" tests/messages.py

.PHONY: fmt
fmt: $(VENV)/.test ## format Rust and Python, and apply the lints' safe fixes
	cargo fmt --all
	"$(VENV_PYTHON)" -m ruff check --fix-only $(PYTHON_SOURCES)
	"$(VENV_PYTHON)" -m ruff format $(PYTHON_SOURCES)

FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
TARGETS ?= $(FUZZ_TARGETS)
SECONDS ?= 60
FUZZ_BUILT := fuzz/target/x86_64-unknown-linux-gnu/release
# Sanitizers are not stable; the compiler is the one that builds everything else. The coverage is what libFuzzer steers by.
FUZZ_BUILD = env -u PYO3_CONFIG_FILE RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Cpasses=sancov-module \
  -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing" \
  cargo build --release --target x86_64-unknown-linux-gnu --manifest-path fuzz/Cargo.toml

.PHONY: fuzz
fuzz: ## run each fuzz target for SECONDS (60), or only TARGETS; needs a C++ compiler
	$(FUZZ_BUILD)
	@for target in $(TARGETS); do \
	  mkdir -p fuzz/found/$$target fuzz/artifacts/$$target; \
	  echo "$$target:"; \
	  $(FUZZ_BUILT)/$$target -max_total_time=$(SECONDS) -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
	    -artifact_prefix=fuzz/artifacts/$$target/ fuzz/found/$$target fuzz/corpus/$$target 2>&1 | grep -vE '^#[0-9]+' ; \
	done

.PHONY: fuzz-minimise
fuzz-minimise: ## keep of each corpus, and of what was found, the inputs that add coverage
	$(FUZZ_BUILD)
	@for target in $(TARGETS); do \
	  mkdir -p fuzz/found/$$target fuzz/target/merged; rm -rf fuzz/target/merged/$$target; mkdir fuzz/target/merged/$$target; \
	  $(FUZZ_BUILT)/$$target -merge=1 -max_len=4096 fuzz/target/merged/$$target fuzz/corpus/$$target fuzz/found/$$target; \
	  rm -rf fuzz/corpus/$$target; mv fuzz/target/merged/$$target fuzz/corpus/$$target; \
	done

.PHONY: generate
generate: build-dev $(VENV)/.test ## write what is made from the table of elementwise functions: stubs, lists of names, the PyTorch page
	GT_GOLDEN=write "$(VENV_PYTHON)" -m pytest -q -k golden tests/python/test_table.py tests/python/test_compatibility.py

.PHONY: golden
golden: build-dev $(VENV)/.test ## record the golden files anew; read the difference before committing it
	GT_GOLDEN=write cargo test $(CRATES) --test golden
	GT_GOLDEN=write "$(VENV_PYTHON)" -m pytest -k golden || [ $$? -eq 5 ]

.PHONY: bench
bench: build $(if $(GT_BENCH_PYTHON),,$(VENV)/.bench) ## measure GT beside PyTorch (ARGS=… goes to bench/run.py)
	@$(BENCH_ENV) "$(BENCH_PYTHON)" bench/run.py $(ARGS)

.PHONY: bench-stream
bench-stream: build ## the stream between processes: batch sizes of client and worker as one table (ARGS=… to the script)
	@$(BENCH_ENV) "$(BENCH_PYTHON)" bench/stream_sweep.py $(ARGS)

.PHONY: bench-sharding
bench-sharding: build ## a training step on two workers beside one (ARGS=… to the script)
	@$(BENCH_ENV) "$(BENCH_PYTHON)" bench/sharding.py $(ARGS)

.PHONY: bench-data
bench-data: build $(if $(GT_BENCH_PYTHON),,$(VENV)/.bench) ## loading shuffled Parquet files beside PyTorch's loader and pyarrow, with the targets (ARGS=… to the script)
	@$(BENCH_ENV) "$(BENCH_PYTHON)" bench/data_loading.py $(ARGS)

.PHONY: bench-check
bench-check: build $(if $(GT_BENCH_PYTHON),,$(VENV)/.bench) ## fail if a ratio got worse than bench/baseline.json
	@$(BENCH_ENV) "$(BENCH_PYTHON)" bench/check.py $(ARGS)

.PHONY: clean
clean: ## remove what was built, .venv included
	cargo clean
	rm -rf "$(VENV)" python/gt/*.so bench/results
	find $(PYTHON_SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf .pytest_cache .mypy_cache .ruff_cache

# The stamps below are remade when pyproject.toml changes.

$(VENV)/.maturin: pyproject.toml
	@command -v cargo >/dev/null || { echo "cargo is not on PATH: install Rust from https://rustup.rs"; exit 1; }
	@python=; for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    python=$$candidate; break; \
	  fi; \
	done; \
	[ -n "$$python" ] || { echo "Python 3.11 or newer is needed; name one with PYTHON=…"; exit 1; }; \
	[ -x "$(VENV_PYTHON)" ] || "$$python" -m venv "$(VENV)" || { \
	  rm -rf "$(VENV)"; echo "$$python cannot make a virtualenv: install its venv and pip packages"; exit 1; }
	@$(PIP_INSTALL) $(call REQUIRED,p["build-system"]["requires"])
	@printf '%s\n' implementation=CPython version=3.11 target_abi=CPython-abi3-3.11 shared=true build_flags= \
	  suppress_build_script_link_lines=false >"$(PYO3_CONFIG_FILE)"
	@touch $@

$(VENV)/.test: $(VENV)/.maturin
	@$(PIP_INSTALL) $(call EXTRA,test)
	@touch $@

$(VENV)/.bench: $(VENV)/.maturin
	@echo "installing the bench extra (torch is large)"
	@$(PIP_INSTALL) $(call EXTRA,bench)
	@touch $@
