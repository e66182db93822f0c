"""A sweep's file: what it makes, and what is said of a file that cannot be used."""

from pathlib import Path
from typing import Any

import pytest

from convdyno.app.sweep_plan import vocabulary
from convdyno.errors import BadSweep
from convdyno.trial.sweep import Sweep
from convdyno.trial.sweep_file import parse_sweep, read_sweep

BASE = 'network = "trivial"\nengine = "clockwork"\n'


def sweep(text: str, *overrides: str) -> Sweep:
    return parse_sweep(text, "sweep.toml", vocabulary(), overrides)


def values(text: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(one.get(name) for name in names) for one in sweep(text).combinations()]


def test_one_value_is_fixed_and_a_list_is_an_axis_of_which_the_last_changes_fastest() -> None:
    text = BASE + 'batch = [1, 2]\nprecision = ["fp32", "bf16"]\nwidth = 0.5\n'
    assert values(text, "batch", "precision", "width") == [
        (1, "fp32", 0.5), (1, "bf16", 0.5), (2, "fp32", 0.5), (2, "bf16", 0.5),
    ]  # fmt: skip


def test_a_case_has_values_and_axes_of_its_own_instead_of_the_files() -> None:
    text = BASE + "batch = [1, 2]\n[case.small]\n[case.large]\nbatch = [64]\nwidth = [1, 2]\n"
    assert values(text, "case", "batch", "width") == [
        ("small", 1, None), ("small", 2, None), ("large", 64, 1), ("large", 64, 2),
    ]  # fmt: skip


def test_an_exclusion_leaves_out_what_has_one_of_each_of_its_values() -> None:
    text = BASE + 'batch = [1, 2, 4]\nprecision = ["fp32", "bf16"]\n'
    text += '[[exclude]]\nbatch = [1, 2]\nprecision = "bf16"\n[[exclude]]\nbatch = 4.0\n'
    assert values(text, "batch", "precision") == [(1, "fp32"), (2, "fp32")]


def test_a_condition_compares_numbers_and_knows_the_defaults_of_bench() -> None:
    text = BASE + 'batch = [1, 8, 16]\n[[exclude]]\nprecision = "fp32"\nbatch = ">= 8"\n'
    assert values(text, "batch") == [(1,)]
    text = BASE + 'batch = [1, 8, 16]\n[[exclude]]\nbatch = "!= 8"\n'
    assert values(text, "batch") == [(8,)]


def test_conditional_values_replace_and_a_list_of_them_makes_more() -> None:
    text = BASE + "batch = [1, 2]\n[[when]]\nif = { batch = 2 }\nset = { width = [0.5, 2] }\n"
    text += '[[when]]\nif = { width = 2 }\nset = { precision = "bf16" }\n'
    assert values(text, "batch", "width", "precision") == [
        (1, None, None), (2, 0.5, None), (2, 2, "bf16"),
    ]  # fmt: skip


def test_what_a_condition_says_of_a_case_is_known() -> None:
    text = BASE + "devices = [1, 4]\n[case.k80]\n[case.p100]\n"
    text += '[[exclude]]\ncase = "p100"\ndevices = 4\n'
    assert values(text, "case", "devices") == [("k80", 1), ("k80", 4), ("p100", 1)]


def test_a_rule_that_means_nothing_is_named_with_its_line() -> None:
    one = sweep(BASE + "batch = [1, 2]\n\n[[exclude]]\nbatch = 3\n\n[[exclude]]\nbatch = 1\n")
    one.combinations()
    assert one.unused == ["sweep.toml, line 5"]


def test_labels_settings_and_title_are_kept() -> None:
    one = sweep(BASE + 'title = "mine"\nbudget = "2m"\nrounds = 4\n[labels]\ngpu = "k80"\nrack = 3')
    assert (one.title, one.labels) == ("mine", {"gpu": "k80", "rack": "3"})
    assert one.settings == {"budget": "2m", "rounds": 4}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("batch=8,16", [(None, 8), (None, 16)]),
        ("batch=8", [(None, 8)]),
        ("batch=", [(None, None)]),
    ],
)
def test_values_are_replaced_wherever_the_file_has_them(
    override: str, expected: list[tuple[Any, Any]]
) -> None:
    text = BASE + "batch = [1, 2]\n[[when]]\nif = { batch = 1 }\nset = { batch = 3 }\n"
    found = sweep(text, override).combinations()
    assert [int(one["batch"]) if "batch" in one else None for one in found] == [
        batch for _, batch in expected
    ]


def test_cases_are_chosen_and_settings_and_labels_replaced() -> None:
    text = BASE + "budget = '1h'\n[case.a]\nbatch = 1\n[case.b]\nbatch = 2\n"
    one = sweep(text, "case=b", "budget=10s", "label.gpu=k80", "batch=5")
    assert [(c["case"], c["batch"]) for c in one.combinations()] == [("b", "5")]
    assert (one.settings["budget"], one.labels) == ("10s", {"gpu": "k80"})


WRONG = [
    ("bacth = 3", "line 3: no option is called 'bacth'. Did you mean 'batch'?"),
    ("\n\nprecison = 'fp32'", "line 5: no option is called 'precison'. Did you mean 'precision'?"),
    ("[case.cpu]\ndevice = 'cpu'\nlayuot = 'nchw'", "line 5: no option is called 'layuot'"),
    ("[[exclude]]\nbatch = 1\n[[exclude]]\nbach = 1", "line 6: no option is called 'bach'"),
    ("[[when]]\nif = { bach = 1 }\nset = { batch = 2 }", "line 4: no option is called 'bach'"),
    ("[[when]]\nif = { batch = 1 }\nset = { bach = 2 }", "line 5: no option is called 'bach'"),
    ("[[when]]\nif = { batch = 1 }\nthen = { batch = 2 }", "line 5: no part of [[when]]"),
    ("[[when]]\nif = { batch = 1 }", "line 3: [[when]] has an `if` and a `set`"),
    ("[[exclude]]\ncase = 'cpu'", "line 4: no case is called 'cpu'"),
    ("[[exclude]]\ncase = { a = 1 }", "line 4: case cannot be {'a': 1}"),
    ("[[exclude]]\ncase = [['x']]", "line 4: case cannot be ['x']"),
    ("[case.cpu]\nbudget = '3m'", "line 4: budget is given once for the whole sweep"),
    ("case = 3", "line 3: case is a table"),
    ("[when]\nif = 3", "line 3: every when is a table of its own"),
    ("[[exclude]]", "line 3: a condition is a table of words and values"),
    ("batch = 'many'", "line 3: --batch must be a whole number from 1 up, not 'many'"),
    ("batch = [1, 0]", "line 3: --batch must be a whole number from 1 up, not '0'"),
    ("batch = 1.5", "line 3: --batch must be a whole number"),
    ("batch = true", "line 3: --batch must be a whole number"),
    ("batch = []", "line 3: batch is an empty list"),
    ("batch = { a = 1 }", "line 3: batch cannot be {'a': 1}"),
    ("batch = [[1]]", "line 3: batch cannot be [1]"),
    ("batch = 2020-01-01", "line 3: batch cannot be"),
    ("batch = '1,2'", "line 3: several values of batch are a list"),
    ("precision = 'bf61'", "line 3: no precision is called 'bf61'. Did you mean 'bf16'?"),
    ("latency = 3", "line 3: latency is true or false, not 3"),
    ("optimiser = 'sdg'", "line 3: no optimiser is called 'sdg'. Did you mean 'sgd'?"),
    ("image-size = 'big'", "line 3: an image size is 224 or 224x160"),
    ("budget = 'soon'", "line 3: budget is a time such as 90s"),
    ("budget = ['1m', '2m']", "line 3: budget has one value"),
    ("rounds = 0", "line 3: rounds must be a whole number from 1 up, not '0'"),
    ("together = 'all'", "line 3: together must be a whole number"),
    ("stage-from = '/tmp'", "line 3: --stage-from is a list such as"),
    ("batch = ", "is no TOML: Invalid value (at line 3, column 9)"),
    ("batch = 1\nbatch = 2", "is no TOML: Cannot overwrite a value (at line 4"),
]


@pytest.mark.parametrize(("more", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_cannot_be_understood_is_answered_with_its_line(more: str, said: str) -> None:
    with pytest.raises(BadSweep) as wrong:
        sweep(BASE + more)
    assert str(wrong.value).startswith("sweep.toml")
    assert said in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('engine = "torch"', "names no network"),
        ('network = "resnt50"', "line 1: no network is called 'resnt50'. Did you mean 'resnet"),
        ('network = "resnet50"\nengine = "troch"', "line 2: no engine is called 'troch'"),
    ],
)
def test_names_are_known_before_anything_runs(text: str, said: str) -> None:
    with pytest.raises(BadSweep) as wrong:
        sweep(text)
    assert said in str(wrong.value)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("batch", "is not KEY=VALUE"),
        ("bacth=3", "Did you mean 'batch'"),
        ("batch=x", "--set batch=x: --batch must be a whole number"),
        ("budget=soon", "--set budget=soon: budget is a time"),
        ("case=x", "no case is called 'x'"),
    ],
)
def test_a_wrong_replacement_is_named(override: str, said: str) -> None:
    with pytest.raises(BadSweep) as wrong:
        sweep(BASE, override)
    assert said in str(wrong.value)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSweep, match="No such file"):
        read_sweep(tmp_path / "none.toml", vocabulary())
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadSweep, match="no text in UTF-8"):
        read_sweep(tmp_path / "binary.toml", vocabulary())
