# make           set up .venv from the lock
# make paper     measure this machine, and build the article and this machine's report
# make record    build the article from what is recorded, and keep it where readers of the repository find it
# make test      lint, and run the tests that answer in minutes
# make test-all  lint, and run all tests
# make runtimes  add ONNX Runtime and JAX
# make models    add transformers
# make clean     remove .venv and what was built
#
# PYTHON=python3.12 names the Python that .venv is made with, VENV=path another place for it.

PYTHON ?= python3
VENV ?= .venv

# Prefixing the recipes, and not the whole Makefile: set-up must use the user's Python, not .venv's.
IN_VENV = PATH="$(abspath $(VENV))/bin:$$PATH"

.PHONY: setup paper record runtimes models test test-all clean help

setup: $(VENV)/.installed

# The stamp comes last, so that an interrupted set-up is done again.
$(VENV)/.installed: envs/requirements.txt envs/constraints-cuda.txt envs/install.py pyproject.toml
	@"$(PYTHON)" envs/install.py "$(VENV)"
	@touch "$@"
	@echo 'ready: make paper, or first: source "$(VENV)/bin/activate"'

paper: setup
	$(IN_VENV) snakemake --cores 1 --resources gpu=1

# The first recorded study keeps the article and its map.
record: setup
	$(IN_VENV) snakemake paper
	cp paper/paper.pdf paper/build/figures/map.svg results/recorded/h200/

# What modes of other runtimes need besides the lock; without it they are unsupported.
runtimes: setup
	$(IN_VENV) python -m pip install -q -r envs/runtimes.txt

# What models of transformers need besides the lock; without it they are unsupported.
models: setup
	$(IN_VENV) python -m pip install -q -r envs/models.txt

# An empty selection takes all tests, instead of all but those marked nightly.
test-all: SELECTED = -m ""
test test-all: setup
	$(IN_VENV) ruff check
	$(IN_VENV) ruff format --check
	$(IN_VENV) snakefmt --check Snakefile workflow/rules
	$(IN_VENV) snakemake --lint
	$(IN_VENV) mypy
	$(IN_VENV) pytest -n 3 --dist loadfile --no-loadscope-reorder $(SELECTED)

# Measurements under results/ and Snakemake's notes on them (.snakemake) cost GPU hours and stay.
# .venv and not $(VENV): an environment of another place is not this Makefile's to delete.
clean:
	rm -rf .venv paper/paper.pdf paper/supplement.pdf paper/build results/rebuilt .pytest_cache .ruff_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile
