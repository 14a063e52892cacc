"""Calls to other servers: permitted addresses only, bounded answers, refusals understood."""

from dragoman.outbound.addresses import AddressRules
from dragoman.outbound.answers import HttpAnswer, require_success, shown_answer
from dragoman.outbound.caller import (
    MAX_ANSWER_BYTES,
    HttpCaller,
    HttpRequest,
    check_headers,
    check_url,
)
from dragoman.outbound.failures import CalledTooOften, TargetError, shortened
from dragoman.outbound.guard import Lookup, look_up
from dragoman.outbound.retry_after import refusal_in, retry_after_seconds, seconds_in
from dragoman.outbound.templates import JsonValue, as_text, filled, filled_url, places
from dragoman.outbound.variables import (
    SentHeaders,
    SentUrl,
    check_secret_headers,
    check_secret_query,
    check_variable,
    sent_headers,
    sent_url,
    variables_in,
    variables_in_query,
    without_secrets,
)

__all__ = [
    "MAX_ANSWER_BYTES",
    "AddressRules",
    "CalledTooOften",
    "HttpAnswer",
    "HttpCaller",
    "HttpRequest",
    "JsonValue",
    "Lookup",
    "SentHeaders",
    "SentUrl",
    "TargetError",
    "as_text",
    "check_headers",
    "check_secret_headers",
    "check_secret_query",
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
    "sent_url",
    "shortened",
    "shown_answer",
    "variables_in",
    "variables_in_query",
    "without_secrets",
]
