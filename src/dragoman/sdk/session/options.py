"""The options of a session, checked before anything is connected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Literal, TypedDict, get_args

import msgspec

from dragoman.clock import Clock
from dragoman.errors import InvalidMessage
from dragoman.live.protocol import (
    FROM_CLIENT,
    Mode,
    Pipeline,
    SessionInit,
    SubProtocol,
    check_session_init,
)
from dragoman.sdk.parameters import (
    language_fault,
    languages_fault,
    own_words,
    pipeline_fault,
    plain,
    refuse_unknown,
    unsendable_fault,
)
from dragoman.sdk.session.events import SessionEvent
from dragoman.version import __version__

IfGone = Literal["raise", "restart"]


class SessionOptions(TypedDict, total=False):
    """The options of `SessionClient` and `talk`, all by name."""

    src_lang: str
    """What is spoken; ``auto`` needs auto_langs."""
    tgt_lang: str
    """What it is translated into; several go into tgt_langs."""
    tgt_langs: Sequence[str]
    auto_langs: Sequence[str]
    lang_a: str
    """With lang_b: two people talk, and each hears the other's language."""
    lang_b: str
    pipeline: Pipeline
    features: Sequence[str]
    services: Mapping[str, str]
    """The services that every utterance asks for: for each stage ``service_id``, or
    ``service_id@version`` for one version."""
    tenant_id: str
    preferred_node_id: str
    audio_format: str
    """pcm16 (the default), opus or wav."""
    sample_rate: int
    vad: Literal["off", "webrtc", "silero"]
    """Voice activity: the scheduler cuts PCM where the speaker pauses, and keeps no silence."""
    min_speech_ms: int
    """With vad: how much voice begins an utterance."""
    pre_roll_ms: int
    """With vad: how much is kept from before the voice."""
    chunk_ms: int
    """The longest piece of PCM that is sent at once."""
    ui_events: bool
    """Whether every step of an utterance is told to on_event."""
    trace_id: str
    token: str | None
    """An API key, if the scheduler needs one."""
    if_gone: IfGone
    """What to do when the scheduler no longer has the session: raise, or open a new one."""
    max_in_flight: int
    """How many whole utterances may wait for their results; `say` waits beyond that."""
    keep_bytes: int
    """How much speech is kept until the scheduler has stored it; `feed` waits beyond that."""
    reconnect_seconds: float
    """How long to try to reconnect to a lost scheduler."""
    on_event: Callable[[SessionEvent], None]
    clock: Clock
    random: Random


_SAID = (
    "src_lang",
    "tgt_lang",
    "tgt_langs",
    "auto_langs",
    "lang_a",
    "lang_b",
    "pipeline",
    "features",
    "services",
    "tenant_id",
    "preferred_node_id",
    "audio_format",
    "sample_rate",
    "vad",
    "min_speech_ms",
    "pre_roll_ms",
    "ui_events",
    "trace_id",
)
"""The options that the scheduler is told; the others are between the caller and this client."""


def opening(options: SessionOptions) -> SessionInit:
    """The message that opens the session; raises InvalidMessage for invalid options."""
    refuse_unknown(options.keys(), SessionOptions.__annotations__, "a session")
    fault = next(_faults(options), None)
    if fault is not None:
        raise InvalidMessage(fault)
    said = {name: value for name, value in options.items() if name in _SAID}
    if "lang_a" in said or "lang_b" in said:
        said["mode"] = Mode.TWO_WAY_AUTO
    # The decoder of the other side knows what each field may hold, and says so in words.
    opens = {"type": "session_init", "client_version": __version__, **said}
    frame = msgspec.msgpack.encode(opens, enc_hook=plain)
    with own_words():
        init = FROM_CLIENT.decode(frame, SubProtocol.MSGPACK)
        assert isinstance(init, SessionInit)
        check_session_init(init)
    return init


def _faults(options: SessionOptions) -> Iterator[str]:
    """What is wrong with options one by one, where the scheduler could not say it as well."""
    given: Mapping[str, Any] = options
    for name in ("src_lang", "tgt_lang", "lang_a", "lang_b"):
        if name in given:
            fault = language_fault(name, given[name], may_be_auto=name == "src_lang")
            if fault is not None:
                yield fault
    for name in ("tgt_langs", "auto_langs"):
        if name in given:
            fault = languages_fault(name, given[name])
            if fault is not None:
                yield fault
    if (fault := pipeline_fault(given.get("pipeline"))) is not None:
        yield fault
    if not isinstance(given.get("services", {}), Mapping):
        yield f"`services` is {given['services']!r}; give them by stage, {{'asr': 'whisper@2'}}"
    if isinstance(given.get("features"), str):
        yield f"`features` is the text {given['features']!r}; give a list"
    said = {name: value for name, value in given.items() if name in _SAID}
    if (fault := unsendable_fault(said)) is not None:
        yield fault
    for name in ("chunk_ms", "max_in_flight", "keep_bytes"):
        value = given.get(name, 1)
        if not isinstance(value, int) or value < 1:
            yield f"`{name}` is {value!r}; give a number from 1 on"
    wait = given.get("reconnect_seconds", 0)
    if not isinstance(wait, int | float) or not wait >= 0:
        yield f"`reconnect_seconds` is {wait!r}; give a number of seconds, 0 or more"
    if given.get("if_gone", "raise") not in get_args(IfGone):
        yield f"`if_gone` is {given['if_gone']!r}; it is one of {', '.join(get_args(IfGone))}"
    if not callable(given.get("on_event", _faults)):
        yield f"`on_event` is {given['on_event']!r}; give a function that takes an event"
