"""``dragoman demo``: a server, a fleet and traffic, to look around in."""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
import subprocess
from itertools import permutations
from pathlib import Path

import httpx
from tests.documents.blocks import file_of
from tests.integration.live_api.manual_node import Caller, ManualNode
from tests.integration.serve.server_process import (
    DRAGOMAN,
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
)

from dragoman.api import live_parts, running_server
from dragoman.cli.demo.fleet import LANGUAGES, running_fleet
from dragoman.cli.demo.sample import sample_files
from dragoman.cli.demo.status import status_line
from dragoman.cli.demo.traffic import DemoTraffic, running_traffic
from dragoman.randomness import Randomness
from dragoman.settings import load_settings

DEMO = (DRAGOMAN, "demo")


def test_a_demo_answers_jobs_until_its_time_is_up(tmp_path: Path) -> None:
    options = ("--seconds", "5", "--real-nodes", "0")
    with ServerProcess(tmp_path / "data", *options, command=DEMO) as demo:
        caller = Caller(demo)
        answer = caller.ask(("en", "es"), wait_ms=10_000)
        nodes = caller.get("/nodes").json()["items"]
        pools = caller.get("/pools").json()["items"]
        caller.close()

        assert answer.status_code == 201
        assert answer.json()["result"]["text_translated"] == "[es, simulated] hello"
        assert len(nodes) == 12
        assert all(node["status"] == "ready" for node in nodes)
        assert len(pools) > 10
        assert demo.wait() == 0
        assert "Traceback" not in demo.all_output()


def test_real_nodes_alone_serve_english_to_spanish_and_a_dialogue_runs_through_them(
    tmp_path: Path,
) -> None:
    options = ("--nodes", "6", "--traffic", "5")
    with ServerProcess(tmp_path / "data", *options, command=DEMO) as demo:
        caller = Caller(demo)
        real = caller.ask(("en", "es"), text="Good morning", wait_ms=60_000).json()
        simulated = caller.ask(("en", "fr"), text="Good morning", wait_ms=60_000).json()
        speech = {"use_nmt": True, "use_tts": True}
        back = caller.ask(("es", "en"), text="la casa", pipeline=speech, wait_ms=60_000).json()
        pools = {pool["pair"]: pool for pool in caller.get("/pools").json()["items"]}
        caller.close()
        assert back["result"]["text_translated"] == "The house"
        assert back["result"]["tts_audio"]
        assert back["node_id"].startswith("local-")
        assert pools["es:en"]["nodes"] == 2
        assert "speech_to_text" not in pools["es:en"]["kinds"], "as the demo says"
        assert real["result"]["text_translated"] == "Buenos días"
        assert real["node_id"].startswith("local-")
        assert simulated["result"]["text_translated"] == "[fr, simulated] Good morning"
        assert pools["en:es"]["nodes"] == 2, "no simulated node is in the pool"
        assert demo.process.stdout is not None
        lines = iter(demo.process.stdout.readline, "")
        assert "Real: local-1, local-2 serve en:es" in next(lines)
        assert "They alone serve es:en too, from text" in next(lines)
        line = next(lines)
        assert "Simulated: 6 nodes, each between its own languages" in line
        [between] = re.findall(r"\((.+)\)", line)
        assert between == "en-fr-zh, de-en-fr, en-ja-zh, es-fr-zh"
        for group in between.split(", "):
            for source, target in permutations(group.split("-"), 2):
                assert len(pools[f"{source}:{target}"]["kinds"]) == 4, "text and speech, both ways"
        heard = next(line for line in lines if line.startswith("real  heard"))
        spoken = next(lines)
        assert "where is the train station" in heard
        assert re.search(r'es ".+", spoken in [1-9]\.\d s; after the end of speech: text', spoken)
        demo.signal(signal.SIGINT)
        assert demo.wait() == 0
        assert "Traceback" not in demo.all_output()


def test_a_machine_without_the_tools_is_told_how_to_get_them(tmp_path: Path) -> None:
    env = environment(PATH=str(tmp_path))
    options = ("--nodes", "1", "--traffic", "0")
    with ServerProcess(tmp_path / "data", *options, command=DEMO, env=env) as demo:
        assert demo.process.stdout is not None
        lines = [demo.process.stdout.readline() for _ in range(2)]
        assert "Simulated: all 1 nodes" in lines[0]
        assert "apt install" in lines[1]
        demo.signal(signal.SIGINT)
        assert demo.wait() == 0


def test_the_examples_of_a_demo_work_as_they_stand(tmp_path: Path) -> None:
    # A user may not have the program on their PATH; it is shown as it was called.
    env = environment(PATH="/usr/bin:/bin")
    options = ("--nodes", "1", "--real-nodes", "0", "--traffic", "0")
    with ServerProcess(tmp_path / "data", *options, command=DEMO, env=env) as demo:
        assert demo.process.stdout is not None
        lines = [demo.process.stdout.readline().strip() for _ in range(5)]
        assert lines[0].startswith("Simulated: all 1 nodes")
        assert f"{demo.url}/talk" in lines[1]
        curl = next(line for line in lines if line.startswith("curl "))
        words = shlex.split(curl)
        # What curl says of a body that it is given with -d.
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        body = words[words.index("-d") + 1].encode()
        url = next(word for word in words if word.startswith("http"))
        answer = httpx.post(url, content=body, headers=headers, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 201
        assert answer.json()["outcome"] == "success"
        assert answer.json()["result"]["tts_audio"] is None  # base64 would fill the terminal

        say = next(line for line in lines if " say " in line)
        said = subprocess.run(
            shlex.split(say), check=True, capture_output=True, text=True, env=env, timeout=60
        )
        assert "[es, simulated] Good morning" in said.stdout
        assert "engine      simulated" in said.stdout
        demo.signal(signal.SIGINT)
        assert demo.wait() == 0


def test_speakers_talk_fall_silent_lose_their_sockets_and_go_on(tmp_path: Path) -> None:
    settings = load_settings(
        flags={"server": {"port": 0, "data_dir": tmp_path}}, environ={}
    ).settings
    randomness = Randomness(7)
    random = randomness.stream("traffic")

    async def main() -> None:
        async with (
            running_server(settings, assemble=live_parts, randomness=randomness) as server,
            running_fleet(server.url.replace("http", "ws", 1), 6, randomness),
            httpx.AsyncClient(base_url=server.url) as operator,
        ):
            async with running_traffic(server.url, 30, LANGUAGES, random) as traffic:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while not await everything_happened(operator, traffic):  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
                targets = await targets_of_sessions(operator)
            assert {len(each) for each in targets} == {1, 2}
            assert len({language for each in targets for language in each}) > 2
            assert not traffic.tally.failed
            line = status_line([], traffic)
            assert f"{traffic.tally.delivered} utterances delivered" in line
            assert f"{traffic.tally.resumed} resumed" in line
            assert " missing" in line
            assert traffic.sessions == 0

    asyncio.run(main())


async def everything_happened(operator: httpx.AsyncClient, traffic: DemoTraffic) -> bool:
    """Whether audio was cut in both ways, and a session went on after it lost its socket."""
    cuts = (await operator.get("/api/v1/metrics")).json()["web_task"]
    tally = traffic.tally
    return bool(cuts.get("final") and cuts.get("pause") and tally.resumed and tally.delivered > 30)


async def targets_of_sessions(operator: httpx.AsyncClient) -> list[list[str]]:
    sessions = (await operator.get("/api/v1/sessions")).json()["items"]
    return [session["tgt_langs"] for session in sessions]


def test_live_traffic_flows_by_itself(tmp_path: Path) -> None:
    options = ("--nodes", "4", "--real-nodes", "0")
    with ServerProcess(tmp_path / "data", *options, command=DEMO) as demo:
        caller = Caller(demo)

        def some_succeeded() -> bool:
            jobs = caller.get("/jobs").json()["items"]
            return len([job for job in jobs if job["outcome"] == "success"]) >= 5

        eventually(some_succeeded, "five utterances are translated")
        caller.close()


def test_the_lab_of_a_demo_has_run_the_two_samples_on_one_dataset(tmp_path: Path) -> None:
    options = ("--nodes", "1", "--real-nodes", "0", "--traffic", "0")
    names = {file.described.name for file in sample_files()}
    with ServerProcess(tmp_path / "data", *options, command=DEMO, lab=True) as demo:

        def both_succeeded() -> bool:
            found = demo.get("/api/v1/experiments").json()["items"]
            ended = {one["name"] for one in found if one["status"] == "success"}
            versions = {one["dataset_version_id"] for one in found}
            return ended == names and len(versions) == 1

        eventually(both_succeeded, "both samples have run")
        found = demo.get("/api/v1/experiments").json()["items"]
        assert [one["stats"]["success"] for one in found] == [120, 120]
        # What the demo prints compares one with the other.
        assert demo.process.stdout is not None
        line = next(line for line in demo.process.stdout if " compare " in line)
        compared = subprocess.run(
            shlex.split(line), check=True, capture_output=True, text=True, env=environment()
        )
        assert "120 items paired" in compared.stdout
        assert "better" in compared.stdout
    # On the same folder, they are there already.
    with ServerProcess(tmp_path / "data", *options, command=DEMO, lab=True) as demo:
        eventually(lambda: demo.get("/readyz").status_code == 200, "it is ready")
        found = demo.get("/api/v1/experiments").json()["items"]
        assert {one["name"] for one in found} == names


def test_a_node_of_ones_own_joins_the_demo(tmp_path: Path) -> None:
    options = ("--nodes", "1", "--real-nodes", "0", "--traffic", "0")
    with ServerProcess(tmp_path / "data", *options, command=DEMO) as demo:
        caller = Caller(demo)
        with ManualNode(demo, ("cy", "gd")) as node:
            asking = caller.begin_to_ask(("cy", "gd"), wait_ms=30_000)
            node.succeed(node.take(), text_translated="halò")
            assert asking.result().json()["result"]["text_translated"] == "halò"
        caller.close()


def test_a_node_written_as_the_guide_says_joins_the_demo(tmp_path: Path) -> None:
    code = file_of("docs/howto/write-a-node.md", "node.py")
    # The node tells how busy this machine is, which now and then is too busy for a job.
    env = environment(
        DRAGOMAN_SCHEDULER__NODE_HEALTH__HEARTBEAT_INTERVAL_SECONDS="1",
        DRAGOMAN_SCHEDULER__NODE_HEALTH__RESOURCE_THRESHOLD_PERCENT="100",
    )
    none = ("--nodes", "0", "--traffic", "0")
    with ServerProcess(tmp_path / "data", *none, command=DEMO, env=env) as demo:
        program = tmp_path / "node.py"
        socket_url = demo.url.replace("http", "ws")
        program.write_text(code.replace("ws://127.0.0.1:8080", socket_url))
        node = subprocess.Popen([DRAGOMAN.with_name("python"), program])
        caller = Caller(demo)
        try:
            eventually(
                lambda: [n["status"] for n in caller.get("/nodes").json()["items"]] == ["ready"],
                "the node is ready",
            )
            (view,) = caller.get("/nodes").json()["items"]
            source, target = view["languages"]["nmt_langs"][:2]
            job = {"pipeline": {"use_nmt": True}, "wait_ms": 30_000}
            eventually(
                lambda: caller.ask((source, target), **job).json().get("outcome") == "success",
                "it does a job",
            )
        finally:
            caller.close()
            node.terminate()
            node.wait(timeout=PATIENCE_SECONDS)
