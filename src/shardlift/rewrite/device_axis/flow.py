"""The flow of values through a whole program, from where they are made to where they are used."""

from __future__ import annotations

# The functions of the visitor register themselves when their modules are imported.
from shardlift.rewrite.device_axis import calls, expressions, statements  # noqa: F401
from shardlift.rewrite.device_axis.connections import connect
from shardlift.rewrite.device_axis.exposure import expose
from shardlift.rewrite.device_axis.failures import blame
from shardlift.rewrite.device_axis.program import FollowedProgram
from shardlift.rewrite.device_axis.visitor import Visitor


def follow_values(program: FollowedProgram) -> None:
    """Visit all files, and then decide what others see and what each call and index means."""
    for file in program.files:
        if file not in program.lost:
            with blame(file):
                Visitor(program, file, file.index.module).block(file.index.root.body)
    expose(program)
    connect(program)
