"""``lab.compare``: experiments of a data folder against each other, inside a program."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dragoman.auth import DEFAULT_TENANT
from dragoman.errors import InvalidMessage
from dragoman.lab.comparison import CompareAsk, Comparison, Comparisons
from dragoman.lab.filters import parse_filter
from dragoman.lab.model import JsonValue
from dragoman.lab.running.result import RunResult
from dragoman.settings import load_settings
from dragoman.store import open_store


def compare(
    baseline: RunResult | str,
    *others: RunResult | str,
    filter: Mapping[str, JsonValue] | None = None,  # noqa: A002 - what it is called everywhere
    cluster: str | None = None,
    sort_by: str | None = None,
    rows: int = 20,
    data_dir: Path | str | None = None,
) -> Comparison:
    """Compare experiments with a baseline, on the items that they share.

    Each is a result of `lab.run`, the name or id of an experiment, or the id of a run; one alone
    is compared with the last finished run before it. `filter` chooses turns by the baseline's
    rows; `cluster` is a column that names what belongs together, such as a speaker. The `rows`
    with the biggest losses in `sort_by`, or else the first score, come with it. Inside an event
    loop, too.
    """
    given = (baseline, *others)
    url = _database_url(given, data_dir)
    named = [one.experiment_id if isinstance(one, RunResult) else one for one in given]
    ask = CompareAsk(
        baseline=named[0] if others else None,
        others=tuple(named[1:] if others else named),
        wanted=parse_filter(filter),
        cluster=cluster,
        sort_by=sort_by,
        rows=rows,
    )
    # In a thread of its own: the caller may be inside an event loop, as in a notebook.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _compare(url, ask)).result()


async def _compare(url: str, ask: CompareAsk) -> Comparison:
    async with await open_store(url) as store:
        return await Comparisons(store).compare(DEFAULT_TENANT, ask)


def _database_url(given: tuple[RunResult | str, ...], data_dir: Path | str | None) -> str:
    """The one database that everything is in."""
    urls = list(dict.fromkeys(one.database_url for one in given if isinstance(one, RunResult)))
    if data_dir is not None or not urls:
        flags = {"server": {"data_dir": None if data_dir is None else Path(data_dir)}}
        urls = list(dict.fromkeys([*urls, load_settings(None, flags).settings.store.database_url]))
    if len(urls) > 1:
        raise InvalidMessage(
            "The results are in different data folders; run them with the same data_dir to "
            "compare them."
        )
    return urls[0]
