"""What `--slurm` may say, and what becomes of it for each number of devices."""

import pytest

from convdyno.errors import UsageError
from convdyno.launch.slurm_options import kinds, minutes, read_order
from convdyno.trial.spec import Trial

TRIAL = Trial(network="deepmnist", engine="torch", batch=50)


def trial(**values: object) -> Trial:
    return TRIAL.model_copy(update=values)


@pytest.mark.parametrize(
    ("gres", "expected"),
    [
        ("gpu", "gpu:3"),
        ("gpu:2", "gpu:3"),
        ("gpu:k80", "gpu:k80:3"),
        ("gpu:k80:1", "gpu:k80:3"),
        ("tmpfs:5G,gpu:k80:1", "tmpfs:5G,gpu:k80:3"),
        ("license:9", "license:9"),
    ],
)
def test_the_count_of_gpus_follows_the_devices(gres: str, expected: str) -> None:
    assert read_order(f"gres={gres}").header(trial(devices=3))["gres"] == expected


def test_gpus_are_counted_by_node_or_in_all_as_the_option_says() -> None:
    four = trial(devices=4, hosts=2)
    assert read_order("nodes=2,gres=gpu:k80").header(four)["gres"] == "gpu:k80:2"
    assert read_order("nodes=2,gpus-per-node=k80").header(four)["gpus-per-node"] == "k80:2"
    assert read_order("nodes=2,gpus=k80:1").header(four)["gpus"] == "k80:4"


def test_without_devices_there_is_one_for_each_gpu() -> None:
    assert read_order("gres=gpu:k80:2").counts(None) == [2]
    assert read_order("nodes=2,gres=gpu:k80:2").counts(None) == [4]
    assert read_order("partition=RM").counts(None) == [1]
    assert read_order("gres=gpu:k80:2").counts([1, 4]) == [1, 4]


def test_an_order_is_known_by_its_partition_and_its_gpu() -> None:
    assert read_order("partition=GPU,gres=gpu:k80:2,time=15").kind == "GPU/k80"
    assert read_order("partition=RM").kind == "RM"
    assert read_order("gpus=1").kind == "default/gpu"


def test_orders_of_one_kind_are_told_apart_by_what_differs() -> None:
    v100, a100 = (
        "partition=GPU,gres=gpu,constraint=v100",
        "partition=GPU,gres=gpu,constraint=a100,mem=4G",
    )
    assert kinds([read_order(v100), read_order(a100)]) == [
        "GPU/gpu,constraint=v100", "GPU/gpu,constraint=a100,mem=4G",
    ]  # fmt: skip
    assert kinds([read_order("partition=A"), read_order("partition=B")]) == ["A", "B"]
    with pytest.raises(UsageError, match="ask for the same: A"):
        kinds([read_order("partition=A"), read_order("partition=A")])


def test_a_task_for_each_device_or_host() -> None:
    order = read_order("partition=GPU,nodes=2")
    header = order.header(trial(devices=4, hosts=2))
    assert (header["nodes"], header["ntasks"], header["ntasks-per-node"]) == ("2", "4", "2")
    header = order.header(trial(devices=4, hosts=2, processes="host"))
    assert (header["ntasks"], header["ntasks-per-node"]) == ("2", "1")


def test_a_step_is_told_its_gpus_and_cores_again() -> None:
    order = read_order("partition=GPU,gres=gpu:k80,cpus-per-task=7,time=15")
    assert order.for_step(trial(devices=2)) == {"gres": "gpu:k80:2", "cpus-per-task": "7"}


def test_jobs_have_their_nodes_to_themselves_unless_they_shall_not() -> None:
    assert read_order("partition=GPU").header(TRIAL)["exclusive"] == ""
    assert read_order("partition=GPU,exclusive=user").header(TRIAL)["exclusive"] == "user"
    shared = read_order("partition=GPU,exclusive=no")
    assert not shared.exclusive
    assert "exclusive" not in shared.header(TRIAL)


def test_a_value_may_have_commas() -> None:
    options = read_order("nodelist=n1,n2,time=15,mail-type=END,FAIL,requeue").options
    assert options == {"nodelist": "n1,n2", "time": "15", "mail-type": "END,FAIL", "requeue": ""}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("partiton=GPU", "no option of sbatch is called 'partiton'. Did you mean 'partition'?"),
        ("time=5,time=6", "has time twice"),
        ("gres=", "no value for gres"),
        ("ntasks=4", "give --devices"),
        ("nodes=1-2", "nodes= is a whole number here, not '1-2'"),
        ("cpus-per-task=0", "is a whole number"),
        ("comment=a\nb", "cannot be written"),
        (",partition=x", "is a list such as"),
        ("", "is a list such as"),
    ],
)
def test_what_does_not_fit_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace("?", r"\?")):
        read_order(text)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("15", 15),
        ("15:30", 15.5),
        ("1:30:00", 90),
        ("1-0", 1440),
        ("1-2:30", 1590),
        ("1-2:30:30", 1590.5),
        ("soon", None),
        ("", None),
    ],
)
def test_times_are_read_as_slurm_reads_them(word: str, expected: float | None) -> None:
    assert minutes(word) == expected
