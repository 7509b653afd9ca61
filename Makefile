# SpecViz. `make run` and `make test` set up what they need; without make, see "Without make" in README.md.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip install --disable-pip-version-check --constraint constraints.txt

.PHONY: help run test check bench traces clean

help:
	@echo "make run      set up, fetch the model once, open the page"
	@echo "make test     set up, run every test"
	@echo "make check    lint, format, types, layers"
	@echo "make bench    measure the page and the engine on this machine"
	@echo "make traces   record the runs that a first visit shows"
	@echo "make clean    remove .venv and what tests and tools left (the model stays in the user's cache folder)"

run: $(VENV)/ready
	@$(PY) -m specviz serve

test: $(VENV)/ready-dev
	$(PY) -m pytest

check: $(VENV)/ready-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/test_layers.py tests/test_locales.py

bench: $(VENV)/ready-dev
	$(PY) -m tests.bench

traces: $(VENV)/ready
	$(PY) -m specviz record

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis bench-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "SpecViz needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.12 run")'
	@echo "Setting up $(VENV) (once, some minutes)"
	@$(PYTHON) -m venv $(VENV)

# The stamps keep a second `make run` from asking the package index again.
$(VENV)/ready: requirements.txt constraints.txt | $(PY)
	@echo "Installing what SpecViz needs"
	@$(PIP) --requirement requirements.txt
	@touch $@

$(VENV)/ready-dev: requirements.txt requirements-dev.txt constraints.txt | $(PY)
	@echo "Installing what the tests need"
	@$(PIP) --requirement requirements-dev.txt
	@touch $(VENV)/ready $@
