"""Ranks of torch whose gradients Horovod averages; where it can be imported."""

from typing import Any

import pytest
import spread_suite as suite
from spread_suite import Case

pytest.importorskip("horovod.torch", reason="Horovod is not installed: docs/scaling.md says how")
pytestmark = pytest.mark.slow

OVER = {"exchange": "horovod"}
CASES = {
    name: Case(case.build, case.values | OVER, case.batch, case.alike)
    for name, case in suite.CASES.items()
    if name != "wire"
} | {
    "nchw": Case("residual", {"layout": "nchw", "bucket_mb": 0.01, **OVER}),
    "parts": Case("plain", {"accumulate": 2, **OVER}),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: Any) -> Any:
    return suite.run("torch", tmp_path_factory.mktemp("horovod"), CASES)


@pytest.mark.parametrize("name", ["plain", "norms", "everything", "adam", "nchw", "parts"])
def test_ranks_average_gradients_and_keep_their_statistics(found: Any, name: str) -> None:
    suite.check_ranks(CASES[name], found[name])


@pytest.mark.parametrize("name", ["half", "dropping"])
def test_ranks_agree(found: Any, name: str) -> None:
    suite.check_agreement(CASES[name], found[name])
