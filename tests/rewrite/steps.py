"""One step on one text, and the whole engine on one."""

from shardlift.rewrite.engine import ProjectMigration
from shardlift.rewrite.goal import Goal, Step
from shardlift.source.edits import apply_edits
from shardlift.source.model import Match
from shardlift.source.project import Project
from shardlift.source.settings import Settings
from shardlift.source.text import Source

# The helpers of this flax do not work with this JAX, or are slow: they are rewritten.
OLD_FLAX = Settings((0, 10, 2), (0, 12, 2))


def results(
    step: Step, text: str, goal: Goal = Goal.SHARD_MAP, settings: Settings = OLD_FLAX
) -> list[Match]:
    """What a step says of a text."""
    project = Project.of(Source("example.py", text), settings=settings)
    return list(step(project.file("example.py"), goal))


def rewritten(step: Step, text: str, goal: Goal = Goal.SHARD_MAP) -> str:
    """The text with the edits of a step."""
    found = results(step, text, goal)
    return apply_edits(text, [e for r in found for e in r.edits])


def refused(step: Step, text: str, goal: Goal = Goal.SHARD_MAP) -> list[str]:
    """The reasons for which a step leaves places of a text as they are."""
    return [r.message for r in results(step, text, goal) if not r.edits]


def migrated(text: str, goal: Goal = Goal.SHARD_MAP, settings: Settings = OLD_FLAX) -> str:
    """The text after all steps, its helpers in it."""
    content = {"example.py": text.encode()}
    project = ProjectMigration(
        list(content), content.__getitem__, lambda path: False, goal, (), settings
    )
    files = project.render().files
    return files[0].after if files else text
