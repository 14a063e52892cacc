"""The whole tree of settings, the flat list of its keys, and which contradict each other."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from typing import Any, get_origin
from urllib.parse import urlsplit

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from dragoman.errors import SettingsError
from dragoman.settings.kinds import DATA_DIR_PLACEHOLDER, Section, as_toml, is_loopback
from dragoman.settings.scheduler import SchedulerSettings
from dragoman.settings.server import (
    AuditSettings,
    AuthSettings,
    ClusterSettings,
    LabSettings,
    LimitSettings,
    LogSettings,
    ServerSettings,
    StoreSettings,
    TracingSettings,
)

ENVIRONMENT_PREFIX = "DRAGOMAN_"
LEVEL_SEPARATOR = "__"


class Settings(Section):
    """All settings; they are checked once and never change afterwards."""

    server: ServerSettings = ServerSettings()
    auth: AuthSettings = AuthSettings()
    store: StoreSettings = StoreSettings()
    audit: AuditSettings = AuditSettings()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()
    limits: LimitSettings = LimitSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    cluster: ClusterSettings = ClusterSettings()
    lab: LabSettings = LabSettings()


@dataclass(frozen=True)
class Key:
    """One thing that can be set, such as ``server.port``."""

    name: str
    default: Any
    meaning: str
    field: FieldInfo

    @property
    def section(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def leaf(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", LEVEL_SEPARATOR)

    @property
    def is_list(self) -> bool:
        return get_origin(self.field.annotation) is tuple

    @property
    def is_table(self) -> bool:
        return get_origin(self.field.annotation) is Mapping

    def adapter(self) -> TypeAdapter[Any]:
        """The validator of a single value of this key, without its section."""
        return TypeAdapter(self.field.rebuild_annotation())


def _sections(name: str, section: Section) -> Iterator[tuple[str, Section]]:
    yield name, section
    for field in type(section).model_fields:
        child = getattr(section, field)
        if isinstance(child, Section):
            yield from _sections(f"{name}.{field}" if name else field, child)


SECTIONS: Mapping[str, Section] = dict(_sections("", Settings()))
"""Every section by its dotted name, with its defaults; the root is the empty name."""


def _keys() -> Iterator[Key]:
    for name, section in SECTIONS.items():
        for leaf, field in type(section).model_fields.items():
            default = getattr(section, leaf)
            if not isinstance(default, Section):
                yield Key(f"{name}.{leaf}", default, field.description or "", field)


KEYS: Mapping[str, Key] = {key.name: key for key in _keys()}
"""Every key by its dotted name, in the order of the documentation."""


def value_of(settings: Settings, name: str) -> Any:
    """The value of a dotted key."""
    return reduce(getattr, name.split("."), settings)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """A tree from values by dotted key, as a settings file would hold it."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *sections, leaf = name.split(".")
        table = tree
        for section in sections:
            table = table.setdefault(section, {})
        table[leaf] = value
    return tree


def nearest(name: str, known: Collection[str]) -> str | None:
    """The known name closest to this one: alike in its section, or the same in another section."""
    section, _, leaf = name.rpartition(".")
    split = [(other, *other.rpartition(".")[::2]) for other in known]
    siblings = {word: other for other, place, word in split if place == section}
    alike = get_close_matches(leaf, siblings, n=1)
    if alike:
        return siblings[alike[0]]
    elsewhere = [other for other, _, word in split if word == leaf]
    return next(iter(get_close_matches(name, elsewhere, n=1, cutoff=0)), None)


def with_data_dir(settings: Settings) -> Settings:
    """The same settings with ``{data_dir}`` filled in where the databases' URLs name it."""
    data_dir = str(settings.server.data_dir)
    url = settings.store.database_url.replace(DATA_DIR_PLACEHOLDER, data_dir)
    store = settings.store.model_copy(update={"database_url": url})
    url = settings.lab.analytics_url.replace(DATA_DIR_PLACEHOLDER, data_dir)
    lab = settings.lab.model_copy(update={"analytics_url": url})
    return settings.model_copy(update={"store": store, "lab": lab})


# --- settings that contradict each other, as one table of rules -----------------------------------


@dataclass(frozen=True)
class Rule:
    """A condition between keys; in the text, ``{key}`` stands for a key and its value."""

    keys: tuple[str, ...]
    holds: Callable[[Settings], bool]
    text: str
    yields: str | None = None
    """A key whose default may break the rule: the rule is checked only if the key was set."""


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


def _sample_is_scored(settings: Settings) -> bool:
    sample = settings.lab.live_sample
    return bool(sample.evaluators) or not sample.tenants


def _tenants_have_existing_cells(settings: Settings) -> bool:
    pools = settings.scheduler.pools
    return all(cell < pools.max_cells for cells in pools.tenant_cells.values() for cell in cells)


def _canaries_share_a_pair(settings: Settings) -> bool:
    shares: dict[str, float] = {}
    for route in settings.scheduler.canary.routes:
        pair = route.pair.casefold()
        shares[pair] = shares.get(pair, 0.0) + route.share
    return all(share <= 1.0 + 1e-9 for share in shares.values())


def _closed_or_local(settings: Settings) -> bool:
    auth = settings.auth
    return auth.mode == "keys" or auth.insecure or is_loopback(settings.server.host)


def _oidc_is_whole(settings: Settings) -> bool:
    oidc = settings.auth.oidc
    needed = (oidc.client_id, oidc.client_secret_file, oidc.roles, settings.auth.mode == "keys")
    return not oidc.issuer or all(needed)


def _oidc_is_private(settings: Settings) -> bool:
    issuer = settings.auth.oidc.issuer
    if not issuer or issuer.startswith("https://"):
        return True
    host = urlsplit(issuer).hostname if issuer.startswith("http://") else None
    return host is not None and is_loopback(host)


EXPOSURE = Rule(
    keys=("auth.mode", "server.host", "auth.insecure"),
    holds=_closed_or_local,
    text="{auth.mode} makes every caller an operator, and other machines can reach {server.host}; "
    'set auth.mode = "keys" and create a key with `dragoman keys create`, or listen on '
    "127.0.0.1, or set auth.insecure = true if you trust the network.",
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
    Rule(
        keys=(
            "auth.oidc.issuer",
            "auth.mode",
            "auth.oidc.client_id",
            "auth.oidc.client_secret_file",
            "auth.oidc.roles",
        ),
        holds=_oidc_is_whole,
        text='{auth.oidc.issuer} needs auth.mode = "keys", auth.oidc.client_id, '
        "auth.oidc.client_secret_file and auth.oidc.roles; set them all, or leave the issuer out.",
    ),
    Rule(
        keys=("auth.oidc.issuer",),
        holds=_oidc_is_private,
        text="{auth.oidc.issuer} must begin with https://, because others on the way could sign in "
        "as anyone; http:// is allowed on this machine only.",
    ),
    # Jobs: the total is no shorter than its parts, and a binding outlives what it binds. A user
    # who shortens the total time need not shorten the pending and run times too.
    at_least(
        _TIMEOUT + "total_seconds",
        _TIMEOUT + "pending_seconds",
        "a job would end while it may still wait for a node",
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
        "a live node would count as lost between two heartbeats",
    ),
    more_than(
        _SESSION + "heartbeat_timeout_seconds",
        _SESSION + "heartbeat_interval_seconds",
        "a live client would be cut off between two heartbeats",
    ),
    at_least(
        _HEALTH + "window",
        _HEALTH + "window_failures",
        "a window cannot hold more bad heartbeats than heartbeats",
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
        "one session could use more than all sessions together",
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
    Rule(
        keys=("scheduler.canary.routes",),
        holds=_canaries_share_a_pair,
        text="{scheduler.canary.routes} gives away more than all jobs of a pair; lower the shares "
        "of the pair's routes, so that they add up to 1 at most.",
    ),
    # Cluster and lab.
    at_least(
        "cluster.owner_ttl_seconds",
        "cluster.presence_ttl_seconds",
        "other instances find the nodes of a lost instance by its owner records",
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
        "a message would be delivered again while its instance waits for one slow call",
        yields="cluster.reclaim_idle_ms",
    ),
    Rule(
        keys=("lab.lease_seconds", "lab.safety_tick_ms"),
        holds=_item_lease_outlives_a_tick,
        text="{lab.lease_seconds} must be longer than {lab.safety_tick_ms}, because a worker would "
        "lose its item between two ticks; raise the first or lower the second.",
        yields="lab.safety_tick_ms",
    ),
    Rule(
        keys=("lab.live_sample.tenants", "lab.live_sample.evaluators"),
        holds=_sample_is_scored,
        text="{lab.live_sample.tenants} has live jobs scored, and {lab.live_sample.evaluators} has "
        "none that scores them; add an evaluator, or list no tenant.",
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
    """A sentence for every broken rule, except rules about keys whose value was refused."""
    return [
        _sentence(rule, settings, sources)
        for rule in RULES
        if not set(rule.keys) & set(unknown)
        and not rule.holds(settings)
        and (rule.yields is None or sources.get(rule.yields, "default") != "default")
    ]


def check_exposure(settings: Settings) -> None:
    """Refuse open mode on an address that other machines can reach, unless it is allowed."""
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
