# make bench: set up, benchmark ResNet-50 here, print the result.   make test: set up, run every test.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

ALIKE := tests/engines tests/weights
ZOO := tests/engines/test_certified_zoo.py

.PHONY: bench test lint speed clean

bench: .make/torch
	$(BIN)/convdyno bench resnet50 --precision fp32,bf16 --budget 3m

# Slow tests of what engines compute run in two processes, but for the zoo, whose workers fill the
# memory. The others run one by one: they start workers that take every core, and two of those
# disturb each other more than they save.
# -rs names at the end what was not run, and why; with CI set, nothing may be missing.
test: .make/test .make/data/ready lint
	$(BIN)/pytest -rs -n 2 -m "not slow"
	$(BIN)/pytest -rs -n 2 --dist loadfile -m slow $(ALIKE) --ignore $(ZOO)
	$(BIN)/pytest -rs -m slow $(ALIKE:%=--ignore %)
	$(BIN)/pytest -rs -m slow $(ZOO)

lint: .make/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Speed of convdyno itself, against its peers; not part of the tests, because machines are noisy.
speed: .make/test
	$(BIN)/python benchmarks/torch_loop.py
	$(BIN)/python benchmarks/overhead.py
	$(PIP) flax optax
	$(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/input.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/report.py 10000

# System packages and real data sets; the scripts leave what is there already.
.make/data/ready: tests/system.sh tests/real_data.sh
	tests/system.sh
	tests/real_data.sh .make/data || [ -z "$$CI" ]
	@mkdir -p .make/data && touch $@

.make/torch: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[torch]'
	@mkdir -p .make && touch $@

# torchvision and timm are only compared with: without their dependencies, which would replace torch.
.make/test: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[test]'
	$(PIP) --no-deps torchvision timm
	@mkdir -p .make && touch $@

# Debian keeps venv in a package of its own.
.venv/bin/python:
	$(PYTHON) -m venv .venv || { rm -rf .venv; apt-get update -q && apt-get install -qy python3-venv && $(PYTHON) -m venv .venv; }

clean:
	rm -rf .venv .make build dist
