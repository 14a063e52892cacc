"""The frame of the command line: which commands there are, and how a command ends."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dragoman.cli.importing import keep_what_was_imported, no_search_for_cycles
from dragoman.errors import DragomanError, SettingsError
from dragoman.printable import printable
from dragoman.version import __version__

DONE = 0
FAILED = 1
BAD_USAGE = 2
INTERRUPTED = 130

TRACEBACK_VARIABLE = "DRAGOMAN_TRACEBACK"
_COMPLETE_VARIABLE = "_DRAGOMAN_COMPLETE"


@dataclass(frozen=True, slots=True)
class ListedCommand:
    """A command as the overview lists it, and the module that is imported to run it."""

    name: str
    module: str
    attribute: str
    summary: str


COMMANDS = (
    ListedCommand(
        "serve", "serve", "serve", "Run the scheduler and its API until a signal stops it."
    ),
    ListedCommand(
        "demo",
        "demo",
        "demo",
        "Run a server with a fleet, speakers and two experiments.",
    ),
    ListedCommand("node", "node", "node", "Join a scheduler's fleet and run jobs until stopped."),
    ListedCommand(
        "engines", "engines", "engines", "List what a node could run here, and what is missing."
    ),
    ListedCommand("say", "say", "say", "Translate a text, a recording or what you say."),
    ListedCommand(
        "listen",
        "listen",
        "listen",
        "Print the results of a session as they come, until it is over.",
    ),
    ListedCommand("nodes", "nodes", "app", "List, show, drain, resume and shut down nodes."),
    ListedCommand("sessions", "sessions", "app", "List, show and end sessions."),
    ListedCommand("jobs", "jobs", "app", "List, show, explain and cancel jobs."),
    ListedCommand("glossary", "glossary", "app", "List, set, remove and import a tenant's terms."),
    ListedCommand("usage", "usage", "usage", "Print what tenants have used, by day."),
    ListedCommand("audit", "audit", "audit", "Print what operators did, newest first."),
    ListedCommand("dataset", "dataset", "app", "Import, list, show, export and delete datasets."),
    ListedCommand(
        "experiment",
        "experiment",
        "app",
        "Run, compare, score, annotate, retry and stop experiments.",
    ),
    ListedCommand("lab", "lab_upkeep", "app", "Look after the lab's stored results and workers."),
    ListedCommand(
        "worker", "worker", "worker", "Carry out items of experiments until a signal stops it."
    ),
    ListedCommand("init", "init", "app", "Write files to begin with: an experiment for your data."),
    ListedCommand(
        "simulate",
        "simulate",
        "simulate",
        "Play a fleet on a virtual clock: plan capacity, find faults.",
    ),
    ListedCommand(
        "config", "config", "app", "Show the effective settings, or check a settings file."
    ),
    ListedCommand("keys", "keys", "app", "Create, list, rotate and revoke API keys."),
    ListedCommand(
        "cluster",
        "cluster",
        "app",
        "Show a cluster's instances and dead letters, and check it.",
    ),
    ListedCommand("db", "db", "app", "Upgrade, check and back up the database."),
    ListedCommand(
        "doctor", "doctor", "doctor", "Check this machine and the settings, and suggest fixes."
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1, 2 or 130."""
    # Removed from the environment: it is not a setting, and unknown settings are refused.
    wants_traceback = bool(os.environ.pop(TRACEBACK_VARIABLE, ""))
    try:
        if arguments is None:
            code = _run(sys.argv[1:], wants_traceback, is_the_process=True)
        else:
            code = _run(arguments, wants_traceback, is_the_process=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe has closed it. Flushing the rest must not fail a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def _run(arguments: Sequence[str], wants_traceback: bool, *, is_the_process: bool) -> int:
    try:
        with no_search_for_cycles():
            command = typer.main.get_command(command_line(arguments))
            if is_the_process:
                keep_what_was_imported()
        command.main(list(arguments), prog_name="dragoman")
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else DONE
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if wants_traceback:
            traceback.print_exc()
        if isinstance(error, UnicodeEncodeError) and (broken := _broken_text(arguments)):
            typer.echo(f"error: The argument {printable(broken)!r} is not UTF-8.", err=True)
            return BAD_USAGE
        for line in _sentence(error).splitlines():
            typer.echo(f"error: {printable(line)}", err=True)
        return BAD_USAGE if isinstance(error, SettingsError) else FAILED
    return DONE


def _broken_text(arguments: Sequence[str]) -> str | None:
    """An argument whose bytes are no text; as the name of a file it would be one of its own."""
    broken = (one for one in arguments if any("\ud800" <= letter <= "\udfff" for letter in one))
    return next(broken, None)


def _sentence(error: Exception) -> str:
    if isinstance(error, DragomanError):
        return error.message
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = error.filename or "what is printed"
        return f"There is no space left for {place}; free some, or write elsewhere."
    summary = " ".join(f"{type(error).__name__}: {error}".split())
    return (
        f"Something went wrong that should not have ({summary}); "
        f"set {TRACEBACK_VARIABLE}=1 to see the traceback."
    )


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """Build the command line; only the command in the arguments is imported.

    The overview lists the others by their summary, which keeps ``--help`` fast.
    """
    app = typer.Typer(
        cls=_Commands,
        help="One scheduler for live speech translation and for the experiments that improve it.",
        add_completion=True,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_options)
    asked = _first_word(arguments or _words_to_complete())
    for command in COMMANDS:
        if command.name == asked:
            _add(app, command)
        else:
            app.command(command.name, help=command.summary)(_not_asked_for)
    return app


class _Commands(TyperGroup):
    """Says what is wrong with an option in words of its own, and not in those of a library."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as refused:
            words = _what_it_must_be(refused.__cause__)
            if words is not None:
                refused.message = words
            raise


_MUST_BE: Mapping[str, str] = {
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
}
"""What an option must be, by the kind of pydantic error, filled from the error's own context."""


def _what_it_must_be(cause: BaseException | None) -> str | None:
    """What is wrong with an option; None where the words of the error are good."""
    # Imported only where something is wrong: the overview is fast without it.
    from pydantic import ValidationError

    if not isinstance(cause, ValidationError):
        return None
    detail = cause.errors(include_url=False)[0]
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    template = _MUST_BE.get(detail["type"])
    if template is None:
        return None
    bounds = {
        name: f"{bound:g}" if isinstance(bound, float) else bound
        for name, bound in detail.get("ctx", {}).items()
    }
    return f"{str(detail['input'])!r} {template.format_map(bounds)}."


def _first_word(words: Sequence[str]) -> str | None:
    return next((word for word in words if not word.startswith("-")), None)


def _words_to_complete() -> Sequence[str]:
    """The words typed after the program's name, when a shell asks for completions.

    The shell calls the program without arguments and passes the words in the environment.
    """
    if _COMPLETE_VARIABLE not in os.environ:
        return ()
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return typed.split()[1:]


def _add(app: typer.Typer, command: ListedCommand) -> None:
    found = getattr(import_module(f"dragoman.cli.{command.module}"), command.attribute)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=command.name)
    else:
        app.command(command.name)(found)


def _not_asked_for() -> None:
    """A placeholder for a command that is only listed."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dragoman {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """The options before the command: only ``--version``."""
