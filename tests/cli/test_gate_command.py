"""`convdyno gate`: real workers, scripted times; a planted slowdown is found, nothing is not."""

import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from convdyno.engines.clockwork import Clockwork
from convdyno.store.folder import Store

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/gate.json").read_text())
QUIET = "within=0.01;between=0.002"
BASE = f"device=step=0.002;{QUIET}"
GATE = ("gate", "trivial", "--engine", "clockwork", "--budget", "60s", "--json")
BLIND = (*GATE, "--no-floor")

OTHER_WORKER = """\
import sys
from convdyno.engines import clockwork
from convdyno.run import worker

clockwork.NUMBERS["step"] = float(sys.argv[1])
if "restless" in sys.argv:
    plain = clockwork.Clockwork.loss
    clockwork.Clockwork.loss = lambda self: plain(self) + 1e-9
worker.main()
"""


def device(step: float, more: str = QUIET) -> tuple[str, str]:
    return "--device", f"step={step};{more}"


def only(outcome: Any) -> Any:
    """The one gate of a document, which keeps to its schema."""
    jsonschema.validate(outcome.json, SCHEMA)
    (gate,) = outcome.json["gates"]
    assert gate["verdict"] == outcome.json["verdict"]
    return gate


@pytest.fixture
def other_worker(tmp_path: Path) -> str:
    """The command of a base whose engine is another one."""
    script = tmp_path / "other.py"
    script.write_text(OTHER_WORKER)
    return f"{sys.executable} {script}"


def test_a_slowdown_of_ten_percent_is_a_regression(convdyno_process: Any, tmp_path: Path) -> None:
    outcome = convdyno_process(*BLIND, *device(0.0022), "--base-set", BASE)
    gate = only(outcome)
    assert (outcome.code, gate["verdict"]) == (1, "regression")
    assert gate["ratio"] == pytest.approx(1 / 1.1, rel=0.02)
    assert gate["interval"][1] < gate["limit"]
    assert gate["paired"]
    records = {r.role: r for r in Store(tmp_path / "results" / "gate").records()}
    assert records.keys() == {"base", "candidate"}
    assert gate["base"]["record"].endswith(f"{records['base'].id}.json")
    turns = [
        {(p.round, block.turn) for p in record.processes for block in p.blocks}
        for record in records.values()
    ]
    assert turns[0] == turns[1]


def test_no_slowdown_passes_and_the_screen_says_so(convdyno: Any) -> None:
    outcome = convdyno(*BLIND[:-2], "--no-floor", *device(0.002), "--base-set", "threads=1")
    assert outcome.code == 0
    assert "PASS: a step takes" in outcome.out
    assert "loss            same     2.21402 after 4 steps, to the bit" in outcome.out
    assert "threads 1" in outcome.out


def test_unlike_batches_are_held_to_the_time_of_an_image(convdyno: Any) -> None:
    words = (*BLIND[:-2], "--no-floor", *device(0.002), "--batch", "128", "--base-set", "batch=16")
    said = convdyno(*words).out
    assert "an image may take" in said
    assert "an image takes -87" in said
    assert "a step" not in said


def test_noise_around_the_limit_is_undecided(
    convdyno: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes differ by a fifth, now in favour of one side and now of the other.

    The side that is opened first is another in each round.
    """
    factors = itertools.cycle((1.2, 1.0))
    plain = Clockwork.__init__

    def restless(self: Any, *given: Any, **more: Any) -> None:
        plain(self, *given, **more)
        self._seconds *= next(factors)

    monkeypatch.setattr(Clockwork, "__init__", restless)
    outcome = convdyno(
        *BLIND, *device(0.00206), "--base-set", f"device=step=0.002;{QUIET}", "--budget", "8s"
    )
    gate = only(outcome)
    assert (outcome.code, gate["verdict"]) == (3, "undecided")
    assert gate["interval"][0] < gate["limit"] < gate["interval"][1]


@pytest.mark.parametrize(
    ("base", "candidate", "code", "said"),
    [
        ("step=0.002", "step=0.002;fail=crash;at=20", 1, "the candidate failed where the base"),
        ("step=0.002;fail=oom;at=20", "step=0.002", 4, "nothing was measured of the base"),
    ],
    ids=["candidate fails", "base fails"],
)
def test_a_side_that_fails(convdyno: Any, base: str, candidate: str, code: int, said: str) -> None:
    outcome = convdyno(*BLIND, "--device", candidate, "--base-set", f"device={base}")
    assert outcome.code == code
    assert said in only(outcome)["reason"]


def test_a_budget_too_short_measures_nothing(convdyno_process: Any) -> None:
    outcome = convdyno_process(
        *BLIND, *device(0.002), "--base-set", BASE + "5", "--budget", "0.05s"
    )
    assert (outcome.code, only(outcome)["verdict"]) == (4, "nothing measured")


def test_a_base_of_another_command_takes_turns_with_the_candidate(
    convdyno: Any, other_worker: str
) -> None:
    words = (*BLIND, "--device", QUIET, "--base-command")
    assert convdyno(*words, f"{other_worker} 0.0015").code == 1
    gate = only(convdyno(*words, f"{other_worker} 0.003"))
    assert gate["verdict"] == "pass"
    assert gate["ratio"] == pytest.approx(1.5, rel=0.05)


def test_a_loss_that_changed_is_a_regression_however_fast(convdyno: Any, other_worker: str) -> None:
    words = (*BLIND, "--device", QUIET, "--base-command", f"{other_worker} 0.003 restless")
    gate = only(convdyno(*words))
    assert gate["verdict"] == "regression"
    assert [check["name"] for check in gate["checks"] if not check["passed"]] == ["loss"]
    assert "to be the same to the bit" in gate["reason"]
    assert only(convdyno(*words, "--loss-within", "1e-6"))["verdict"] == "pass"
    assert only(convdyno(*words, "--ignore", "loss"))["verdict"] == "pass"


NETWORK = """\
def net(net, classes):
    return net.image.conv_norm_relu({}, 3).mean().logits(classes).done()
"""


def test_the_base_may_run_the_network_of_another_folder(convdyno: Any, tmp_path: Path) -> None:
    for folder, channels in ((tmp_path, 4), (tmp_path / "before", 8)):
        folder.mkdir(exist_ok=True)
        (folder / "mine.py").write_text(NETWORK.format(channels))
    outcome = convdyno(
        "gate", "--network", "mine:net", "--engine", "clockwork", "--image-size", "8",
        "--no-floor", *device(0.002), "--budget", "60s", "--base-folder", "before", "--json",
    )  # fmt: skip
    gate = only(outcome)
    assert outcome.code == 1
    failed = {check["name"]: check for check in gate["checks"] if check["passed"] is False}
    assert failed.keys() == {"network", "parameters", "macs"}
    assert failed["parameters"]["base"] > failed["parameters"]["candidate"]


def test_records_of_earlier_are_a_base_that_is_not_paired(convdyno: Any, tmp_path: Path) -> None:
    bench = ("bench", "trivial", "--engine", "clockwork", *device(0.002), "--batch", "4,8")
    assert convdyno(*bench, "--out", "main", "--budget", "60s").code == 0
    outcome = convdyno("gate", "--base", "main", "--no-floor", "--budget", "60s", "--json")
    jsonschema.validate(outcome.json, SCHEMA)
    assert outcome.code == 0
    assert [gate["trial"]["batch"] for gate in outcome.json["gates"]] == [4, 8]
    assert not any(gate["paired"] for gate in outcome.json["gates"])
    assert outcome.json["gates"][0]["base"]["record"].startswith("main/")
    # Half of 5 % for each of two candidates; half of that where it took more than one look.
    levels = [pytest.approx(0.975), pytest.approx(0.9875)]
    assert all(gate["level"] in levels for gate in outcome.json["gates"])
    shown = convdyno(*BLIND[:-2], "--no-floor", *device(0.002), "--batch", "8", "--base", "main")
    assert "unpaired: the base is of" in shown.out
    missing = convdyno(*BLIND, *device(0.002), "--batch", "16", "--base", "main")
    assert missing.code == 2
    assert "the nearest has batch" in missing.err
    for path in (tmp_path / "main").glob("*.json"):
        record = json.loads(path.read_text())
        record["machine"]["host"] = "elsewhere"
        path.write_text(json.dumps(record))
    far = convdyno("gate", "--base", "main", "--no-floor")
    assert far.code == 2
    assert "was measured on elsewhere" in far.err


def test_a_base_among_records_of_other_machines_is_that_of_this_one(
    convdyno: Any, tmp_path: Path
) -> None:
    bench = ("bench", "trivial", "--engine", "clockwork", *device(0.002), "--budget", "60s")
    assert convdyno(*bench, "--out", "main").code == 0
    (own,) = Store(tmp_path / "main").records()
    other = own.but(id=f"9{own.id}", machine=own.machine | {"host": "elsewhere"})
    Store(tmp_path / "main").write(other)
    outcome = convdyno("gate", "--base", "main", "--no-floor", "--budget", "60s", "--json")
    assert outcome.code == 0
    assert only(outcome)["base"]["id"] == own.id


def test_the_noise_floor_is_measured_once_and_refuses_what_lies_below(
    convdyno: Any, tmp_path: Path
) -> None:
    noise = "between=0.01;within=0.01"
    words = (*GATE[:-1], "--batch", "8", *device(0.002, noise), "--base-set", "threads=1")
    first = convdyno(*GATE[:-1], "--batch", "8", *device(0.002, noise), "--floor")
    assert first.code == 0
    assert "measuring the noise floor" in first.err
    refused = convdyno(*words, "--within", "0.01%")
    assert refused.code == 2
    assert "its noise floor is" in refused.err
    assert refused.out == ""
    (kept,) = (tmp_path / "results" / "gate" / "floors").iterdir()
    before = kept.stat().st_mtime_ns
    outcome = convdyno(*words, "--within", "50%", "--json")
    assert outcome.code == 0
    assert only(outcome)["floor"]["share"] < 0.5
    assert kept.stat().st_mtime_ns == before
    anew = convdyno(*GATE, "--batch", "8", *device(0.002, noise), "--floor")
    jsonschema.validate(anew.json, SCHEMA)
    assert anew.code == 0
    assert len(anew.json["floors"][0]["log_ratios"]) >= 5
    assert kept.stat().st_mtime_ns > before


def test_a_noise_floor_that_cannot_be_measured_says_why(convdyno: Any) -> None:
    words = (*GATE[:-1], "--device", "step=0.002;fail=crash;at=20")
    alone = convdyno(*words, "--floor")
    assert alone.code == 4
    assert "no noise floor: the worker died (SIGSEGV)" in alone.err


def test_a_gate_that_knows_no_noise_floor_spends_its_time_on_the_two_sides(convdyno: Any) -> None:
    words = (*GATE[:-1], *device(0.002), "--base-set", "threads=1", "--budget", "20s")
    outcome = convdyno(*words)
    assert outcome.code == 0
    assert "noise floor" not in outcome.err
    assert "the budget of 20 s" in outcome.err


def test_a_noise_floor_needs_time_for_two_rounds(convdyno_process: Any) -> None:
    outcome = convdyno_process(*GATE, *device(0.002), "--floor", "--budget", "0.05s")
    assert outcome.code == 4
    assert "no noise floor: 0.05 s were too short for two rounds" in outcome.err


def test_ctrl_c_is_not_taken_for_a_regression(tmp_path: Path) -> None:
    words = (*BLIND[:-2], "--no-floor", "--device", "clock=real", "--base-set", "threads=1")
    with subprocess.Popen(
        [sys.executable, "-m", "convdyno", *words],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        end = time.monotonic() + 240
        while not list(tmp_path.glob("results/gate/*.json")) and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "stopped by Ctrl-C: there is no verdict" in err
    assert "Traceback" not in err
    assert out == ""


CASES = [
    (("gate", "trivial"), "what is the base?"),
    (("gate", "--base-set", "threads=1"), "which network?"),
    (("gate", "trivial", "--base", "nowhere"), "there is no results folder"),
    (("gate", "trivial", "--base", ".", "--base-set", "threads=1"), "--base is a record"),
    (("gate", "trivial", "--base", "."), "no record of anything"),
    (("gate", "trivial", "--base-python", "/no/python"), "there is no program"),
    (("gate", "trivial", "--base-python", "a", "--base-command", "b"), "both say how"),
    (("gate", "trivial", "--base-command", "'"), "cannot be split"),
    (("gate", "trivial", "--base-command", " "), "is empty"),
    (("gate", "trivial", "--base-command", "echo hello"), "no worker of convdyno"),
    (("gate", "trivial", "--base-command", "false"), "does not answer"),
    (("gate", "trivial", "--base-folder", "nowhere"), "there is no folder"),
    (("gate", "trivial", "--base-set", "layuot=nchw"), "Did you mean 'layout'"),
    (("gate", "trivial", "--base-set", "layout=nhcw"), "Did you mean 'nhwc'"),
    (("gate", "trivial", "--base-set", "layout"), "--base-set is a list such as layout=nchw"),
    (("gate", "trivial", "--base-set", "width=2"), "no setting that base and candidate may"),
    (("gate", "trivial", "--base-set", "layout=auto"), "--base-set changes nothing"),
    (("gate", "trivial", "--base-set", "threads=1", "--within", "0"), "--within must be"),
    (("gate", "trivial", "--base-set", "threads=1", "--within", "any"), "--within must be"),
    (("gate", "trivial", "--base-set", "threads=1", "--ignore", "los"), "Did you mean 'loss'"),
    (("gate", "trivial", "--base-set", "threads=1", "--loss-within", "x"), "--loss-within must"),
    (("gate", "trivail", "--base-set", "threads=1"), "Did you mean 'trivial'"),
]


@pytest.mark.parametrize(("arguments", "said"), CASES, ids=[" ".join(a) for a, _ in CASES])
def test_bad_input_is_one_sentence(
    convdyno: Any, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    outcome = convdyno(*arguments, "--engine", "clockwork")
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.out == ""
    assert len(outcome.err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
