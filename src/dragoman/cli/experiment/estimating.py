"""Before a run starts: what it will take, and whether the user wants it."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from dragoman.cli.app import DONE, FAILED
from dragoman.cli.experiment.experiment_file import ExperimentFile
from dragoman.cli.experiment.identity import dataset_file_of, named_version
from dragoman.cli.experiment.summary import print_rows
from dragoman.cli.lab.access import command_settings
from dragoman.cli.lab.client import LabClient
from dragoman.cli.showing import say
from dragoman.errors import DatasetInvalid, SettingsError
from dragoman.lab.audio import audio_columns, audio_folder_of
from dragoman.lab.estimate_report import estimate_lines, question
from dragoman.lab.estimates import Rehearsal, Sample
from dragoman.lab.library import DatasetFile, opened_table, sample_of

_YES = ("y", "yes")
_NOTHING = "Nothing was started."


async def dry_run(lab: LabClient, file: ExperimentFile, scratch: Path) -> int:
    """Try three items, print what they came to and what a run takes; return the exit code.

    Of a dataset that is a file, the items are sent with the question: nothing is imported.
    """
    wanted = dataset_file_of(file)
    if wanted is None:
        version = await named_version(lab, file)
        order = file.order(file.described.name, version.version_id)
        found = await lab.estimate(order)
    else:
        sample = await asyncio.to_thread(_sample, wanted, lab, scratch)
        order = file.order(file.described.name, "")
        del order["dataset_version_id"]
        found = await lab.estimate(order, sample)
    print_rows(found.rows)
    _print_estimate(found)
    return FAILED if found.estimate.failed == found.estimate.sampled else DONE


async def agreed(lab: LabClient, order: dict[str, Any]) -> int | None:
    """Ask the user whether to start a run that takes so much; the exit code if not to.

    A run that calls nothing is not asked about.
    """
    say("Trying three items, to estimate what the run takes.", err=True)
    found = await lab.estimate(order)
    if found.estimate.calls.likely == 0:
        return None
    _print_estimate(found)
    say(f"{question(found.estimate)} [y/N] ", nl=False)
    try:
        is_wanted = (await _typed_line()).strip().lower() in _YES
    except asyncio.CancelledError:  # Ctrl-C, which ends the command
        say(f"\n{_NOTHING}", err=True)
        raise
    if is_wanted:
        return None
    say(_NOTHING, err=True)
    return FAILED


async def _typed_line() -> str:
    """What is typed next; empty at the end of the input.

    Not with `input()`: a Ctrl-C between its question and its reading waits for the next line.
    """
    loop = asyncio.get_running_loop()
    is_there = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), is_there.set)
    try:
        with _interrupts_wake(loop):
            await is_there.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline()  # a terminal hands over whole lines


@contextmanager
def _interrupts_wake(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Have a Ctrl-C wake the event loop, whatever it is doing.

    asyncio's own handler does not: one that comes just before the loop begins to wait is seen only
    when something else wakes it.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop.add_signal_handler(signal.SIGINT, before, signal.SIGINT, None)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


def can_ask() -> bool:
    """Whether a person sees the question and can answer it."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _sample(wanted: DatasetFile, lab: LabClient, scratch: Path) -> Sample:
    # A server has limits of its own, and is sent no audio.
    most, folder = sys.maxsize, None
    if lab.resume is not None:
        most, folder = command_settings().lab.max_items, audio_folder_of(scratch)
    with ExitStack() as stack:
        try:
            table = stack.enter_context(opened_table(wanted))
        except OSError as error:
            raise SettingsError(f"{wanted.path} cannot be read ({error.strerror}).") from None
        if folder is None and audio_columns(table.schema):
            raise SettingsError(
                f"{wanted.path} names audio, which a dry run does not send to a server; import it "
                "with `dragoman dataset import`, and name the dataset in the experiment file."
            )
        try:
            return sample_of(table, most, folder)
        except DatasetInvalid as error:
            raise SettingsError(f"{wanted.path}: {error.message}") from error


def _print_estimate(found: Rehearsal) -> None:
    failed = [row for row in found.rows if row.error_code is not None]
    for row in failed:
        say(f"{row.item_id} failed with {row.error_code}: {row.error_message}", err=True)
    for line in estimate_lines(found.estimate):
        say(line)
