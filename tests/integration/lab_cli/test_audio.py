"""Datasets with audio on the command line and in programs, with a server and without."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.serve.server_process import ServerProcess

from dragoman import lab
from dragoman.cli import main
from dragoman.errors import DatasetInvalid

CLIP = b"RIFF\0\0\0\0WAVE the clip"
SHA256 = hashlib.sha256(CLIP).hexdigest()
IMPORT = ["dataset", "import", "cases.jsonl", "--name", "cases", "--audio", "speech"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and the one file that it names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("clips").mkdir()
    Path("clips/one.wav").write_bytes(CLIP)
    rows = [{"speech": "clips/one.wav", "meant": "one"}, {"speech": None, "meant": "none"}]
    Path("cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def heard(speech: Any) -> str:
    if speech is None:
        return "none"
    assert isinstance(speech, lab.AudioFile)
    with open(speech, "rb") as file:
        assert file.read() == CLIP
    return speech.name.removesuffix(".wav")


def test_audio_is_copied_exported_and_imported_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*IMPORT, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    Path("clips/one.wav").unlink()  # the lab has a copy
    assert main(["dataset", "export", "cases", "--audio", "--out", "cases.zip"]) == 0
    capsys.readouterr()
    assert main(["dataset", "import", "cases.zip", "--name", "cases", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["version_id"], again["created"]) == (made["version_id"], False)
    assert main(["dataset", "delete", "cases"]) == 0
    assert not list(Path(".dragoman/lab-audio").rglob(SHA256))


def test_audio_that_is_left_where_it_is_must_stay_as_it_is() -> None:
    dataset = lab.DatasetFile("cases.jsonl", audio=["speech"], copy=False)
    options: dict[str, Any] = {
        "dataset": dataset,
        "target": heard,
        "evaluators": [lab.exact(reference="meant")],
        "retries": 0,
        "progress": False,
    }
    result = lab.run(**options)
    assert result.summary.stats.success == 2
    [kept] = Path(".dragoman/lab-audio").rglob(SHA256)
    assert kept.is_symlink()
    assert kept.resolve() == Path("clips/one.wav").resolve()
    Path("clips/one.wav").unlink()
    with pytest.raises(DatasetInvalid, match=r"one\.wav cannot be read"):
        lab.run(**options, new=True)


def test_a_server_is_sent_the_audio_and_plays_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir = folder / "data"
    with ServerProcess(data_dir, lab=True) as server:
        assert main([*IMPORT, "--json", "--data-dir", str(data_dir)]) == 0
        made = json.loads(capsys.readouterr().out)
        path = f"{server.url}/api/v1/datasets/{made['dataset_id']}/audio/{SHA256}"
        assert httpx.get(path).content == CLIP
        part = httpx.get(path, headers={"Range": "bytes=8-11"})
        assert (part.status_code, part.content) == (206, b"WAVE")
        assert main([*IMPORT, "--no-copy", "--data-dir", str(data_dir)]) == 2
        assert "leave out --no-copy" in capsys.readouterr().err
        Path("clips/one.wav").unlink()
        assert main([*IMPORT, "--url", server.url]) == 1
        assert "line 1, speech: clips/one.wav is not in the archive" in capsys.readouterr().err
        unknown = httpx.get(f"{server.url}/api/v1/datasets/imports/unknown")
        assert unknown.status_code == 404


def test_an_experiment_file_names_its_audio_and_its_schema(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("hearing.py").write_text(
        "def answer(speech):\n    return 'none' if speech is None else speech.name[:-4]\n"
    )
    schema = {"properties": {"meant": {"type": "string", "maxLength": 3}}}
    Path("schema.json").write_text(json.dumps(schema))
    Path("exp.toml").write_text(
        'name = "hearing"\n[dataset]\nfile = "cases.jsonl"\naudio = ["speech"]\n'
        'schema = "schema.json"\n[target]\nkind = "python"\nfunction = "hearing:answer"\n'
        '[[evaluators]]\nkind = "exact"\nreference = "meant"\n'
    )
    assert main(["experiment", "run", "exp.toml"]) == 2
    assert "line 2, meant" in capsys.readouterr().err
    schema["properties"]["meant"]["maxLength"] = 4
    Path("schema.json").write_text(json.dumps(schema))
    assert main(["experiment", "run", "exp.toml"]) == 0
    assert "2 succeeded, 0 failed" in capsys.readouterr().out


@pytest.mark.parametrize("key", ['audio = ["speech"]', "copy = false", 'schema = "s.json"'])
def test_what_is_said_of_a_file_does_not_go_with_a_name(
    key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("exp.toml").write_text(
        f'name = "x"\n[dataset]\nname = "cases"\n{key}\n[target]\nkind = "recorded"\noutput = "a"\n'
    )
    assert main(["experiment", "run", "exp.toml"]) == 2
    assert f"`{key.split()[0]}` goes with `file`" in capsys.readouterr().err
