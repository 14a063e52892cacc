"""Experiments whose target is a Dragoman server's live fleet."""

from __future__ import annotations

import asyncio
import io
import os
import wave
from pathlib import Path

import httpx
import pytest
from tests.integration.lab_targets.fleets import (
    PATIENCE_SECONDS,
    node_of,
    serving,
    until,
    write_rows,
)

from dragoman import errors, lab
from dragoman.auth import ApiKey, KeyStore, Role
from dragoman.clock import SystemClock
from dragoman.ids import TenantId
from dragoman.randomness import Randomness
from dragoman.sdk import (
    Answer,
    Device,
    Job,
    JobClass,
    JobRequest,
    JobsClient,
    Service,
    ServiceStatus,
    ServiceType,
)

SOURCES = ["one", "two", "three", "four", "five"]
ROWS = [{"source": text, "reference": text.upper()} for text in SOURCES]
EN_ES = {"src_lang": "en", "tgt_lang": "es"}


async def shout(job: Job) -> Answer:
    return Answer(text_translated=(job.text or "").upper())


def sound(milliseconds: int = 100, rate: int = 16_000) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(rate)
        written.writeframes(b"\1\0" * (rate * milliseconds // 1000))
    return file.getvalue()


def test_the_items_of_an_experiment_are_batch_jobs_of_the_fleet(tmp_path: Path) -> None:
    classes: list[JobClass] = []

    async def work(job: Job) -> Answer:
        classes.append(job.job_class)
        return await shout(job)

    async def story() -> None:
        async with serving(tmp_path / "fleet") as server, node_of(server, work, node_id="n1"):
            result = await lab.arun(
                dataset=ROWS,
                target=lab.fleet(url=server.url, **EN_ES),
                evaluators=[
                    lab.exact(reference="reference"),
                    lab.latency(),
                    lab.latency(output="queued_ms", name="queueing"),
                ],
                data_dir=tmp_path / "lab",
                progress=False,
            )
        assert classes == [JobClass.BATCH] * len(ROWS)
        assert result.summary.stats.success == len(ROWS)
        assert result.summary.aggregates.scores["exact"].mean == 1
        for row in result.rows():
            output = row.output
            assert output["output"] == str(row.input["source"]).upper()
            assert output["node_id"] == "n1"
            assert output["attempts"] == 1
            assert row.latency_ms == output["node_ms"], "the target's time is the node's"
            assert row.scores["latency"].score == output["node_ms"]
            assert row.scores["queueing"].score == output["queued_ms"], "the wait stands beside it"

    asyncio.run(story())


def test_the_word_fleet_alone_means_the_server_on_the_data_folder(tmp_path: Path) -> None:
    async def story() -> None:
        folder = tmp_path / "shared"
        async with serving(folder) as server, node_of(server, shout):
            result = await lab.arun(
                dataset=[{**row, **EN_ES} for row in ROWS],
                target="fleet",
                evaluators=[lab.exact(reference="reference")],
                data_dir=folder,
                progress=False,
            )
        assert result.summary.aggregates.scores["exact"].mean == 1

    asyncio.run(story())


def test_recordings_go_to_the_fleet_as_they_are(tmp_path: Path) -> None:
    heard: list[tuple[object, object, bool]] = []

    async def work(job: Job) -> Answer:
        heard.append((job.audio_format, job.sample_rate, job.audio == sound(rate=8_000)))
        return Answer(text_asr="heard", text_translated="oído")

    async def story() -> None:
        (tmp_path / "a.wav").write_bytes(sound(rate=8_000))
        rows = write_rows(tmp_path / "speech.jsonl", [{"speech": "a.wav", "said": "heard"}])
        languages = {"asr": ["en"], "nmt": ["en", "es"]}
        async with serving(tmp_path / "fleet") as server, node_of(server, work, **languages):
            result = await lab.arun(
                dataset=lab.DatasetFile(rows, audio=("speech",)),
                target=lab.fleet(
                    url=server.url, input="speech", pipeline={"use_tts": False}, **EN_ES
                ),
                evaluators=[lab.wer(reference="said", output="text_asr")],
                data_dir=tmp_path / "lab",
                progress=False,
            )
        assert [row.output["output"] for row in result.rows()] == ["oído"]
        assert result.summary.aggregates.scores["wer"].mean == 0

    asyncio.run(story())
    assert heard == [("wav", 8_000, True)]


def test_items_that_give_way_to_live_work_are_queued_again_and_not_failed(tmp_path: Path) -> None:
    """Two slots: the experiment may have one of them, until live work needs both."""
    began: list[str] = []
    go_on = asyncio.Event()

    async def work(job: Job) -> Answer:
        began.append(f"{job.job_class} {job.text}")
        if job.job_class is JobClass.BATCH and len(began) > 1:
            return await shout(job)
        await go_on.wait()
        return await shout(job)

    async def story() -> None:
        scheduler = {"selection": {"batch_headroom": 0.5}}
        async with (
            serving(tmp_path / "fleet", scheduler=scheduler) as server,
            node_of(server, work, slots=2),
            JobsClient(server.url) as jobs,
        ):
            running = asyncio.create_task(
                lab.arun(
                    dataset=ROWS[:1],
                    target=lab.fleet(url=server.url, **EN_ES),
                    evaluators=[lab.exact(reference="reference")],
                    # Far less than the item waits: the wait must not count.
                    item_timeout_seconds=0.5,
                    retries=0,
                    data_dir=tmp_path / "lab",
                    progress=False,
                )
            )
            await until(lambda: len(began) == 1)
            live = [JobRequest(text=f"live {n}", **EN_ES) for n in range(2)]  # type: ignore[arg-type]
            asked = [asyncio.create_task(jobs.run(one)) for one in live]
            await until(lambda: len(began) == 3)
            # The item waits in line for three times the time that it may take on a node.
            await asyncio.sleep(1.5)
            go_on.set()
            assert [(await one).outcome for one in asked] == ["success", "success"]
            result = await running
        (row,) = result.rows()
        assert row.status == "success", row.error_message
        assert row.output["preemptions"] == 1
        queued_ms, latency_ms = row.output["queued_ms"], row.latency_ms
        assert isinstance(queued_ms, int | float)
        assert latency_ms is not None
        assert queued_ms >= 1_500 > latency_ms, "the wait is not the node's time"

    asyncio.run(story())


def test_an_item_that_a_node_holds_too_long_ends_with_its_time(tmp_path: Path) -> None:
    cancelled = asyncio.Event()

    async def work(job: Job) -> Answer:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    async def story() -> None:
        async with serving(tmp_path / "fleet") as server, node_of(server, work):
            result = await lab.arun(
                dataset=ROWS[:1],
                target=lab.fleet(url=server.url, **EN_ES),
                item_timeout_seconds=1,
                retries=0,
                data_dir=tmp_path / "lab",
                progress=False,
            )
            assert [row.error_code for row in result.rows()] == ["ITEM_TIMEOUT"]
            async with asyncio.timeout(PATIENCE_SECONDS):
                await cancelled.wait()  # the job does not stay behind

    asyncio.run(story())


def test_a_worker_that_takes_an_item_over_finds_the_job_of_the_lost_one(tmp_path: Path) -> None:
    """The request of an item is the same in every try of its run, so no item is run twice."""
    ran: list[str | None] = []

    async def work(job: Job) -> Answer:
        ran.append(job.text)
        return await shout(job)

    async def story() -> None:
        async with (
            serving(tmp_path / "fleet") as server,
            node_of(server, work),
            JobsClient(server.url) as jobs,
        ):
            request = JobRequest(
                text="once",
                job_class=JobClass.BATCH,
                request_id="r-1/i-1/0/0",  # type: ignore[arg-type]
                **EN_ES,  # type: ignore[arg-type]
            )
            views = [await jobs.run(request) for _ in range(2)]
            assert views[0].job_id == views[1].job_id

    asyncio.run(story())
    assert ran == ["once"]


def test_the_lab_of_a_server_with_keys_asks_its_own_fleet_for_each_tenant(tmp_path: Path) -> None:
    """The experiment names no key: the server knows its own lab."""

    async def story() -> None:
        async with serving(tmp_path / "data", lab=True, auth={"mode": "keys"}) as server:
            store = KeyStore(server.services.store, SystemClock(), Randomness().stream("test keys"))
            keys: dict[Role, ApiKey] = {}
            for role in (Role.NODE, Role.EVALUATOR, Role.CLIENT):
                _, keys[role] = await store.create(role, TenantId("acme"))
            async with (
                node_of(server, shout, token=keys[Role.NODE].reveal()),
                httpx.AsyncClient(
                    base_url=f"{server.url}/api/v1",
                    headers={"Authorization": f"Bearer {keys[Role.EVALUATOR].reveal()}"},
                    timeout=PATIENCE_SECONDS,
                ) as http,
            ):
                content = write_rows(tmp_path / "d.jsonl", ROWS).read_bytes()
                made = await http.post(
                    "/datasets", data={"name": "d"}, files={"file": ("d.jsonl", content)}
                )
                order = {
                    "name": "own fleet",
                    "dataset_version_id": made.json()["version_id"],
                    "target": {"kind": "fleet", **EN_ES},
                    "evaluators": [{"kind": "exact", "reference": "reference"}],
                }
                started = await http.post("/experiments/submit", json=order)
                assert started.status_code == 201, started.text
                path = f"/experiments/{started.json()['experiment_id']}"
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while (found := (await http.get(path)).json())["status"] != "success":
                        assert found["status"] in ("pending", "processing"), found
                        await asyncio.sleep(0.05)
                assert found["stats"]["success"] == len(ROWS)
                unserved = {**order, "name": "other pair", "target": {"kind": "fleet"}}
                unserved["target"] |= {"src_lang": "en", "tgt_lang": "de"}
                refused = await http.post("/experiments/submit", json=unserved)
                assert refused.status_code == 409, refused.text
            own = {"Authorization": f"Bearer {keys[Role.CLIENT].reveal()}"}
            async with httpx.AsyncClient(base_url=f"{server.url}/api/v1", headers=own) as http:
                jobs = (await http.get("/jobs")).json()["items"]
        assert len(jobs) == len(ROWS), "they are jobs of the experiment's tenant"

    asyncio.run(story())


def test_what_cannot_work_is_refused_before_the_start_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusal(**settings: object) -> errors.DragomanError:
        with pytest.raises(errors.DragomanError) as raised:
            await lab.arun(
                dataset=ROWS,
                target=lab.fleet(**{**EN_ES, **settings}),  # type: ignore[arg-type]
                data_dir=tmp_path / "lab",
                progress=False,
            )
        return raised.value

    async def story() -> None:
        monkeypatch.setenv("FLEET_KEY", ApiKey.generate().reveal())
        missing = await refusal()
        assert "`dragoman serve`" in missing.message
        assert "`target.url`" in missing.message
        away = await refusal(url="ws://127.0.0.1:1")
        assert "No server answers at ws://127.0.0.1:1" in away.message
        assert "http://127.0.0.1:8080" in (await refusal(url="fleet.example")).message
        assert "FLEET_NONE" in (await refusal(url="ws://h", api_key_env="FLEET_NONE")).message
        async with serving(tmp_path / "open") as server, node_of(server, shout):
            pair = await refusal(url=server.url, tgt_lang="de")
            assert pair.code == "PAIR_UNSUPPORTED"
            assert "en:de" in pair.message
            assert "`target.tgt_lang`" in pair.message
            tag = await refusal(url=server.url, tgt_lang="no tag")
            assert "tgt_lang" in tag.message
        async with serving(tmp_path / "keys", auth={"mode": "keys"}) as server:
            without = await refusal(url=server.url)
            assert "needs a key" in without.message
            assert "`target.api_key_env`" in without.message
            wrong = await refusal(url=server.url, api_key_env="FLEET_KEY")
            assert "does not accept the key in FLEET_KEY" in wrong.message
            assert os.environ["FLEET_KEY"] not in wrong.message

    asyncio.run(story())


def test_several_fleets_are_compared_by_their_urls(tmp_path: Path) -> None:
    async def polite(job: Job) -> Answer:
        return Answer(text_translated=f"{(job.text or '').upper()} please")

    async def story() -> None:
        results = {}
        async with (
            serving(tmp_path / "a") as one,
            serving(tmp_path / "b") as other,
            node_of(one, shout),
            node_of(other, polite),
        ):
            for name, server in (("one", one), ("other", other)):
                results[name] = await lab.arun(
                    name=name,
                    dataset=ROWS,
                    target=lab.fleet(url=server.url, **EN_ES),
                    evaluators=[lab.chrf(reference="reference")],
                    data_dir=tmp_path / "lab",
                    progress=False,
                )
        compared = await asyncio.to_thread(lab.compare, results["one"], results["other"])
        found = compared.others[0].scores["chrf"]
        assert found.delta is not None
        assert found.delta < 0

    asyncio.run(story())


def test_an_experiment_outlives_a_restart_of_the_fleets_server(tmp_path: Path) -> None:
    """A server without Redis has forgotten its jobs; their items are asked for again."""
    began: list[str | None] = []
    forever = asyncio.Event()

    async def never(job: Job) -> Answer:
        began.append(job.text)
        await forever.wait()
        return Answer()

    async def story() -> None:
        async with serving(tmp_path / "fleet") as server, node_of(server, never):
            port = int(server.url.rpartition(":")[2])
            running = asyncio.create_task(
                lab.arun(
                    dataset=ROWS,
                    target=lab.fleet(url=server.url, **EN_ES),
                    evaluators=[lab.exact(reference="reference")],
                    retries=0,
                    data_dir=tmp_path / "lab",
                    progress=False,
                )
            )
            await until(lambda: len(began) == 3)
        fleet_again = serving(tmp_path / "fleet again", server={"port": port})
        async with fleet_again as server, node_of(server, shout):
            result = await running
        assert result.summary.stats.success == len(ROWS)
        assert result.summary.aggregates.scores["exact"].mean == 1

    asyncio.run(story())


def test_two_versions_of_a_service_in_one_fleet_are_compared_by_name(tmp_path: Path) -> None:
    """The experiment chooses the model; a version that no node runs is refused before the start."""

    async def polite(job: Job) -> Answer:
        return Answer(text_translated=f"{(job.text or '').upper()} please")

    def runs(version: str) -> dict[str, list[Service]]:
        service = Service("words", ServiceType.NMT, Device.CPU, ServiceStatus.RUNNING, version)
        return {"models": [service]}

    async def story() -> None:
        results = {}
        async with (
            serving(tmp_path / "fleet") as server,
            node_of(server, shout, node_id="one", **runs("1")),
            node_of(server, polite, node_id="two", **runs("2")),
        ):
            for version in ("1", "2", "3"):
                asked = lab.arun(
                    name=f"version {version}",
                    dataset=ROWS,
                    target=lab.fleet(url=server.url, services={"nmt": f"words@{version}"}, **EN_ES),
                    evaluators=[lab.chrf(reference="reference")],
                    data_dir=tmp_path / "lab",
                    progress=False,
                )
                if version == "3":
                    with pytest.raises(errors.DragomanError, match=r"target\.services"):
                        await asked
                else:
                    results[version] = await asked
        nodes = {row.output["node_id"] for row in results["1"].rows()}
        assert nodes == {"one"}
        assert {row.output["node_id"] for row in results["2"].rows()} == {"two"}
        compared = await asyncio.to_thread(lab.compare, results["1"], results["2"])
        found = compared.others[0].scores["chrf"]
        assert found.delta is not None
        assert found.delta < 0

    asyncio.run(story())


def test_services_that_no_node_of_the_pair_has_are_refused_however_others_are(
    tmp_path: Path,
) -> None:
    """A node of another pair that is away is a reason, too, and says nothing about these."""
    served = Service("apertium", ServiceType.NMT, Device.CPU, ServiceStatus.RUNNING, version="3")

    async def story() -> None:
        async with serving(tmp_path / "fleet") as server, node_of(server, shout, models=[served]):
            async with node_of(server, shout, nmt=["xx", "yy"]):
                pass

            async def run(wanted: str) -> lab.RunResult:
                return await lab.arun(
                    dataset=ROWS,
                    target=lab.fleet(url=server.url, services={"nmt": wanted}, **EN_ES),
                    data_dir=tmp_path / "lab",
                    progress=False,
                )

            for misspelt in ("apertium@9", "apertum"):
                with pytest.raises(errors.NoAvailableNode) as raised:
                    await run(misspelt)
                assert f"No node that serves en:es has nmt {misspelt}" in raised.value.message
                assert "`target.services`" in raised.value.message
            result = await run("apertium@3")
            assert result.summary.stats.success == len(ROWS)

    asyncio.run(story())


def test_services_of_a_node_that_is_away_are_waited_for_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served = Service("apertium", ServiceType.NMT, Device.CPU, ServiceStatus.RUNNING, version="3")

    async def story() -> None:
        async with serving(tmp_path / "fleet") as server:
            async with node_of(server, shout, models=[served], node_id="n1"):
                pass
            running = asyncio.create_task(
                lab.arun(
                    dataset=ROWS[:1],
                    target=lab.fleet(url=server.url, services={"nmt": "apertium@3"}, **EN_ES),
                    item_timeout_seconds=2,  # a job that waits is looked at four times in it
                    data_dir=tmp_path / "lab",
                    progress=False,
                )
            )
            await until(lambda: "fleet_items_wait" in caplog.messages)
            [told] = [one for one in caplog.records if one.getMessage() == "fleet_items_wait"]
            fields = told.__dict__["fields"]
            assert fields["pair"] == "en:es"
            assert "Nodes for en:es are known, but none can take the job now" in fields["reason"]
            async with node_of(server, shout, models=[served], node_id="n2"):
                assert (await running).summary.stats.success == 1

    asyncio.run(story())
