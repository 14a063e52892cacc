"""``dragoman lab``: look after the lab's stored results."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from math import isfinite
from typing import Annotated, Any

import msgspec
import typer

from dragoman.api import PaceView, WorkersView, WorkerView
from dragoman.audit import insert_entry
from dragoman.cli.audited import entry_of
from dragoman.cli.db import ConfigOption, settings_for
from dragoman.cli.db import DataDirOption as DataFolderOption
from dragoman.cli.lab.access import DataDirOption, TokenOption, UrlOption, Way, with_lab
from dragoman.cli.lab.client import LabClient
from dragoman.cli.showing import JsonOption, counted, print_facts, print_json, print_table
from dragoman.ids import TenantId
from dragoman.lab.budgets import Quota
from dragoman.lab.experiments import quota_of
from dragoman.lab.pruning import EndedExperiment, Expired, Retention, expire, prune, surplus
from dragoman.lab.repository import quotas, runs, spending
from dragoman.settings import LabSettings
from dragoman.store import SchemaStatus, StoreConnection, check, open_store, upgrade

app = typer.Typer(
    name="lab", help="Look after the lab's stored results and workers.", no_args_is_help=True
)

_LOOK_SECONDS = 0.5


@app.callback()
def lab() -> None:
    """Look after the lab's stored results and workers."""


@app.command("rebuild-mirror")
def rebuild_mirror_command(
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Throw the columnar copy of results away and make it anew from the database.

    Nothing is lost: the database has everything, and answers meanwhile. With a running server the
    server does it, because one process owns the copy.
    """

    async def work(lab: LabClient) -> None:
        shown = await lab.mirror(rebuild=True)
        while not shown.ready or shown.lag_rows:
            await asyncio.sleep(_LOOK_SECONDS)
            shown = await lab.mirror()
        typer.echo("The mirror has been made anew, and is up to date.")

    with_lab(Way(url, data_dir, token, mirrored=True), work)


@app.command("workers")
def workers_command(
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the lab's processes on all machines: who works on what, since when, how fast.

    A process that did not report for 30 seconds is silent: paused, cut off or dead. What it held
    goes to others when its leases run out.
    """

    async def work(lab: LabClient) -> WorkersView:
        return await lab.workers()

    found = with_lab(Way(url, data_dir, token), work).workers
    if as_json:
        print_json({"workers": found})
        return
    print_table(
        ("worker", "host", "pid", "state", "role", "items", "items/s", "done", "works on"),
        ([*_worker_cells(one), _runs_cell(one)] for one in found),
        empty="No process of the lab has reported.",
    )


def _worker_cells(one: WorkerView) -> list[object]:
    roles = ["schedules"] if one.schedules else []
    roles += ["works"] if one.concurrency else []
    at_work = f"{one.items}/{one.concurrency}" if one.concurrency else None
    return [
        one.worker_id,
        one.host,
        one.pid,
        one.state,
        " + ".join(roles),
        at_work,
        f"{one.items_per_second:g}",
        one.items_done,
    ]


def _runs_cell(one: WorkerView) -> str | None:
    runs = [f"{run.experiment_id}: {run.items} since {run.since}" for run in one.runs]
    return ", ".join(runs) or None


@app.command("pace")
def pace_command(
    experiment: Annotated[
        str, typer.Argument(metavar="ID", help="An experiment that calls the target.")
    ],
    calls_at_once: Annotated[
        int | None,
        typer.Option(
            "--calls-at-once", metavar="N", min=1, help="Limit the calls over all workers and runs."
        ),
    ] = None,
    no_limit: Annotated[bool, typer.Option("--no-limit", help="Remove the limit.")] = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show or change how many calls at once a target takes, from all workers together.

    It holds for every experiment of the tenant on the same target, also while they run: workers
    take it up within lab.safety_tick_ms. Calls in progress end.
    """
    if no_limit and calls_at_once is not None:
        raise typer.BadParameter("--calls-at-once and --no-limit exclude each other.")
    change = {"calls_at_once": calls_at_once} if no_limit or calls_at_once is not None else None

    async def work(lab: LabClient) -> PaceView:
        return await lab.pace(experiment, change)

    found = with_lab(Way(url, data_dir, token), work)
    if as_json:
        print_json(found)
        return
    learned = found.learned
    print_facts(
        [
            ("target", found.target),
            ("calls at once", "no limit" if found.calls_at_once is None else found.calls_at_once),
            ("granted to workers", found.granted),
            (
                "learned",
                learned
                and f"{learned.calls_between_pauses} calls of a worker go well between pauses of "
                f"{learned.pause_seconds:g} s",
            ),
        ]
    )


@app.command("prune")
def prune_command(
    older_than_days: Annotated[
        int | None,
        typer.Option(
            "--older-than-days",
            metavar="N",
            min=0,
            help="Remove experiments that ended longer ago, and old runs and items of those that "
            "never end.  [default: lab.retention_days]",
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            metavar="N",
            min=0,
            help="Keep so many ended experiments of each tenant, the newest.  "
            "[default: lab.retention_experiments]",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")
    ] = False,
    config: ConfigOption = None,
    data_dir: DataFolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove experiments that have ended, with their results; a server may run meanwhile.

    Datasets stay, and so does what a tenant has used up. An experiment that runs, or that starts
    again by a clock, is never removed: with an age it loses its runs that ended longer ago, and
    items that were added to it and done longer ago.
    """
    settings = settings_for(config, data_dir)
    retention = Retention(
        settings.lab.retention_days if older_than_days is None else older_than_days,
        settings.lab.retention_experiments if keep is None else keep,
    )
    if retention.is_unlimited:
        raise typer.BadParameter(
            "Nothing says what to remove: give --older-than-days or --keep, or set "
            "lab.retention_days or lab.retention_experiments."
        )
    found, old = asyncio.run(_prune(settings.store.database_url, retention, dry_run=dry_run))
    shown = [_shown(one) for one in found]
    expired = [msgspec.structs.asdict(one) for one in old]
    if as_json:
        print_json({"dry_run": dry_run, "experiments": shown, "of_never_ending": expired})
        return
    if shown or not expired:
        print_table(
            ("id", "tenant", "name", "ended"),
            (list(one.values()) for one in shown),
            empty="There is nothing to remove.",
        )
    if expired:
        print_table(
            ("id", "tenant", "name", "old runs", "old items"),
            ([str(value) for value in one.values()] for one in expired),
            empty="",
        )
    done = "would be removed" if dry_run else "removed"
    if shown:
        typer.echo(f"{counted(len(shown), 'experiment')} {done}.")
    if expired:
        runs_found, items_found = (sum(getattr(one, of) for one in old) for of in ("runs", "items"))
        typer.echo(
            f"{counted(runs_found, 'old run')} and {counted(items_found, 'old item')} of "
            f"experiments that never end {done}."
        )


@app.command("quota")
def quota_command(
    tenant: Annotated[
        str | None,
        typer.Argument(metavar="TENANT", help="The tenant.  [default: all that have limits]"),
    ] = None,
    running_experiments: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Experiments that may run at once, instead of lab.running_experiments.",
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Tokens, instead of lab.tenant_tokens; 0: no limit."),
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option(metavar="X", min=0, help="Cost, instead of lab.tenant_cost; 0: no limit."),
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Have the tenant follow the settings again.")
    ] = False,
    config: ConfigOption = None,
    data_dir: DataFolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show or set the limits of a tenant; a running server follows them within a second.

    A limit that is not given stays as it is.
    """
    given = Quota(running_experiments, tokens, cost)
    if tenant is None and (clear or given != Quota()):
        raise typer.BadParameter("Name the tenant whose limits to set.", param_hint="TENANT")
    if clear and given != Quota():
        raise typer.BadParameter("--clear sets no limits; leave the others out.")
    if cost is not None and not isfinite(cost):
        raise typer.BadParameter("give a number", param_hint="--cost")
    settings = settings_for(config, data_dir)
    url = settings.store.database_url
    if check(url).state is SchemaStatus.EMPTY:
        upgrade(url)  # no server has run on it yet
    setting = given if clear or given != Quota() else None
    shown = asyncio.run(_quotas(url, settings.lab, tenant, setting, keeps=not clear))
    if as_json:
        print_json({"quotas": shown})
        return
    print_table(
        ("tenant", "running", "of", "tokens", "of", "cost", "of"),
        ([_unlimited(value) for value in one.values()] for one in shown),
        empty="No tenant has limits of its own.",
    )


def _unlimited(value: object) -> str:
    return "no limit" if value is None else str(value)


async def _quotas(
    database_url: str, settings: LabSettings, tenant: str | None, setting: Quota | None, keeps: bool
) -> list[dict[str, object]]:
    """The limits of the tenant, or of all that have some, after they were set."""

    def work(connection: StoreConnection) -> list[dict[str, object]]:
        if tenant is None:
            return [
                _usage(connection, one, settings) for one in quotas.quotas_of_tenants(connection)
            ]
        named = TenantId(tenant)
        if setting is not None:
            before = quotas.find_quota(connection, named) if keeps else Quota()
            wanted = setting.over(before)
            quotas.set_quota(connection, named, wanted)
            action = "quota.set" if keeps else "quota.clear"
            told = entry_of(action, subject=named, tenant=named, **msgspec.structs.asdict(wanted))
            insert_entry(connection, told)
        return [_usage(connection, named, settings)]

    async with await open_store(database_url) as store:
        return await store.write(work)


def _usage(
    connection: StoreConnection, tenant: TenantId, settings: LabSettings
) -> dict[str, object]:
    limits = quotas.find_quota(connection, tenant).over(quota_of(settings))
    spent = spending.spent_by_tenant(connection, tenant)
    return {
        "tenant": tenant,
        "running_experiments": runs.count_active(connection, tenant),
        "max_running_experiments": limits.running_experiments,
        "tokens": spent.tokens,
        "max_tokens": limits.balance.tokens,
        "cost": spent.cost,
        "max_cost": limits.balance.cost,
    }


async def _prune(
    database_url: str, retention: Retention, *, dry_run: bool
) -> tuple[list[EndedExperiment], list[Expired]]:
    if check(database_url).state is SchemaStatus.EMPTY:
        return [], []  # no server has run on it yet
    async with await open_store(database_url) as store:
        found = surplus(store, retention) if dry_run else prune(store, retention, _note_removal)
        removed = [one async for one in found]
        expired = [one async for one in expire(store, retention, dry_run=dry_run)]
        for one in () if dry_run else expired:
            await store.write(lambda c: _note_expiry(c, one))  # noqa: B023
        return removed, expired


def _note_expiry(connection: StoreConnection, one: Expired) -> None:
    _note(connection, "experiment.prune", one, runs=one.runs, items=one.items)


def _note_removal(connection: StoreConnection, one: EndedExperiment) -> None:
    _note(connection, "experiment.delete", one)


def _note(
    connection: StoreConnection, action: str, one: EndedExperiment | Expired, **facts: Any
) -> None:
    """Enter what `prune` did to an experiment into the audit log."""
    whose = {"subject": one.experiment_id, "tenant": one.tenant}
    insert_entry(connection, entry_of(action, **whose, by="lab prune", name=one.name, **facts))


def _shown(one: EndedExperiment) -> dict[str, str]:
    ended = datetime.fromtimestamp(one.ended_at_ms / 1000, UTC)
    return {
        "experiment_id": one.experiment_id,
        "tenant": one.tenant,
        "name": one.name,
        "ended_at": ended.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
