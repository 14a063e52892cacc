"""``dragoman jobs``: list, show, explain and cancel jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.cli.listed import Listed, View
from dragoman.cli.server_client import DataDirOption, TokenOption, UrlOption
from dragoman.cli.showing import JsonOption, counted, print_json

app = typer.Typer(name="jobs", help="List, show, explain and cancel jobs.", no_args_is_help=True)

JobArgument = Annotated[str, typer.Argument(metavar="ID", help="The job's id.")]

_SILENT = {"result_audio": "omit"}
"""Audio would bury everything else in a terminal."""
_MOST_NODES_SHOWN = 5


@app.command("list")
def list_command(
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show at most this many.")] = 100,
    tenant: Annotated[
        str | None, typer.Option(metavar="T", help="Show another tenant's jobs (operators only).")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """List the tenant's jobs, newest first."""
    asked = _SILENT if tenant is None else {**_SILENT, "tenant_id": tenant}
    JOBS.show_all((url, data_dir, token), as_json, most=limit, **asked)


@app.command("show")
def show_command(
    job_id: JobArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show a job, its attempts and its outcome."""
    JOBS.show_one((url, data_dir, token), as_json, job_id, params=_SILENT)


@app.command("cancel")
def cancel_command(
    job_id: JobArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Cancel a job that has not ended."""
    JOBS.show_one((url, data_dir, token), as_json, job_id, "DELETE")


@app.command("explain")
def explain_command(
    job_id: JobArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show why the scheduler chose a node for a job: the nodes it left out, and each reason."""
    found = JOBS.ask((url, data_dir, token), job_id, action="/explain")
    if as_json:
        print_json(found)
        return
    for attempt in found["attempts"]:
        chosen = attempt["chosen"]
        went = f"node {chosen} was chosen" if chosen else "no node was chosen"
        asked = _services(attempt.get("services"))
        wanted = f" with {asked}" if asked else ""
        typer.echo(f"attempt {attempt['attempt']}: pool {attempt['pool']}{wanted}, {went}")
        for reason, left_out in attempt["reasons"].items():
            typer.echo(f"  {reason}: {_some_nodes(left_out)}")
    waiting = found.get("waiting")
    if waiting:
        why = f": {waiting['message']}" if waiting.get("message") else ""
        in_line = counted(waiting["in_line"], "job")
        typer.echo(f"It waits for {waiting['pool']}, with {in_line} in line{why}")
    elif not found["attempts"]:
        typer.echo("The scheduler has not looked for a node yet.")


def _facts(job: View) -> list[tuple[str, object]]:
    result, error = job["result"] or {}, job["error"]
    return [
        ("job", job["job_id"]),
        ("request", job["request_id"]),
        ("state", job["state"]),
        ("outcome", job["outcome"]),
        ("error", _in_words(error)),
        ("class", job["class"]),
        ("pair", f"{job['src_lang']}:{job['tgt_lang']}"),
        ("services", _services(job.get("services"))),
        ("node", job["node_id"]),
        ("heard", result.get("text_asr")),
        ("translated", result.get("text_translated")),
        *((f"attempt {attempt['attempt']}", _attempt(attempt)) for attempt in job["attempts"]),
    ]


def _services(asked: View | None) -> str | None:
    """The services that were asked for, such as ``asr whisper@2``."""
    return ", ".join(f"{stage} {name}" for stage, name in (asked or {}).items()) or None


def _attempt(attempt: View) -> str:
    ended = f", {attempt['outcome']}" if attempt["outcome"] else ""
    error = _in_words(attempt["error"])
    return f"{attempt['node_id']}, {attempt['state']}{ended}{f': {error}' if error else ''}"


def _in_words(error: View | None) -> str | None:
    return None if error is None else f"{error['code']}: {error['message']}"


def _some_nodes(left_out: View) -> str:
    count, names = left_out["count"], left_out["nodes"]
    shown = ", ".join(names[:_MOST_NODES_SHOWN])
    more = count - len(names[:_MOST_NODES_SHOWN])
    counted = f"{count} node{'' if count == 1 else 's'}"
    if not shown:
        return counted
    return f"{counted} ({shown}{f' and {more} more' if more > 0 else ''})"


JOBS = Listed(
    path="/jobs",
    columns={
        "job": lambda job: job["job_id"],
        "state": lambda job: job["state"],
        "outcome": lambda job: job["outcome"],
        "class": lambda job: job["class"],
        "pair": lambda job: f"{job['src_lang']}:{job['tgt_lang']}",
        "node": lambda job: job["node_id"],
        "attempts": lambda job: len(job["attempts"]),
        "error": lambda job: (job["error"] or {}).get("code"),
    },
    facts=_facts,
    empty="There are no jobs. Ended jobs are kept for scheduler.job_retention_seconds.",
)
