"""The module that holds the helpers of several files, with what is there kept."""

from collections.abc import Callable, Iterable, Sequence

from shardlift.rewrite.call_format import Style
from shardlift.rewrite.helpers import definitions, emit, extended
from shardlift.rewrite.imports import add_imports
from shardlift.rewrite.layout import Exists
from shardlift.rewrite.results import FileResult
from shardlift.source.model import HelperRequest
from shardlift.source.scopes import grouped
from shardlift.source.text import read_source


def helper_modules(
    results: Sequence[FileResult], read: Callable[[str], bytes], exists: Exists
) -> tuple[FileResult, ...]:
    """The modules of helpers that these files import, with all that the files need."""
    users = grouped((r for r in results if r.helpers), lambda result: result.home.path)
    modules: list[FileResult] = []
    rewritten = {result.path: result.after for result in results}
    for path, files in users.items():
        if path is None:
            continue  # they hold their own
        before = read_source(path, read(path)).text if exists(path) else ""
        requests = frozenset[HelperRequest]().union(*(file.helpers for file in files))
        texts = [file.before for file in files if file.path.endswith(".py")]
        style = Style.of_helpers(before or "\n".join(texts))
        text = helper_module(rewritten.get(path, before), requests, style)
        modules.append(FileResult(path, before, text))
    return tuple(modules)


def helper_module(existing: str, requests: Iterable[HelperRequest], style: Style) -> str:
    """The text of a package's module of helpers, with what is there kept."""
    if not existing.strip():
        return emit(requests, style)
    text, missing, imports = extended(existing, requests, style)
    if text == existing and not missing:
        return existing
    text = add_imports(text, imports)
    return f"{text.rstrip()}\n\n\n{definitions(missing, style)}" if missing else text
