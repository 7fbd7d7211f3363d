"""Running a program in one process, or in many local ones under one coordinator."""

from shardlift.launch.job import STUCK_STATUS, Failure, Job, Outcome
from shardlift.launch.member import Member
from shardlift.launch.process_group import signal_group
from shardlift.launch.program import (
    Program,
    report_uncaught,
    use_virtual_devices,
    virtual_devices,
)
from shardlift.launch.session import RunOptions
from shardlift.launch.stacks import StackFrame, ThreadStack
from shardlift.launch.stuck import StuckJob, StuckProcess, WhenStuck

__all__ = [
    "STUCK_STATUS",
    "Failure",
    "Job",
    "Member",
    "Outcome",
    "Program",
    "RunOptions",
    "StackFrame",
    "StuckJob",
    "StuckProcess",
    "ThreadStack",
    "WhenStuck",
    "report_uncaught",
    "signal_group",
    "use_virtual_devices",
    "virtual_devices",
]
