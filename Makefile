# Needs Python 3.11 and make. Everything lands in .venv; a target that is up to date costs nothing.
#   make demo         predict and verify two ResNet-18 layers on every device found
#   make test         the tests
#   make check        lint and types
#   make docs         the documentation site, in build/site; a broken link or a missing docstring fails
#   make collect      measure on this CPU what the shipped data lacks, in slices that can be resumed
#   make gpu-day      checks, measurements and results of this machine's NVIDIA GPU, in slices that can be resumed
#   make gpu-day-dry  the same steps without a GPU, in less than a minute
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# More arguments of `pip install`, such as another index to take torch from.
PIP_ARGUMENTS ?=

# Arguments of `python -m benchmarks.gpu_day`, such as `--minutes 9` or `--only gemm-bf16`.
GPU_DAY_ARGUMENTS ?=

# Arguments of `python -m benchmarks.collect`, such as `--minutes 20` or `--devices llvm:avx2:2`.
COLLECT_ARGUMENTS ?= --minutes 20

.PHONY: demo test check docs collect gpu-day gpu-day-dry install develop clean

demo: install
	@$(BIN)/seqtune demo

test: develop
	@$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder \
		$(PYTEST_ARGUMENTS)

check: develop
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: develop
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

collect: install
	@$(BIN)/python -m benchmarks.collect --out collected $(COLLECT_ARGUMENTS)

gpu-day: $(VENV)/.gpu
	@$(BIN)/python -m benchmarks.gpu_day --out gpu-day $(GPU_DAY_ARGUMENTS)

gpu-day-dry: develop
	@$(BIN)/python -m benchmarks.gpu_day --dry-run --out gpu-day/dry $(GPU_DAY_ARGUMENTS)

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

# pycuda is compiled here, which takes minutes and needs nvcc and the toolkit's headers.
$(VENV)/.gpu: $(VENV)/.developer
	$(PIP) install --quiet -c constraints.txt $(PIP_ARGUMENTS) -e '.[cuda,triton]'
	@touch $@

clean:
	rm -rf $(VENV)
