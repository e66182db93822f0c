"""Who is who among ranks that somebody else has started."""

import pytest

from convdyno.errors import UsageError
from convdyno.launch.starters import first_node, found

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "node7",
    "MASTER_PORT": "29500",
}  # fmt: skip
MPIEXEC = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "871",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "gpu[03-05]", "SLURM_STEP_NUM_NODES": "3",
}  # fmt: skip
OWN = {"CONVDYNO_RANK": "1", "CONVDYNO_SIZE": "2", "CONVDYNO_ADDRESS": "head"}


@pytest.mark.parametrize(
    "variables, rank, size, addresses",
    [
        (TORCHRUN, 3, 4, "node7"),
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "2"}, 3, 4, "node7"),
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "4"}, 3, 4, "127.0.0.1"),
        (MPIEXEC, 1, 2, "127.0.0.1"),
        (SRUN, 2, 3, "gpu03"),
        (SRUN | {"SLURM_STEP_NUM_NODES": "1"}, 2, 3, "127.0.0.1"),
        (OWN, 1, 2, "head"),
        (
            MPIEXEC | {
                "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
                "OMPI_MCA_orte_hnp_uri": "871.0;tcp://10.77.0.1,192.168.1.4:4711",
                "OMPI_MCA_orte_node_regex": "head,n[2:1-2,7]@0(4)",
            },
            1, 2, "head n01 n02 n07 10.77.0.1",
        ),
        (SRUN | MPIEXEC, 1, 2, "127.0.0.1"),
    ],
)  # fmt: skip
def test_each_starter_is_known_by_its_variables(
    variables: dict[str, str], rank: int, size: int, addresses: str
) -> None:
    member = found(variables)
    assert member is not None
    assert (member.rank, member.size) == (rank, size)
    assert member.addresses == tuple(addresses.split())


@pytest.mark.parametrize(
    "variables",
    [
        {},
        SRUN | {"SLURM_STEP_NUM_TASKS": "1"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "17"},  # A batch script itself.
        {"RANK": "1", "WORLD_SIZE": "2"},  # Words that anybody may use.
    ],
)
def test_a_process_that_was_started_alone_is_alone(variables: dict[str, str]) -> None:
    assert found(variables) is None


def test_ranks_of_one_job_meet_and_those_of_two_do_not() -> None:
    ours, other = found(SRUN), found(SRUN | {"SLURM_PROCID": "0"})
    another = found(SRUN | {"SLURM_JOB_ID": "18"})
    assert ours is not None and other is not None and another is not None
    assert ours.job == other.job != another.job


def test_local_jobs_of_two_machines_that_share_folders_are_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = set()
    for host in ("a", "b"):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        member = found(MPIEXEC)
        assert member is not None
        jobs.add(member.job)
    assert len(jobs) == 2


@pytest.mark.parametrize("wrong", [{"SLURM_PROCID": "x"}, {"SLURM_PROCID": "3"}])
def test_variables_that_make_no_sense_are_a_sentence(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="SLURM_PROCID"):
        found(SRUN | wrong)


@pytest.mark.parametrize(
    "nodes, first",
    [("n1", "n1"), ("n1,n2", "n1"), ("n[1-3,7],m2", "n1"), ("gpu[007,009]", "gpu007"),
     ("r[1-2]-ib", "r1-ib")],
)  # fmt: skip
def test_the_first_node_of_slurms_lists(nodes: str, first: str) -> None:
    assert first_node(nodes) == first
