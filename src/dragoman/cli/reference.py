"""The reference page of the command line, made from the parser itself.

``python -m dragoman.cli.reference`` prints it; it is kept as docs/reference/cli.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import typer

from dragoman.cli.app import COMMANDS, command_line

_INTRODUCTION = """\
# Command line

<!-- Written by `python -m dragoman.cli.reference`; do not edit by hand. -->

`dragoman --help` lists the commands, and `--help` after a command its options. Exit codes: 0 when
the command did what it was asked, 1 when it could not, 2 when it was called wrongly, 130 after
Ctrl-C. Commands that print facts take `--json`, for programs.

Commands that ask a server read its [key](../howto/keys.md) from `--token` or from the variable
`DRAGOMAN_TOKEN`.
"""


def reference() -> str:
    """The whole page, as Markdown."""
    parts = [_INTRODUCTION, _overview()]
    for listed in COMMANDS:
        root: Any = typer.main.get_command(command_line([listed.name]))
        parts.append(f"## {listed.name}\n")
        parts.extend(_command(root.commands[listed.name], f"dragoman {listed.name}"))
    return "\n".join(parts)


def _overview() -> str:
    rows = [f"| [`{one.name}`](#{one.name}) | {one.summary} |" for one in COMMANDS]
    return "\n".join(["| command | does |", "| --- | --- |", *rows, ""])


# A command of the parser that typer has built in; it exports no type of its own for it.
def _command(command: Any, words: str) -> Iterator[str]:
    subcommands = getattr(command, "commands", None)
    if subcommands is not None:
        yield f"{_prose(command.help)}\n"
        for name, inner in subcommands.items():
            yield f"### {words.removeprefix('dragoman ')} {name}\n"
            yield from _command(inner, f"{words} {name}")
        return
    context = command.make_context(words, [], resilient_parsing=True)
    yield f"`{' '.join([words, *command.collect_usage_pieces(context)])}`\n"
    yield f"{_prose(command.help)}\n"
    rows = list(_rows(command, context))
    if rows:
        yield "\n".join(["| option | meaning |", "| --- | --- |", *rows, ""])


def _rows(command: Any, context: Any) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or "--help" in parameter.opts:
            continue
        names, meaning = record
        yield f"| `{_one_line(names).replace('|', '&#124;')}` | {_cell(meaning)} |"


def _prose(text: str | None) -> str:
    """The paragraphs of a docstring, each on one line."""
    paragraphs = (text or "").replace("\b", "").replace("``", "`").split("\n\n")
    return "\n\n".join(_one_line(paragraph) for paragraph in paragraphs)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _one_line(text).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.stdout.write(reference())
