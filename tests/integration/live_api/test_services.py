"""Jobs that ask for services by name, over real sockets."""

from __future__ import annotations

import pytest
from tests.integration.live_api.manual_node import Body, Caller, ManualNode, problem
from tests.integration.serve.server_process import ServerProcess, run

from dragoman.live.protocol import TranslationResult
from dragoman.sdk import talk

Pair = tuple[str, str]


def versions(**by_stage: str) -> list[Body]:
    """Services of a node, one for each stage, as ``id@version``."""
    return [
        {
            "service_id": name.partition("@")[0],
            "version": name.partition("@")[2],
            "type": stage,
            "device": "cpu",
            "status": "running",
        }
        for stage, name in by_stage.items()
    ]


OLD = versions(asr="ear@1", nmt="m2m@1", tts="voice@1")
NEW = versions(asr="ear@2", nmt="m2m@2", tts="voice@1")


def test_a_job_reaches_the_version_that_it_names_and_no_other(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with (
        ManualNode(server, pair, services=OLD, slots=9) as old,
        ManualNode(server, pair, services=NEW, slots=9) as new,
    ):
        for node, name in ((old, "m2m@1"), (new, "m2m@2")) * 3:
            answer = caller.ask(pair, services={"nmt": name, "tts": "not used"})
            assert answer.status_code == 201, answer.text
            assert answer.json()["services"] == {"nmt": name}
            job = node.take()
            assert job["services"] == {"nmt": name}
            node.succeed(job, text_translated="hola")
        plain = caller.ask(pair).json()
        assert plain["services"] == {}
        explained = caller.get(f"/jobs/{answer.json()['job_id']}/explain").json()
        (attempt,) = explained["attempts"]
        assert attempt["services"] == {"nmt": "m2m@2"}
        assert attempt["chosen"] == new.node_id
        assert attempt["reasons"]["service_missing"]["nodes"] == [old.node_id]


def test_a_service_that_no_node_has_is_refused_by_name(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair, services=OLD):
        answer = caller.ask(pair, services={"nmt": "m2m@2"})
        assert problem(answer) == (503, "NO_AVAILABLE_NODE")
        error = answer.json()["error"]
        assert "nmt m2m@2" in error["message"]
        assert error["details"]["reasons"]["service_missing"] == 1
        assert error["details"]["services"] == {"nmt": "m2m@2"}
        job_id = error["details"]["job_id"]
        code, out, _ = run("jobs", "explain", job_id, "--url", server.url)
        assert code == 0
        assert "with nmt m2m@2, no node was chosen" in out
        assert "service_missing" in out
        _, out, _ = run("jobs", "show", job_id, "--url", server.url)
        assert "nmt m2m@2" in out


@pytest.mark.parametrize(
    ("services", "field"),
    [
        ({"hearing": "ear"}, "services"),
        ({"nmt": "@1"}, "services.nmt"),
        ({"nmt": ""}, "services.nmt"),
        ({"nmt": 5}, "services"),
        ("m2m", "services"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused_with_its_field(
    caller: Caller, pair: Pair, services: object, field: str
) -> None:
    answer = caller.ask(pair, services=services)
    assert problem(answer) == (422, "INVALID_MESSAGE")
    assert field in answer.json()["error"]["message"]


def test_a_session_of_the_sdk_asks_for_services(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    source, target = pair
    with (
        ManualNode(server, pair, services=OLD),
        ManualNode(server, pair, services=NEW) as new,
        talk(server.url, src_lang=source, tgt_lang=target, services={"nmt": "m2m@2"}) as session,
    ):
        results = session.results()
        for _ in range(4):
            session.say("hello")
            job = new.take()
            assert job["services"] == {"nmt": "m2m@2"}
            new.succeed(job, text_translated="hola")
            result = next(results)
            assert isinstance(result, TranslationResult)
            assert result.node_id == new.node_id


def test_say_takes_the_services_that_it_is_told_to(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    said = ("say", "--text", "hello", "--from", pair[0], "--to", pair[1], "--url", server.url)
    with ManualNode(server, pair, services=OLD):
        code, _, err = run(*said, "--service", "nmt=m2m@2")
        assert code == 1
        assert "nmt m2m@2" in err
        assert "service_missing: 1 node" in err
    for wrong, hint in (("nmt", "asr=whisper@2"), ("ear=x", "no stage"), ("nmt=@", "service_id")):
        code, _, err = run(*said, "--service", wrong)
        assert code == 2
        assert hint in err
