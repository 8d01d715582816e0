# make setup   build .venv: PyTorch, minicompile (editable, with its C extension), the course, the test tools
# make lab     the same if missing, then JupyterLab on notebooks/
# make test    the same if missing, then lint, unit, end-to-end and notebook tests
# make fuzz | lint | clean | python (prints the interpreter that would be used)
# Another interpreter: make test PYTHON=python3.12   (uses .venv-python3.12; 3.11, 3.12 and 3.13 are supported)

PYTHON ?= python3
TORCH = 2.13.0
JOBS ?= 2  # test processes at a time
SELECT ?= not slow  # the tests that run; SELECT="" runs those that take many minutes too
EXTRAS = course,test
unexport PYTHONDONTWRITEBYTECODE  # each process of the tests would compile PyTorch's Python anew

VENV := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready-$(EXTRAS)
# Without a GPU the CPU build is enough and much smaller; where its index cannot be reached, PyPI's build does too.
CPU_INDEX = https://download.pytorch.org/whl/cpu
TORCH_INDEX = $(shell command -v nvidia-smi >/dev/null 2>&1 || \
	{ curl -sfI -m 10 $(CPU_INDEX)/torch/ >/dev/null 2>&1 && echo --extra-index-url $(CPU_INDEX); })

# A pyenv shim may exist for a version that is not selected: then take pyenv's own installation.
INTERPRETER = $(shell for each in $(PYTHON) $$(ls $$(pyenv root 2>/dev/null)/versions/*/bin/$(notdir $(PYTHON)) 2>/dev/null); \
	do $$each -c 1 >/dev/null 2>&1 && { echo $$each; break; }; done)

.PHONY: setup torch python lab test lint unit fuzz end-to-end notebooks clean

setup: $(STAMP)

$(VENV)/.torch-$(TORCH):
	@test -n "$(INTERPRETER)" || { echo "no working $(PYTHON) on this machine"; exit 1; }
	@$(INTERPRETER) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 13) or sys.exit("minicompile needs Python 3.11, 3.12 or 3.13; $(PYTHON) is %d.%d (try: make $(MAKECMDGOALS) PYTHON=python3.12)" % v)'
	@command -v cc >/dev/null && command -v c++ >/dev/null || { echo "no C and C++ compiler: install gcc or clang (Debian: apt install build-essential)"; exit 1; }
	test -x $(BIN)/python || $(INTERPRETER) -m venv $(VENV)
	$(BIN)/python -c 'from importlib.metadata import version; assert version("torch").split("+")[0] == "$(TORCH)"' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --no-compile torch==$(TORCH) $(TORCH_INDEX)
	touch $@

$(STAMP): pyproject.toml setup.py $(wildcard $(foreach folder,aot dynamo inductor/codegen,$(addprefix minicompile/$(folder)/*.,c cpp h)) minicompile/*.h) Makefile $(VENV)/.torch-$(TORCH)
	echo torch==$(TORCH) > $(VENV)/constraints.txt  # nothing that is installed next may bring another torch
	$(BIN)/python -m pip install --quiet --no-compile --constraint $(VENV)/constraints.txt --editable '.[$(EXTRAS)]'
	touch $(STAMP)

torch: $(VENV)/.torch-$(TORCH)  # the first and longest part of setup

python:
	@echo $(INTERPRETER)

lab: setup
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/

test: lint unit end-to-end notebooks

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

unit: setup
	$(BIN)/python -m pytest -n $(JOBS) -p no:nbval -m "$(SELECT)" tests --ignore=tests/end_to_end

end-to-end: setup
	$(BIN)/python -m pytest -n $(JOBS) -p no:nbval -m "$(SELECT)" tests/end_to_end

# Random programs, eager against compiled, for FUZZ_MINUTES or BATCHES of 100; another SEED, other programs.
FUZZ_MINUTES ?= 2
SEED ?= 1
BATCHES ?=
fuzz: setup
	$(BIN)/python -m tests.fuzz --minutes $(FUZZ_MINUTES) --seed $(SEED) --processes $(JOBS) \
		$(if $(BATCHES),--batches $(BATCHES))

notebooks: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --nbval-lax --nbval-current-env notebooks

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis minicompile/*/*.so minicompile/inductor/codegen/*.so
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
	rm -f .venv*/.ready-* .venv*/.torch-*
