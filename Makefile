# Needs Python 3.11 or newer, and make. Everything lands in .venv; a target that is up to date costs nothing.
#   make demo         predict and verify two ResNet-18 layers on every device found; build/demo has the first one's kernel
#   make test         the tests; those that need more than `make test` installs are skipped, and -rs says why; the few
#                     that are marked `anywhere` run with `make test-anywhere` alone
#   make test-anywhere  all tests under settings of other machines: BLAS kernels, one core, another user, ...
#   make test-peers   other people's tests and models, against ours: PyTorch, timm, transformers, ONNX, Kernel Tuner, Helion
#   make test-arm     the kernels, the commands and the core tests on an emulated ARM machine, in build/arm; needs no root
#   make develop      installs what all tests, `make check`, `make docs` and `make dist` need
#   make check        lint and types
#   make docs         the documentation site, in build/site; a broken link or a missing docstring fails
#   make dist         the source distribution and the wheel made from it, in dist; checked by twine and pyroma, too
#   make gpu          check and measure this machine's NVIDIA GPU, and compare with libraries; can be resumed

# The Python of the virtual environment; without one, the first of PYTHONS that runs and is new enough.
PYTHON ?=
PYTHONS := python3.11 python3 python3.12 python3.13 python3.14
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# uv installs faster than pip. It does not read pip's settings: where these say where packages come from, pip installs.
UV ?= uv
USE_UV = command -v "$(UV)" >/dev/null && ! $(PIP) config list 2>/dev/null | grep -Eq 'index|find-links|constraint|cert'
# More arguments of `pip install` and `uv pip install`, such as another index to take torch from.
PIP_ARGUMENTS ?=
INSTALL = install --quiet --constraint constraints.txt --build-constraint constraints.txt $(PIP_ARGUMENTS)
# Install this repository with the extras in brackets, COMMA between them. Only a pip that is quiet twice hides the
# warnings of the build.
install = if $(USE_UV); then "$(UV)" pip $(INSTALL) --python $(BIN)/python -e '.$(1)'; \
	else $(PIP) $(INSTALL) --quiet -e '.$(1)'; fi
COMMA := ,

# Arguments of `python -m tests.anywhere`, such as `--only one-core` or `--list`.
ANYWHERE_ARGUMENTS ?=

# Arguments of `python -m tests.anywhere.arm`, such as `--only kernels`.
ARM_ARGUMENTS ?=

# Arguments of `python -m benchmarks gpu`, such as `--minutes 9` or `--tasks measure`.
GPU_ARGUMENTS ?=

.PHONY: demo test test-anywhere test-peers test-arm check docs dist gpu install develop clean

demo: install
	@rm -rf build/demo
	@$(BIN)/seqtune demo --out build/demo

# Without compiled files each process of tests would take 8 s of CPU to compile them, in every run.
test: $(VENV)/.testing
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile \
		--no-loadscope-reorder -m "not anywhere" $(PYTEST_ARGUMENTS)

test-anywhere: develop
	@$(BIN)/python -m tests.anywhere $(ANYWHERE_ARGUMENTS)

test-peers: $(VENV)/.peers
	@$(BIN)/python -m pytest tests/peers tests/integrations/helion/test_hook.py $(PYTEST_ARGUMENTS)

test-arm: develop
	@$(BIN)/python -m tests.anywhere.arm $(ARM_ARGUMENTS)

check: develop
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: develop
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# pyroma's two tests that are left out ask for an address of the authors and a home page; there are none.
dist: develop
	@rm -rf dist
	@{ $(BIN)/python -m build --no-isolation --outdir dist . && $(BIN)/python -m twine check --strict dist/* && \
		$(BIN)/python -m pyroma --min 10 --skip-tests AuthorEmail,Url dist/*.tar.gz; } >build.log 2>&1 || \
		{ cat build.log >&2; rm build.log; exit 1; }
	@rm build.log
	@$(BIN)/python -m tests.support.installation.distributions dist

gpu: $(VENV)/.gpu
	@$(BIN)/python -m benchmarks gpu --out gpu $(GPU_ARGUMENTS)

install: $(VENV)/.installed
develop: $(VENV)/.developer

$(VENV)/.created:
	@for python in $(if $(PYTHON),"$(PYTHON)",$(PYTHONS)); do \
		if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			"$$python" -m venv --clear $(VENV) || "$(UV)" venv --quiet --clear --python "$$python" $(VENV); exit; \
		fi; \
	done; \
	echo "seqtune needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3.11" >&2; exit 1
	@$(USE_UV) || $(PIP) install --quiet --upgrade --constraint constraints.txt $(PIP_ARGUMENTS) pip
	@touch $@

$(VENV)/.installed: $(VENV)/.created constraints.txt pyproject.toml
	@$(call install)
	@touch $@

$(VENV)/.testing: $(VENV)/.created constraints.txt pyproject.toml
	@$(call install,[test])
	@touch $(VENV)/.installed $@

$(VENV)/.developer: $(VENV)/.created constraints.txt pyproject.toml
	@$(call install,[dev])
	@touch $(VENV)/.installed $(VENV)/.testing $@

$(VENV)/.peers: $(VENV)/.developer
	@$(call install,[peers])
	@touch $@

# pycuda is compiled here, which takes minutes and needs nvcc and the toolkit's headers.
$(VENV)/.gpu: $(VENV)/.developer
	@$(call install,[cuda$(COMMA)triton])
	@touch $@

clean:
	rm -rf $(VENV)
