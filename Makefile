# make bench: set up, benchmark ResNet-50 here, print the result.
# make test: set up, run all that guards main.   make test PART=stats: the tests of one layer.
# make test-all: what is too long for every change too.   make test-shuffled N=10: find flaky tests.
# make docs: the documentation as a site, in .make/site.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: bench test test-all test-shuffled lint docs speed clean

bench: .make/torch
	$(BIN)/convdyno bench resnet50 --precision fp32,bf16 --budget 3m

# tests/parts.py says which tests run beside which; with CI set, nothing may be missing.
PART ?=
N ?= 10
test: .make/test .make/data/ready $(if $(PART),,lint)
	$(BIN)/python tests/parts.py $(PART:%=--part %)

test-all: .make/test .make/data/ready lint
	$(BIN)/python tests/parts.py --all

test-shuffled: .make/test .make/data/ready
	$(BIN)/python tests/parts.py --shuffled $(N)

lint: .make/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .make/test
	$(BIN)/python tools/build_site.py

# Speed of convdyno itself, against its peers; not part of the tests, because machines are noisy.
speed: .make/test
	$(BIN)/python benchmarks/torch_loop.py
	$(BIN)/python benchmarks/overhead.py
	$(PIP) flax optax
	$(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/input.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/report.py 10000
	$(BIN)/python benchmarks/precision.py --minutes 60

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
