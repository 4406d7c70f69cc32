# Two commands do everything on a machine that has only Python (3.11 or newer), pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Two workers share tests of pure computing one by one, and by files those that keep to ports and folders of their own. Everything
# else runs alone: whole consortia of processes, and stories in which sites vanish at moments that a busy machine would shift.
PURE := audit crypto fuzz ledger noise protocol rank_search report study truths
APART := admin attacks cli coordinator edges evidence golden node release trustee

.PHONY: demo test check mypy pyright wheel format search fuzz faults bench soak scale truths bundle clean

demo: $(VENV)/.installed   ## install, then run a nine-site masked study on synthetic data
	$(BIN)/cohortsum demo

test: $(VENV)/.installed-dev   ## install with the dev extra, then run every check and test
	$(MAKE) check
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal $(PURE:%=tests/%)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(APART:%=tests/%)
	$(BIN)/python -m pytest $(PURE:%=--ignore=tests/%) $(APART:%=--ignore=tests/%)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python proto/generate.py --check
	$(BIN)/lint-imports
	$(MAKE) -j 2 mypy pyright wheel

mypy: $(VENV)/.installed-dev
	$(BIN)/mypy

pyright: $(VENV)/.installed-dev
	$(BIN)/pyright --pythonpath $(BIN)/python

wheel: $(VENV)/.installed-dev
	$(BIN)/python tests/built_wheel.py

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

search: $(VENV)/.installed-dev   ## the long searches that `make test` leaves out
	$(BIN)/python -m pytest -m exhaustive --override-ini='addopts=--strict-markers --import-mode=importlib'

# The fuzzer over every decoder and both state machines, one target after the other; a limit of 0 is none.
FUZZ_SECONDS ?= 30
FUZZ_RUNS ?= 0
FUZZ_TARGETS ?=
fuzz: $(VENV)/.installed-fuzz   ## FUZZ_SECONDS= and FUZZ_RUNS= per target, FUZZ_TARGETS= by name, all by default
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --runs $(FUZZ_RUNS) $(FUZZ_TARGETS)

faults: $(VENV)/.installed-dev   ## real processes killed, cut off and stopped, at every step of a round
	$(BIN)/python -m pytest -m faults --override-ini='addopts=--strict-markers --import-mode=importlib'

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/masking.py
	$(BIN)/python benchmarks/round.py
	$(BIN)/python benchmarks/accumulate.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/two_key.py

soak: $(VENV)/.installed-dev   ## half an hour of faults over a consortium of 20 sites; Linux only
	$(BIN)/python benchmarks/soak.py

scale: $(VENV)/.installed-dev   ## one round of 200 sites with 100,000 numbers
	$(BIN)/python benchmarks/scale.py

truths: $(VENV)/.installed-dev   ## every analysis against other libraries; writes docs/accuracy.md
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.truths --write docs/accuracy.md

bundle: $(VENV)/bin/python   ## everything for an installation without a network, in dist/; needs the network itself
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/python -m deploy.bundle.build

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements-dev.lock -e '.[dev]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements-dev.lock -e '.[dev,fuzz]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
