"""A sample of live traffic on its way to the lab, and what became of each job of it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from hashlib import blake2b
from urllib.parse import quote

import httpx
import msgspec

from dragoman.api.lab.forwarding import Forwarder
from dragoman.errors import DependencyDown, DragomanError
from dragoman.ids import JobId, TenantId
from dragoman.lab.live_sample import NOT_IN_THE_LAB, OUTPUT, LiveItem, SampledJob
from dragoman.lab.states import ITEM_ENDED
from dragoman.live.dispatch import Job, JobDispatcher
from dragoman.live.ledger import JobRecord, JobSpec
from dragoman.live.protocol import JobClass, JobResult, LiveSampleView, Outcome
from dragoman.observability import Metrics, get_logger
from dragoman.settings import LiveSampleSettings

SAMPLES_MAX = 1_000
"""Jobs that wait for the lab; when it is away for long, later ones are left out."""

REASONS_MAX = 10_000
"""Jobs that were left out of which the reason is remembered, the latest."""

AT_ONCE = 200
LIVE_SAMPLE_PATH = "/live-sample"

_PAUSE_SECONDS = 1.0
_HASH_BYTES = 8

_log = get_logger(__name__)


class SampledTenant(msgspec.Struct, frozen=True):
    """Jobs of one tenant for the lab."""

    tenant: TenantId
    items: list[LiveItem]


class FoundSample(msgspec.Struct, frozen=True):
    """The lab's answer about one job: what became of it, or why it has no score."""

    job: SampledJob | None = None
    reason: str | None = None


def why_left_out(rules: LiveSampleSettings, spec: JobSpec, job_id: JobId) -> str | None:
    """Why a job is not one of the sample; None if it is, should it succeed.

    It follows from the job and the settings alone, so that every instance says the same.
    """
    if spec.tenant not in rules.tenants:
        return "lab.live_sample.tenants does not list its tenant."
    if spec.job_class is not JobClass.LIVE:
        return "It is a batch job, and only live jobs are sampled."
    pair = f"{spec.src_lang}:{spec.tgt_lang}".casefold()
    if rules.pairs and pair not in {one.casefold() for one in rules.pairs}:
        return "lab.live_sample.pairs does not list its pair."
    number = int.from_bytes(blake2b(job_id.encode(), digest_size=_HASH_BYTES).digest())
    if number >= rules.share * (1 << 8 * _HASH_BYTES):
        return "It is not in the share that lab.live_sample.share takes."
    return None


def nothing_to_score(spec: JobSpec, output: JobResult | None) -> str | None:
    """Why a job that succeeded has nothing to score; None if it may have something."""
    if output is None:
        translates = spec.pipeline.use_nmt is not False
        return None if translates else "It asked for no translation, so there is nothing to score."
    if output.text_translated is None:
        return "Its result has no translation, so there is nothing to score."
    if spec.audio_format is not None and not output.text_asr:
        return "Its result does not say what was said, so the translation cannot be scored."
    return None


class LiveSampler:
    """Hands ended jobs of the sample to the lab's process, a few at a time."""

    def __init__(self, rules: LiveSampleSettings, forwarder: Forwarder, metrics: Metrics) -> None:
        self._rules = rules
        self._forwarder = forwarder
        self._counts = metrics.live_samples
        self._waiting: deque[tuple[TenantId, LiveItem]] = deque()
        self._left_out: OrderedDict[JobId, str] = OrderedDict()
        """Why jobs were left out that could have been scored."""
        self._some = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None
        self._dispatcher: JobDispatcher | None = None

    def watch(self, dispatcher: JobDispatcher) -> None:
        """Be told of jobs that succeed, if any are wanted."""
        if self._rules.tenants:
            self._dispatcher = dispatcher
            dispatcher.watch_successes(self._succeeded)

    # --- as a part of the server ----------------------------------------------------------------

    async def start(self) -> None:
        self._sending = asyncio.create_task(self._send())

    async def drain(self) -> None:
        """What waits is left out: the lab ends first."""

    async def stop(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    # --- from a job to the lab ------------------------------------------------------------------

    def _succeeded(self, job: Job) -> None:
        """A node has the result; what was said is still there, and the end is about to come."""
        if why_left_out(self._rules, job.spec, job.job_id) is None:
            said = None if job.input is None else job.input.text
            assert self._dispatcher is not None
            self._dispatcher.expect_job(job, lambda ended: self._ended(ended, said))

    def _ended(self, job: Job, said: str | None) -> None:
        if job.outcome is not Outcome.SUCCESS or job.output is None:
            return
        source = said if said is not None else job.output.text_asr
        if not source or job.output.text_translated is None:
            return
        if len(self._waiting) >= SAMPLES_MAX:
            self._leave_out(
                job.job_id, f"It was left out: {SAMPLES_MAX:,} jobs were waiting for the lab."
            )
            return
        spec = job.spec
        turn = {
            "source": source,
            OUTPUT: job.output.text_translated,
            "src_lang": spec.src_lang,
            "tgt_lang": spec.tgt_lang,
            "pair": f"{spec.src_lang}:{spec.tgt_lang}",
            "job_id": job.job_id,
            "latency_ms": job.finished_ms - job.created_ms,
        }
        self._waiting.append((spec.tenant, LiveItem(job.job_id, turn)))
        self._some.set()

    async def _send(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            while self._waiting:
                tenant = self._waiting[0][0]
                items = [item for one, item in self._waiting if one == tenant][:AT_ONCE]
                try:
                    await self._forwarder.tell(
                        LIVE_SAMPLE_PATH, msgspec.json.encode(SampledTenant(tenant, items))
                    )
                except (DependencyDown, httpx.HTTPError):
                    # The lab is being started again, or busy: it takes each job once.
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                except DragomanError as error:
                    _log.warning_limited(
                        "live_sample_refused", key=tenant, every_seconds=60, reason=error.message
                    )
                    for item in items:
                        self._leave_out(JobId(item.job_id), f"The lab refused it: {error.message}")
                else:
                    self._counts.labels("taken").inc(len(items))
                sent = {item.job_id for item in items}
                self._waiting = deque(
                    one for one in self._waiting if one[0] != tenant or one[1].job_id not in sent
                )

    def _leave_out(self, job_id: JobId, reason: str) -> None:
        self._counts.labels("left_out").inc()
        self._left_out[job_id] = reason
        if len(self._left_out) > REASONS_MAX:
            self._left_out.popitem(last=False)

    # --- what became of a job -------------------------------------------------------------------

    async def view(self, record: JobRecord) -> LiveSampleView:
        """Whether a job was scored, or why not."""
        reason = why_left_out(self._rules, record.spec, record.job_id)
        if reason is None and record.outcome is None:
            reason = "It has not ended."
        elif reason is None and record.outcome is not Outcome.SUCCESS:
            reason = "It did not succeed, so there is nothing to score."
        elif reason is None and self._dispatcher is None:
            reason = "Jobs on this server's ledger are not sampled."
        elif reason is None:
            reason = nothing_to_score(record.spec, record.output)
        if reason is not None:
            return LiveSampleView(scored=False, reason=reason)
        try:
            body = await self._forwarder.fetch(
                f"{LIVE_SAMPLE_PATH}/{quote(record.spec.tenant, safe='')}/{record.job_id}"
            )
            found = msgspec.json.decode(body, type=FoundSample)
        except (DragomanError, httpx.HTTPError, msgspec.MsgspecError):
            away = "The lab does not answer; ask again."
            return LiveSampleView(scored=False, reason=self._known(record.job_id) or away)
        if found.job is None:
            reason = found.reason
            if reason == NOT_IN_THE_LAB:
                reason = self._known(record.job_id) or reason
            return LiveSampleView(scored=False, reason=reason)
        job = found.job
        scores = {name: cell.score for name, cell in job.scores.items()}
        scored = any(score is not None for score in scores.values())
        reason = None
        if not scored:
            ended = job.status in ITEM_ENDED
            reason = "No evaluator gave a score." if ended else "It waits to be scored."
        return LiveSampleView(
            scored=scored,
            reason=reason,
            experiment_id=job.experiment_id,
            item_id=job.item_id,
            scores=scores,
        )

    def _known(self, job_id: JobId) -> str | None:
        """What this server knows of a job that it drove and that the lab does not have."""
        if any(item.job_id == job_id for _, item in self._waiting):
            return "It waits for the lab to take it."
        return self._left_out.get(job_id)
