"""The names and defaults that are promised to the outside."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.settings import Settings, load_settings
from dragoman.settings.kinds import as_toml, plain
from dragoman.settings.tree import KEYS, value_of

PROMISED = """
    [server]        host = "127.0.0.1"  port = 8080  data_dir = ".dragoman"  drain_seconds = 30
                    drain_delay_seconds = 0
                    tls_cert = ""  tls_key = ""  trusted_proxies = []  allowed_origins = []
    [auth]          mode = "open"  insecure = false  sign_in_hours = 12
    [auth.oidc]     issuer = ""  client_id = ""  client_secret_file = ""
                    name = "Single sign-on"  scopes = ["profile", "email"]
                    role_claim = "roles"  roles = {}  tenant_claim = ""
    [store]         database_url = "sqlite:///{data_dir}/dragoman.db"
    [audit]         retention_days = 365
    [log]           level = "info"  format = "console"
    [tracing]       enabled = false  endpoint = ""
    [limits]        max_frame_bytes = 4194304  max_sessions = 10000  sessions_per_tenant = 0
                    max_inflight_per_session = 64  max_inflight_per_tenant = 0
                    pending_per_pair = 1000  session_queue = 256  session_queue_bytes = 8388608
                    listeners_per_session = 10000
                    node_queue = 1024  node_queue_bytes = 33554432  buffered_bytes = 1073741824
                    messages_per_second = 500  node_messages_per_second = 20000
                    auth_failures_per_minute = 30  sign_ins_per_minute = 30
                    open_requests_per_minute = 1200
                    sockets_per_address = 20000  sockets_per_key = 20000
                    request_header_seconds = 15  request_body_seconds = 60
    [scheduler]     max_concurrent_jobs_per_node = 4  job_retention_seconds = 600
                    explain_max = 10000
    [scheduler.task_binding]           lease_seconds = 90  reserved_ttl_seconds = 90
                                       spread_enabled = false  spread_window_seconds = 30
    [scheduler.web_task_segmentation]  pause_ms = 1000  max_duration_ms = 10000
                                       max_bytes = 524288
                                       hangover_auto_ms = 150  hangover_manual_ms = 200
                                       padding_auto_ms = 220  padding_manual_ms = 280
                                       vad = "off"  min_speech_ms = 120  pre_roll_ms = 200
                                       speech_pause_ms = 500  max_silero_sessions = 8
    [scheduler.session]                heartbeat_interval_seconds = 30
                                       heartbeat_timeout_seconds = 90
    [scheduler.delivery]               reorder_window = 200  gap_grace_ms = 10000
                                       timeline_max = 20000
                                       resume_grace_seconds = 60
    [scheduler.job_timeout]            pending_seconds = 10  ack_seconds = 5  run_seconds = 30
                                       total_seconds = 60  cancel_grace_seconds = 5
                                       failover_max_attempts = 3
    [scheduler.node_health]            heartbeat_interval_seconds = 15
                                       heartbeat_timeout_seconds = 45
                                       reconnect_grace_seconds = 2  ready_after = 1  window = 5
                                       window_failures = 3  consecutive_failures = 3
                    resource_threshold_percent = {cpu = 85, mem = 85, gpu = 85, gpu_mem = 0}
                                       breaker_failures = 0.6  breaker_window = 10
                                       forget_offline_seconds = 3600
    [scheduler.pools]                  rule = "asr_tts"  cell_size = 100  max_cells = 1000
                                       choice = "random"  tenant_cells = {}
    [scheduler.selection]              strategy = "random"  affinity_ttl_seconds = 10
                                       batch_headroom = 0.25  batch_max_preemptions = 3
                                       prefer_local = true
    [scheduler.model_not_available]    unavailable_ttl_seconds = 60  debounce_window_seconds = 5
                                       node_ratelimit_window_seconds = 10
                                       node_ratelimit_max = 30  queue = 10000
    [scheduler.service_catalog]        url = ""  refresh_seconds = 30  timeout_seconds = 5
                                       backoff_after = 3  max_refresh_seconds = 300
                                       local_index = ""
    [scheduler.stats]                  snapshot_seconds = 5  stale_after_seconds = 10
                                       cold_window_seconds = 30
    [scheduler.observability]          lock_wait_warn_ms = 10  path_warn_ms = 50  top_k = 20
    [scheduler.canary]                 routes = []
    [scheduler.glossary]               terms_per_tenant = 1000  terms_per_job = 100
                                       bytes_per_job = 8192  refresh_seconds = 2
    [scheduler.context]                utterances = 3  max_bytes = 2048  tenants_without = []
    [cluster]                          enabled = false  redis_url = "redis://127.0.0.1:6379"
                                       redis_cluster = false  key_prefix = "dragoman:v1"
                                       instance_id = "auto"  advertise_host = ""
                                       redis_timeout_ms = 1000
                                       presence_ttl_seconds = 30  owner_ttl_seconds = 45
                                       reconcile_seconds = 5  stream_maxlen = 10000
                                       reclaim_idle_ms = 5000  dlq_max_deliveries = 10
                                       dlq_maxlen = 10000
    [lab]  enabled = true  analytics_url = "duckdb:///{data_dir}/lab.duckdb"  queue_url = ""
           item_concurrency = 8  max_item_concurrency = 500  running_experiments = 200
           lease_seconds = 30  safety_tick_ms = 1000  item_timeout_seconds = 600
           tenant_tokens = 0  tenant_cost = 0  denied_words = []  max_items = 10000000
           python_allow = []  http_allow = []  retention_days = 0  tenant_weights = {}
           key_env_allow = []  cache_days = 30  cache_answers = 1000000
           ask_above_items = 1000  retention_experiments = 0  own_worker = true
    [lab.live_sample]  tenants = []  share = 0.01  pairs = []  evaluators = []
"""
"""The defaults of the documents, those of what is not built yet among them."""

TOKEN = re.compile(r'\[([a-z_.]+)\]|(\w+) = ("[^"]*"|\[\]|\["[^\]]*\]|\{[^}]*\}|[\w.]+)')


def promised() -> Iterator[tuple[str, Any]]:
    section = ""
    for heading, leaf, value in TOKEN.findall(PROMISED):
        if heading:
            section = heading
        else:
            yield f"{section}.{leaf}", tomllib.loads(f"value = {value}")["value"]


def test_every_promised_key_is_there_with_its_default_and_no_other() -> None:
    settings = Settings()
    assert dict(promised()) == {name: plain(value_of(settings, name)) for name in KEYS}


def test_a_file_of_every_promised_default_loads_and_sets_what_is_set_anyway(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    lines: list[str] = []
    for name, value in promised():
        section, _, leaf = name.rpartition(".")
        lines += [f"[{section}]"] * (f"[{section}]" not in lines) + [f"{leaf} = {as_toml(value)}"]
    file.write_text("\n".join(lines))
    assert load_settings(file, environ={}).settings == load_settings(environ={}).settings


def test_an_environment_of_every_promised_default_loads_too() -> None:
    environ = {
        f"DRAGOMAN_{name.upper().replace('.', '__')}": value
        if isinstance(value, str)
        else json.dumps(value)
        for name, value in promised()
    }
    assert load_settings(environ=environ).settings == load_settings(environ={}).settings


def test_every_key_says_what_it_means_in_a_sentence() -> None:
    for key in KEYS.values():
        assert re.fullmatch(r"[A-Z`].{10,}\.", key.meaning), key.name


def test_every_time_and_size_carries_its_unit_in_words() -> None:
    units = {"_seconds": "seconds", "_ms": "milliseconds", "_bytes": "byte"}
    for key in KEYS.values():
        for ending, word in units.items():
            if key.leaf.endswith(ending):
                assert word in key.meaning, key.name


def test_the_defaults_alone_are_good_settings() -> None:
    loaded = load_settings(environ={})
    assert set(loaded.sources.values()) == {"default"}
    assert loaded.settings.store.database_url == "sqlite:///.dragoman/dragoman.db"


def test_settings_do_not_change_once_they_are_read() -> None:
    settings = load_settings(environ={}).settings
    with pytest.raises(ValidationError):
        settings.server.port = 9000
