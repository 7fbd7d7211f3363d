"""What `fix` or `migrate` writes for an example of a rule: the page of the rule shows it."""

import re

from shardlift.check.engine import check_text
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from shardlift.source.model import Rule
from shardlift.source.settings import Settings

_PATH = "/p/example.py"
_LONGEST = 45  # lines that a page shows


def use_instead(rule: Rule) -> str:
    """Markdown with the first example that a command rewrites; empty if there is none."""
    if not rule.rewritten_as:
        return ""
    settings = Settings(*rule.holds_for) if rule.holds_for else Settings()
    for goal, command in ((Goal.FIX, "fix"), (Goal.SHARD_MAP, "migrate")):
        for example in rule.bad:
            text = re.sub(r"  # SL\d+.*", "", example) if isinstance(example, str) else ""
            new = _rewritten(text, goal, settings)
            is_short = new.count("\n") < _LONGEST
            if new != text and is_short and rule.code not in _codes(new, settings):
                blocks = f"{_block(text)}\n\nthis:\n\n{_block(new)}"
                return f"`shardlift {command}` makes of this\n\n{blocks}"
    return ""


def _rewritten(text: str, goal: Goal, settings: Settings) -> str:
    content = text.encode()
    result = migrate(
        [_PATH], lambda _: content, {"/p", _PATH}.__contains__, goal, settings=settings
    )
    return next((file.after for file in result.changed if file.path == _PATH), text)


def _codes(text: str, settings: Settings) -> set[str]:
    return {finding.code for finding in check_text(text, settings=settings).findings}


def _block(text: str) -> str:
    return f"```python\n{text.strip()}\n```"
