"""``dragoman node``: one node of the fleet, with a built-in engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dragoman.engines import PROFILES, STAGES, assemble, engine_names
from dragoman.errors import InvalidCapabilitySchema, SettingsError
from dragoman.live.protocol import ServiceType, SubProtocol
from dragoman.observability import configure_logging
from dragoman.randomness import Randomness
from dragoman.sdk import Node, WebSocketConnect

_INTERRUPTED = 130


_ENGINE = "simulated"
_PROFILE = "steady"


class NodeFileOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a node that a file may set."""

    url: str | None = None
    engine: str | None = None
    node_id: str | None = None
    slots: int = 1
    asr: tuple[str, ...] = ()
    semantic: tuple[str, ...] = ()
    nmt: tuple[str, ...] = ()
    tts: tuple[str, ...] = ()
    token: str | None = None
    profile: str | None = None
    seed: int | None = None
    stages: dict[str, dict[str, Any]] = {}
    """What each stage is done by: `engine`, and the options of that engine's stage."""
    engines: dict[str, dict[str, Any]] = {}
    """Options of an engine for all of its stages."""


def node(
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="The scheduler, as in ws://127.0.0.1:8080.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Engine that does the work: {', '.join(engine_names())}. `dragoman engines` "
            f"says what each needs.  [default: {_ENGINE}]",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="STAGE.OPTION=VALUE",
            help="An option of one stage (asr, semantic, nmt, tts), such as tts.engine=command; "
            "may be repeated.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="F",
            help="TOML file with these options by name, such as slots = 2 and "
            'nmt = ["en", "es"], and a table [stages.STAGE] for each stage. Options on the '
            "command line win.",
        ),
    ] = None,
    node_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The node's id.  [default: the scheduler assigns one]"),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="How many jobs it runs at once.  [default: 1]"),
    ] = None,
    asr: Annotated[str | None, typer.Option(metavar="L,L", help="Languages it recognises.")] = None,
    semantic: Annotated[
        str | None, typer.Option(metavar="L,L", help="Languages it repairs.")
    ] = None,
    nmt: Annotated[str | None, typer.Option(metavar="L,L", help="Languages it translates.")] = None,
    tts: Annotated[str | None, typer.Option(metavar="L,L", help="Languages it speaks.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", envvar="DRAGOMAN_TOKEN", help="API key, if the scheduler needs one."
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help=f"How it behaves: {', '.join(PROFILES)}.  [default: {_PROFILE}]"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed for the engine's random choices.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Use JSON on the wire instead of MessagePack.")
    ] = False,
) -> None:
    """Join a scheduler's fleet and run jobs until stopped.

    Without any language options the node offers all languages that its engine knows.
    SIGTERM and Ctrl-C let running jobs finish; a second signal stops the node at once.
    """
    configure_logging("warning", "console")
    given = NodeFileOptions() if config is None else _read(config)
    url = url or given.url
    if url is None:
        raise typer.BadParameter("give the scheduler's address", param_hint="--url")
    seed = given.seed if seed is None else seed
    asked = {"asr": asr, "semantic": semantic, "nmt": nmt, "tts": tts}
    offered = {
        ServiceType(name): list(getattr(given, name)) if text is None else _tags(name, text)
        for name, text in asked.items()
    }
    simulated = {"profile": profile or given.profile, "seed": seed}
    slots = given.slots if slots is None else slots
    chosen = assemble(
        engine or given.engine or _ENGINE,
        _with_flags(given.stages, settings or []),
        offered,
        slots=slots,
        defaults=_merged(
            given.engines,
            {_ENGINE: {name: value for name, value in simulated.items() if value is not None}},
        ),
    )
    connect = WebSocketConnect(
        url, token=token or given.token, sub=SubProtocol.JSON if json else SubProtocol.MSGPACK
    )
    try:
        joining = Node(
            connect,
            work=chosen.work,
            services=chosen.services,
            models=chosen.models,
            audio=chosen.audio,
            lifespan=chosen.lifespan,
            slots=slots,
            node_id=node_id or given.node_id,
            random=Randomness(seed).stream("reconnecting"),
            asr=chosen.languages.get(ServiceType.ASR, ()),
            semantic=chosen.languages.get(ServiceType.SEMANTIC, ()),
            nmt=chosen.languages.get(ServiceType.NMT, ()),
            tts=chosen.languages.get(ServiceType.TTS, ()),
        )
    except InvalidCapabilitySchema as error:
        raise typer.BadParameter(error.message) from None
    if not joining.run():
        raise typer.Exit(_INTERRUPTED)


def _with_flags(
    stages: Mapping[str, Mapping[str, Any]], flags: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """The tables of the stages, with what --set says instead of what the file says."""
    said: dict[str, dict[str, Any]] = {}
    for flag in flags:
        place, equals, value = flag.partition("=")
        stage, dot, option = place.strip().partition(".")
        if not (equals and dot and option) or stage not in STAGES:
            raise typer.BadParameter(
                f"`{flag}` is not an option of a stage; write it like tts.engine=command, with "
                f"one of {', '.join(STAGES)}",
                param_hint="--set",
            )
        said.setdefault(stage, {})[option] = _value(value)
    return _merged(stages, said)


def _value(text: str) -> Any:
    """A value as TOML reads it; what TOML cannot read is a text."""
    try:
        return msgspec.toml.decode(f"value = {text}".encode(), type=dict[str, Any])["value"]
    except (msgspec.MsgspecError, UnicodeError):
        return text


def _merged(
    under: Mapping[str, Mapping[str, Any]], over: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    return {name: {**under.get(name, {}), **over.get(name, {})} for name in {**under, **over}}


def _read(file: Path) -> NodeFileOptions:
    try:
        return msgspec.toml.decode(file.read_bytes(), type=NodeFileOptions)
    except OSError as error:
        raise SettingsError(f"{file} cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be used: {error}") from None


def _tags(name: str, text: str | None) -> list[str]:
    """The languages in a list such as ``zh,en``."""
    if text is None:
        return []
    tags = [tag.strip() for tag in text.split(",")]
    if not all(tags):
        raise typer.BadParameter(
            f"`{text}` is not a list of languages; write it like zh,en", param_hint=f"--{name}"
        )
    return tags
