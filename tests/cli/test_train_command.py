"""`convdyno train` and `convdyno eval`: flags, documents, failures and what one sees."""

import fcntl
import json
import os
import pty
import re
import resource
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import runs
from tensorboardX.proto.event_pb2 import Event

from convdyno.blueprint.weight_file import read_header
from convdyno.run.checkpoint import standing_of
from convdyno.store.training_runs import claimed, read_run

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
QUICK = ("--engine", "reference", *runs.SIZE)


def schema(name: str) -> Any:
    return json.loads((SCHEMAS / f"{name}.json").read_text())


@pytest.fixture
def train(convdyno: Any, tmp_path: Path) -> Any:
    """Train the plain network on the bars."""
    runs.prepare(tmp_path)

    def run(*more: str, network: str = runs.PLAIN, folder: str = "run") -> Any:
        words = ("train", network, "--data", "bars", "--log-dir", folder)
        return convdyno(*words, *QUICK, *more)

    return run


def test_the_documents_keep_to_their_schemas(train: Any, convdyno: Any) -> None:
    trained = train("--epochs", "2", "--json")
    assert trained.code == 0 and trained.err.startswith("mind: the reference engine is")
    assert len(trained.err.splitlines()) == 1
    jsonschema.validate(trained.json, schema("train"))
    (run,) = trained.json["runs"]
    assert (run["status"], run["step"], run["images"]) == ("finished", 10, 80)
    assert run["already"] is False
    for more in ((), ("--full",)):
        found = convdyno("eval", "run", "--network", runs.PLAIN, "--json", *more)
        jsonschema.validate(found.json, schema("eval"))
    assert sum(map(sum, found.json["confusion"])) == found.json["images"] == 13
    assert "images of '1' taken for" in convdyno(
        "eval", "run", "--network", runs.PLAIN, "--full"
    ).out.replace("image of", "images of")


def test_a_finished_run_is_not_trained_again(train: Any, tmp_path: Path) -> None:
    first = train("--epochs", "2", "--json").json["runs"][0]
    before = runs.checkpoints(tmp_path / "run")[-1].stat().st_mtime_ns
    again = train("--epochs", "2")
    assert again.code == 0
    assert "nothing is left to do: the run in run finished at step 10 of 10" in again.err
    assert runs.checkpoints(tmp_path / "run")[-1].stat().st_mtime_ns == before
    told = train("--epochs", "2", "--json").json["runs"][0]
    assert told["already"] and told["evaluation"] == first["evaluation"]
    assert len(read_run(tmp_path / "run").attempts) == 3


def test_every_number_of_a_recipe_can_be_given_and_is_in_the_checkpoint(
    train: Any, tmp_path: Path
) -> None:
    flags = {
        "--recipe": "nvcnn-hvd-resnet50", "--precision": "fp32", "--epochs": "1", "--batch": "4",
        "--rate": "0.011", "--optimiser": "sgd", "--momentum": "0.8", "--weight-decay": "3e-4",
        "--decay-on": "kernels", "--label-smoothing": "0.05", "--ema": "0.98",
        "--clip-norm": "2.5", "--larc-eta": "0.004", "--larc-mode": "scale",
        "--schedule": "steps:0.5=0.1", "--warmup": "0.25", "--warmup-from": "0.3",
        "--crop": "whole", "--view": "whole", "--eval-every": "0.5", "--seed": "3",
    }  # fmt: skip
    words = [word for pair in flags.items() for word in pair]
    done = train(*words, "--no-nesterov")
    assert done.code == 0, done.err
    training = standing_of(read_header(runs.checkpoints(tmp_path / "run")[-1])).training
    assert training.recipe == "nvcnn-hvd-resnet50"
    assert training.trial.optimiser.model_dump() == {
        "kind": "sgd", "rate": 0.011, "momentum": 0.8, "nesterov": False, "weight_decay": 3e-4,
        "decay_on": "kernels", "clip_norm": 2.5, "larc_eta": 0.004, "larc_mode": "scale",
        "label_smoothing": 0.05, "ema": 0.98, "epsilon": 1e-8,
    }  # fmt: skip
    assert training.schedule.model_dump() == {
        "kind": "steps", "power": 2.0, "at": ((0.5, 0.1),), "warmup": 0.25, "warmup_from": 0.3,
    }  # fmt: skip
    trial = training.trial
    assert (trial.batch, trial.seed, trial.precision, trial.crop) == (4, 3, "fp32", "whole")
    record = read_run(tmp_path / "run")
    assert record.training == training
    assert record.recipe is not None and record.recipe.optimiser.larc_eta == 0.003
    assert record.attempts[0].machine["cpu"] and record.attempts[0].versions["numpy"]
    assert record.attempts[0].command.startswith("convdyno train mine:plain --data bars")


def test_what_a_recipe_has_can_be_off(train: Any, tmp_path: Path) -> None:
    more = ("--recipe", "nvcnn-hvd-resnet50", "--precision", "fp32", "--epochs", "1")
    assert train(*more, "--larc-eta", "off", "--crop", "whole", "--view", "whole").code == 0
    (path,) = runs.checkpoints(tmp_path / "run")
    assert standing_of(read_header(path)).training.trial.optimiser.larc_eta is None


def test_a_lost_loss_ends_with_a_sentence_and_keeps_the_last_good_checkpoint(
    train: Any, tmp_path: Path
) -> None:
    more = ("--epochs", "3", "--schedule", "steps:0.9=1;1.2=1e30", "--warmup", "0")
    lost = train(*more, "--json")
    assert lost.code == 5
    sentence = lost.err.strip().splitlines()[-1]
    assert "learning rate" in sentence
    assert "the last good checkpoint is run/checkpoint-000000005.safetensors" in sentence
    jsonschema.validate(lost.json, schema("train"))
    assert lost.json["runs"][0]["status"] == "nan"
    assert [path.name for path in runs.checkpoints(tmp_path / "run")] == [
        "checkpoint-000000005.safetensors"
    ]
    record = read_run(tmp_path / "run")
    assert record.status == "nan" and "learning rate" in record.attempts[0].reason


def test_training_stops_at_its_target_and_several_seeds_give_an_interval(
    train: Any, tmp_path: Path
) -> None:
    more = ("--epochs", "40", "--until", "top1=0.30", "--optimiser", "adam", "--seeds", "3")
    document = train(*more, "--json").json
    jsonschema.validate(document, schema("train"))
    assert [run["seed"] for run in document["runs"]] == [0, 1, 2]
    for run in document["runs"]:
        assert run["reached"] and run["finished"] and run["evaluation"]["top1"] >= 0.30
        assert run["step"] < 200 and run["images"] == 8 * run["step"]
        assert (tmp_path / run["folder"] / "run.json").exists()
    costs = document["to_target"]
    assert costs["runs"] == 3
    for name in ("seconds", "images", "macs"):
        low, high = costs[name]["interval"]
        assert low <= costs[name]["mean"] <= high
    again = train(*more, "--resume")
    assert again.err.count("nothing is left to do") == 3
    assert "3 of 3 reached top-1 30 %" in again.out
    assert "images to top-1 30 %" in again.out


BAD = {
    "nothing to resume": (("--resume",), "there is nothing to resume in run"),
    "steps that fall": (("--schedule", "steps:20=0.1;10=0.01"), "must rise"),
    "no steps": (("--schedule", "steps"), "--schedule steps:"),
    "a constant with a number": (("--schedule", "constant:3"), "takes nothing after a colon"),
    "another schedule": (("--schedule", "cosin"), "Did you mean 'cosine'"),
    "another target": (("--until", "top5=0.9"), "--until is a target such as top1=0.90"),
    "an impossible target": (("--until", "top1=1.5"), "--until"),
    "another recipe": (("--recipe", "nvcn-resnet50"), "Did you mean 'nvcnn-resnet50'"),
    "too few classes": (("--classes", "3"), "more than the 3 of --classes"),
    "too few, by the older name": (("--num-classes", "3"), "more than the 3 of --classes"),
    "several engines": (("--engine", "torch,jax"), "training is by one engine"),
    "a loss scale": (("--loss-scale", "128"), "a loss scale is for training in fp16"),
    "a share": (("--label-smoothing", "1.5"), "label_smoothing"),
    "a rate": (("--rate", "fast"), "--rate must be a positive number"),
    "a word": (("--decay-on", "biases"), "decay_on"),
    "an average": (("--ema", "1"), "ema"),
}


@pytest.mark.parametrize(("more", "said"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_one_sentence(
    train: Any, tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    outcome = train(*more)
    assert outcome.code == 2, outcome.err
    assert said in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_two_processes_do_not_train_in_one_folder(train: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with claimed(tmp_path / "run"):
        refused = train("--epochs", "1")
    assert refused.code == 2 and "another process is training in run now" in refused.err
    assert train("--epochs", "1").code == 0


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


REFUSED = {
    "another network": (("--epochs", "2"), runs.RICH, "has the weights of mine:plain"),
    "fewer epochs": (("--epochs", "1"), runs.PLAIN, "give more --epochs, or another --log-dir"),
    "another rate": (("--epochs", "2", "--rate", "0.5"), runs.PLAIN, "another rate"),
    "the engine": (("--epochs", "3", "--layout", "nchw"), runs.PLAIN, "has no layout 'nchw'"),
}


@pytest.mark.parametrize(("more", "network", "said"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_leaves_a_finished_run_as_it_is(
    train: Any, tmp_path: Path, more: tuple[str, ...], network: str, said: str
) -> None:
    assert train("--epochs", "2").code == 0
    before = contents(tmp_path / "run")
    refused = train(*more, network=network)
    assert refused.code == 2 and said in refused.err
    assert contents(tmp_path / "run") == before


def test_a_refusal_leaves_no_folder_behind(train: Any, tmp_path: Path) -> None:
    assert train("--precision", "bf16", folder="deep/in/here").code == 2
    assert not (tmp_path / "deep").exists()


def test_more_epochs_go_on_to_the_same_end_as_all_at_once(train: Any, tmp_path: Path) -> None:
    assert train("--epochs", "4", folder="whole").code == 0
    assert train("--epochs", "2").code == 0
    said = train("--epochs", "4").err
    assert "going on from step 10 of 20 in run, to 4 epochs instead of 2" in said
    runs.assert_same(tmp_path / "run", tmp_path / "whole")
    record = read_run(tmp_path / "run")
    assert record.training.epochs == 4 and len(record.attempts) == 2


def test_a_schedule_that_has_led_to_an_end_is_not_taken_further(train: Any) -> None:
    more = ("--schedule", "cosine", "--warmup", "1")
    assert train(*more, "--epochs", "2").code == 0
    refused = train(*more, "--epochs", "3")
    assert refused.code == 2 and "the cosine schedule has led the rate towards" in refused.err


def test_a_full_disk_ends_badly_and_names_what_was_kept(train: Any, tmp_path: Path) -> None:
    assert train("--epochs", "2").code == 0
    # A limit of the size of files is what a test can have in place of a full disk.
    full = subprocess.run(
        runs.command(runs.PLAIN, "run", *QUICK, "--epochs", "3"),
        cwd=tmp_path, capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)),
    )  # fmt: skip
    assert full.returncode == 5
    last = full.stderr.splitlines()[-1]
    assert last.startswith("convdyno: step 15 is not saved: ") and "File too large" in last
    assert "run/checkpoint-000000010.safetensors is kept, and the same command goes on" in last
    assert "trained at step 15 of 15" in full.stderr and "checkpoints in" not in full.stderr
    assert read_run(tmp_path / "run").status == "failed"
    assert "going on from step 10 of 15" in train("--epochs", "3").err
    assert read_run(tmp_path / "run").status == "finished"


def test_a_log_has_nvcnns_table(train: Any) -> None:
    lines = train("--epochs", "4", "--display-every", "2").err.splitlines()
    assert "  Step Epoch Img/sec    Loss      LR" in lines
    rows = [line for line in lines if re.fullmatch(r"[ 0-9]{6} [ 0-9]{5} .{7,} .{7} .{7}", line)]
    assert [int(row.split()[0]) for row in rows] == list(range(2, 21, 2))
    place = lines.index("-" * 64)
    assert re.fullmatch(r"Images/sec: [0-9.]+ \+/- [0-9.]+ \(jitter = [0-9.]+\)", lines[place + 1])
    assert not any("\x1b" in line for line in lines)


def test_a_terminal_has_one_line_that_is_drawn_anew(tmp_path: Path) -> None:
    runs.prepare(tmp_path, train=800)
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    command = runs.command(runs.PLAIN, "run", *QUICK, "--epochs", "20")
    process = subprocess.Popen(command, cwd=tmp_path, stderr=child, close_fds=True)
    os.close(child)
    said = b""
    while True:
        try:
            chunk = os.read(parent, 4096)
        except OSError:
            break
        if not chunk:
            break
        said += chunk
    os.close(parent)
    assert process.wait() == 0
    drawn = re.findall(r"\r\x1b\[K(epoch [^\r\x1b\n]+)", said.decode())
    lines = [line for line in drawn if "images/s" in line]
    assert lines and all(len(line) < 80 for line in lines)
    assert all(re.match(r"epoch [0-9.]+ of 20, [0-9.]+ images/s, loss ", line) for line in lines)
    assert any(re.search(r"loss [0-9.]+, top-1 [0-9.]+ %, [0-9]+ s", line) for line in lines)
    assert "Step Epoch" not in said.decode()
    assert "trained at step 2000 of 2000" in said.decode()


def events(folder: Path) -> list[Any]:
    """What TensorBoard would read."""
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        content, place = path.read_bytes(), 0
        while place < len(content):
            (length,) = struct.unpack_from("<Q", content, place)
            found.append(Event.FromString(content[place + 12 : place + 12 + length]))
            place += 12 + length + 4
    return found


def test_tensorboard_has_curves_images_and_histograms(train: Any, tmp_path: Path) -> None:
    train("--epochs", "4", "--display-every", "5")
    found = events(tmp_path / "run")
    assert found[0].file_version == "brain.Event:2"
    values = [(event.step, value) for event in found for value in event.summary.value]
    curve = [step for step, value in values if value.tag == "train/loss"]
    assert curve == [5, 10, 15, 20]
    tags = {value.tag for _, value in values}
    assert {
        "train/learning_rate", "speed/images_per_second",
        "speed/share_of_time_waiting_for_data", "test/top-1", "test/top-5", "test/loss",
    } <= tags  # fmt: skip
    kinds = {value.WhichOneof("value") for _, value in values}
    assert kinds == {"simple_value", "histo", "image"}
    assert "conv1/kernel" in tags
    pictures = [value.image for _, value in values if value.WhichOneof("value") == "image"]
    assert len(pictures) == 8 and (pictures[0].height, pictures[0].width) == (14, 14)


@pytest.mark.slow
def test_tensorflow_reads_the_event_files_too(train: Any, tmp_path: Path) -> None:
    train("--epochs", "2", "--display-every", "5")
    (path,) = (tmp_path / "run").glob("events.out.tfevents.*")
    code = (
        "import sys\n"
        "from tensorflow.python.summary.summary_iterator import summary_iterator\n"
        "tags = {v.tag for e in summary_iterator(sys.argv[1]) for v in e.summary.value}\n"
        "print('train/loss' in tags, 'conv1/kernel' in tags, 'train/images/0' in tags)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.stdout.split() == ["True"] * 3, done.stderr[-500:]


def test_recipes_are_listed(convdyno: Any) -> None:
    rows = {row["recipe"]: row for row in convdyno("list", "recipes", "--json").json["recipes"]}
    assert {
        "nvcnn-resnet50", "nvcnn-hvd-resnet50", "nvcnn-hvd-inception3", "tf-cnn", "goyal",
        "keras-cifar", "deepmnist", "cifar-fast",
    } <= rows.keys()  # fmt: skip
    assert "75.5" in rows["nvcnn-hvd-resnet50"]["published"]
    assert "cifar-fast" in convdyno("list", "recipes").out


@pytest.mark.parametrize("command", ["train", "eval"])
def test_help_has_examples(convdyno: Any, command: str) -> None:
    outcome = convdyno(command, "--help")
    assert outcome.code == 0 and "Examples:" in outcome.out and f"convdyno {command}" in outcome.out
