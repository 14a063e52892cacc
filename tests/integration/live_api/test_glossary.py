"""A tenant's glossary: from the API and the command line to the node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.live_api.manual_node import Body, Caller, ManualNode, problem
from tests.integration.serve.server_process import ServerProcess, environment, run

Pair = tuple[str, str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(DRAGOMAN_AUTH__MODE="keys")
    with ServerProcess(tmp_path_factory.mktemp("words") / "data", env=env) as server:
        yield server


@pytest.fixture(scope="module")
def keys(server: ServerProcess) -> dict[str, str]:
    made = {}
    for name, role in (("node", "node"), ("red", "client"), ("blue", "client"), ("op", "operator")):
        options = ("--role", role, "--tenant", name, "--data-dir", server.data_dir)
        made[name] = run("keys", "create", *options)[1].splitlines()[-1]
    return made


@pytest.fixture
def callers(server: ServerProcess, keys: dict[str, str]) -> Iterator[dict[str, Caller]]:
    made = {name: Caller(server, key) for name, key in keys.items()}
    yield made
    for caller in made.values():
        caller.close()


def entry(pair: Pair, term: str, translation: str | None = None) -> Body:
    found: Body = {"src_lang": pair[0], "term": term}
    if translation is not None:
        found |= {"tgt_lang": pair[1], "translation": translation}
    return found


def test_a_job_carries_the_words_of_its_tenant(
    server: ServerProcess, keys: dict[str, str], callers: dict[str, Caller], pair: Pair
) -> None:
    red, blue = callers["red"], callers["blue"]
    items = [entry(pair, "gate", "puerta"), entry(pair, "Dragoman")]
    answer = red.put("/glossary", {"items": items})
    assert answer.status_code == 200, answer.text
    assert [one["term"] for one in answer.json()["items"]] == ["gate", "Dragoman"]
    with ManualNode(server, pair, key=keys["node"], slots=9) as node:
        assert red.ask(pair, text="at the gate").status_code == 201
        words = node.take()["glossary"]
        assert {"term": "gate", "translation": "puerta"} in words
        assert {"term": "Dragoman"} in words
        assert blue.ask(pair).status_code == 201
        assert "glossary" not in node.take()
        gone = {"src_lang": pair[0], "tgt_lang": pair[1], "term": "gate"}
        assert red.delete("/glossary", **gone).status_code == 204
        assert problem(red.delete("/glossary", **gone)) == (404, "NOT_FOUND")
        assert red.ask(pair, text="at the gate").status_code == 201
        assert node.take()["glossary"] == [{"term": "Dragoman"}]


def test_a_glossary_is_its_tenants_own(callers: dict[str, Caller], pair: Pair) -> None:
    red, blue, operator = callers["red"], callers["blue"], callers["op"]
    assert red.put("/glossary", {"items": [entry(pair, "mine")]}).status_code == 200
    seen = {"src_lang": pair[0]}
    assert [one["term"] for one in red.get("/glossary", **seen).json()["items"]] == ["mine"]
    assert blue.get("/glossary", **seen).json()["items"] == []
    assert problem(blue.get("/glossary", tenant_id="red")) == (403, "FORBIDDEN")
    refused = blue.put("/glossary", {"items": [entry(pair, "x")], "tenant_id": "red"})
    assert problem(refused) == (403, "FORBIDDEN")
    assert problem(callers["node"].get("/glossary")) == (403, "FORBIDDEN")
    shown = operator.get("/glossary", tenant_id="red", **seen).json()["items"]
    assert [one["term"] for one in shown] == ["mine"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "items"),
        ({"items": []}, "items"),
        ({"items": [{"term": "a"}]}, "src_lang"),
        ({"items": [{"src_lang": "en", "term": ""}]}, "items[0].term"),
        ({"items": [{"src_lang": "e n", "term": "a"}]}, "src_lang"),
        ({"items": [{"src_lang": "en", "term": "a", "colour": 1}]}, "colour"),
        ({"items": [{"src_lang": "en", "term": "a", "translation": "b"}]}, "tgt_lang"),
    ],
)
def test_a_glossary_that_makes_no_sense_is_refused(
    callers: dict[str, Caller], body: Body, field: str
) -> None:
    answer = callers["red"].put("/glossary", body)
    assert problem(answer) == (422, "INVALID_MESSAGE")
    assert field in answer.json()["error"]["message"]


def test_a_list_of_terms_comes_in_pages(callers: dict[str, Caller], pair: Pair) -> None:
    blue = callers["blue"]
    items = [entry(pair, f"t{number:02}") for number in range(25)]
    assert blue.put("/glossary", {"items": items}).status_code == 200
    seen: list[str] = []
    cursor: Body = {}
    while True:
        page = blue.get("/glossary", limit=10, src_lang=pair[0], **cursor).json()
        seen += [one["term"] for one in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == [one["term"] for one in items]


def test_the_command_line_lists_sets_removes_and_imports(
    server: ServerProcess, keys: dict[str, str], pair: Pair, tmp_path: Path
) -> None:
    way = ("--url", server.url, "--token", keys["red"])
    languages = ("--from", pair[0], "--to", pair[1])
    code, out, err = run("glossary", "set", "gate", "puerta", *languages, *way)
    assert (code, err) == (0, "")
    assert "gate -> puerta" in out
    file = tmp_path / "words.csv"
    file.write_text("term,translation\nboarding pass,tarjeta de embarque\nDragoman,\n")
    code, out, err = run("glossary", "import", file, *languages, *way)
    assert code == 0, err
    assert "2 terms were set" in out
    _, out, _ = run("glossary", "list", "--from", pair[0], *way)
    assert "tarjeta de embarque" in out
    assert "Dragoman" in out
    lines = tmp_path / "words.jsonl"
    lines.write_text(json.dumps({"term": "fare", "src_lang": pair[0]}))
    assert run("glossary", "import", lines, *way)[0] == 0
    assert run("glossary", "remove", "gate", *languages, *way)[0] == 0
    code, _, err = run("glossary", "remove", "gate", *languages, *way)
    assert code == 1
    assert "no term 'gate'" in err
    file.write_text("word,translation\na,b\n")
    code, _, err = run("glossary", "import", file, *languages, *way)
    assert code == 2
    assert "line 2" in err
