"""``dragoman listen``: reads, and hears, what a session of another client says."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from dragoman.cli.server_client import DEFAULT_URL, TOKEN_VARIABLE
from dragoman.observability import configure_logging
from dragoman.printable import printable
from dragoman.sdk import Missing, TranslationResult, Unreachable
from dragoman.sdk import listen as listened

_FAILED = 1


def listen(
    session_id: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    url: Annotated[
        str, typer.Option("--url", metavar="U", help="The server, or any instance of a cluster.")
    ] = DEFAULT_URL,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="T",
            envvar=TOKEN_VARIABLE,
            help="The session's listen_token, or a key that may see the session.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="LANG",
            help="The language to listen in.  [default: the session's first]",
        ),
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(
            "--since", metavar="N", min=0, help="Begin after the result with this number."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write the speech of each result there."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print each result as JSON.")] = False,
) -> None:
    """Print the results of a session as they come, until it is over.

    The speaker's program gets the listen_token when it opens the session.
    """
    configure_logging("error", "console")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(_print_all(session_id, url, token, to, since, out, as_json=json))
    except Unreachable as error:
        # Its certificate is not trusted: it runs, and the message has said what helps.
        is_there = "SSL_CERT_FILE" in str(error)
        ask = "." if is_there else "; is the scheduler running?"
        typer.echo(f"error: {printable(str(error))}{ask}", err=True)
        raise typer.Exit(_FAILED) from None


async def _print_all(
    session_id: str,
    url: str,
    token: str | None,
    to: str | None,
    since: int | None,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    results = listened(
        url,
        session_id,
        token=token,
        tgt_lang=to,
        audio=out is not None,
        last_delivery_seq=since,
    )
    async for result in results:
        if isinstance(result, TranslationResult) and out is not None and result.tts_audio:
            file = out / f"{result.utterance_index}.{result.tts_format or 'pcm16'}"
            file.write_bytes(result.tts_audio)
        typer.echo(_as_json(result) if as_json else _as_line(result))
        sys.stdout.flush()


def _as_line(result: TranslationResult | Missing) -> str:
    if isinstance(result, Missing):
        return f"{result.utterance_index}  (no result: {printable(result.reason)})"
    said = result.text_translated if result.text_translated is not None else result.text_asr
    return f"{result.utterance_index}  {printable(said or '')}"


def _as_json(result: TranslationResult | Missing) -> str:
    silent = result
    if isinstance(result, TranslationResult):
        silent = msgspec.structs.replace(result, tts_audio=None)
    return msgspec.json.encode(silent).decode()
