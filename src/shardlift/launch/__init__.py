"""Running a program in one process, or in many local ones under one coordinator."""

from shardlift.launch.job import Emit, Failure, Outcome, launch
from shardlift.launch.program import Program, report_uncaught, virtual_devices

__all__ = [
    "Emit",
    "Failure",
    "Outcome",
    "Program",
    "launch",
    "report_uncaught",
    "virtual_devices",
]
