"""``dragoman jobs``: list, show, explain and cancel jobs."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from dragoman.cli.server_client import (
    DataDirOption,
    ServerClient,
    TokenOption,
    UrlOption,
    with_server,
)
from dragoman.cli.showing import JsonOption, print_facts, print_json, print_table

app = typer.Typer(name="jobs", help="List, show, explain and cancel jobs.", no_args_is_help=True)

View = dict[str, Any]

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

    async def work(server: ServerClient) -> list[View]:
        return [job async for job in server.pages(View, "/jobs", most=limit, **asked)]

    jobs = with_server(work, url, data_dir, token)
    if as_json:
        print_json(jobs)
        return
    print_table(
        ("job", "state", "outcome", "class", "pair", "node", "attempts", "error"),
        (
            (
                job["job_id"],
                job["state"],
                job["outcome"],
                job["class"],
                f"{job['src_lang']}:{job['tgt_lang']}",
                job["node_id"],
                len(job["attempts"]),
                (job["error"] or {}).get("code"),
            )
            for job in jobs
        ),
        empty="There are no jobs. Ended jobs are kept for scheduler.job_retention_seconds.",
    )


@app.command("show")
def show_command(
    job_id: JobArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show a job, its attempts and its outcome."""
    job = _ask("GET", job_id, "", (url, data_dir, token), params=_SILENT)
    if as_json:
        print_json(job)
    else:
        _print_job(job)


@app.command("cancel")
def cancel_command(
    job_id: JobArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Cancel a job that has not ended."""
    job = _ask("DELETE", job_id, "", (url, data_dir, token))
    if as_json:
        print_json(job)
    else:
        _print_job(job)


@app.command("explain")
def explain_command(
    job_id: JobArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show why the scheduler chose a node for a job: the nodes it left out, and each reason."""
    found = _ask("GET", job_id, "/explain", (url, data_dir, token))
    if as_json:
        print_json(found)
        return
    for attempt in found["attempts"]:
        chosen = attempt["chosen"]
        went = f"node {chosen} was chosen" if chosen else "no node was chosen"
        typer.echo(f"attempt {attempt['attempt']}: pool {attempt['pool']}, {went}")
        for reason, left_out in attempt["reasons"].items():
            typer.echo(f"  {reason}: {_some_nodes(left_out)}")
    waiting = found.get("waiting")
    if waiting:
        why = f": {waiting['message']}" if waiting.get("message") else ""
        typer.echo(f"It waits for {waiting['pool']}, with {waiting['in_line']} jobs in line{why}")
    elif not found["attempts"]:
        typer.echo("The scheduler has not looked for a node yet.")


def _ask(method: str, job_id: str, action: str, way: tuple[Any, Any, Any], **request: Any) -> View:
    async def work(server: ServerClient) -> View:
        return await server.ask(View, method, f"/jobs/{quote(job_id, safe='')}{action}", **request)

    return with_server(work, *way)


def _print_job(job: View) -> None:
    result, error = job["result"] or {}, job["error"]
    print_facts(
        [
            ("job", job["job_id"]),
            ("request", job["request_id"]),
            ("state", job["state"]),
            ("outcome", job["outcome"]),
            ("error", _in_words(error)),
            ("class", job["class"]),
            ("pair", f"{job['src_lang']}:{job['tgt_lang']}"),
            ("node", job["node_id"]),
            ("heard", result.get("text_asr")),
            ("translated", result.get("text_translated")),
            *((f"attempt {attempt['attempt']}", _attempt(attempt)) for attempt in job["attempts"]),
        ]
    )


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
