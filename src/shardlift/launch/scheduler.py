"""Which process of a job this is, according to the scheduler that started it.

JAX knows better, once the program has called ``jax.distributed.initialize``. This is for a program
that ends before it does, or that never does: its record must not replace another process's.
"""

from collections.abc import Mapping

# The variables for the number of this process, and for how many there are. In this order: Slurm
# starts MPI programs too, and then sets both kinds. SLURM_PROCID alone also stands in a batch
# script, which is one process.
_VARIABLES = (
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),  # srun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),  # by convention, in manifests for Kubernetes
)


def place_by_scheduler(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """The number of this process and of all; None for a process on its own.

    >>> place_by_scheduler({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"})
    (3, 8)
    >>> place_by_scheduler({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"})  # a batch script
    """
    for names in _VARIABLES:
        process, count = (_number(environ.get(name, "")) for name in names)
        if process is not None and count is not None and count > 1 and process < count:
            return process, count
    return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None
