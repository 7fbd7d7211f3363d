"""``shardlift lsp``: a language server, for editors."""

import click

from shardlift.cli.stop import stop


@click.command(short_help="Start a language server for editors.", epilog="Example: shardlift lsp")
@click.option("--stdio", is_flag=True, hidden=True)  # what many editors add to the command
def lsp(stdio: bool) -> None:  # noqa: ARG001
    """Start a language server that speaks on standard input and output.

    An editor starts it, not you: docs/editor.md has the settings for VS Code, Neovim, Emacs and
    Helix. It shows findings while you type, explains them, and offers rewrites. It reads files and
    never runs them. Needs pip install "shardlift[lsp]".
    """
    try:
        from shardlift.cli.lsp.server import start
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        stop('the language server needs pygls: pip install "shardlift[lsp]"')
    start()
