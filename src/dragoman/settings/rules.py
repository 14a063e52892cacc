"""Which settings contradict each other, as one table of rules."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from dragoman.errors import SettingsError
from dragoman.settings.forms import is_loopback
from dragoman.settings.tree import Settings, value_of
from dragoman.settings.wording import as_toml


@dataclass(frozen=True)
class Rule:
    """Something that must hold between keys; in the text, ``{key}`` stands for key and value."""

    keys: tuple[str, ...]
    holds: Callable[[Settings], bool]
    text: str
    yields: str | None = None
    """A key whose default gives way in silence: the rule holds only for a value that was chosen."""


def _ordered(
    key: str,
    relation: str,
    other: str,
    because: str,
    holds: Callable[[float, float], bool],
    yields: str | None = None,
) -> Rule:
    return Rule(
        keys=(key, other),
        holds=lambda settings: holds(value_of(settings, key), value_of(settings, other)),
        text=f"{{{key}}} must be {relation} {{{other}}}, because {because}; "
        "raise the first or lower the second.",
        yields=yields,
    )


def at_least(key: str, other: str, because: str, *, yields: str | None = None) -> Rule:
    return _ordered(key, "at least", other, because, operator.ge, yields)


def more_than(key: str, other: str, because: str) -> Rule:
    return _ordered(key, "more than", other, because, operator.gt)


def _tls_is_whole(settings: Settings) -> bool:
    return bool(settings.server.tls_cert) == bool(settings.server.tls_key)


def _presence_outlives_a_call(settings: Settings) -> bool:
    cluster = settings.cluster
    return cluster.presence_ttl_seconds * 1000 > cluster.redis_timeout_ms


def _message_holds_an_utterance(settings: Settings) -> bool:
    """Whether the audio of the largest utterance fits into one message, which may be JSON."""
    max_bytes = settings.scheduler.web_task_segmentation.max_bytes
    return settings.limits.max_frame_bytes * 3 >= max_bytes * 4


def _item_lease_outlives_a_tick(settings: Settings) -> bool:
    return settings.lab.lease_seconds * 1000 > settings.lab.safety_tick_ms


def _tenants_have_existing_cells(settings: Settings) -> bool:
    pools = settings.scheduler.pools
    return all(cell < pools.max_cells for cells in pools.tenant_cells.values() for cell in cells)


def _closed_or_local(settings: Settings) -> bool:
    auth = settings.auth
    return auth.mode == "keys" or auth.insecure or is_loopback(settings.server.host)


EXPOSURE = Rule(
    keys=("auth.mode", "server.host", "auth.insecure"),
    holds=_closed_or_local,
    text="{auth.mode} makes everyone an operator, and {server.host} can be reached from other "
    'machines; set auth.mode = "keys" and make a key with `dragoman keys create`, or listen on '
    "127.0.0.1, or set auth.insecure = true where the network itself is trusted.",
)

_TIMEOUT = "scheduler.job_timeout."
_HEALTH = "scheduler.node_health."
_SESSION = "scheduler.session."
_BINDING = "scheduler.task_binding."
_CATALOG = "scheduler.service_catalog."
_CUTTING = "scheduler.web_task_segmentation."
_DELIVERY = "scheduler.delivery."
_SHORTAGE = "scheduler.model_not_available."

RULES: tuple[Rule, ...] = (
    EXPOSURE,
    Rule(
        keys=("server.tls_cert", "server.tls_key"),
        holds=_tls_is_whole,
        text="{server.tls_cert} and {server.tls_key} belong together; set both for HTTPS, or "
        "neither for plain HTTP.",
    ),
    # Jobs: the whole is no shorter than its parts, and what is bound outlives what it binds. A
    # job that ends by its total time needs no shorter pending or run time set beside it.
    at_least(
        _TIMEOUT + "total_seconds",
        _TIMEOUT + "pending_seconds",
        "a job would end while it may still wait",
        yields=_TIMEOUT + "pending_seconds",
    ),
    at_least(
        _TIMEOUT + "total_seconds",
        _TIMEOUT + "run_seconds",
        "a job would end while its node may still work",
        yields=_TIMEOUT + "run_seconds",
    ),
    at_least(
        _TIMEOUT + "total_seconds",
        _TIMEOUT + "ack_seconds",
        "a job would end before its node may accept it",
    ),
    at_least(
        "scheduler.job_retention_seconds",
        _BINDING + "lease_seconds",
        "a repeated request must still find its job",
    ),
    at_least(
        _BINDING + "reserved_ttl_seconds",
        _HEALTH + "heartbeat_timeout_seconds",
        "a slot must not run out between two heartbeats of a live node",
    ),
    at_least(
        _BINDING + "reserved_ttl_seconds",
        _TIMEOUT + "ack_seconds",
        "a slot must not run out before its node may accept the job",
    ),
    at_least(
        _TIMEOUT + "total_seconds",
        _TIMEOUT + "cancel_grace_seconds",
        "a slot would wait for a cancelled job longer than the job itself may take",
        yields=_TIMEOUT + "cancel_grace_seconds",
    ),
    # Heartbeats, and nodes that are away.
    more_than(
        _HEALTH + "heartbeat_timeout_seconds",
        _HEALTH + "heartbeat_interval_seconds",
        "a live node would be taken for lost between two heartbeats",
    ),
    more_than(
        _SESSION + "heartbeat_timeout_seconds",
        _SESSION + "heartbeat_interval_seconds",
        "a live client would be cut off between two heartbeats",
    ),
    at_least(
        _HEALTH + "window",
        _HEALTH + "window_failures",
        "no window holds more bad heartbeats than it has heartbeats",
    ),
    at_least(
        _HEALTH + "forget_offline_seconds",
        _HEALTH + "reconnect_grace_seconds",
        "a node would be forgotten while its jobs still wait for it",
        yields=_HEALTH + "reconnect_grace_seconds",
    ),
    at_least(
        _SHORTAGE + "unavailable_ttl_seconds",
        _SHORTAGE + "debounce_window_seconds",
        "a service that is missing again after its mark ran out would not be followed up",
        yields=_SHORTAGE + "debounce_window_seconds",
    ),
    # Utterances, the messages they travel in, and the queues that hold those.
    at_least(
        _DELIVERY + "reorder_window",
        "limits.max_inflight_per_session",
        "every utterance in flight may have to be held back for its turn",
    ),
    at_least(
        "limits.session_queue",
        "limits.max_inflight_per_session",
        "results of utterances in flight would be dropped before the client can acknowledge them",
        yields="limits.max_inflight_per_session",
    ),
    at_least(
        "limits.session_queue_bytes",
        _CUTTING + "max_bytes",
        "a session would be closed for audio that is still one utterance",
        yields=_CUTTING + "max_bytes",
    ),
    Rule(
        keys=("limits.max_frame_bytes", _CUTTING + "max_bytes"),
        holds=_message_holds_an_utterance,
        text=f"{{limits.max_frame_bytes}} must be at least four thirds of {{{_CUTTING}max_bytes}}, "
        "because one message carries the audio of an utterance, in JSON as base64; raise the first "
        "or lower the second.",
    ),
    at_least(
        "limits.session_queue_bytes",
        "limits.max_frame_bytes",
        "a session would be closed as too slow for one message of the allowed size",
        yields="limits.max_frame_bytes",
    ),
    at_least(
        "limits.node_queue_bytes",
        "limits.max_frame_bytes",
        "a node would be closed as too slow for one message of the allowed size",
        yields="limits.max_frame_bytes",
    ),
    at_least(
        "limits.buffered_bytes",
        "limits.max_frame_bytes",
        "one message of the allowed size would be more than all sockets may keep together",
        yields="limits.max_frame_bytes",
    ),
    at_least(
        "limits.buffered_bytes",
        "limits.session_queue_bytes",
        "one session would be allowed more than all of them together",
        yields="limits.session_queue_bytes",
    ),
    # What runs in the background.
    at_least(
        _CATALOG + "max_refresh_seconds",
        _CATALOG + "refresh_seconds",
        "backing off means waiting longer, not shorter",
    ),
    at_least(
        "scheduler.stats.stale_after_seconds",
        "scheduler.stats.snapshot_seconds",
        "every snapshot would be stale before the next is made",
    ),
    Rule(
        keys=("scheduler.pools.tenant_cells", "scheduler.pools.max_cells"),
        holds=_tenants_have_existing_cells,
        text="{scheduler.pools.tenant_cells} names a cell that {scheduler.pools.max_cells} does "
        "not allow; cells count from 0, so name lower ones or raise max_cells.",
    ),
    # Cluster and lab.
    at_least(
        "cluster.owner_ttl_seconds",
        "cluster.presence_ttl_seconds",
        "the nodes of a lost instance are found by the owner it left behind",
    ),
    Rule(
        keys=("cluster.presence_ttl_seconds", "cluster.redis_timeout_ms"),
        holds=_presence_outlives_a_call,
        text="{cluster.presence_ttl_seconds} must be longer than {cluster.redis_timeout_ms}, "
        "because one slow call would make a live instance look lost; raise the first or lower "
        "the second.",
    ),
    at_least(
        "cluster.reclaim_idle_ms",
        "cluster.redis_timeout_ms",
        "a note would be taken over from an instance that waits for one slow call",
        yields="cluster.reclaim_idle_ms",
    ),
    Rule(
        keys=("lab.lease_seconds", "lab.safety_tick_ms"),
        holds=_item_lease_outlives_a_tick,
        text="{lab.lease_seconds} must be longer than {lab.safety_tick_ms}, because an item would "
        "be taken from its worker between two looks; raise the first or lower the second.",
        yields="lab.safety_tick_ms",
    ),
    at_least(
        "lab.max_item_concurrency",
        "lab.item_concurrency",
        "an experiment that names no concurrency must be allowed to run",
    ),
)


def contradictions(
    settings: Settings, sources: Mapping[str, str], unknown: Collection[str] = ()
) -> list[str]:
    """A sentence for every rule that is broken, but for rules about keys without a good value."""
    return [
        _sentence(rule, settings, sources)
        for rule in RULES
        if not set(rule.keys) & set(unknown)
        and not rule.holds(settings)
        and (rule.yields is None or sources.get(rule.yields, "default") != "default")
    ]


def check_exposure(settings: Settings) -> None:
    """Refuse to let everyone in from everywhere, unless the settings say that it is meant."""
    if not EXPOSURE.holds(settings):
        raise SettingsError(_sentence(EXPOSURE, settings, {}))


def _sentence(rule: Rule, settings: Settings, sources: Mapping[str, str]) -> str:
    text = rule.text
    for key in rule.keys:
        shown = f"{key} = {as_toml(value_of(settings, key))}"
        if key in sources:
            shown += f" ({sources[key]})"
        text = text.replace(f"{{{key}}}", shown)
    return text
