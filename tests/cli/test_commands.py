"""Each command does what its help says; its JSON is one document that keeps to its schema."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main
from schemas import keeps_to
from typer.testing import CliRunner

from convdyno.cli.main import app
from convdyno.trial.axes import Group

CLOCKWORK = ("bench", "trivial", "--engine", "clockwork", "--budget", "30s")


@pytest.mark.parametrize(
    "more",
    [(), ("--batch", "1,2"), ("--latency",), ("--mode", "infer"), ("--device", "fail=crash;at=2")],
    ids=" ".join,
)
def test_bench_json_keeps_to_its_schema(convdyno: Any, more: tuple[str, ...]) -> None:
    keeps_to("bench", convdyno(*CLOCKWORK, *more, "--json").json)


def test_every_json_cell_names_a_record_that_is_there(convdyno: Any, tmp_path: Path) -> None:
    document = convdyno(*CLOCKWORK, "--json").json
    (cell,) = document["cells"]
    assert json.loads((tmp_path / cell["record"]).read_text())["id"] == cell["id"]


@pytest.mark.parametrize("network", ["resnet50", "deepmnist", "trivial"])
def test_show_json_keeps_to_its_schema(convdyno: Any, network: str) -> None:
    keeps_to("show", convdyno("show", network, "--json").json)


def test_show_has_the_published_parameters(convdyno: Any) -> None:
    assert convdyno("show", "resnet50", "--json").json["parameters"] == 25_557_032
    assert "3.86 GMAC (7.72 GFLOP)" in convdyno("show", "resnet50").out


def test_list_networks_engines_data_and_recipes(convdyno: Any) -> None:
    listed = {
        kind: keeps_to("list", convdyno("list", kind, "--json").json)[kind]
        for kind in ("networks", "engines", "data", "recipes")
    }
    networks = {row["network"] for row in listed["networks"]}
    assert {"resnet50", "resnet50-v1.5", "deepmnist", "inception-resnet2-slim"} <= networks
    engines = {row["engine"]: row for row in listed["engines"]}
    assert engines["torch"]["installed"]
    assert "resnet50" in convdyno("list", "networks").out


def test_list_networks_of_one_family(convdyno: Any) -> None:
    listed = convdyno("list", "networks", "--family", "efficientnet", "--json").json["networks"]
    assert [row["network"] for row in listed] == ["efficientnet-b0", "efficientnet2-s"]


def test_results_list_show_and_csv_tell_of_one_run(convdyno: Any) -> None:
    (cell,) = convdyno(*CLOCKWORK, "--json").json["cells"]
    assert cell["id"] in convdyno("results", "list").out
    (row,) = keeps_to("results", convdyno("results", "list", "--json").json)["records"]
    assert row["images_per_second"] == cell["images_per_second"]
    assert cell["id"] in convdyno("results", "show", "last").out
    record = keeps_to("record", convdyno("results", "show", cell["id"], "--json").json)
    assert record["trial"] == cell["trial"]
    (line,) = csv.DictReader(io.StringIO(convdyno("results", "csv").out))
    assert float(line["images_per_second"]) == cell["images_per_second"]
    assert float(line["mean_speed"]) == cell["mean_speed"]
    for older in ("Mean_Time_Per_Step", "speed_uncertainty", "Speed_Jitter", "num_gpu"):
        assert line[older] != ""


def test_results_are_merged_and_archived(convdyno: Any) -> None:
    (cell,) = convdyno(*CLOCKWORK, "--rounds", "1", "--json").json["cells"]
    merged = convdyno("results", "merge", "results", "--out", "all", "--json").json
    assert keeps_to("results", merged)["from"][0]["added"] == [cell["id"]]
    moved = keeps_to("results", convdyno("results", "archive", "--json").json)
    assert (moved["records"], moved["staying"]) == ([cell["id"]], [])
    nothing = keeps_to("results", convdyno("results", "archive", "--json").json)
    assert (nothing["folder"], nothing["records"]) == (None, [])


def test_a_foreign_file_in_the_store_is_named_and_skipped(convdyno: Any, tmp_path: Path) -> None:
    convdyno(*CLOCKWORK)
    (tmp_path / "results" / "half.json").write_text('{"schema_version": 1, "id"')
    outcome = convdyno("results", "list")
    assert outcome.code == 0
    assert "half.json" in outcome.err


def test_the_command_in_the_record_repeats_it(convdyno: Any, tmp_path: Path) -> None:
    (cell,) = convdyno(*CLOCKWORK, "--batch", "3", "--json").json["cells"]
    record = json.loads((tmp_path / cell["record"]).read_text())
    assert record["command"].split()[:3] == ["convdyno", "bench", "trivial"]
    again = convdyno(*record["command"].split()[1:]).json["cells"]
    assert [c["trial"] for c in again] == [cell["trial"]]


def test_own_network_from_the_folder_one_stands_in(convdyno_process: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def tiny(net, classes):\n"
        "    return net.image.conv_norm_relu(8, 3).mean().logits(classes).done()\n"
    )
    outcome = convdyno_process(
        "bench", "--network", "mine:tiny", "--engine", "clockwork", "--batch", "2",
        "--image-size", "16", "--classes", "7", "--budget", "30s", "--json",
    )  # fmt: skip
    (cell,) = outcome.json["cells"]
    assert cell["status"] == "ok"
    assert cell["parameters"] == 3 * 3 * 3 * 8 + 2 * 8 + 8 * 7 + 7


def test_the_plain_output_says_what_a_stranger_needs(convdyno: Any) -> None:
    out = convdyno(*CLOCKWORK, "--batch", "4,8").out
    for said in ("trivial:", "parameters", "images/s", "95 % interval", "step", "jitter", "rounds"):
        assert said in out
    assert "\x1b" not in out


def test_doctor_describes_the_machine(convdyno_process: Any) -> None:
    report = keeps_to("doctor", convdyno_process("doctor", "--quick", "--json").json)
    assert report["machine"]["cores_usable"] >= 1
    assert "torch" in report["engines"] | report["missing"]
    assert report["machine"]["cpu"] in convdyno_process("doctor", "--quick").out


def paths(command: Any, *path: str) -> list[tuple[str, ...]]:
    """The command and all below it, each as the words that lead there."""
    below = getattr(command, "commands", {})
    return [path, *(found for name in below for found in paths(below[name], *path, name))]


COMMANDS = [path for path in paths(typer.main.get_command(app)) if path]


def test_the_whole_tree_is_walked() -> None:
    assert {("bench",), ("data",), ("data", "speed"), ("results", "merge")} <= set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_examples(path: tuple[str, ...]) -> None:
    outcome = CliRunner().invoke(app, [*path, "--help"], prog_name="convdyno")
    assert outcome.exit_code == 0
    _, _, examples = outcome.output.partition("Examples:")
    assert f"convdyno {' '.join(path)}" in examples
    assert "\b" not in outcome.output


@pytest.mark.parametrize("path", [path for path in COMMANDS if len(path) > 1], ids=" ".join)
def test_every_command_of_a_group_has_examples_of_its_own(path: tuple[str, ...]) -> None:
    _, _, after = helped(*path, "--help").partition("Examples:\n")
    examples = [line.strip() for line in after.partition("\n\n")[0].splitlines()]
    assert examples
    assert all(f"{line} ".startswith(f"convdyno {' '.join(path)} ") for line in examples)


def helped(*words: str) -> str:
    """What a terminal of 80 columns shows."""
    runner = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    outcome = runner.invoke(app, [*words], prog_name="convdyno")
    assert outcome.exit_code == 0
    return outcome.output


LONG = ("bench", "gate", "tune", "train", "eval")


@pytest.mark.parametrize("name", LONG)
def test_short_help_has_the_usual_options_and_names_the_whole(name: str) -> None:
    short, whole = (helped(name, word).partition("Examples:")[0] for word in ("-h", "--help-all"))
    usual, every = (set(re.findall(r"^  (--[a-z-]+)", text, re.M)) for text in (short, whole))
    assert usual < every
    assert len(usual) <= 16
    assert f"{len(every - usual)} more options: convdyno {name} --help-all" in short
    assert {"--engine", "--batch", "--precision", "--devices", "--json"} <= usual


@pytest.mark.parametrize("name", LONG)
def test_whole_help_has_every_option_once_under_a_heading(name: str) -> None:
    whole = helped(name, "--help-all").partition("Examples:")[0]
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    for option in options:
        assert len(re.findall(rf"^  (?:-[a-z], )?{option.opts[0]}(?![-a-z])", whole, re.M)) == 1
    headings = re.findall(r"^(\S.*):$", whole, re.M)
    order = ["Arguments", *get_args(Group)]
    assert headings == sorted(headings, key=order.index)


@pytest.mark.parametrize("name", LONG)
def test_a_summary_fits_a_line(name: str) -> None:
    whole = helped(name, "--help-all").partition("Arguments:")[2].partition("Examples:")[0]
    wrapped = [line for line in whole.splitlines() if re.match(r" {20,}\S", line)]
    assert [line.strip() for line in wrapped] in ([], ["Nesterov's momentum."])
    listed = helped("--help").partition("Commands:\n")[2]
    assert "..." not in listed
    assert len(listed.splitlines()) == len([path for path in COMMANDS if len(path) == 1])


def test_help_is_a_process_that_ends_well(convdyno_process: Any) -> None:
    outcome = convdyno_process("bench", "--help")
    assert outcome.code == 0
    assert "Examples:" in outcome.out
