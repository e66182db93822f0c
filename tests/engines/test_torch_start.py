"""A worker of torch imports what it needs, and no more."""

import subprocess
import sys

import pytest

STEP = """
import sys
from convdyno.blueprint.weights import initial_weights
from convdyno.engines import registry
from convdyno.run.feed import blueprint_of, open_feed
from convdyno.trial.spec import make_trial
from convdyno.trial.world import World

trial = make_trial(network="lenet", engine="torch", batch=2, optimiser={"kind": sys.argv[1]})
engine, blueprint = registry.load("torch"), blueprint_of(trial)
session = engine.open(blueprint, trial, initial_weights(blueprint, 0))
open_feed(engine, session, blueprint, trial, World()).run(2)
session.wait()
print(*(name for name in ("torch._dynamo", "sympy") if name in sys.modules))
"""


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_what_compiles_nothing_imports_no_compiler(rule: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STEP, rule], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
