"""The live fleet as a target: each turn is a job of class batch, on capacity that is free."""

from __future__ import annotations

import asyncio
import io
import math
import os
import ssl
import wave
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from uuid import uuid4

import msgspec

from dragoman.errors import (
    DragomanError,
    Forbidden,
    InvalidMessage,
    NoAvailableNode,
    PairUnsupported,
    SettingsError,
    Unauthorized,
    UnsupportedFeature,
)
from dragoman.ids import JobId, RequestId, TenantId
from dragoman.lab.failures import CalledTooOften, TargetError
from dragoman.lab.model import JsonValue, Turn
from dragoman.lab.plugins import Context, OwnFleet, require_column
from dragoman.lab.targets.calls import TargetCall, current_call
from dragoman.lab.targets.outputs import MAIN_COLUMN, Output, PastTurn
from dragoman.lab.targets.recordings import as_column, read_audio
from dragoman.observability import get_logger
from dragoman.outbound import (
    AddressRules,
    HttpCaller,
    as_text,
    check_secret_query,
    check_url,
    check_variable,
    filled,
    places,
)
from dragoman.sdk import (
    AudioFormat,
    JobClass,
    JobRequest,
    JobsClient,
    JobState,
    JobView,
    Outcome,
    RequestedPipeline,
    ResultAudio,
    Unreachable,
    api_url,
)
from dragoman.task_set import TaskSet

LONGEST_LOOK_MS, SHORTEST_LOOK_MS = 20_000, 250
"""How often a job that has not ended is looked at, to know whether it waits or runs."""

LOOKS_AN_ITEM = 4
"""How often that is, at least, in the time that an item may take."""

_CANCELLED_BY_OTHERS = 2
"""How often a job that others cancelled is made. A worker that lost its item cancels the job that
its successor waits for, too."""

_NEVER_MENDED = frozenset(
    {"pair_unsupported", "service_missing", "feature_unsupported", "not_public", "excluded"}
)
"""Reasons for which nodes are left out, and which time does not mend."""

_PROBLEMS_OF_THE_ASKER = frozenset(
    {"INVALID_MESSAGE", "PAYLOAD_TOO_LARGE", "UNAUTHORIZED", "FORBIDDEN", "REQUEST_CONFLICT"}
)
"""Refusals that another try would only hear again."""

_UNSERVED = frozenset({"PAIR_UNSUPPORTED", "UNSUPPORTED_FEATURE"})
NODES_BACK_SECONDS = 60.0
"""How long items wait for a pair that no node serves. The pair of the first item was served when
the run started, and a server that was restarted knows no node until they have come back."""

_LOOK_FOR_NODES_SECONDS = 1.0
WHY_ITEMS_WAIT_SECONDS = 60.0
"""How often the log says why items wait for a node, at most."""

_SAMPLE_TEXT, _SAMPLE_AUDIO = "text", b"\0\0"
"""What stands for a turn when the fleet is only asked whether it would serve it."""


class FleetTargetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which fleet, and what it is asked. ``{{column}}`` in the languages is filled."""

    url: str | None = None
    """The server, such as ws://host:8080; without it, the server whose lab runs the experiment."""
    src_lang: str = "{{src_lang}}"
    """The language of the input; as it stands here, the turn has it in the column `src_lang`."""
    tgt_lang: str = "{{tgt_lang}}"
    """The language to translate to; as it stands here, the column `tgt_lang` says."""
    input: str = "source"
    """The column with the text, or with the recording."""
    pipeline: RequestedPipeline | None = None
    """Stages to use or to leave out, such as {use_tts = false}; else those that fit the input."""
    features: tuple[str, ...] = ()
    services: dict[str, str] | None = None
    """For each stage, the service to use, as `service_id` or `service_id@version`."""
    keep_audio: bool = False
    """Keep the speech that comes back, as the output column `audio`."""
    api_key_env: str | None = None
    """The name of the environment variable that holds the key where the experiment runs."""


def check(settings: FleetTargetSettings, columns: Collection[str], context: Context) -> None:
    """Refuse what cannot work or is not allowed; no server is asked."""
    _reached(settings, context)
    require_column(settings.input, columns, "target.input")
    for name in ("src_lang", "tgt_lang"):
        for column in places(getattr(settings, name)):
            require_column(column, columns, f"target.{name}")


async def probe(settings: FleetTargetSettings, context: Context, sample: Turn | None) -> None:
    """Refuse a fleet that is not there, does not take the key, or serves no such job.

    `sample` is a turn of the dataset. A fleet whose nodes are only away is not refused: batch work
    waits for them.
    """
    reached = _reached(settings, context)
    client = _GuardedJobs(reached, context)
    shown = reached.url
    try:
        request = _request(settings, reached, sample or {}, _sample_input(settings, sample))
        await client.check(request)
    except Unreachable as error:
        raise _refused(
            "target.url", f"{error} Start one there (`dragoman serve`), or give another address."
        ) from None
    except TargetError as error:
        raise _refused("target", error.message) from None
    except Unauthorized:
        raise _refused("target.api_key_env", _key_remedy(settings, shown)) from None
    except Forbidden as error:
        told = f"The fleet at {shown} refuses: {error.message}"
        raise _refused("target.api_key_env", told) from None
    except (PairUnsupported, UnsupportedFeature) as error:
        raise type(error)(
            f"The fleet at {shown} cannot run this experiment: {error.message} Or change "
            "`target.src_lang`, `target.tgt_lang`, `target.pipeline` or `target.features`.",
            details=error.details,
        ) from None
    except NoAvailableNode as error:
        if error.details.get("unoffered"):
            raise NoAvailableNode(
                f"The fleet at {shown} cannot run this experiment: {error.message} Change "
                "`target.services`, or start a node that has what it asks for.",
                details=error.details,
            ) from None
        reasons = error.details.get("reasons")
        if isinstance(reasons, Mapping) and reasons and _NEVER_MENDED.issuperset(reasons):
            told = ", ".join(f"{name} {count}" for name, count in reasons.items())
            raise NoAvailableNode(
                f"No node of the fleet at {shown} can run this experiment ({told}); change "
                "`target.services`, or start a node that has what it asks for.",
                details=error.details,
            ) from None
    except InvalidMessage as error:
        raise _refused("target", f"The fleet at {shown} refuses it: {error.message}") from None
    except DragomanError:
        return  # it is there, and busy or not ready: the items wait for it
    finally:
        await client.close()


class FleetTarget:
    """One job a turn. The time of the node is the target's latency; the wait stands beside it."""

    def __init__(self, settings: FleetTargetSettings, context: Context) -> None:
        self._settings = settings
        self._context = context
        self._reached = _reached(settings, context)
        self._client = _GuardedJobs(self._reached, context)
        self._clock = context.clock
        self._unserved_since: dict[tuple[str, str], float] = {}
        self._log = get_logger(__name__, context.clock)
        self._asked_why_at = -math.inf
        self._asking_why = TaskSet()

    async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
        given = await asyncio.to_thread(self._input, turn)
        call = current_call()
        if call is not None:
            call.stopwatch.pause()
        try:
            view = await self._run(turn, given, call)
        finally:
            if call is not None:
                call.stopwatch.resume()
        return _output(view, keep_audio=self._settings.keep_audio)

    async def close(self) -> None:
        await self._asking_why.stop()
        await self._client.close()

    async def _run(self, turn: Turn, given: _Input, call: TargetCall | None) -> JobView:
        """The job of a turn, once it has succeeded."""
        request_id = (call.key if call is not None else None) or f"lab/{uuid4().hex}"
        request = _request(self._settings, self._reached, turn, given, request_id)
        for _ in range(_CANCELLED_BY_OTHERS):
            view = await self._ended(request, call)
            if view.outcome is not Outcome.CANCELLED:
                break
        if view.outcome is not Outcome.SUCCESS:
            raise _failed(view)
        return view

    async def _ended(self, request: JobRequest, call: TargetCall | None) -> JobView:
        look_ms = LONGEST_LOOK_MS
        limit_seconds = call.stopwatch.limit_seconds if call is not None else None
        if limit_seconds is not None:
            wanted_ms = int(limit_seconds * 1000 / LOOKS_AN_ITEM)
            look_ms = max(SHORTEST_LOOK_MS, min(LONGEST_LOOK_MS, wanted_ms))

        looks = 0

        def looked_at(view: JobView) -> None:
            """Count the item's time only while a node has the job: others may come first."""
            nonlocal looks
            looks += 1
            if looks > 1 and view.state is JobState.CREATED:
                self._say_why_soon(request)
            if call is None:
                return
            if view.state is JobState.CREATED:
                call.stopwatch.pause(partial(self._waits, view.job_id))
            else:
                call.stopwatch.resume()

        shown = self._reached.url
        pair = (request.src_lang, request.tgt_lang)
        try:
            view = await self._client.run(request, looked_at, look_ms=look_ms)
            self._unserved_since.pop(pair, None)
            return view
        except Unreachable as error:
            raise TargetError(str(error)) from None
        except Unauthorized:
            raise TargetError(_key_remedy(self._settings, shown), retryable=False) from None
        except DragomanError as error:
            if error.code in _UNSERVED:
                now = self._clock.monotonic()
                if now - self._unserved_since.setdefault(pair, now) < NODES_BACK_SECONDS:
                    raise CalledTooOften(
                        f"The fleet at {shown}: {error.message}",
                        retry_after_seconds=_LOOK_FOR_NODES_SECONDS,
                    ) from None
            if error.code in _PROBLEMS_OF_THE_ASKER | _UNSERVED:
                raise TargetError(
                    f"The fleet at {shown} refuses the job: {error.message}", retryable=False
                ) from None
            wait_ms = error.retry_after_ms
            if wait_ms is not None or error.status in (429, 503):
                raise CalledTooOften(
                    f"The fleet at {shown}: {error.message}",
                    retry_after_seconds=None if wait_ms is None else wait_ms / 1000,
                ) from None
            raise TargetError(f"The fleet at {shown}: {error.message}") from None

    def _say_why_soon(self, request: JobRequest) -> None:
        """Have the log say why items wait, now and then."""
        now = self._clock.monotonic()
        if now - self._asked_why_at >= WHY_ITEMS_WAIT_SECONDS:
            self._asked_why_at = now
            self._asking_why.spawn(self._say_why(request))

    async def _say_why(self, request: JobRequest) -> None:
        reason = "Nodes that could take them are busy with other work."
        try:
            await self._client.check(request)
        except (DragomanError, Unreachable) as error:
            reason = getattr(error, "message", str(error))
        self._log.warning(
            "fleet_items_wait",
            pair=f"{request.src_lang}:{request.tgt_lang}",
            reason=reason,
        )

    async def _waits(self, job_id: JobId) -> bool:
        """Whether no node has the job even now: it was looked at some time ago."""
        try:
            view = await self._client.wait(job_id, ResultAudio.OMIT, wait_ms=0)
        except (DragomanError, Unreachable):
            return False
        return view.state is JobState.CREATED

    def _input(self, turn: Turn) -> _Input:
        column = self._settings.input
        if column not in turn:
            raise TargetError(f"The turn has no column `{column}`.", retryable=False)
        value = turn[column]
        if not isinstance(value, Mapping):
            if value is None or value == "":
                raise TargetError(f"The column `{column}` is empty.", retryable=False)
            return _Input(text=as_text(value))
        content = read_audio(value, column, self._context).content
        if content.startswith(b"OggS"):
            return _Input(audio=content, audio_format=AudioFormat.OPUS)
        if content[8:12] != b"WAVE":
            raise TargetError(
                f"The recording in `{column}` is neither WAV nor Opus in Ogg, which are what a "
                "fleet takes; convert it.",
                retryable=False,
            )
        return _Input(
            audio=content, audio_format=AudioFormat.WAV, sample_rate=_sample_rate(content)
        )


class _Input(NamedTuple):
    """What a job is given."""

    text: str | None = None
    audio: bytes | None = None
    audio_format: AudioFormat = AudioFormat.PCM16
    sample_rate: int = 16_000


class _Reached(NamedTuple):
    """A fleet, and who asks it."""

    url: str
    token: str | None
    own: OwnFleet | None
    """Set where it is the lab's own server."""
    tenant: TenantId | None
    """The tenant to work for; None: the key decides."""


def _reached(settings: FleetTargetSettings, context: Context) -> _Reached:
    """The fleet that the settings mean; raises what is wrong with them."""
    own = context.own_fleet
    if settings.url is not None:
        url = settings.url
        try:
            address = api_url(url)
        except SettingsError as error:
            raise _refused("target.url", error.message) from None
        check_url(address, "target.url", context.address_rules)
        check_secret_query(url, "target.url", context.sendable_keys)
        return _Reached(url, _key(settings, address, context), None, None)
    found = own.find() if own is not None else None
    if own is None or found is None:
        where = f" No server runs on the data folder {own.folder}." if own and own.folder else ""
        raise _refused(
            "target.url",
            f"The fleet's address is missing, and there is no server of the lab's own.{where} "
            'Start one with `dragoman serve`, or give `target.url`, such as "ws://127.0.0.1:8080".',
        )
    if settings.api_key_env is not None:
        return _Reached(found, _key(settings, api_url(found), context), own, None)
    return _Reached(found, own.token, own, context.tenant)


def _key(settings: FleetTargetSettings, address: str, context: Context) -> str | None:
    if settings.api_key_env is None:
        return None
    check_variable(settings.api_key_env, "target.api_key_env", address, context.sendable_keys)
    return os.environ[settings.api_key_env].strip()


class _GuardedJobs(JobsClient):
    """Jobs at addresses that experiments may call; the lab's own server always is one."""

    def __init__(self, reached: _Reached, context: Context) -> None:
        self._reached = reached
        self._rules = context.address_rules
        super().__init__(reached.url, reached.token, clock=context.clock)

    def _open_caller(self) -> HttpCaller:
        own = self._reached.own
        if own is None:
            return HttpCaller(self._rules)
        tls = _own_certificate(own.certificate)
        return HttpCaller(AddressRules(None, open_mode=True), tls=tls)


def _own_certificate(path: str) -> ssl.SSLContext | None:
    """Trust in the certificate of the lab's own server, whatever name it was made for."""
    if not path:
        return None
    trusted = ssl.create_default_context(cafile=path)
    trusted.check_hostname = False  # the server is asked on this machine, by another name
    trusted.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return trusted


def _request(
    settings: FleetTargetSettings,
    reached: _Reached,
    turn: Turn,
    given: _Input,
    request_id: str | None = None,
) -> JobRequest:
    """The job that a turn asks for."""
    try:
        src_lang = as_text(filled(settings.src_lang, turn))
        tgt_lang = as_text(filled(settings.tgt_lang, turn))
    except KeyError as missing:
        raise TargetError(f"The turn has no column `{missing.args[0]}`.", retryable=False) from None
    return JobRequest(
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        text=given.text,
        audio=given.audio,
        audio_format=given.audio_format,
        sample_rate=given.sample_rate,
        request_id=None if request_id is None else RequestId(request_id),
        pipeline=settings.pipeline,
        features=settings.features,
        services=settings.services,
        job_class=JobClass.BATCH,
        tenant_id=reached.tenant,
        result_audio=ResultAudio.INCLUDE if settings.keep_audio else ResultAudio.OMIT,
    )


def _sample_input(settings: FleetTargetSettings, sample: Turn | None) -> _Input:
    value = (sample or {}).get(settings.input)
    return _Input(audio=_SAMPLE_AUDIO) if isinstance(value, Mapping) else _Input(_SAMPLE_TEXT)


def _sample_rate(content: bytes) -> int:
    """What a WAV file says; a file that Python cannot read is for the node to judge."""
    try:
        with wave.open(io.BytesIO(content)) as sound:
            return int(sound.getframerate())
    except (wave.Error, EOFError):
        return _Input().sample_rate


def _output(view: JobView, *, keep_audio: bool) -> Output:
    result, times = view.result, view.scheduling
    if result is None:
        raise TargetError(
            f"Job {view.job_id} succeeded, but its result is no longer kept "
            "(scheduler.job_retention_seconds)."
        )
    translated, heard = result.text_translated, result.text_asr
    columns: dict[str, JsonValue] = {
        MAIN_COLUMN: heard if translated is None else translated,
        "text_asr": heard,
        "text_translated": translated,
        "src_lang_detected": result.src_lang_detected,
        "quality_score": result.quality_score,
        "timings": None if result.timings is None else msgspec.to_builtins(result.timings),
        "node_id": view.node_id,
        "job_id": view.job_id,
        "preemptions": view.preemptions,
    }
    if times is not None:
        columns |= {
            "attempts": times.attempts,
            "queued_ms": times.queued_ms,
            "dispatch_ms": times.dispatch_ms,
            "node_ms": times.node_ms,
            "total_ms": times.total_ms,
        }
    if keep_audio and result.tts_audio:
        columns["audio"] = as_column(result.tts_audio, result.tts_format or "pcm16")
    kept = {name: value for name, value in columns.items() if value is not None}
    usage = result.usage
    return Output(
        {MAIN_COLUMN: None, **kept},
        tokens=None if usage is None else usage.tokens_in + usage.tokens_out,
        latency_ms=None if times is None else times.node_ms,
    )


def _failed(view: JobView) -> TargetError:
    error = view.error
    if error is None:
        return TargetError(f"Job {view.job_id} ended {view.outcome} without saying why.")
    told = f"Job {view.job_id} failed ({error.code}): {error.message}"
    return TargetError(told, retryable=error.retryable)


def _key_remedy(settings: FleetTargetSettings, url: str) -> str:
    if settings.api_key_env is None:
        return (
            f"The fleet at {url} needs a key; put one of role client into an environment variable "
            "where the experiment runs, and give its name as `target.api_key_env`."
        )
    return (
        f"The fleet at {url} does not accept the key in {settings.api_key_env}; put a valid one of "
        "role client there (`dragoman keys create --role client`)."
    )


def _refused(field: str, message: str) -> InvalidMessage:
    return InvalidMessage(message, details={"field": field})
