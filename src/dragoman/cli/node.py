"""``dragoman node``: one node of the fleet, with an engine that is built in."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.engines import ENGINES, PROFILES, open_engine
from dragoman.errors import InvalidCapabilitySchema
from dragoman.live.protocol import SubProtocol
from dragoman.observability import configure_logging
from dragoman.randomness import Randomness
from dragoman.sdk import Node, WebSocketConnect

_INTERRUPTED = 130


def node(
    url: Annotated[
        str, typer.Option(metavar="URL", help="The scheduler, as in ws://127.0.0.1:8080.")
    ],
    engine: Annotated[
        str, typer.Option(metavar="NAME", help=f"What does the work: {', '.join(ENGINES)}.")
    ] = "simulated",
    node_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Its name.  [default: the scheduler's choice]")
    ] = None,
    slots: Annotated[int, typer.Option(min=1, help="How many jobs it does at once.")] = 1,
    asr: Annotated[str | None, typer.Option(metavar="L,L", help="Languages it recognises.")] = None,
    semantic: Annotated[
        str | None, typer.Option(metavar="L,L", help="Languages it repairs.")
    ] = None,
    nmt: Annotated[str | None, typer.Option(metavar="L,L", help="Languages it translates.")] = None,
    tts: Annotated[str | None, typer.Option(metavar="L,L", help="Languages it speaks.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", envvar="DRAGOMAN_TOKEN", help="A key, where the scheduler wants one."
        ),
    ] = None,
    profile: Annotated[
        str,
        typer.Option(metavar="NAME", help=f"How it behaves: {', '.join(PROFILES)}."),
    ] = "steady",
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Makes chance repeat itself.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Speak JSON on the wire instead of MessagePack.")
    ] = False,
) -> None:
    """Join a scheduler's fleet and do its jobs until told to stop.

    Without any languages the engine's own are offered, for every service. SIGTERM and Ctrl-C let
    running jobs finish; a second signal does not.
    """
    configure_logging("warning", "console")
    chosen = open_engine(engine, seed=seed, profile=profile)
    asked = {"asr": asr, "semantic": semantic, "nmt": nmt, "tts": tts}
    offered = {name: _tags(name, text) for name, text in asked.items()}
    if not any(offered.values()):
        offered = {name: list(chosen.languages) for name in offered}
    connect = WebSocketConnect(
        url, token=token, sub=SubProtocol.JSON if json else SubProtocol.MSGPACK
    )
    try:
        joining = Node(
            connect,
            work=chosen.work,
            slots=slots,
            node_id=node_id,
            random=Randomness(seed).stream("reconnecting"),
            asr=offered["asr"],
            semantic=offered["semantic"],
            nmt=offered["nmt"],
            tts=offered["tts"],
        )
    except InvalidCapabilitySchema as error:
        raise typer.BadParameter(error.message) from None
    if not joining.run():
        raise typer.Exit(_INTERRUPTED)


def _tags(name: str, text: str | None) -> list[str]:
    """The languages in a list such as ``zh,en``."""
    if text is None:
        return []
    tags = [tag.strip() for tag in text.split(",")]
    if not all(tags):
        raise typer.BadParameter(
            f"`{text}` is no list of languages; write it like zh,en", param_hint=f"--{name}"
        )
    return tags
