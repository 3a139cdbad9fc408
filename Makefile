# The two commands of the README are `make iterate` and `make test`. Both need Python 3.11 or newer, git and make;
# everything else is installed into .venv.

ifndef PYTHON
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON := $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell $(name) -c '$(NEW_ENOUGH)' 2>/dev/null && echo $(name))) python3)
endif
BIN := .venv/bin
READY := .venv/.ready
JOBS ?= 2
# A file of tests stays in one process, which sets up what its tests share once.
SHARED := -n $(JOBS) --dist loadfile
# Extra words for pip and for the command, e.g. make iterate ARGS='--device gpu:0 --budget 30m'
PIP_ARGS ?=
ARGS ?=

.PHONY: ready nightly iterate test test-full test-gpu redteam check bench bench-search docs format clean
.DEFAULT_GOAL := test

# Reinstalled only when what it depends on changes; evo itself is editable.
$(READY): pyproject.toml setup.py
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -e '.[dev]'
	@touch $@

ready: $(READY)

iterate: $(READY)
	$(BIN)/evo iterate attention --from ladder/00_scalar.cu --branch evo/first-run \
		--iterations 12 $(ARGS)

test: $(READY)
	$(BIN)/python -m pytest $(SHARED) $(ARGS)

test-full: $(READY)
	$(BIN)/python -m pytest -n $(JOBS) -m 'not gpu' $(ARGS)

test-gpu: $(READY)
	$(BIN)/python -m pytest -m gpu $(ARGS)

# Every shipped attack must lose; on a GPU too with make redteam DEVICE=gpu:0
DEVICE ?= sim:l4
redteam: $(READY)
	$(BIN)/evo redteam --device $(DEVICE) $(ARGS)

# One night of a runner: make nightly DEVICE=gpu:0 ARGS='--budget 2h --branch evo/nightly'
nightly: $(READY)
	$(BIN)/evo nightly --device $(DEVICE) $(ARGS)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest $(SHARED) $(ARGS)

bench: $(READY)
	$(BIN)/python benchmarks/simulator.py $(ARGS)

# evo's knob search against others by replay; ARGS='--seeds 10 --only convolution_A4000' is quicker
bench-search: $(READY)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/search.py $(ARGS)

# The pages that are written from the code
docs: $(READY)
	$(BIN)/python docs/generate.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist *.egg-info
