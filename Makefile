# Needs Python 3.11 and make. Everything lands in .venv; a target that is up to date costs nothing.
#   make demo    predict and verify two ResNet-18 layers on every device found
#   make test    the tests
#   make check   lint and types
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The CPU build of torch is ten times smaller than the one on PyPI for Linux; where this page cannot be reached, pip's own sources serve.
TORCH_CPU ?= https://download.pytorch.org/whl/cpu/torch/

.PHONY: demo test check install develop clean

demo: install
	@$(BIN)/seqtune demo

test: develop
	@$(BIN)/python -m pytest $(PYTEST_ARGUMENTS)

check: develop
	$(BIN)/ruff check .
	$(BIN)/mypy

install: $(VENV)/.installed
develop: $(VENV)/.developer

$(VENV)/.created:
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.torch: $(VENV)/.created constraints.txt
	$(PIP) install --quiet --retries 0 --timeout 30 -c constraints.txt --find-links $(TORCH_CPU) torch
	@touch $@

$(VENV)/.installed: $(VENV)/.torch pyproject.toml
	$(PIP) install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.developer: $(VENV)/.installed
	$(PIP) install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV)
