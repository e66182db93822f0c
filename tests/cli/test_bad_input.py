"""Bad input gets one clear sentence and an exit code, and nothing is written or lost."""

import shlex
from pathlib import Path
from typing import Any

import pytest

TABLE = r"""bench                                            | which network?
bench resnet_50                                  | Did you mean 'resnet50'
bench nonsense                                   | no network is called 'nonsense'. `convdyno list networks`
bench ,                                          | empty value between its commas
bench resnet50,,vgg16                            | empty value between its commas
bench resnet50,resnet50                          | --network has resnet50 twice
bench resnet50 vgg16                             | unexpected extra argument
bench resnet50 --network vgg16                   | given twice
bench --network :                                | package.module:function
bench --network nowhere.at.all:net               | there is no module 'nowhere'
bench --network os.path:join                     | could not be built
bench resnet50 --precison bf16                   | --precision
bench resnet50 --batch                           | '--batch' requires an argument
bench resnet50 --engine troch                    | Did you mean 'torch'
bench resnet50 --engine tf,tensorflow            | --engine has tf twice
bench resnet50 --precision bf61                  | Did you mean 'bf16'
bench resnet50 --mode predict                    | no mode is called 'predict'
bench resnet50 --batch 0                         | --batch must be a whole number from 1 up
bench resnet50 --batch many                      | --batch must be a whole number
bench resnet50 --batch 99999999999999            | --batch must be a whole number
bench resnet50 --batch 16,                       | empty value
bench resnet50 --batch ''                        | leave the option out
bench resnet50 --batch 8,8                       | --batch has 8 twice
bench resnet50 --batch max --scaling strong      | --batch max is each device's own
bench resnet50 --batch 7 --devices 2 --scaling strong | cannot be shared evenly by 2 devices
bench resnet50 --accumulate 3 --batch 8          | cannot be cut into 3 equal parts
bench resnet50 --accumulate 2 --mode infer       | gradients accumulate in training
bench resnet50 --devices 0                       | --devices must be a whole number
bench resnet50 --devices 2 --exchange horvod     | Did you mean 'horovod'
bench resnet50 --device gpu                      | --device is auto, cpu, cuda (an NVIDIA GPU)
bench resnet50 --device tpu                      | --device is auto, cpu, cuda
bench resnet50 --threads none                    | --threads must be a whole number
bench resnet50 --cores 0                         | --cores must be a whole number
bench resnet50 --engine torch --kernels tuned    | --kernels is about JAX, and this is torch
bench resnet50 --engine torch --feed fit         | --feed is about Keras, and this is torch
bench resnet50 --crop pad                        | --crop is about real data
bench resnet50 --prefetch 2                      | --prefetch is about real data
bench resnet50 --mode infer --rate 0.1           | --rate is about training, and this is inference
bench resnet50 --mode infer --optimiser adam     | --optimiser is about training
bench resnet50 --optimiser lamb                  | no optimiser is called 'lamb'
bench resnet50 --rate nan                        | --rate must be a positive number
bench resnet50 --width inf                       | --width must be a positive number
bench resnet50 --classes 1                       | --classes must be a whole number from 2 up
bench resnet50 --seed -1                         | --seed must be a whole number from 0 up
bench resnet50 --image-size big                  | an image size is 224 or 224x160
bench inception3 --image-size 20                 | the smallest square that works is 75
bench resnet50 --auxiliary                       | resnet50 has no auxiliary heads
bench googlenet --auxiliary --mode infer         | auxiliary heads are for training
bench resnet50 --loss-scale 128                  | a loss scale is for training in fp16
bench resnet50 --budget soon                     | --budget is a time
bench resnet50 --budget 0                        | --budget is a time
bench resnet50 --within 300%                     | --within
bench resnet50 --rounds 0                        | --rounds must be a whole number from 1 up, not '0'
bench resnet50 --rounds 1.5                      | --rounds must be a whole number
bench resnet50 --watchdog 0                      | --watchdog is a time
bench resnet50 --rank-timeout soon               | --rank-timeout is a time
bench resnet50 --data imagnet                    | imagnet
bench resnet50 --data empty                      | 'empty' is no data set
bench resnet50 --ladder                          | give them with --data PATH
bench resnet50 --stage-from a=/tmp               | give them with --data PATH
bench resnet50 --stage-from /tmp                 | --stage-from is a list such as
bench resnet50 --colour vivid                    | no colour is called 'vivid'
bench resnet50 --input-threads 0                 | --input-threads must be a whole number
bench resnet50 --style json                      | no style is called 'json'
bench resnet50 --detach                          | need --slurm
bench resnet50 --slurm partition                 | write partition=...
bench resnet50 --nodes nowhere.txt               | nowhere.txt cannot be read
bench resnet50 --per-node 0                      | --per-node must be a whole number
bench resnet50 --max-devices x                   | --max-devices must be a whole number
bench resnet50 --preset none                     | there is no preset 'none'
bench resnet50 --label gpu                       | a label is NAME=VALUE
bench resnet50 --label gpu=a --label gpu=b       | given twice
bench trivial --engine clockwork --out /proc/x   | cannot be written
bench trivial --engine clockwork --out notes.txt | cannot be written
gate resnet50                                    | what is the base?
gate resnet50 --base nowhere                     | there is no results folder
gate resnet50 --base-set colour=exact            | that base and candidate may differ in
gate resnet50 --base-python nowhere/python       | there is no program 'nowhere/python'
gate resnet50 --base-folder nowhere              | there is no folder
gate resnet50 --base-set layout=nchw --rounds 1  | --rounds must be a whole number from 2 up
gate resnet50 --base-set layout=nchw --loss-steps 0 | --loss-steps must be a whole number
tune                                             | which network?
tune resnet50,vgg16                              | tune is for one network
tune resnet50 --name ../evil                     | a preset's name has letters
tune resnet50 --name ''                          | a preset's name has letters
sweep                                            | missing argument 'FILE'
sweep nowhere.toml                               | nowhere.toml cannot be read
sweep empty                                      | Is a directory
sweep notes.txt                                  | is no TOML
sweep good.toml --set batch=0                    | --batch must be a whole number
sweep good.toml --set nothing                    | is not KEY=VALUE
sweep good.toml --retry all                      | no retry is called 'all'
train deepmnist                                  | missing option '--data'
train deepmint --data mnist                      | Did you mean 'deepmnist'
train deepmnist --data nowhere                   | there is no file or folder 'nowhere'
train deepmnist --data mnist                     | `convdyno data get mnist` brings it there
train deepmnist --data mnist --recipe goyall     | Did you mean 'goyal'
train deepmnist --data mnist --seeds 0           | --seeds must be a whole number
train deepmnist --data mnist --keep x            | --keep must be a whole number
train deepmnist --data mnist --device gpu        | --device is auto, cpu, cuda
train deepmnist --data mnist --save-interval never | --save-interval is a time
train deepmnist --data mnist --resume            | there is nothing to resume
eval nowhere                                     | nowhere cannot be read
eval empty                                       | there is no checkpoint in empty
eval notes.txt                                   | is not a safetensors file
certify resnt20                                  | Did you mean 'resnet20'
certify resnet20 --engine troch                  | Did you mean 'torch'
certify resnet20 --engine clockwork              | computes nothing
certify resnet20 --precision fp8                 | no precision is called 'fp8'
certify resnet20 --accumulate 0                  | --accumulate must be a whole number
certify resnet20 --devices x                     | --devices must be a whole number
certify resnet20 --seed -1                       | --seed must be a whole number from 0 up
compare                                          | there is no results folder 'results'
compare empty --by speed                         | no axis is called 'speed'
compare empty --where network                    | a condition is FIELD=VALUE
compare empty                                    | no two cells differ | 4
report nowhere                                   | there is no results folder 'nowhere'
report empty                                     | there is nothing to report | 4
list nets                                        | Did you mean 'networks'
list networks --family mobilnet                  | Did you mean 'mobilenet'
list engines --family vgg                        | only networks have families
list networks engines                            | unexpected extra argument
show resnt50                                     | Did you mean 'resnet
show resnet50 --classes 1                        | --classes
show resnet50 --classes two                      | --classes must be a whole number
show resnet50 --width -1                         | --width must be a positive number
doctor --quick --full                            | opposites
data get imagenet                                | no data set is called 'imagenet'
data info nowhere                                | there is no file or folder 'nowhere'
data convert notes.txt out                       | missing option '--to'
data convert notes.txt out --to zip              | no form is called 'zip'
data convert notes.txt out --to folder --quality best | --quality must be a whole number
data make out --images 0                         | --images must be a whole number
data make notes.txt                              | cannot be written
data speed nowhere --seconds soon                | --seconds must be a positive number
results list                                     | there is no results folder
results show x                                   | there is no results folder
results show last --out empty                    | no record of 'empty'
results list --out empty --where engine          | a condition is FIELD=VALUE
results archive --out nowhere                    | there is no results folder
results merge nowhere --out all                  | there is no results folder 'nowhere'
results lst                                      | Did you mean 'list'?
jobs wait                                        | no jobs were submitted
jobs cancel last --job x                         | --job must be a whole number from 1 up, not 'x'
weights export resnt50 x.safetensors             | Did you mean 'resnet50'
weights export trivial notes.txt                 | must end in .safetensors
weights export trivial nowhere/x.safetensors     | there is no folder 'nowhere'
weights import notes.txt x.safetensors           | missing option '--network'
weights convert notes.txt x.safetensors --to onnx | no form is called 'onnx'
weights convert nowhere x.safetensors --to timm  | nowhere cannot be read
weights show empty                               | is a folder
bnech                                            | Did you mean 'bench'? See `convdyno --help`
--foo                                            | no such option: --foo
"""  # noqa: E501
"""What is typed, a part of the sentence, and the exit code where it is not 2."""
CASES = [[part.strip() for part in f"{row} | 2".split(" | ")][:3] for row in TABLE.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with some things in it that are not what is wanted."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("words\n")
    (tmp_path / "good.toml").write_text('network = "trivial"\nengine = "clockwork"\n')
    return tmp_path


@pytest.mark.parametrize(("typed", "said", "code"), CASES, ids=[typed for typed, *_ in CASES])
def test_wrong_input_is_answered_by_one_sentence(
    convdyno: Any, folder: Path, typed: str, said: str, code: str
) -> None:
    outcome = convdyno(*shlex.split(typed))
    assert (outcome.code, outcome.out) == (int(code), "")
    assert outcome.err.startswith("convdyno: ")
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1
    there = {path.name for path in folder.rglob("*")}
    assert there == {"empty", "good.toml", "notes.txt"}
    assert (folder / "notes.txt").read_text() == "words\n"


def test_there_are_more_than_a_hundred_and_every_command_has_some() -> None:
    commands = {typed.split()[0] for typed, *_ in CASES}
    assert len(CASES) > 100
    assert commands >= {
        "bench", "gate", "tune", "sweep", "train", "eval", "certify", "compare", "report", "list",
        "show", "doctor", "data", "results", "jobs", "weights",
    }  # fmt: skip


def test_an_engine_that_is_not_installed_names_the_command(
    convdyno_process: Any, tmp_path: Path
) -> None:
    # Without the environment's packages there is no torch; the core's own are put back one by one.
    blocker = tmp_path / "sitecustomize.py"
    blocker.write_text(
        "from importlib import metadata\n"
        "version = metadata.version\n"
        "def without_torch(name):\n"
        "    if name == 'torch':\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return version(name)\n"
        "metadata.version = without_torch\n"
    )
    outcome = convdyno_process(
        "bench", "resnet50", "--engine", "torch", env={"PYTHONPATH": str(tmp_path)}
    )
    assert outcome.code == 2
    assert "pip install 'convdyno[torch]'" in outcome.err
