"""Running a program in one process, or in many local ones under one coordinator."""

from shardlift.launch.job import Emit, Failure, Outcome, launch
from shardlift.launch.program import Program, report_uncaught, virtual_devices
from shardlift.launch.session import Watch, merge_records

__all__ = [
    "Emit",
    "Failure",
    "Outcome",
    "Program",
    "Watch",
    "launch",
    "merge_records",
    "report_uncaught",
    "virtual_devices",
]
