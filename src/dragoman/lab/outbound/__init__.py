"""Calls to other servers: permitted addresses only, bounded answers, refusals understood."""

from dragoman.lab.outbound.addresses import AddressRules
from dragoman.lab.outbound.answers import Answer, require_success, shown_answer
from dragoman.lab.outbound.caller import MAX_ANSWER_BYTES, Caller, Request, check_headers, check_url
from dragoman.lab.outbound.guard import Lookup, look_up
from dragoman.lab.outbound.retry_after import refusal_in, retry_after_seconds, seconds_in
from dragoman.lab.outbound.templates import as_text, filled, filled_url, places

__all__ = [
    "MAX_ANSWER_BYTES",
    "AddressRules",
    "Answer",
    "Caller",
    "Lookup",
    "Request",
    "as_text",
    "check_headers",
    "check_url",
    "filled",
    "filled_url",
    "look_up",
    "places",
    "refusal_in",
    "require_success",
    "retry_after_seconds",
    "seconds_in",
    "shown_answer",
]
