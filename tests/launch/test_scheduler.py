"""Which process of a job this is, by the environment."""

import pytest

from shardlift.launch.scheduler import place_by_scheduler


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ("SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=8", (1, 4)),
        ("SLURM_PROCID=0 SLURM_NTASKS=8", None),  # a batch script
        ("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1", None),
        ("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 PMI_RANK=2 PMI_SIZE=4", (2, 4)),  # mpirun in srun
        ("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4", (3, 4)),
        ("PMI_RANK=0 PMI_SIZE=2", (0, 2)),
        ("JAX_PROCESS_ID=1 JAX_NUM_PROCESSES=2", (1, 2)),
        ("PMI_RANK=1", None),
        ("PMI_RANK=first PMI_SIZE=2", None),
        ("PMI_RANK=2 PMI_SIZE=2", None),
        ("PMI_RANK=-1 PMI_SIZE=2", None),
        ("", None),
    ],
)  # fmt: skip
def test_place(environ: str, place: tuple[int, int] | None):
    assert place_by_scheduler(dict(word.split("=") for word in environ.split())) == place
