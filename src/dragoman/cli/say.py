"""``dragoman say``: a text, a recording or a microphone through a real session."""

from __future__ import annotations

import asyncio
import re
import signal
import wave
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, TypedDict

import msgspec
import typer

from dragoman.audio import DEFAULT_SAMPLE_RATE, Pcm16, read_wav, resampled, wav_bytes
from dragoman.cli.showing import JsonOption
from dragoman.data_folder import find_server
from dragoman.errors import AudioUnreadable, DragomanError, ExtraMissing, InvalidMessage
from dragoman.live.protocol import Scheduling, TranslationResult
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


class Said(TypedDict, total=False):
    """A whole utterance."""

    text: str | None
    audio: bytes | None


def say(
    source: Annotated[
        str, typer.Option("--from", metavar="LANG", help="Language of the utterance.")
    ],
    targets: Annotated[
        str, typer.Option("--to", metavar="LANG", help="Target language, or several as es,fr.")
    ],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE.wav]", help="A recording to send; it is cut where the speaker pauses."
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Send this text instead of a recording.")
    ] = None,
    microphone: Annotated[
        bool,
        typer.Option(
            "--microphone", help="Send what is said into this machine's microphone, until Ctrl-C."
        ),
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --microphone: the device to record from."),
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
            help="Write the spoken translation to this file, all utterances one after the other; "
            "with several targets, to OUT.es.wav and so on.",
        ),
    ] = None,
    speech: Annotated[
        bool | None,
        typer.Option(
            "--speech/--no-speech",
            help="Ask for speech, or for text only.  [default: text for text without --out, "
            "otherwise speech]",
        ),
    ] = None,
    service: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STAGE=ID[@VERSION]",
            help="Use this service for a stage (asr, semantic, nmt, tts or tone), as in "
            "asr=whisper@2. Repeat it for several stages.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Translate a text, a recording or what you say.

    Exit code 0 means that every utterance has a result in every target language.
    """
    configure_logging("error", "console")
    if (file is not None) + (text is not None) + microphone != 1:
        raise typer.BadParameter(
            "give either a FILE.wav, or --text, or --microphone", param_hint="FILE.wav"
        )
    if text == "":
        raise typer.BadParameter("there is nothing to say; give a text", param_hint="--text")
    if device is not None and not microphone:
        raise typer.BadParameter("only --microphone records", param_hint="--device")
    if out is not None and speech is False:
        raise typer.BadParameter("--no-speech leaves no audio to write", param_hint="--out")
    audio = None if file is None else _recording(file)
    options = SessionOptions(src_lang=source, tgt_langs=_languages(targets), token=token)
    if service:
        options["services"] = _services(service)
    if out is not None or speech is not None:
        options["pipeline"] = Pipeline(use_tts=speech is not False)
    results: list[Result] = []

    def hear(result: Result) -> None:
        results.append(result)
        _show(result, as_json=json)

    try:
        address = _address(url, data_dir)
        if microphone:
            asyncio.run(_from_microphone(address, options, _device(device), hear))
        elif audio is not None:
            asyncio.run(_from_recording(address, options, audio, hear))
        else:
            options["audio_format"] = "wav"
            asyncio.run(_one_utterance(address, options, {"text": text}, hear))
    except InvalidMessage as error:
        raise typer.BadParameter(_in_flags(error.message)) from None
    except Unreachable as error:
        # Its certificate is not trusted: it runs, and the message has said what helps.
        is_there = "SSL_CERT_FILE" in str(error)
        ask = "; is the scheduler running? `dragoman demo` starts one to try out"
        typer.echo(f"error: {error}{'' if is_there else ask}.", err=True)
        raise typer.Exit(_FAILED) from None
    if out is not None:
        _write_all(results, out)
    if not results or any(isinstance(result, Missing) for result in results):
        raise typer.Exit(_FAILED)


async def _one_utterance(
    address: str, options: SessionOptions, said: Said, hear: Callable[[Result], None]
) -> None:
    async with SessionClient(address, **options) as session:
        await session.utter(**said)
        await session.close()
        async for result in session.results():
            hear(result)


async def _from_recording(
    address: str, options: SessionOptions, recording: bytes, hear: Callable[[Result], None]
) -> None:
    """Say what a recording says, cut at its pauses.

    It is sent whole where the server finds no speech in it, or cannot look for any.
    """
    count = 0

    def counted(result: Result) -> None:
        nonlocal count
        count += 1
        hear(result)

    try:
        sound = resampled(read_wav(recording), DEFAULT_SAMPLE_RATE)
        await _converse(address, options, lambda session: session.feed(sound.samples), counted)
    except (AudioUnreadable, ExtraMissing):
        pass  # A node may read what cannot be read here.
    except InvalidMessage as refused:
        if "dragoman[vad]" not in refused.message:
            raise
    if not count:
        whole = SessionOptions(**options, audio_format="wav")
        await _one_utterance(address, whole, {"audio": recording}, hear)


async def _from_microphone(
    address: str,
    options: SessionOptions,
    device: str | int | None,
    hear: Callable[[Result], None],
) -> None:
    """Say what is said into the microphone, cut at pauses, until Ctrl-C; then hear the rest out."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        done.set()
        loop.remove_signal_handler(signal.SIGINT)  # A second one ends it at once.

    async def speak(session: SessionClient) -> None:
        async with session.microphone(device=device):
            loop.add_signal_handler(signal.SIGINT, end)
            typer.echo("Speak. Ctrl-C ends.", err=True)
            await done.wait()

    try:
        await _converse(address, options, speak, hear)
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _converse(
    address: str,
    options: SessionOptions,
    speak: Callable[[SessionClient], Awaitable[None]],
    hear: Callable[[Result], None],
) -> None:
    """Speak in a session with voice activity, and hear every result."""
    try:
        async with (
            SessionClient(address, **SessionOptions(**options, vad="webrtc")) as session,
            asyncio.TaskGroup() as both,
        ):
            both.create_task(_hear_all(session, hear))
            await speak(session)
            await session.close()
    except* (DragomanError, Unreachable) as failures:
        raise failures.exceptions[0] from None


async def _hear_all(session: SessionClient, hear: Callable[[Result], None]) -> None:
    async for result in session.results():
        hear(result)


def _device(name: str | None) -> str | int | None:
    """Sound devices have names, and numbers."""
    return int(name) if name is not None and name.isdigit() else name


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


def _services(given: list[str]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for one in given:
        stage, is_there, name = one.partition("=")
        if not is_there or stage in chosen:
            raise typer.BadParameter(
                f"`{one}` is not STAGE=ID[@VERSION], one for each stage; write it like "
                "asr=whisper@2",
                param_hint="--service",
            )
        chosen[stage] = name
    return chosen


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
        typer.echo(f"heard       {result.text_asr}".rstrip())
    typer.echo(f"{result.tgt_lang:<11} {result.text_translated or ''}".rstrip())
    times = result.scheduling
    typer.echo(
        f"took        {times.total_ms:.0f} ms: queued {times.queued_ms:.0f},"
        f" dispatch {times.dispatch_ms:.0f}, node {times.node_ms:.0f}"
        f" ({result.node_id}, attempt {times.attempts})"
    )
    since_speech = _since_speech(times)
    if since_speech and result.text_asr is not None:
        typer.echo(f"speech end  {since_speech}")
    if (result.extra or {}).get("engine") == "simulated":
        typer.echo("engine      simulated: this node neither hears, translates nor speaks")


def _since_speech(times: Scheduling) -> str:
    """How long a listener waited after the speaker had stopped."""
    parts = (
        ("text", times.speech_end_to_text_ms),
        ("translation", times.speech_end_to_translation_ms),
        ("audio", times.speech_end_to_audio_ms),
    )
    return ", ".join(f"{name} after {ms:.0f} ms" for name, ms in parts if ms is not None)


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


def _write_all(results: Sequence[Result], out: Path) -> None:
    """Write what was spoken, one file for each target."""
    spoken: dict[str, list[bytes]] = {}
    for result in results:
        if isinstance(result, TranslationResult):
            sounds = spoken.setdefault(result.tgt_lang, [])
            if result.tts_audio:
                sounds.append(result.tts_audio)
    for language, sounds in spoken.items():
        file = out if len(spoken) == 1 else _named_for(out, language)
        if not sounds:
            typer.echo(f"The result in {language} has no audio; {file} was not written.", err=True)
        else:
            _write(sounds[0] if len(sounds) == 1 else _joined(sounds), file)


def _joined(sounds: Sequence[bytes]) -> bytes:
    """Recordings one after the other; what cannot be read follows as it is."""
    try:
        read = [read_wav(sound) for sound in sounds]
        rate = read[0].sample_rate
        return wav_bytes(Pcm16(b"".join(resampled(one, rate).samples for one in read), rate))
    except (AudioUnreadable, ExtraMissing):
        return b"".join(sounds)


def _write(sound: bytes, out: Path) -> None:
    try:
        out.write_bytes(sound)
    except OSError as error:
        typer.echo(f"error: {out} cannot be written ({error.strerror})", err=True)
        raise typer.Exit(_FAILED) from None
    typer.echo(f"Written to {out}.", err=True)
