"""Running a program in one process, or in many local ones under one coordinator."""

from shardlift.launch.diagnosis import Cause, Diagnosis, ProcessState
from shardlift.launch.job import STUCK_STATUS, Emit, Failure, Outcome, launch
from shardlift.launch.member import Member, StuckOptions
from shardlift.launch.process_group import signal_group
from shardlift.launch.program import Program, report_uncaught, virtual_devices
from shardlift.launch.session import RunOptions
from shardlift.launch.stacks import Frame, Mapped, Stack
from shardlift.launch.waits import Wait
from shardlift.launch.watchdog import WhenStuck

__all__ = [
    "STUCK_STATUS",
    "Cause",
    "Diagnosis",
    "Emit",
    "Failure",
    "Frame",
    "Mapped",
    "Member",
    "Outcome",
    "ProcessState",
    "Program",
    "RunOptions",
    "Stack",
    "StuckOptions",
    "Wait",
    "WhenStuck",
    "launch",
    "report_uncaught",
    "signal_group",
    "virtual_devices",
]
