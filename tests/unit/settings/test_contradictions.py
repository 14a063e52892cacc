"""Settings that are each possible and together are not."""

import tomllib

import pytest

from dragoman.errors import SettingsError
from dragoman.settings import check_exposure, load_settings
from dragoman.settings.tree import RULES, Rule, Settings, nested

# What is set together, and the two keys the answer must name.
CONTRADICTORY = [
    ('server.host = "0.0.0.0"', "auth.mode", "server.host"),
    ('server.host = "localhost.example.org"', "auth.mode", "server.host"),
    ('server.tls_cert = "cert.pem"', "server.tls_cert", "server.tls_key"),
    ('server.tls_key = "key.pem"', "server.tls_cert", "server.tls_key"),
    ('auth.oidc.issuer = "https://login.example.org"', "auth.oidc.issuer", "client_secret_file"),
    (
        'auth.mode = "keys"\n'
        'auth.oidc.issuer = "http://login.example.org"\nauth.oidc.client_id = "dragoman"\n'
        'auth.oidc.client_secret_file = "secret"\nauth.oidc.roles = { staff = "viewer" }',
        "auth.oidc.issuer",
        "https://",
    ),
    ("scheduler.job_timeout.pending_seconds = 61", "total_seconds", "pending_seconds"),
    ("scheduler.job_timeout.ack_seconds = 61", "total_seconds", "ack_seconds"),
    ("scheduler.job_timeout.run_seconds = 61", "total_seconds", "run_seconds"),
    ("scheduler.job_retention_seconds = 89", "job_retention_seconds", "lease_seconds"),
    (
        "scheduler.task_binding.reserved_ttl_seconds = 44",
        "reserved_ttl_seconds",
        "node_health.heartbeat_timeout_seconds",
    ),
    (
        "scheduler.job_timeout.total_seconds = 120\nscheduler.job_timeout.ack_seconds = 91",
        "reserved_ttl_seconds",
        "ack_seconds",
    ),
    (
        "scheduler.node_health.heartbeat_interval_seconds = 45",
        "node_health.heartbeat_timeout_seconds",
        "node_health.heartbeat_interval_seconds",
    ),
    (
        "scheduler.session.heartbeat_timeout_seconds = 30",
        "session.heartbeat_timeout_seconds",
        "session.heartbeat_interval_seconds",
    ),
    ("scheduler.node_health.window_failures = 6", "window = 5", "window_failures = 6"),
    ("limits.max_inflight_per_session = 201", "reorder_window", "max_inflight_per_session"),
    (
        "scheduler.job_timeout.cancel_grace_seconds = 61",
        "total_seconds",
        "cancel_grace_seconds = 61",
    ),
    (
        "scheduler.node_health.forget_offline_seconds = 5\n"
        "scheduler.node_health.reconnect_grace_seconds = 6",
        "forget_offline_seconds = 5",
        "reconnect_grace_seconds = 6",
    ),
    (
        "scheduler.model_not_available.debounce_window_seconds = 61",
        "unavailable_ttl_seconds = 60",
        "debounce_window_seconds = 61",
    ),
    (
        "limits.session_queue = 32\nlimits.max_inflight_per_session = 33",
        "session_queue = 32",
        "max_inflight_per_session = 33",
    ),
    (
        "scheduler.web_task_segmentation.max_bytes = 100001\nlimits.session_queue_bytes = 100000",
        "session_queue_bytes = 100000",
        "max_bytes = 100001",
    ),
    ("limits.max_frame_bytes = 65536", "max_frame_bytes = 65536", "max_bytes = 524288"),
    (
        "scheduler.web_task_segmentation.max_bytes = 3200000",
        "max_frame_bytes = 4194304",
        "max_bytes = 3200000",
    ),
    (
        "limits.max_frame_bytes = 8388609",
        "session_queue_bytes = 8388608",
        "max_frame_bytes = 8388609",
    ),
    (
        "limits.max_frame_bytes = 33554433\nlimits.session_queue_bytes = 33554433",
        "node_queue_bytes = 33554432",
        "max_frame_bytes = 33554433",
    ),
    (
        "limits.buffered_bytes = 1048576\nlimits.max_frame_bytes = 1048577",
        "buffered_bytes = 1048576",
        "max_frame_bytes = 1048577",
    ),
    (
        "limits.buffered_bytes = 8388608\nlimits.session_queue_bytes = 8388609",
        "buffered_bytes = 8388608",
        "session_queue_bytes = 8388609",
    ),
    (
        "cluster.redis_timeout_ms = 5000\ncluster.reclaim_idle_ms = 4999",
        "reclaim_idle_ms = 4999",
        "redis_timeout_ms = 5000",
    ),
    (
        "lab.lease_seconds = 2\nlab.safety_tick_ms = 2000",
        "lease_seconds = 2",
        "safety_tick_ms = 2000",
    ),
    ("scheduler.service_catalog.refresh_seconds = 301", "max_refresh_seconds", "refresh_seconds"),
    ("scheduler.stats.snapshot_seconds = 11", "stale_after_seconds", "snapshot_seconds"),
    (
        "scheduler.pools.max_cells = 2\nscheduler.pools.tenant_cells = { acme = [0, 2] }",
        "tenant_cells = { acme = [0, 2] }",
        "max_cells = 2",
    ),
    ("cluster.owner_ttl_seconds = 29", "owner_ttl_seconds", "presence_ttl_seconds"),
    ("cluster.redis_timeout_ms = 30000", "presence_ttl_seconds", "redis_timeout_ms"),
    ("lab.item_concurrency = 501", "max_item_concurrency", "item_concurrency"),
    (
        "scheduler.canary.routes = ["
        '{pair = "en:es", stage = "asr", service = "ear@2", share = 0.6},'
        '{pair = "EN:es", stage = "tts", service = "voice@2", share = 0.6}]',
        "canary.routes = [",
        "add up to 1",
    ),
    ('lab.live_sample.tenants = ["acme"]', 'tenants = ["acme"]', "evaluators = []"),
]


def broken_rules(text: str) -> list[Rule]:
    settings = Settings.model_validate(tomllib.loads(text))
    return [rule for rule in RULES if not rule.holds(settings)]


@pytest.mark.parametrize(("text", "first", "second"), CONTRADICTORY)
def test_a_contradiction_is_refused_and_names_both_keys_with_their_sources(
    text: str, first: str, second: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(environ={}, flags=tomllib.loads(text))
    [line] = refused.value.message.splitlines()
    assert first in line
    assert second in line
    assert "(flag --" in line
    assert "; " in line, "a remedy follows the reason"


def test_every_rule_is_broken_by_some_example() -> None:
    broken = [rule for text, _, _ in CONTRADICTORY for rule in broken_rules(text)]
    assert [rule.keys for rule in RULES if rule not in broken] == []


def test_equal_times_are_allowed_where_nothing_is_lost_by_it() -> None:
    timeouts = {"total_seconds": 5, "run_seconds": 5, "ack_seconds": 5, "pending_seconds": 5}
    load_settings(environ={}, flags={"scheduler": {"job_timeout": timeouts}})


def test_a_shorter_total_time_needs_no_other_time_set_beside_it() -> None:
    load_settings(environ={}, flags=nested({"scheduler.job_timeout.total_seconds": 6}))


def test_a_key_that_is_refused_for_itself_is_not_also_called_contradictory() -> None:
    environ = {"DRAGOMAN_SCHEDULER__JOB_TIMEOUT__ACK_SECONDS": "soon"}
    flags = nested({"scheduler.job_timeout.total_seconds": 40})
    with pytest.raises(SettingsError) as refused:
        load_settings(environ=environ, flags=flags)
    assert len(refused.value.message.splitlines()) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"])
def test_open_mode_is_fine_where_only_this_machine_can_connect(host: str) -> None:
    check_exposure(load_settings(environ={}, flags={"server": {"host": host}}).settings)


@pytest.mark.parametrize("auth", [{"mode": "keys"}, {"insecure": True}])
def test_another_address_needs_keys_or_an_explicit_word(auth: dict[str, object]) -> None:
    flags = {"server": {"host": "0.0.0.0"}, "auth": auth}
    check_exposure(load_settings(environ={}, flags=flags).settings)


def test_exposure_is_refused_with_the_ways_out() -> None:
    settings = Settings.model_validate({"server": {"host": "0.0.0.0"}})
    with pytest.raises(SettingsError) as refused:
        check_exposure(settings)
    for remedy in ['auth.mode = "keys"', "127.0.0.1", "auth.insecure = true"]:
        assert remedy in refused.value.message
