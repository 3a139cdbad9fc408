# The two commands of the README are `make iterate` and `make test`. Both need Python 3.11 or newer, git and make;
# everything else is installed into .venv.

ifndef PYTHON
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON := $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell $(name) -c '$(NEW_ENOUGH)' 2>/dev/null && echo $(name))) python3)
endif
BIN := .venv/bin
READY := .venv/.ready
# Three on two cores: a test waits for a process of its own now and then.
JOBS ?= 3
# A file of tests stays in one process, which sets up what its tests share once.
SHARED := -n $(JOBS) --dist loadfile
# The CUDA toolkit: cu13, cu12 for a driver before the 580 series, sim where there is no GPU (200 MB less).
CUDA ?= cu13
EXTRAS ?= dev,$(CUDA)
# Extra words for pip and for the command, e.g. make iterate ARGS='--device gpu:0 --budget 30m'
PIP_ARGS ?=
ARGS ?=

.PHONY: ready nightly iterate test test-full test-gpu coverage mutation redteam check dist package bench bench-search \
	bench-rules bench-clock docs format clean
.DEFAULT_GOAL := test

# Reinstalled only when what it depends on changes; evo itself is editable.
$(READY): pyproject.toml setup.py
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -e '.[$(EXTRAS)]'
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

# Lines and branches of evo/ that the tests reach, child processes included
coverage: $(READY)
	$(BIN)/python -m pytest $(SHARED) --cov --cov-report=term:skip-covered --cov-report=xml $(ARGS)

# Changes to the decision and to the comparison of numbers that no test notices
mutation: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'mutmut>=3.8,<4'
	rm -rf mutants
	$(BIN)/python -m mutmut run --max-children $(JOBS) $(ARGS)
	$(BIN)/python tests/support/surviving_mutants.py

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

# What a release uploads: sdist and wheel in dist/, with metadata that the package index takes.
dist:
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --quiet --disable-pip-version-check 'build>=1.2' 'twine>=6.1'
	build/tools/bin/python -m build --outdir dist .
	build/tools/bin/python -m twine check --strict dist/*

# The distribution as a stranger gets it: make dist, installed into an empty environment and used there
package: $(READY)
	$(BIN)/python -m pytest -m long tests/long/test_packaging.py $(ARGS)

bench: $(READY)
	$(BIN)/python benchmarks/simulator.py $(ARGS)

# evo's knob search against others by replay; ARGS='--seeds 10 --only convolution_A4000' is quicker
bench-search: $(READY)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/search.py $(ARGS)

# How well the modelled clock ranks variants that an H200 measured, by family; ARGS='--only matmul' is quicker
bench-clock: $(READY)
	$(BIN)/python benchmarks/clock/judge.py $(ARGS)

# What each rewrite rule brings on many kernels, some 40 minutes; ARGS='--rules lanes' is quicker
bench-rules: $(READY)
	$(BIN)/python benchmarks/rule_evidence.py $(ARGS)

# The pages that are written from the code
docs: $(READY)
	$(BIN)/python docs/generate.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist *.egg-info
