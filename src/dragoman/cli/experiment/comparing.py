"""``dragoman experiment compare``, and the comparison at the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dragoman.api import ExperimentView
from dragoman.cli.lab.access import DataDirOption, TokenOption, UrlOption, Way, with_lab
from dragoman.cli.lab.client import LabClient
from dragoman.cli.showing import JsonOption, print_json, say
from dragoman.errors import DragomanError, InvalidFilter, NotFound, SettingsError
from dragoman.lab.comparison import Comparison, comparison_lines
from dragoman.lab.filters import MAX_DEPTH
from dragoman.lab.states import RunStatus

ROWS = 5


def compare_command(
    experiments: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            help="Experiments by name or id, or runs by id. The first is the baseline; one alone "
            "is compared with the last finished run before it.",
        ),
    ],
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.md", help="Write a Markdown report, with a plot beside it as SVG."
        ),
    ] = None,
    wanted: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="JSON", help="Which rows count, by the rows of the baseline."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="A column that names what belongs together, such as speaker or document.",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=0, max=1000, metavar="N", help="Show the N biggest losses.")
    ] = ROWS,
    sort_by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The score whose losses are shown.  [default: the first]"
        ),
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Compare experiments on the items that they share.

    Items pair by their content. For each score: the difference with a 95 % interval, a p-value
    corrected for everything compared at once, wins and losses, and what so many items can tell.
    """
    asked = {"filter": read_tree(wanted), "cluster": cluster, "sort_by": sort_by, "limit": rows}
    baseline, others = (None, experiments) if len(experiments) == 1 else split(experiments)

    async def work(lab: LabClient) -> Comparison:
        return await lab.compare(others, baseline=baseline, **asked)

    found = with_lab(Way(url, data_dir, token), work)
    if report is not None:
        write_report(found, report)
    if as_json:
        print_json(found)
    else:
        say("\n".join(comparison_lines(found, rows)))


def split(experiments: list[str]) -> tuple[str, list[str]]:
    """The baseline, and those that are compared with it."""
    return experiments[0], experiments[1:]


def read_tree(text: str | None) -> Any:
    """A filter as the user typed it."""
    try:
        return None if text is None else msgspec.json.decode(text)
    except RecursionError:
        raise InvalidFilter(
            f"The filter is nested deeper than {MAX_DEPTH} levels; use fewer."
        ) from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidFilter(f"The filter is not valid JSON ({error}).") from None


def write_report(found: Comparison, path: Path) -> None:
    """Write the report, and its plot beside it under the same name."""
    picture = path.with_suffix(".svg")
    if picture == path:
        raise SettingsError(
            f"--report {path} is the name of the plot; give a name like {path.stem}.md."
        )
    try:
        found.plot().save(picture)
        path.write_text(found.to_markdown(picture.name), encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"The report {path} cannot be written ({error.strerror}).") from None
    say(f"Wrote {path} and {picture}.", err=True)


async def compare_with_last(lab: LabClient, found: ExperimentView) -> Comparison | None:
    """Print how a run that has ended differs from the last finished one, if there is one."""
    if found.status != RunStatus.SUCCESS:
        return None
    try:
        compared = await lab.compare([found.experiment_id], limit=ROWS)
    except NotFound:
        return None  # the first of its name
    except DragomanError as error:
        # The run itself is as good as it was.
        say(f"It was not compared with the run before it. {error.message}", err=True)
        return None
    say()
    say("\n".join(comparison_lines(compared, ROWS)))
    return compared
