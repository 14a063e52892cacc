"""Every way a settings file can be wrong is answered with a sentence that helps."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.errors import SettingsError
from dragoman.settings import load_settings

# A broken file, and what the answer must hold besides the name of the file.
BROKEN = [
    # Keys that do not exist.
    ("[server]\nprot = 8080", ["server.prot", "not a known key", "did you mean server.port?"]),
    ("[serverr]\nport = 8080", ["serverr", "did you mean server?"]),
    ("[scheduler]\nack_seconds = 5", ["did you mean scheduler.job_timeout.ack_seconds?"]),
    ("[server]\nzzz = 1", ["server.zzz", "not a known key", "dragoman config show"]),
    ("port = 8080", ["port is not a known key", "did you mean server.port?"]),
    ("server = 8080", ["server is a section", "[server]"]),
    # Values of the wrong type.
    ('[server]\nport = "8080"', ['server.port = "8080"', "whole number", "port = 8080"]),
    ("[server]\nport = 80.5", ["server.port", "whole number"]),
    ("[server]\nport = true", ["server.port", "whole number"]),
    ("[server]\nhost = 127", ["server.host = 127", "text in quotes"]),
    ("[server]\nport = { number = 1 }", ["server.port", "whole number"]),
    ("[server]\ndata_dir = 5", ["server.data_dir", "text in quotes"]),
    ('[auth]\ninsecure = "yes"', ["auth.insecure", "true or false"]),
    ('[lab]\ndenied_words = "bad"', ["lab.denied_words", "must be a list"]),
    ("[lab]\ndenied_words = [1]", ["lab.denied_words[0]", "text in quotes"]),
    ("[scheduler.pools]\ntenant_cells = [1]", ["tenant_cells", "must be a table"]),
    ('[scheduler.job_timeout]\nack_seconds = "5"', ["ack_seconds", "must be a number"]),
    # Tables in a list.
    ('[scheduler.canary]\nroutes = ["en:es"]', ["canary.routes[0]", "must be a table"]),
    *(
        (f"[scheduler.canary]\nroutes = [{{{route}}}]", [f"canary.routes[0]{words}"])
        for route, words in (
            ('pair="en:es", stage="asr", service="ear"', '["share"] = '),
            ('pair="en", stage="asr", service="ear", share=1', '["pair"] = "en" must match'),
            ('pair="en:es", stage="ear", service="ear", share=1', '["stage"] = "ear" must be'),
            ('pair="en:es", stage="asr", service="@", share=1', '["service"] = "@" must be'),
            ('pair="en:es", stage="asr", service="ear", share=2', '["share"] = 2 must be at most'),
            ('pair="en:es", stage="asr", service="a", share=1, of=1', '["of"] = 1 is not a known'),
        )
    ),
    # Impossible values.
    ("[scheduler.job_timeout]\nack_seconds = -1", ["ack_seconds = -1", "more than 0"]),
    ("[scheduler.job_timeout]\nack_seconds = 0", ["ack_seconds = 0", "more than 0"]),
    ("[scheduler.job_timeout]\nack_seconds = nan", ["ack_seconds", "finite"]),
    ("[scheduler.job_timeout]\ntotal_seconds = 1e12", ["total_seconds", "at most 31536000"]),
    ("[scheduler.delivery]\ngap_grace_ms = -5", ["gap_grace_ms", "at least 0"]),
    ("[server]\nport = 65536", ["server.port", "at most 65535"]),
    ("[server]\nport = -1", ["server.port", "at least 0"]),
    ('[server]\nhost = "http://here"', ["server.host", "without scheme"]),
    ("[scheduler.node_health]\nresource_threshold_percent = 101", ["percent", "at most 100"]),
    ("[scheduler.selection]\nbatch_headroom = 1.5", ["batch_headroom", "at most 1"]),
    ("[scheduler.pools]\ncell_size = 101", ["cell_size", "at most 100"]),
    ("[scheduler.pools]\ncell_size = 0", ["cell_size", "at least 1"]),
    ("[scheduler.pools]\nmax_cells = 1001", ["max_cells", "at most 1000"]),
    (
        "[scheduler.pools.tenant_cells]\nacme = [1000]",
        ['tenant_cells["acme"][0]', "less than 1000"],
    ),
    ("[scheduler.pools.tenant_cells]\nacme = []", ['tenant_cells["acme"]', "not be empty"]),
    ('[auth]\nmode = "key"', ["auth.mode", "'open' or 'keys'", 'did you mean "keys"?']),
    ('[scheduler.selection]\nstrategy = "best"', ["strategy", "least_loaded"]),
    ('[log]\nlevel = "loud"', ["log.level", "warning"]),
    ('[server]\ntrusted_proxies = ["proxy"]', ["trusted_proxies[0]", "IP address"]),
    ('[server]\nallowed_origins = ["https://a/b"]', ["allowed_origins[0]", "without a path"]),
    ('[cluster]\nkey_prefix = "a{b}"', ["cluster.key_prefix", "braces"]),
    # Addresses of other servers.
    ('[store]\ndatabase_url = "postgres://h/d"', ["store.database_url", "postgresql://"]),
    ('[store]\ndatabase_url = "dragoman.db"', ["store.database_url", "sqlite://"]),
    ('[store]\ndatabase_url = "sqlite://"', ["store.database_url", "sqlite:///path/to/file"]),
    ('[store]\ndatabase_url = "sqlite:///{dir}/d.db"', ["database_url", "{data_dir}"]),
    ('[store]\ndatabase_url = "postgresql:///d"', ["database_url", "name a host"]),
    ('[lab]\nqueue_url = "redis"', ["lab.queue_url", '"", "database", or', "redis://"]),
    ('[lab]\nqueue_url = "http://h"', ["lab.queue_url", "database", "redis://"]),
    ('[cluster]\nredis_url = "127.0.0.1:6379"', ["cluster.redis_url", "redis://"]),
    ('[cluster]\nredis_url = "redis://h:99999"', ["cluster.redis_url", "port"]),
    ('[scheduler.service_catalog]\nurl = "ftp://h"', ["service_catalog.url", "http://"]),
    # Files that are no settings at all.
    ("[server\nport = 1", ["not TOML", "line 1"]),
    ("[server]\nport = 1\nport = 2", ["not TOML", "line 3"]),
    (f"[server]\nport = {'9' * 5000}", ["not TOML", "5000 digits"]),
]


@pytest.fixture
def refusal(tmp_path: Path) -> Callable[[str], list[str]]:
    """The lines of the answer to a file with the given text; each names the file."""

    def refuse(text: str) -> list[str]:
        file = tmp_path / "dragoman.toml"
        file.write_text(text, encoding="utf-8")
        with pytest.raises(SettingsError) as refused:
            load_settings(file, environ={})
        lines = refused.value.message.splitlines()
        assert all(f"file {file}" in line for line in lines)
        return lines

    return refuse


@pytest.mark.parametrize(("text", "words"), BROKEN, ids=[text[:80] for text, _ in BROKEN])
def test_a_broken_file_is_refused_with_its_key_and_the_remedy(
    refusal: Callable[[str], list[str]], text: str, words: list[str]
) -> None:
    [line] = refusal(text)
    for word in words:
        assert word in line


def test_all_problems_of_a_file_come_at_once_one_a_line(
    refusal: Callable[[str], list[str]],
) -> None:
    lines = refusal(
        "[server]\nprot = 1\nport = 70000\n[log]\nlevel = 3\n"
        "[scheduler.job_timeout]\nrun_seconds = 100"
    )
    keys = ["server.prot", "server.port", "log.level", "scheduler.job_timeout.total_seconds"]
    assert len(lines) == len(keys)
    for key, line in zip(keys, lines, strict=True):
        assert key in line


def test_a_password_is_not_repeated_in_the_answer(refusal: Callable[[str], list[str]]) -> None:
    [line] = refusal('[cluster]\nredis_url = "redys://me:s3cret/@h:1"')
    assert "s3cret" not in line
    assert "redys://me:***@h:1" in line


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml: there is no such file"):
        load_settings(tmp_path / "nowhere.toml", environ={})


def test_a_folder_is_no_settings_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="this is a folder"):
        load_settings(tmp_path, environ={})


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="not a text file in UTF-8"):
        load_settings(file, environ={})
