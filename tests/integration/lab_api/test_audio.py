"""Audio in datasets: found, known by its checksum, kept once, given to targets, freed."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import struct
import zipfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from tests.integration.lab_api.conftest import PATIENCE_SECONDS, Asker, jsonl

from dragoman.api import create_lab_app, opened_desk
from dragoman.clock import SystemClock
from dragoman.errors import DatasetInvalid
from dragoman.ids import TenantId
from dragoman.lab.audio import AudioFolder, FolderFiles, with_audio
from dragoman.lab.cleaning import Cleaner, free_audio
from dragoman.lab.datasets import Format
from dragoman.lab.library import AudioSource, Library
from dragoman.lab.model import VersionId
from dragoman.lab.plugins import Context
from dragoman.lab.repository import datasets
from dragoman.lab.roles import SERVER
from dragoman.observability import Metrics
from dragoman.settings import LabSettings, load_settings
from dragoman.store import open_store

TENANT = TenantId("acme")
SCHEMA = {"properties": {"speech": {"type": "string", "format": "audio"}}}


def wav(text: str, seconds: float = 0.5) -> bytes:
    """A WAV file of 8,000 bytes a second that begins with the text."""
    data = text.encode().ljust(round(8000 * seconds), b"\0")
    head = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    body = head + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def zipped(files: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def rows(*names: str) -> bytes:
    return jsonl([{"speech": name, "said": Path(name).stem} for name in names])


@asynccontextmanager
async def opened_lab(url: str, data_dir: Path) -> AsyncIterator[Asker]:
    flags = {"store": {"database_url": url}, "server": {"data_dir": data_dir}}
    settings = load_settings(None, flags).settings
    metrics = Metrics()
    context = Context(python_allow=("tests.integration.lab_api.*",), http_allow=())
    async with (
        opened_desk(settings, context, metrics, SERVER) as desk,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(create_lab_app(desk, metrics)),
            base_url="http://lab",
            timeout=PATIENCE_SECONDS,
        ) as http,
    ):
        yield Asker(http, "acme")


def kept(data_dir: Path) -> set[str]:
    """The checksums of the files in the folder; what waits there counts by its path."""
    files = (data_dir / "lab-audio").rglob("*")
    return {file.name for file in files if not file.is_dir() or file.is_symlink()}


def hears(speech: Any) -> str:
    """A target: what the file says of itself, read from where the target finds it."""
    content = Path(speech).read_bytes()
    assert sha(content) == speech.sha256
    assert speech.path == Path(speech)
    assert (speech.media_type, speech.duration_ms) == ("audio/wav", 500)
    assert speech["bytes"] == len(content)
    return content[44:].rstrip(b"\0").decode()


def test_an_archive_becomes_a_dataset_whose_audio_targets_hear_and_players_play(
    lab_url: str, tmp_path: Path
) -> None:
    one, two = wav("one"), wav("two")

    async def scenario() -> None:
        async with opened_lab(lab_url, tmp_path) as lab:
            table = rows("clips/one.wav", "two.wav", "./clips/one.wav")
            archive = zipped(
                {"d/items.jsonl": table, "d/clips/one.wav": one, "d/two.wav": two, "d/x.wav": b"x"}
            )
            made = await lab.send_file(archive, file="d.zip", name="speech", audio="speech")
            assert made.status_code == 201, made.text
            dataset = f"/datasets/{made.json()['dataset_id']}"
            [first, _, third] = (await lab.get(f"{dataset}/items")).json()["items"]
            assert first["turns"][0]["speech"] == third["turns"][0]["speech"]
            assert first["turns"][0]["speech"] == {
                "file": "clips/one.wav",
                "sha256": sha(one),
                "bytes": len(one),
                "media_type": "audio/wav",
                "duration_ms": 500,
            }
            assert kept(tmp_path) == {sha(one), sha(two)}

            function = f"{__name__}:hears"
            experiment = await lab.submit(
                made.json()["version_id"],
                target={"kind": "python", "function": function},
                evaluators=[{"kind": "exact", "reference": "said"}],
            )
            ended = await lab.until_ended(experiment)
            results = (await lab.post(f"/experiments/{experiment}/results", {})).json()
            assert ended["stats"]["success"] == 3, results
            assert {row["scores"]["exact"]["score"] for row in results["items"]} == {1.0}

            played = await lab.get(f"{dataset}/audio/{sha(two)}")
            assert (played.content, played.headers["content-type"]) == (two, "audio/wav")
            asker = lab.as_tenant("acme")
            part = await asker.ask_with({"Range": "bytes=8-11"}, f"{dataset}/audio/{sha(two)}")
            assert (part.status_code, part.content) == (206, b"WAVE")
            for other in (sha(b"x"), "..%2F..%2Fdragoman.db", "0" * 64):
                assert (await lab.get(f"{dataset}/audio/{other}")).status_code == 404
            stranger = lab.as_tenant("other")
            assert (await stranger.get(f"{dataset}/audio/{sha(two)}")).status_code == 404

    asyncio.run(scenario())


def test_what_is_exported_with_its_audio_is_the_same_version_again(
    lab_url: str, tmp_path: Path
) -> None:
    one = wav("one")

    async def scenario() -> None:
        async with opened_lab(lab_url, tmp_path) as lab:
            archive = zipped(
                {"t.csv": b"speech,n\nclips/1.wav,1\nclips/1.wav,2\n", "clips/1.wav": one}
            )
            made = (await lab.send_file(archive, file="d.zip", name="a", audio="speech")).json()
            path = f"/datasets/{made['dataset_id']}"
            for file_format in ("jsonl", "csv", "parquet"):
                sent = await lab.get(f"{path}/export", format=file_format, audio="true")
                assert sent.headers["content-type"] == "application/zip"
                with zipfile.ZipFile(io.BytesIO(sent.content)) as found:
                    assert found.testzip() is None
                    assert found.read("clips/1.wav") == one
                again = await lab.send_file(sent.content, path=f"{path}/versions", file="a.zip")
                told = again.json()
                assert (told.get("version_id"), told.get("created")) == (
                    made["version_id"],
                    False,
                ), (file_format, told)

    asyncio.run(scenario())


GOOD = {"items.jsonl": rows("a.wav"), "a.wav": wav("a")}


def declared(archive: bytes, size: int) -> bytes:
    """The archive with another uncompressed size of its first file in its list of files."""
    at = archive.index(b"PK\x01\x02") + 24
    return archive[:at] + struct.pack("<I", size) + archive[at + 4 :]


REFUSED: list[tuple[str, bytes, str]] = [
    ("no zip", b"nonsense", "not a .zip file"),
    ("cut off", zipped(GOOD)[:-30], "not a .zip file"),
    ("no table", zipped({"a.wav": wav("a")}), "one table"),
    ("two tables", zipped({**GOOD, "b.csv": b"a\n"}), "items.jsonl, b.csv"),
    ("lzma", zipped(GOOD, zipfile.ZIP_LZMA), "use deflate"),
    ("missing file", zipped({"items.jsonl": rows("a.wav")}), "line 1, speech: a.wav is not in"),
    ("above", zipped({**GOOD, "items.jsonl": rows("../a.wav")}), "not a path below"),
    ("absolute", zipped({**GOOD, "items.jsonl": rows("/etc/passwd")}), "not a path below"),
    ("backslash", zipped({**GOOD, "items.jsonl": rows("..\\a.wav")}), "not a path below"),
    ("long", zipped({**GOOD, "items.jsonl": rows("a" * 5000)}), "not a path below"),
    ("a number", zipped({**GOOD, "items.jsonl": b'{"speech": 5}'}), "expected the path"),
    ("no audio", zipped({"i.jsonl": rows("a.txt"), "a.txt": b"hello"}), "no audio file known"),
    (
        "checksum",
        zipped({**GOOD, "items.jsonl": jsonl([{"speech": {"file": "a.wav", "sha256": "0"}}])}),
        "the row says 0",
    ),
    ("bad schema", zipped({**GOOD, "schema.json": b"[1]"}), "schema.json is no JSON object"),
    ("a lie about sizes", declared(zipped(GOOD), 3), "damaged"),
]


def test_archives_that_cannot_be_used_are_refused_and_leave_nothing(
    lab_url: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with opened_lab(lab_url, tmp_path) as lab:
            for what, archive, told in REFUSED:
                refused = await lab.send_file(archive, file="d.zip", name="a", audio="speech")
                message = refused.json().get("error", {}).get("message", "")
                assert (refused.status_code, told in message) == (422, True), (what, refused.text)
                assert kept(tmp_path) == set(), what
            plain = await lab.send_file(rows("a.wav"), name="a", audio="speech")
            assert "send a .zip" in plain.json()["error"]["message"]
            local = await lab.send_file(
                rows("a.wav"), name="a", audio="speech", audio_folder=str(tmp_path)
            )
            assert (local.status_code, local.json()["error"]["code"]) == (403, "FORBIDDEN")
            assert (await lab.get("/datasets")).json()["items"] == []

    asyncio.run(scenario())


def test_an_archive_that_expands_too_much_is_refused_before_it_is_unpacked(
    lab_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.lab.audio import archive as archives

    monkeypatch.setattr(archives, "MAX_EXPANDED_BYTES", 1 << 20)
    bomb = zipped({"items.jsonl": b" " * (2 << 20)})
    assert len(bomb) < 10_000

    async def scenario() -> None:
        async with opened_lab(lab_url, tmp_path) as lab:
            refused = await lab.send_file(bomb, file="d.zip", name="a")
            assert "take more than 1,048,576 bytes" in refused.json()["error"]["message"]

    asyncio.run(scenario())


def test_files_are_freed_with_the_last_version_that_refers_to_them(
    lab_url: str, tmp_path: Path
) -> None:
    shared, own = wav("shared"), wav("own")

    async def scenario() -> None:
        async with opened_lab(lab_url, tmp_path) as lab:
            both = zipped({"i.jsonl": rows("s.wav", "o.wav"), "s.wav": shared, "o.wav": own})
            one = zipped({"i.jsonl": rows("x.wav"), "x.wav": shared})
            first = (await lab.send_file(both, file="d.zip", name="a", audio="speech")).json()
            second = (await lab.send_file(one, file="d.zip", name="b", audio="speech")).json()
            assert kept(tmp_path) == {sha(shared), sha(own)}
            assert (await lab.ask("DELETE", f"/datasets/{first['dataset_id']}")).status_code == 204
            assert kept(tmp_path) == {sha(shared)}
            assert (await lab.ask("DELETE", f"/datasets/{second['dataset_id']}")).status_code == 204
            assert kept(tmp_path) == set()

    asyncio.run(scenario())


def test_an_import_keeps_a_file_that_a_deletion_frees_at_the_same_moment(
    lab_url: str, tmp_path: Path
) -> None:
    clip = wav("clip")
    archive = zipped({"i.jsonl": rows("c.wav"), "c.wav": clip})

    async def scenario() -> None:
        async with opened_lab(lab_url, tmp_path) as lab:
            before = (await lab.send_file(archive, file="d.zip", name="0", audio="speech")).json()
            for number in range(1, 8):
                deleting = lab.ask("DELETE", f"/datasets/{before['dataset_id']}")
                importing = lab.send_file(archive, file="d.zip", name=str(number), audio="speech")
                deleted, imported = await asyncio.gather(deleting, importing)
                assert (deleted.status_code, imported.status_code) == (204, 201)
                before = imported.json()
                played = await lab.get(f"/datasets/{before['dataset_id']}/audio/{sha(clip)}")
                assert played.content == clip
            await lab.ask("DELETE", f"/datasets/{before['dataset_id']}")
            assert kept(tmp_path) == set()

    asyncio.run(scenario())


def test_a_file_that_comes_into_use_while_it_is_freed_is_put_back(
    lab_url: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with await open_store(lab_url) as store:
            loop = asyncio.get_running_loop()

            class NotedMeanwhile(AudioFolder):
                def set_aside(self, sha256: str) -> None:
                    noted = [(sha256, "audio/wav")]
                    noting = store.write(
                        lambda c: datasets.insert_audio(c, VersionId("v-new"), noted)
                    )
                    asyncio.run_coroutine_threadsafe(noting, loop).result()
                    super().set_aside(sha256)

            folder = NotedMeanwhile(tmp_path / "lab-audio")
            staged = folder.incoming(VersionId("v-old")) / "0"
            staged.write_bytes(b"clip")
            folder.keep(sha(b"clip"), staged)
            await free_audio(store, folder, [sha(b"clip")])
            assert folder.find(sha(b"clip")).read_bytes() == b"clip"
            assert kept(tmp_path) == {sha(b"clip")}

    asyncio.run(scenario())


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A folder with a table and its audio."""
    folder = tmp_path / "beside"
    (folder / "clips").mkdir(parents=True)
    for name in ("one", "two"):
        (folder / "clips" / f"{name}.wav").write_bytes(wav(name))
    (folder / "items.jsonl").write_bytes(rows("clips/one.wav", "clips/two.wav"))
    return folder


async def imported(library: Library, folder: Path, name: str = "a", *, copy: bool = True) -> Any:
    source = AudioSource(FolderFiles(folder), copy=copy)
    with (folder / "items.jsonl").open("rb") as file:
        schema = with_audio(None, ["speech"])
        return await library.add(TENANT, name, file, Format.JSONL, schema, source)


def test_an_import_that_was_killed_leaves_no_audio_when_a_lab_has_started(
    lab_url: str, tmp_path: Path, beside: Path
) -> None:
    folder = AudioFolder(tmp_path / "lab-audio")

    async def scenario() -> None:
        async with await open_store(lab_url) as store:
            library = Library(store, LabSettings(), SystemClock(), Random(1), audio_folder=folder)
            await imported(library, beside)
            # As a killed import leaves them: one that waits, one that no row refers to, and one
            # that was set aside while a row still refers to it.
            (folder.incoming(VersionId("v-gone")) / "0").write_bytes(b"half")
            stray = folder.incoming(VersionId("v-gone")) / "1"
            stray.write_bytes(b"stray")
            folder.keep(sha(b"stray"), stray)
            folder.set_aside(sha(wav("one")))
            await Cleaner(store, SystemClock(), folder).clean()
            assert kept(tmp_path) == {sha(wav("one")), sha(wav("two"))}

    asyncio.run(scenario())


def test_files_that_are_left_where_they_are_are_checked_when_they_are_used(
    lab_url: str, tmp_path: Path, beside: Path
) -> None:
    folder = AudioFolder(tmp_path / "lab-audio")
    one, two = beside / "clips" / "one.wav", beside / "clips" / "two.wav"

    async def scenario() -> None:
        async with await open_store(lab_url) as store:
            library = Library(store, LabSettings(), SystemClock(), Random(1), audio_folder=folder)
            made = await imported(library, beside, copy=False)
        async with opened_lab(lab_url, tmp_path) as lab:
            dataset, version_id = made.version.dataset_id, made.version.version_id
            played = await lab.get(f"/datasets/{dataset}/audio/{sha(wav('one'))}")
            assert played.content == wav("one")
            os.utime(one, (1, 1))
            one.write_bytes(wav("other"))
            two.unlink()
            experiment = await lab.submit(
                version_id,
                target={"kind": "python", "function": f"{__name__}:hears"},
                evaluators=[],
            )
            await lab.until_ended(experiment)
            results = (await lab.post(f"/experiments/{experiment}/results", {})).json()["items"]
            told = sorted(row["error_message"] for row in results)
            assert f"{one} has changed since it was imported" in told[0]
            assert f"{two} cannot be read" in told[1]
            gone = await lab.get(f"/datasets/{dataset}/audio/{sha(wav('one'))}")
            assert "has changed" in gone.json()["error"]["message"]
            # A copy takes the place of the note where the file was.
            one.write_bytes(wav("one"))
            two.write_bytes(wav("two"))
        async with await open_store(lab_url) as store:
            library = Library(store, LabSettings(), SystemClock(), Random(2), audio_folder=folder)
            await imported(library, beside, "b")
            one.unlink()
            assert folder.find(sha(wav("one"))).read_bytes() == wav("one")

    asyncio.run(scenario())


def test_a_file_that_is_missing_is_named_with_the_row(
    lab_url: str, tmp_path: Path, beside: Path
) -> None:
    folder = AudioFolder(tmp_path / "lab-audio")
    (beside / "clips" / "two.wav").unlink()
    os.mkfifo(beside / "clips" / "pipe.wav")

    async def scenario() -> None:
        async with await open_store(lab_url) as store:
            library = Library(store, LabSettings(), SystemClock(), Random(1), audio_folder=folder)
            with pytest.raises(DatasetInvalid, match=r"line 2, speech: .*two\.wav cannot be read"):
                await imported(library, beside)
            (beside / "items.jsonl").write_bytes(rows("clips/pipe.wav"))
            with pytest.raises(DatasetInvalid, match="is not a file"):
                await imported(library, beside)
            assert kept(tmp_path) == set()

    asyncio.run(scenario())


def test_the_schema_may_say_which_columns_are_audio(lab_url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened_lab(lab_url, tmp_path) as lab:
            made = await lab.send_file(
                zipped(GOOD), file="d.zip", name="a", schema=json.dumps(SCHEMA)
            )
            assert made.status_code == 201, made.text
            shown = (await lab.get(f"/datasets/{made.json()['dataset_id']}")).json()
            stored = shown["latest"]["schema"]["properties"]["speech"]
            assert stored == {"type": "object", "format": "audio"}
            wrong = zipped({**GOOD, "items.jsonl": b'{"speech": 5}\n'})
            refused = await lab.send_file(wrong, file="d.zip", name="b", schema=json.dumps(SCHEMA))
            assert "line 1, speech" in refused.json()["error"]["message"]

    asyncio.run(scenario())
