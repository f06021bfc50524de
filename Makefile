PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: tour test check bench install slow

tour: install  ## install, then train a translator on a built-in language and look inside
	$(BIN)/regard tour

test: install  ## everything that runs in minutes on two cores
	$(BIN)/pytest -q -n 2 -m "not slow and not gpu"

slow: install  ## the long tests as well
	$(BIN)/pytest -q -n 2 -m "not gpu"

check: install  ## what CI runs: style, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test

bench: install  ## speed against the peers, into bench/RESULTS.md
	$(BIN)/python -m bench

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@
