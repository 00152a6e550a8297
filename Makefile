# make run · make test · make lint · make bench: each does its own set-up.

.PHONY: help run build test test-rust test-python lint bench beside-gem5 format clean
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# What pyo3 is built against, the same for every cargo command, or else it is built again.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1

RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
C := $(wildcard guest/*/*.c guest/*/*.h guest/tests/linux/*.c \
  guest/programs/*/*.c guest/include/*/*.h tests/nanopu/*.h tests/nanopu/nanopu/*.h \
  examples/*.c tests/*/*.c)

help:
	@echo 'make run    build, run the first figure, and write out/first-figure.html'
	@echo 'make build  build the command .venv/bin/nanoplane'
	@echo 'make test   run every test'
	@echo 'make lint   check formatting, style and types'
	@echo 'make bench  measure the speed of the simulator'
	@echo 'make beside-gem5 run what gem5 ran'
	@echo 'make format put everything into its format'

run: build
	$(BIN)/nanoplane figure hyperplane.8 hyperplane.9 --html out/first-figure.html \
	  --only task=packet-encapsulation --only notify=spin,hyperplane \
	  --only shape=single-queue,fully-balanced --only power=regular

build: $(VENV)/built

# Tools and libraries, pinned in pyproject.toml.
$(VENV)/tools: pyproject.toml
	python3 -m venv $(VENV)
	$(BIN)/python -c 'import tomllib; \
	  project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  print(*project["dependencies"], *project["optional-dependencies"]["dev"], sep="\n")' \
	  > $(VENV)/requirements.txt
	$(BIN)/pip install --quiet --requirement $(VENV)/requirements.txt
	@touch $@

$(VENV)/built: $(VENV)/tools $(RUST)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release
	@touch $@

# Side by side, since much of a build is one thread's work. Each prints when it is done.
test:
	$(MAKE) --jobs=2 --output-sync=target --no-print-directory test-rust test-python

# Without what this make tells those below it: cargo has jobs of its own.
test-rust: $(VENV)/tools
	MAKEFLAGS= cargo test --workspace --locked

test-python: build
	$(BIN)/pytest --numprocesses auto --dist worksteal

lint: $(VENV)/tools
	cargo fmt --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(C)

format: $(VENV)/tools
	cargo fmt
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(C)

# One row for each kind of work, and then every run of the first figure.
bench: build
	$(BIN)/python tests/bench/speed.py
	$(BIN)/python tests/bench/main_job.py

# docs/substrate.md has what comes out, and why.
beside-gem5: build
	$(BIN)/python tests/beside_gem5/beside_gem5.py

clean:
	rm -rf $(VENV) target out
