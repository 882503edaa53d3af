# Needs Python 3.11 and make. Everything lands in .venv; a target that is up to date costs nothing.
#   make demo    predict and verify two ResNet-18 layers on every device found
#   make test    the tests
#   make check   lint and types
#   make docs    the documentation site, in build/site; a broken link or a missing docstring fails
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# More arguments of `pip install`, such as another index to take torch from.
PIP_ARGUMENTS ?=

.PHONY: demo test check docs install develop clean

demo: install
	@$(BIN)/seqtune demo

test: develop
	@$(BIN)/python -m pytest $(PYTEST_ARGUMENTS)

check: develop
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: develop
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

install: $(VENV)/.installed
develop: $(VENV)/.developer

$(VENV)/.created:
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created constraints.txt pyproject.toml
	$(PIP) install --quiet -c constraints.txt $(PIP_ARGUMENTS) -e .
	@touch $@

$(VENV)/.developer: $(VENV)/.installed
	$(PIP) install --quiet -c constraints.txt $(PIP_ARGUMENTS) -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV)
