# The whole set-up: Python 3.11 or later, git and make. The make of macOS (3.81) is enough.
ifeq ($(OS),Windows_NT)
$(error Redrive runs on Linux and macOS, not on Windows; under WSL it does)
endif

PYTHON = .venv/bin/python
PIP = PIP_USER=0 $(PYTHON) -m pip --disable-pip-version-check --no-input --quiet
LOCK = .venv/bin/uv pip compile pyproject.toml --universal --python-version 3.11 \
	--generate-hashes --no-header --no-emit-index-url --system-certs --quiet
ARGS =

.DEFAULT_GOAL := help
.PHONY: help demo test check bench docs lock clean

help: ## print these lines
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-7s %s\n", $$1, $$2}' Makefile

demo: .venv/.run ## install and see the product in half a minute (ARGS="--keep DIR" leaves the database)
	@$(PYTHON) -m redrive demo $(ARGS)

test: .venv/.dev ## install what tests need and run everything (ARGS="-k words tests/flow" goes to pytest)
	@$(PYTHON) -m pytest --numprocesses 4 --dist worksteal $(ARGS)

check: .venv/.dev ## format, lint, types, layers, sizes
	@.venv/bin/ruff format --check
	@.venv/bin/ruff check
	@$(PYTHON) -m mypy
	@.venv/bin/lint-imports --no-cache
	@$(PYTHON) -m pytest --quiet tests/layout

bench: .venv/.run ## measure speed and memory beside the reference loop (ARGS="letters redrive" for parts)
	@$(PYTHON) -m benchmarks $(ARGS)

docs: .venv/.dev ## write docs/reference from the code
	@$(PYTHON) -m tools.reference

lock: .venv/bin/python ## renew requirements/*.txt after a change in pyproject.toml (ARGS="--upgrade" for newer versions)
	@$(PIP) install uv
	@$(LOCK) --group build --group dev --output-file requirements/dev.txt $(ARGS)
	@$(LOCK) --group build --constraint requirements/dev.txt --no-annotate --output-file requirements/run.txt $(ARGS)

clean: ## remove .venv and everything that tools left behind
	@rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@tools/venv .venv

.venv/.run: .venv/bin/python pyproject.toml requirements/run.txt
	@echo "installing Redrive into .venv" >&2
	@$(PIP) install --require-hashes --requirement requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.dev: .venv/.run requirements/dev.txt
	@echo "installing what tests and checks need into .venv" >&2
	@$(PIP) install --require-hashes --requirement requirements/dev.txt
	@touch $@
