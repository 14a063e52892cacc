"""From the body of ``POST /jobs`` to an order for the dispatcher."""

from __future__ import annotations

from random import Random

from dragoman.ids import RequestId, TenantId, new_id
from dragoman.live.dispatch import JobOrder
from dragoman.live.ledger import JobInput, JobSpec
from dragoman.live.protocol import (
    JobRequest,
    check_job_request,
    chosen_pipeline,
    decode_body,
    default_pipeline,
    required_types,
    services_of,
)
from dragoman.live.snapshot import PoolRule
from dragoman.observability import read_traceparent

_SEMANTIC_RULES = (PoolRule.SEMANTIC_F2F, PoolRule.SEMANTIC_ONE_WAY)
_TRACE_BITS = 128


def read_request(body: bytes) -> JobRequest:
    """The request in a body; one that makes no sense is refused."""
    request = decode_body(body, JobRequest)
    check_job_request(request)
    return request


def order_of(
    request: JobRequest,
    tenant: TenantId,
    rule: PoolRule,
    random: Random,
    traceparent: str | None = None,
) -> JobOrder:
    """The job that a request asks for. One with wait_ms may wait in line for its slot."""
    caller = read_traceparent(traceparent)
    audio = request.audio is not None
    default = default_pipeline(audio, request.src_lang, request.tgt_lang, rule in _SEMANTIC_RULES)
    pipeline = chosen_pipeline(default, request.pipeline)
    spec = JobSpec(
        tenant=tenant,
        request_id=request.request_id or RequestId(new_id(random, "r")),
        src_lang=request.src_lang,
        tgt_lang=request.tgt_lang,
        pipeline=pipeline,
        job_class=request.job_class,
        features=request.features,
        audio_format=request.audio_format if audio else None,
        sample_rate=request.sample_rate if audio else None,
        session_id=request.session_id,
        preferred_node_id=request.preferred_node_id,
        exclude_node_id=request.exclude_node_id,
        trace_id=f"{caller.trace_id if caller else random.getrandbits(_TRACE_BITS):032x}",
        services=services_of(required_types(pipeline, request.features), request.services),
    )
    return JobOrder(
        spec,
        JobInput(audio=request.audio, text=request.text),
        may_wait=request.wait_ms is not None,
        parent_span=caller,
    )
