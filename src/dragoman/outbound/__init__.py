"""Calls to other servers: permitted addresses only, bounded answers, refusals understood."""

from dragoman.outbound.addresses import AddressRules
from dragoman.outbound.answers import Answer, require_success, shown_answer
from dragoman.outbound.caller import MAX_ANSWER_BYTES, Caller, Request, check_headers, check_url
from dragoman.outbound.failures import RateLimited, TargetError, shortened
from dragoman.outbound.guard import Lookup, look_up
from dragoman.outbound.retry_after import refusal_in, retry_after_seconds, seconds_in
from dragoman.outbound.templates import JsonValue, as_text, filled, filled_url, places
from dragoman.outbound.variables import (
    SentHeaders,
    check_secret_headers,
    check_variable,
    sent_headers,
    without_secrets,
)

__all__ = [
    "MAX_ANSWER_BYTES",
    "AddressRules",
    "Answer",
    "Caller",
    "JsonValue",
    "Lookup",
    "RateLimited",
    "Request",
    "SentHeaders",
    "TargetError",
    "as_text",
    "check_headers",
    "check_secret_headers",
    "check_url",
    "check_variable",
    "filled",
    "filled_url",
    "look_up",
    "places",
    "refusal_in",
    "require_success",
    "retry_after_seconds",
    "seconds_in",
    "sent_headers",
    "shortened",
    "shown_answer",
    "without_secrets",
]
