"""``dragoman say``: one utterance through a real session."""

from __future__ import annotations

import asyncio
import re
import wave
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from dragoman.cli.showing import JsonOption
from dragoman.data_folder import find_server
from dragoman.errors import InvalidMessage
from dragoman.live.protocol import TranslationResult
from dragoman.observability import configure_logging
from dragoman.sdk import (
    Missing,
    Pipeline,
    Result,
    SessionClient,
    SessionOptions,
    Unreachable,
)

_PARAMETER = re.compile(r"\b(?:(src_lang)|tgt_langs?)\b(?:\[\d*\])?")
"""A parameter of the SDK, or a field of the protocol, that the user gave as a flag."""
_DEFAULT_URL = "ws://127.0.0.1:8080"
_FAILED = 1


def say(
    source: Annotated[
        str, typer.Option("--from", metavar="LANG", help="Language of the utterance.")
    ],
    targets: Annotated[
        str, typer.Option("--to", metavar="LANG", help="Target language, or several as es,fr.")
    ],
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE.wav]", help="A recording to send.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Send this text instead of a recording.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help=f"The scheduler.  [default: {_DEFAULT_URL}]")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Use the scheduler that runs on this data folder."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", envvar="DRAGOMAN_TOKEN", help="API key, if the scheduler needs one."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.wav",
            help="Write the spoken translation to this file; with several targets, to OUT.es.wav "
            "and so on.",
        ),
    ] = None,
    speech: Annotated[
        bool | None,
        typer.Option(
            "--speech/--no-speech",
            help="Ask for speech, or for text only.  [default: speech for a recording or with "
            "--out, text for text]",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Send one utterance and print its translations.

    Exit code 0 means that every target language has a result.
    """
    configure_logging("error", "console")
    if (file is None) == (text is None):
        raise typer.BadParameter("give either a FILE.wav or --text", param_hint="FILE.wav")
    if out is not None and speech is False:
        raise typer.BadParameter("--no-speech leaves no audio to write", param_hint="--out")
    audio = None if file is None else _recording(file)
    options = SessionOptions(
        src_lang=source, tgt_langs=_languages(targets), token=token, audio_format="wav"
    )
    if out is not None or speech is not None:
        options["pipeline"] = Pipeline(use_tts=speech is not False)
    try:
        client = SessionClient(_address(url, data_dir), **options)
        results = asyncio.run(_one_utterance(client, text, audio))
    except InvalidMessage as error:
        raise typer.BadParameter(_in_flags(error.message)) from None
    except Unreachable as error:
        typer.echo(
            f"error: {error}; is the scheduler running? `dragoman demo` starts one to try out.",
            err=True,
        )
        raise typer.Exit(_FAILED) from None
    for result in results:
        _show(result, as_json=json)
        if out is not None and isinstance(result, TranslationResult):
            _write(result, out if len(results) == 1 else _named_for(out, result.tgt_lang))
    if not results or any(isinstance(result, Missing) for result in results):
        raise typer.Exit(_FAILED)


async def _one_utterance(
    client: SessionClient, text: str | None, audio: bytes | None
) -> list[Result]:
    async with client as session:
        await session.utter(text=text, audio=audio)
        await session.close()
        return [result async for result in session.results()]


def _recording(file: Path) -> bytes:
    """The bytes of a WAV file; raises BadParameter for any other file."""
    try:
        with wave.open(str(file)) as sound:
            frames = sound.getnframes()
        content = file.read_bytes()
    except (OSError, EOFError, RuntimeError, wave.Error) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise typer.BadParameter(
            f"{file} cannot be used ({reason or 'it ends too early, or its header is damaged'}); "
            "name a WAV file with PCM samples",
            param_hint="FILE.wav",
        ) from None
    if not frames:
        raise typer.BadParameter(f"{file} holds no audio", param_hint="FILE.wav")
    return content


def _languages(targets: str) -> list[str]:
    languages = [language.strip() for language in targets.split(",")]
    if not all(languages):
        raise typer.BadParameter(
            f"`{targets}` is not a list of languages; write it like es,fr", param_hint="--to"
        )
    return languages


def _address(url: str | None, data_dir: Path | None) -> str:
    if url is not None or data_dir is None:
        return url or _DEFAULT_URL
    server = find_server(data_dir)
    if server is None:
        raise Unreachable(f"no server runs on the data folder {data_dir}")
    return server.url


def _in_flags(message: str) -> str:
    """An error of the SDK or the scheduler, with the flags that the user typed."""
    return _PARAMETER.sub(lambda found: "--from" if found[1] else "--to", message)


def _show(result: Result, *, as_json: bool) -> None:
    if as_json:
        # Audio goes to --out: in a terminal it would bury everything else.
        shown = msgspec.to_builtins(result)
        shown.pop("tts_audio", None)
        typer.echo(msgspec.json.encode(shown).decode())
    elif isinstance(result, Missing):
        _show_missing(result)
    else:
        _show_translation(result)


def _show_translation(result: TranslationResult) -> None:
    if result.text_asr is not None:
        typer.echo(f"heard       {result.text_asr}")
    typer.echo(f"{result.tgt_lang:<11} {result.text_translated or ''}".rstrip())
    times = result.scheduling
    typer.echo(
        f"took        {times.total_ms:.0f} ms: queued {times.queued_ms:.0f},"
        f" dispatch {times.dispatch_ms:.0f}, node {times.node_ms:.0f}"
        f" ({result.node_id}, attempt {times.attempts})"
    )
    if (result.extra or {}).get("engine") == "simulated":
        typer.echo("engine      simulated: this node neither hears, translates nor speaks")


def _show_missing(missing: Missing) -> None:
    error = missing.error
    says = f": {_in_flags(error.message)}" if error is not None else ""
    typer.echo(f"error: {missing.tgt_lang or 'no result'}: {missing.reason}{says}", err=True)
    reasons = (error.details or {}).get("reasons") if error is not None else None
    if isinstance(reasons, dict):
        for reason, nodes in reasons.items():
            typer.echo(f"  {reason}: {nodes} node{'' if nodes == 1 else 's'}", err=True)


def _named_for(out: Path, language: str) -> Path:
    return out.with_name(f"{out.stem}.{language}{out.suffix}")


def _write(result: TranslationResult, out: Path) -> None:
    if not result.tts_audio:
        typer.echo(
            f"The result in {result.tgt_lang} has no audio; {out} was not written.", err=True
        )
        return
    try:
        out.write_bytes(result.tts_audio)
    except OSError as error:
        typer.echo(f"error: {out} cannot be written ({error.strerror})", err=True)
        raise typer.Exit(_FAILED) from None
    typer.echo(f"Written to {out}.", err=True)
