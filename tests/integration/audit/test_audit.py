"""The audit log: who did what, when and how it ended; kept, shown, and never lost in silence."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.serve.server_process import ServerProcess, environment, run
from tests.servers import DATABASES, fresh_database

from dragoman.api.audit_trail import AUDITED, ORDINARY, action_of
from dragoman.api.contract import contract
from dragoman.audit import AuditEntry, AuditFilter, AuditLog, AuditOutcome, AuditStore
from dragoman.audit.log import MAX_WAITING
from dragoman.clock import ManualClock
from dragoman.errors import DependencyDown, StoreError
from dragoman.store import Store, Work, open_store


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(DRAGOMAN_AUTH__MODE="keys")
    with ServerProcess(tmp_path_factory.mktemp("audit") / "data", env=env, lab=True) as running:
        yield running


def new_key(server: ServerProcess, role: str) -> tuple[str, str]:
    """A new key, and its id."""
    code, output, errors = run(
        "keys", "create", "--role", role, "--json", "--data-dir", server.data_dir
    )
    assert code == 0, errors
    made = json.loads(output)
    return made["key"], made["key_id"]


class Holder:
    """Asks with a key of its own."""

    def __init__(self, server: ServerProcess, role: str) -> None:
        self.key, self.key_id = new_key(server, role)
        self._url = f"{server.url}/api/v1"

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.request(method, self._url + path, headers=headers, timeout=60, **options)

    def entries(self, **asked: str) -> list[dict[str, Any]]:
        answer = self.ask("GET", "/audit", params=asked)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["items"]
        return found


@pytest.fixture(scope="module")
def operator(server: ServerProcess) -> Holder:
    return Holder(server, "operator")


def test_every_route_that_changes_something_is_kept_or_known_to_be_ordinary() -> None:
    paths = asyncio.run(contract())["paths"]
    changing = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in paths.items()
        for method in methods
        if method in ("post", "put", "patch", "delete")
    }
    kept = {asked for asked in AUDITED if asked[0] != "GET"}
    assert changing == kept | ORDINARY


def test_an_action_is_found_with_its_subject_whatever_the_id() -> None:
    assert action_of("POST", "/api/v1/nodes/a/b/drain") == ("node.drain", "a/b")
    assert action_of("DELETE", "/api/v1/experiments/e-1") == ("experiment.delete", "e-1")
    both = action_of("DELETE", "/api/v1/experiments/e-1/annotations/n-1")
    assert both == ("annotation.delete", "e-1/n-1")
    assert action_of("GET", "/api/v1/nodes/a") is None
    assert action_of("POST", "/api/v1/jobs") is None


def test_an_action_is_kept_with_its_actor_its_subject_and_its_end(
    server: ServerProcess, operator: Holder
) -> None:
    term = {"src_lang": "en", "tgt_lang": "es", "term": "node", "translation": "nodo"}
    assert operator.ask("PUT", "/glossary", json={"items": [term]}).status_code == 200
    [entry] = operator.entries(action="glossary.set", actor=operator.key_id)
    assert (entry["outcome"], entry["role"], entry["address"]) == ("done", "operator", "127.0.0.1")
    assert entry["facts"]["terms"] == 1
    assert entry["facts"]["glossary_of"] == "default"

    assert operator.ask("POST", "/nodes/gone/drain", json={"reason": "hot"}).status_code == 404
    [entry] = operator.entries(action="node.drain", subject="gone")
    assert (entry["actor"], entry["outcome"]) == (operator.key_id, "refused")
    assert (entry["facts"]["status"], entry["facts"]["reason"]) == (404, "hot")


@pytest.mark.parametrize(
    ("method", "path", "action", "subject"),
    [
        ("POST", "/nodes/x/resume", "node.resume", "x"),
        ("POST", "/nodes/x/shutdown", "node.shutdown", "x"),
        ("DELETE", "/sessions/s-x", "session.end", "s-x"),
        ("DELETE", "/jobs/j-x", "job.cancel", "j-x"),
        ("POST", "/cluster/dead-letters/1-0/replay", "dead_letter.replay", "1-0"),
        ("DELETE", "/cluster/dead-letters/1-0", "dead_letter.drop", "1-0"),
        ("POST", "/experiments/e-x/kill", "experiment.kill", "e-x"),
        ("DELETE", "/experiments/e-x", "experiment.delete", "e-x"),
        ("DELETE", "/datasets/d-x", "dataset.delete", "d-x"),
        ("DELETE", "/lab/cache", "lab.clear_cache", ""),
    ],
)
def test_actions_on_both_planes_are_kept(
    operator: Holder, method: str, path: str, action: str, subject: str
) -> None:
    status = operator.ask(method, path).status_code
    [entry] = operator.entries(action=action, subject=subject)
    assert entry["facts"]["status"] == status
    assert entry["outcome"] == ("done" if status < 400 else "refused")


def test_an_attempt_without_the_right_is_kept_and_one_without_a_key_is_not(
    server: ServerProcess, operator: Holder
) -> None:
    viewer = Holder(server, "viewer")
    assert viewer.ask("POST", "/nodes/forbidden/drain").status_code == 403
    [entry] = operator.entries(subject="forbidden")
    assert (entry["actor"], entry["outcome"]) == (viewer.key_id, "refused")
    assert httpx.post(f"{server.url}/api/v1/nodes/nobody/drain", timeout=60).status_code == 401
    assert operator.entries(subject="nobody") == []


@pytest.mark.parametrize("role", ["client", "evaluator", "node"])
def test_others_do_not_read_it(server: ServerProcess, role: str) -> None:
    assert Holder(server, role).ask("GET", "/audit").status_code == 403


def test_a_viewer_reads_it(server: ServerProcess, operator: Holder) -> None:
    assert operator.ask("POST", "/nodes/for-viewers/drain").status_code == 404
    [entry] = Holder(server, "viewer").entries(subject="for-viewers")
    assert (entry["action"], entry["actor"]) == ("node.drain", operator.key_id)


def test_keys_that_are_made_rotated_and_revoked_are_kept_without_the_key(
    server: ServerProcess, operator: Holder
) -> None:
    key, key_id = new_key(server, "client")
    data = ("--data-dir", server.data_dir)
    code, output, errors = run("keys", "rotate", key_id, "--overlap", "1h", "--json", *data)
    assert code == 0, errors
    successor = json.loads(output)
    assert run("keys", "revoke", key_id, *data)[0] == 0
    assert run("keys", "revoke", key_id, *data)[0] == 0, "again, which changes nothing"
    found = operator.entries(subject=key_id)
    assert [entry["action"] for entry in found] == ["key.revoke", "key.rotate", "key.create"]
    assert all(entry["actor"].startswith("cli:") for entry in found)
    assert found[1]["facts"]["new_key"] == successor["key_id"]
    assert key not in json.dumps(found)
    assert successor["key"] not in json.dumps(found)


def test_signing_in_and_out_is_kept(server: ServerProcess, operator: Holder) -> None:
    key, key_id = new_key(server, "viewer")
    with httpx.Client(base_url=server.url, timeout=60) as browser:
        me = browser.post("/api/v1/sign-in", json={"key": key}).json()
        browser.post("/api/v1/sign-out", headers={"X-CSRF-Token": me["csrf_token"]})
    found = operator.entries(actor=key_id)
    assert [entry["action"] for entry in found] == ["sign_out", "sign_in"]
    assert found[0]["facts"]["browser"] is True


def test_the_list_comes_in_pages_newest_first(operator: Holder) -> None:
    for number in range(5):
        operator.ask("POST", f"/nodes/page-{number}/resume")
    everything = [entry["entry_id"] for entry in operator.entries(action="node.resume")]
    paged: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        asked = {"action": "node.resume", "limit": "2", **cursor}
        page = operator.ask("GET", "/audit", params=asked).json()
        paged += [entry["entry_id"] for entry in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert paged == everything
    assert len(paged) >= 5


def test_a_command_shows_it(server: ServerProcess, operator: Holder) -> None:
    operator.ask("POST", "/nodes/on-the-list/resume")
    asked = ("--subject", "on-the-list", "--url", server.url, "--token", operator.key)
    code, output, errors = run("audit", *asked)
    assert code == 0, errors
    assert operator.key_id in output
    assert "node.resume" in output
    code, output, _ = run("audit", "--json", *asked)
    assert json.loads(output)[0]["subject"] == "on-the-list"


@pytest.mark.parametrize("text", ["\x00null", "\ud800half", "ä" * 500, "'; DROP TABLE api_key"])
def test_no_id_that_a_caller_makes_up_breaks_it(operator: Holder, text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    path = "".join(f"%{byte:02x}" for byte in raw)
    before = len(operator.entries(action="node.resume"))
    assert operator.ask("POST", f"/nodes/{path}/resume").status_code == 404
    assert len(operator.entries(action="node.resume")) == before + 1


# --- the store ------------------------------------------------------------------------------------


def entry_at(at_ms: int, entry_id: str, **changes: Any) -> AuditEntry:
    facts: dict[str, Any] = {
        "entry_id": entry_id,
        "at_ms": at_ms,
        "actor": "k-1",
        "role": "operator",
        "tenant": "default",
        "address": "192.0.2.1",
        "action": "node.drain",
        "subject": "n-1",
        "outcome": AuditOutcome.DONE,
        "facts": {"status": 200},
    }
    return AuditEntry(**(facts | changes))


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_database(request.param, request, tmp_path)


def test_entries_are_filtered_paged_and_forgotten_on_every_database(database_url: str) -> None:
    async def scenario() -> None:
        async with await open_store(database_url) as store:
            kept = AuditStore(store)
            first, second = entry_at(1000, "e-1"), entry_at(2000, "e-2", actor="k-2")
            third = entry_at(2000, "e-3", outcome=AuditOutcome.REFUSED, subject="n-2")
            await kept.add([first, second])
            await kept.add([second, third])  # as after an answer that was lost
            assert await kept.page(10, AuditFilter()) == [third, second, first]
            assert await kept.page(1, AuditFilter(), (2000, "e-3")) == [second]
            assert await kept.page(10, AuditFilter(actor="k-2")) == [second]
            assert await kept.page(10, AuditFilter(subject="n-2")) == [third]
            assert await kept.page(10, AuditFilter(outcome=AuditOutcome.REFUSED)) == [third]
            assert await kept.page(10, AuditFilter(from_ms=1000, to_ms=2000)) == [first]
            assert await kept.remove_before(2000) == 1
            assert await kept.page(10, AuditFilter()) == [third, second]

    asyncio.run(scenario())


class BrokenStore(Store):
    """A database that is down until it is brought back."""

    def __init__(self, behind: Store) -> None:
        self._behind = behind
        self.is_down = True

    async def write(self, work: Work[Any], *, urgent: bool = False) -> Any:
        if self.is_down:
            raise StoreError("the database is down")
        return await self._behind.write(work, urgent=urgent)

    async def read(self, work: Work[Any]) -> Any:
        return await self._behind.read(work)

    async def close(self) -> None:
        await self._behind.close()


def test_what_a_failing_database_does_not_take_is_logged_at_once_and_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    url = fresh_database("sqlite", request, tmp_path)

    async def scenario() -> None:
        async with BrokenStore(await open_store(url)) as store:
            kept = AuditStore(store)
            clock = ManualClock()
            async with AuditLog(kept, clock, retention_days=0, retry_seconds=0.01) as log:
                with caplog.at_level(logging.ERROR):
                    await log.record(entry_at(1000, "e-1", subject="the node"))
                [said] = [one for one in caplog.records if one.message == "audit_not_written"]
                assert said.__dict__["fields"]["subject"] == "the node"
                assert log.waiting == 1
                store.is_down = False
                async with asyncio.timeout(30):
                    while log.waiting:  # noqa: ASYNC110 - the log tells nobody when it is done
                        await asyncio.sleep(0.01)
                assert [one.entry_id for one in await kept.page(10, AuditFilter())] == ["e-1"]

    asyncio.run(scenario())


def test_nothing_more_is_done_when_too_much_waits_and_what_is_lost_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    url = fresh_database("sqlite", request, tmp_path)

    async def scenario() -> None:
        async with BrokenStore(await open_store(url)) as store:
            async with AuditLog(AuditStore(store), ManualClock(), retention_days=0) as log:
                for number in range(MAX_WAITING):
                    log.check_room()
                    await log.record(entry_at(number, f"e-{number}"))
                with pytest.raises(DependencyDown, match="audit log"):
                    log.check_room()
                caplog.clear()
            assert caplog.text.count("audit_lost") == MAX_WAITING

    asyncio.run(scenario())


def test_entries_are_forgotten_after_their_days(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = fresh_database("sqlite", request, tmp_path)

    async def scenario() -> None:
        async with await open_store(url) as store:
            clock, kept = ManualClock(), AuditStore(store)
            log = AuditLog(kept, clock, retention_days=2)
            await log.record(entry_at(clock.now_ms(), "e-old"))
            clock.advance(24 * 3600)
            await log.record(entry_at(clock.now_ms(), "e-new"))
            assert await log.prune() == 0
            clock.advance(24 * 3600 + 1)
            assert await log.prune() == 1
            assert [one.entry_id for one in await kept.page(10, AuditFilter())] == ["e-new"]

    asyncio.run(scenario())
