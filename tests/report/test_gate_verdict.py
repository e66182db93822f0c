"""What a gate says of two records."""

import pytest
from made_up import made

from convdyno.report.gate import Terms, examine

FAILED = {"status": "failed", "reason": "SIGSEGV"}


@pytest.mark.parametrize("candidate", [{}, FAILED], ids=["candidate runs", "candidate fails"])
def test_a_base_that_failed_after_some_rounds_says_nothing(candidate: dict[str, str]) -> None:
    gate = examine(made().but(**FAILED), made().but(**candidate), Terms(0.5), in_turns=True)
    assert (gate.outcome, gate.exit_code) == ("nothing measured", 4)
    assert gate.reason == "the base itself failed: SIGSEGV"


def test_a_candidate_that_fails_where_the_base_runs_is_a_regression() -> None:
    gate = examine(made(), made().but(**FAILED), Terms(0.5), in_turns=True)
    assert gate.outcome == "regression"
